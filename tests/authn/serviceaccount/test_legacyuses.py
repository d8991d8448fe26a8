"""The use of tokens of secrets: warnings, metrics, and one label a day."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import pytest

from kcp_py.apimachinery.errors import conflict, internal
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.core.tokensecrets import INVALID_SINCE, LAST_USED, day_of
from kcp_py.authn.serviceaccount.claims import Account, Issuers, legacy_claims
from kcp_py.authn.serviceaccount.legacyuses import RETRY_SECONDS, LegacyTokenUses, TokenSecret
from kcp_py.logicalcluster import Name
from kcp_py.request.notes import NOTES
from tests.authn.serviceaccount.conftest import CORE, Issued, Sign, whoami
from tests.authn.serviceaccount.test_legacy import SECRET, keep, legacy
from tests.request.test_notes import Collected
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

ONE: Final = TokenSecret(Name("team-a"), "default", "one", "u1")
TWO: Final = ONE._replace(name="two")
NOON: Final = 1_800_014_400.0
"""2027-01-15T12:00:00Z."""
DAY: Final = 86_400.0
WARNING: Final = (
    '299 - "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens."'
)


class Labels:
    """Remembers labels, and refuses those of secrets that are to fail."""

    def __init__(self, count: int, refused: Mapping[TokenSecret, Exception] | None = None) -> None:
        self.calls: list[tuple[TokenSecret, str]] = []
        self.all = asyncio.Event()
        self._count = count
        self._refused = refused or {}

    async def __call__(self, secret: TokenSecret, day: str) -> None:
        self.calls.append((secret, day))
        if len(self.calls) == self._count:
            self.all.set()
        if (error := self._refused.get(secret)) is not None:
            raise error


async def labelled(uses: LegacyTokenUses, labels: Labels) -> list[tuple[TokenSecret, str]]:
    """Run until all expected labels were asked for."""
    task = asyncio.ensure_future(uses.run(labels))
    async with asyncio.timeout(60):
        await labels.all.wait()
    task.cancel()
    await asyncio.wait([task])
    return labels.calls


def use(uses: LegacyTokenUses, secret: TokenSecret = ONE, last_used: str = "") -> None:
    uses.used(secret, last_used, generated=False, invalid=False)


async def test_a_secret_is_labelled_with_the_day_of_its_use() -> None:
    """Any number of uses are one label. A label of today is enough, and one of tomorrow too: a server with another clock has set it."""
    uses = LegacyTokenUses(lambda: NOON)
    for _ in range(3):
        use(uses)
        use(uses, TWO, "2027-01-14")
    for today in ("2027-01-15", "2027-01-16"):
        use(uses, ONE._replace(name="today"), today)
    assert await labelled(uses, Labels(2)) == [(ONE, "2027-01-15"), (TWO, "2027-01-15")]


async def test_a_label_is_tried_again_after_some_minutes() -> None:
    """Not before: a store that refuses writes must not get one for each request. A failure does not keep other secrets waiting."""
    now = [NOON]
    uses = LegacyTokenUses(lambda: now[0])
    three = ONE._replace(name="three")
    for secret in (ONE, TWO, three):
        use(uses, secret)
    refused = {ONE: internal("no space"), TWO: conflict(GroupResource("", "secrets"), "two", "the UID in the precondition does not match")}
    assert [secret for secret, _ in await labelled(uses, Labels(3, refused))] == [ONE, TWO, three]
    now[0] += RETRY_SECONDS - 1
    use(uses)
    now[0] += 1
    use(uses, three)
    use(uses)
    assert await labelled(uses, Labels(2)) == [(three, "2027-01-15"), (ONE, "2027-01-15")]


async def test_each_day_has_its_label() -> None:
    """The day changes at midnight in UTC. A clock that is set back does not stop the labels."""
    now = [NOON]
    uses = LegacyTokenUses(lambda: now[0])
    use(uses)
    assert await labelled(uses, Labels(1)) == [(ONE, "2027-01-15")]
    for moment, last_used, day in ((NOON + DAY, "2027-01-15", "2027-01-16"), (NOON - 9 * DAY, "2027-01-16", "2027-01-06")):
        now[0] = moment
        use(uses, last_used=last_used)
        assert await labelled(uses, Labels(1)) == [(ONE, day)]


async def test_the_number_of_waiting_secrets_is_bounded() -> None:
    """The first ones are labelled."""
    uses = LegacyTokenUses(lambda: NOON)
    secrets = [ONE._replace(name=f"s{number}") for number in range(5000)]
    for secret in secrets:
        use(uses, secret)
    assert [secret for secret, _ in await labelled(uses, Labels(4096))] == secrets[:4096]


async def test_uses_are_noted_and_counted() -> None:
    """A secret that its account names, any other one, and a token that is marked as invalid."""
    uses = LegacyTokenUses(lambda: NOON)
    notes = Collected()
    before = NOTES.set(notes)
    uses.used(ONE, "", generated=True, invalid=False)
    uses.used(TWO, "", generated=False, invalid=False)
    uses.used(TWO, "", generated=False, invalid=False)
    uses.used(ONE, "", generated=True, invalid=True)
    NOTES.reset(before)
    assert notes.warnings == [WARNING.partition('"')[2].rstrip('"')]
    prefix = "authentication.k8s.io/legacy-token-"
    found = {key.removeprefix(prefix): value for key, value in notes.audit_annotations.items()}
    assert found == {"autogenerated-secret": "one", "manual-secret": "two", "invalidated": "one/default"}
    counts = {sample.name: sample.value for family in uses.collect() for sample in family.samples}
    assert counts == {
        "serviceaccount_legacy_auto_token_uses_total": 1,
        "serviceaccount_legacy_manual_token_uses_total": 2,
        "serviceaccount_invalid_legacy_auto_token_uses_total": 1,
    }


async def label_of(api: Api, key: str = LAST_USED) -> str | None:
    found: dict[str, Any] = await api.ok("GET", SECRET)
    return (found["metadata"].get("labels") or {}).get(key)


async def until_labelled(api: Api) -> None:
    """Wait until the secret has a label of its last use."""
    storage, fanout = api.control_plane.backend.access.storage, api.control_plane.backend.fanout
    async with asyncio.timeout(60):
        while True:
            revision = await storage.revision()
            if await label_of(api) is not None:
                return
            await fanout.reached(revision + 1)


async def test_a_request_with_such_a_token(api: Api, issued: Issued, sign: Sign) -> None:
    """The secret gets its label as a write of the server. The next requests write nothing, and only a named secret is warned about."""
    token = sign(legacy(issued))
    await keep(api, token)
    answer = await whoami(api, token)
    assert (answer.status_code, answer.headers.get("warning")) == (201, None)
    today = day_of(api.control_plane.backend.access.clock())
    await until_labelled(api)
    assert await label_of(api) in {today, day_of(api.control_plane.backend.access.clock())}
    managers = {one["manager"] for one in (await api.ok("GET", SECRET))["metadata"]["managedFields"]}
    assert "kube-apiserver" in managers
    await api.ok("PATCH", f"{CORE}/serviceaccounts/builder", {"secrets": [{"name": "builder-token"}]}, headers=_MERGE)
    version = (await api.ok("GET", SECRET))["metadata"]["resourceVersion"]
    answer = await whoami(api, token)
    assert (answer.status_code, answer.headers.get_list("warning")) == (201, [WARNING])
    assert (await whoami(api, token, "/clusters/team-b")).headers.get_list("warning") == [WARNING]
    assert (await api.ok("GET", SECRET))["metadata"]["resourceVersion"] == version


async def test_an_invalid_token_that_is_used_is_labelled_too(api: Api, issued: Issued, sign: Sign) -> None:
    """So that it is not deleted while a client still shows it. Without the mark it is valid again."""
    token = sign(legacy(issued))
    await keep(api, token, labels={INVALID_SINCE: "2026-01-01"})
    answer = await whoami(api, token)
    assert (answer.status_code, answer.headers.get("warning")) == (401, None)
    await until_labelled(api)
    await api.ok("PATCH", SECRET, {"metadata": {"labels": {INVALID_SINCE: None}}}, headers=_MERGE)
    assert (await whoami(api, token)).status_code == 201


async def test_another_token_of_the_secret_is_no_use(api: Api, issued: Issued, sign: Sign) -> None:
    """Of a token that its secret does not hold nothing is recorded, and neither of the token of another account."""
    token = sign(legacy(issued))
    await keep(api, "other")
    assert (await whoami(api, token)).status_code == 401
    other = sign(dict(legacy_claims(Account(Name("team-a"), "default", "builder", "another uid"), "builder-token", issuers=Issuers(()))))
    await keep(api, other)
    assert (await whoami(api, other)).status_code == 401
    metrics = (await api("GET", "/metrics")).text
    assert "\nserviceaccount_legacy_manual_token_uses_total 0.0\n" in metrics


_MERGE: Final = {"Content-Type": "application/merge-patch+json", "Authorization": "Bearer secret"}
