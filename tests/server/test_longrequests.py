"""Running requests, whose callers are checked again: what ends them, and what does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError, service_unavailable, unauthorized
from kcp_py.authn.anonymous import AnonymousAccess
from kcp_py.authn.authenticator import Credentials, UnverifiedCredentialError
from kcp_py.authn.certificate import ClientCertificates
from kcp_py.authz import ALLOWED, DENIED, Decision
from kcp_py.authz.impersonation import Wanted
from kcp_py.logicalcluster import ClusterSelection, Name
from kcp_py.request.requestinfo import UNPARSED, RequestInfo
from kcp_py.request.user import ANONYMOUS, UserInfo
from kcp_py.server.longrequests import LongRequests, reads_any
from tests.authn.test_certificate import DAY, START, certificate

pytestmark = pytest.mark.anyio

WATCH = UNPARSED._replace(is_resource=True, verb="watch", version="v1", resource="configmaps", path="/api/v1/configmaps")
AS_BOB = Wanted("bob", "", (), {})
ALICE = UserInfo("alice", "1", ("dev",))
TEAM_A = Name("team-a")


class Access:
    """Known users and refused requests, as authenticator and authorizer."""

    def __init__(self) -> None:
        self.users: dict[bytes, UserInfo] = {b"Bearer alice": ALICE}
        self.failing: StatusError | None = None
        self.asked = 0
        self.slow: ClusterSelection | None = None
        self.gate, self.waiting = asyncio.Event(), asyncio.Event()
        self.denied: set[tuple[str, str]] = set()
        self.announces_changes = True
        self.decisions = 0

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        self.asked += 1
        if credentials.cluster == self.slow:
            self.waiting.set()
            await self.gate.wait()
        if self.failing is not None:
            raise self.failing
        token = credentials.headers.get(b"authorization")
        if token is None:
            return None
        if token not in self.users:
            raise unauthorized()
        return self.users[token]

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        del cluster
        self.decisions += 1
        refused = {(user.name, info.verb), *((group, info.verb) for group in user.groups)} & self.denied
        return DENIED if refused else ALLOWED


@dataclass
class Admitted:
    """A request behind its filters."""

    token: str = "alice"
    cluster: ClusterSelection = TEAM_A
    user: UserInfo = ALICE
    impersonator: UserInfo | None = None
    wanted_user: Wanted | None = None
    info: RequestInfo = WATCH
    credentials: Credentials = field(init=False)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        headers = {b"user-agent": b"x"} | ({b"authorization": f"Bearer {self.token}".encode()} if self.token else {})
        self.credentials = Credentials(headers, None, self.cluster, self.info.path)


class Clock:
    """Time that passes where it is slept away."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@asynccontextmanager
async def running(run: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


def requests(access: Access, *, anonymous: bool = True) -> LongRequests:
    clock = Clock()
    return LongRequests(access, access, anonymous=AnonymousAccess(anonymous), clock=clock, sleep=clock.sleep)


async def ended(request: Admitted) -> None:
    async with asyncio.timeout(30):
        await request.ended.wait()


async def test_a_round_ends_requests_of_unknown_callers() -> None:
    """A token that is not known any more ends its requests, and no others."""
    access = Access()
    access.users[b"Bearer eve"] = UserInfo("eve")
    found = requests(access)
    mine, other = Admitted(), Admitted("eve", user=UserInfo("eve"))
    for one in (mine, other):
        found.add(one, one.ended.set, changes=0)
    async with running(found.sweep):
        del access.users[b"Bearer eve"]
        await ended(other)
    assert not mine.ended.is_set()
    assert len(found) == 1


@pytest.mark.parametrize("announced", [True, False])
async def test_a_round_authorizes_where_changes_are_not_announced(*, announced: bool) -> None:
    """Decisions that announce their changes are not made again without one."""
    access = Access()
    access.announces_changes = announced
    found = requests(access)
    mine, marker = Admitted(), Admitted("eve")
    for one in (mine, marker):
        found.add(one, one.ended.set, changes=0)
    access.denied.add(("alice", "watch"))
    async with running(found.sweep):
        await ended(marker)
        if not announced:
            await ended(mine)
        else:
            again = Admitted("eve")
            found.add(again, again.ended.set, changes=0)
            await ended(again)
    assert mine.ended.is_set() is not announced
    assert (access.decisions == 0) is announced


async def test_a_change_concerns_the_requests_of_its_cluster() -> None:
    """Requests in other clusters are not asked about; a change without a cluster concerns all."""
    access = Access()
    found = requests(access)
    mine, other = Admitted(), Admitted(cluster=Name("team-b"))
    for one in (mine, other):
        found.add(one, one.ended.set, changes=0)
    access.denied.add(("alice", "watch"))
    async with running(found.follow):
        found.changed(TEAM_A)
        await ended(mine)
        assert access.decisions == 1
        assert not other.ended.is_set()
        found.changed()
        await ended(other)


async def test_a_change_between_the_decision_and_the_start() -> None:
    """A request that was authorized before a change is checked, although it began after it."""
    access = Access()
    found = requests(access)
    before = found.changes
    found.changed(TEAM_A)
    access.denied.add(("alice", "watch"))
    async with running(found.follow):
        late = Admitted(cluster=Name("team-b"))
        found.add(late, late.ended.set, changes=before)
        await ended(late)


async def test_groups_that_change() -> None:
    """A caller that left a group is authorized again, and stays where it is still allowed."""
    access = Access()
    found = requests(access)
    mine, marker = Admitted(), Admitted("eve")
    for one in (mine, marker):
        found.add(one, one.ended.set, changes=0)
    access.users[b"Bearer alice"] = ALICE._replace(groups=("ops",))
    async with running(found.sweep):
        await ended(marker)
        again = Admitted("eve")
        found.add(again, again.ended.set, changes=0)
        await ended(again)
        assert not mine.ended.is_set()
        assert access.decisions == 1
        access.denied.add(("guests", "watch"))
        access.users[b"Bearer alice"] = ALICE._replace(groups=("guests",))
        await ended(mine)


async def test_another_user_with_the_same_token() -> None:
    """A request does not change hands."""
    access = Access()
    found = requests(access)
    mine = Admitted()
    found.add(mine, mine.ended.set, changes=0)
    access.users[b"Bearer alice"] = ALICE._replace(uid="2")
    async with running(found.sweep):
        await ended(mine)


@pytest.mark.parametrize("denied", [{("alice", "impersonate"), ("alice", "impersonate-on:user-info:watch")}, {("bob", "watch")}])
async def test_impersonated_requests(denied: set[tuple[str, str]]) -> None:
    """The caller must still be allowed to impersonate, in one mode at least, and the other user to watch."""
    access = Access()
    found = requests(access)
    mine = Admitted(user=UserInfo("bob"), impersonator=ALICE, wanted_user=AS_BOB)
    found.add(mine, mine.ended.set, changes=0)
    async with running(found.follow):
        access.denied |= denied
        found.changed()
        await ended(mine)


@pytest.mark.parametrize("anonymous", [True, False])
async def test_requests_without_credentials(*, anonymous: bool) -> None:
    """They are those of the anonymous user where there is one; else they end."""
    access = Access()
    found = requests(access, anonymous=anonymous)
    mine, marker = Admitted("", user=ANONYMOUS), Admitted("eve")
    for one in (mine, marker):
        found.add(one, one.ended.set, changes=0)
    async with running(found.follow):
        found.changed()
        await ended(marker)
        if not anonymous:
            await ended(mine)
        again = Admitted("eve")
        found.add(again, again.ended.set, changes=0)
        await ended(again)
        assert mine.ended.is_set() is not anonymous


@pytest.mark.parametrize("failure", [service_unavailable("the store does not answer"), UnverifiedCredentialError()])
async def test_an_outage_does_not_end_requests(failure: StatusError) -> None:
    """Where a check fails, the next one decides."""
    access = Access()
    found = requests(access)
    mine = Admitted()
    found.add(mine, mine.ended.set, changes=0)
    access.failing = failure
    async with running(found.sweep):
        async with asyncio.timeout(30):
            while access.asked < 3:
                await asyncio.sleep(0)
        assert not mine.ended.is_set()
        access.failing = None
        access.users.clear()
        await ended(mine)


async def test_requests_that_left_are_forgotten() -> None:
    """Neither rounds nor changes end what has ended."""
    access = Access()
    found = requests(access)
    gone, marker = Admitted("eve"), Admitted("eve")
    found.add(gone, gone.ended.set, changes=0).leave()
    found.add(marker, marker.ended.set, changes=0)
    async with running(found.follow):
        found.changed()
        await ended(marker)
    assert not gone.ended.is_set()
    assert len(found) == 0


async def test_equal_parts_are_shared() -> None:
    """Of a request remain its token and what it asks for, once for equal requests; of ordinary headers nothing."""
    access = Access()
    found = requests(access)
    first, second = (found.add(Admitted(info=WATCH._replace(name="")), lambda: None, changes=0) for _ in range(2))
    assert first.credentials.headers == {b"authorization": b"Bearer alice"}
    assert first.credentials.headers is second.credentials.headers
    assert first.info is second.info
    every = LongRequests(access, access, reads_header=reads_any)
    admitted = Admitted()
    admitted.credentials = admitted.credentials._replace(
        headers={b"x-key": b"k", b"user-agent": b"x", b"impersonate-user": b"bob", b"accept": b"*/*"}
    )
    assert every.add(admitted, lambda: None, changes=0).credentials.headers == {b"x-key": b"k"}


async def test_a_check_that_waits() -> None:
    """Others go on meanwhile. It is finished in the end, or cancelled with the server."""
    access = Access()
    access.slow = Name("slow")
    found = requests(access)
    slow, other = Admitted("eve", cluster=access.slow), Admitted("eve")
    for one in (slow, other):
        found.add(one, one.ended.set, changes=0)
    async with running(found.follow):
        found.changed()
        await ended(other)
        async with asyncio.timeout(30):
            await access.waiting.wait()
        assert not slow.ended.is_set()
        access.gate.set()
        await ended(slow)
        access.gate.clear()
        access.waiting.clear()
        again = Admitted("eve", cluster=access.slow)
        found.add(again, again.ended.set, changes=0)
        found.changed()
        async with asyncio.timeout(30):
            await access.waiting.wait()
    assert not again.ended.is_set()


@pytest.mark.parametrize("run", ["follow", "sweep"])
async def test_checks_that_hang_delay_no_other_cluster(run: str) -> None:
    """While the checks of a hundred watches of one cluster wait, watches of another one end, more than once."""
    access = Access()
    access.slow = Name("slow")
    access.announces_changes = False
    found = requests(access)
    slow = [Admitted("eve", cluster=access.slow) for _ in range(100)]
    for one in slow:
        found.add(one, one.ended.set, changes=0)
    async with running(getattr(found, run)):
        for _ in range(3):
            found.changed()
            async with asyncio.timeout(30):
                await access.waiting.wait()
            other = Admitted("eve")
            found.add(other, other.ended.set, changes=0)
            found.changed()
            await ended(other)
        assert not any(one.ended.is_set() for one in slow)
        access.gate.set()
        for one in slow:
            await ended(one)


async def test_a_certificate_that_expires() -> None:
    """Its last moment is that of its watches, although the connection goes on."""

    class At:
        time = (START + DAY / 2).timestamp()

        def __call__(self) -> float:
            return self.time

    async def no_cluster(_: Name) -> None:
        return None

    at = At()
    certificates = ClientCertificates(no_cluster, now=at)
    clock = Clock()
    found = LongRequests(certificates, Access(), clock=clock, sleep=clock.sleep)
    admitted = Admitted("")
    admitted.credentials = admitted.credentials._replace(peer_certificate_der=certificate(["alice"], ["dev"]))
    user = await certificates.authenticate(admitted.credentials)
    assert user is not None
    admitted.user = user
    found.add(admitted, admitted.ended.set, changes=0)
    async with running(found.sweep):
        async with asyncio.timeout(30):
            while clock.now < 200:
                await asyncio.sleep(0)
        assert not admitted.ended.is_set()
        at.time += DAY.total_seconds()
        await ended(admitted)
