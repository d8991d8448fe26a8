"""`LongRequests`: the running watches, whose callers are authenticated and authorized again while they run.

A check asks what the filters asked when the request came. A request that would be refused now is ended as by its timeout: the client comes
back and receives the 401 or 403. See docs/adr/0024.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

import structlog

from kcp_py.aio.cooperative import Throttle
from kcp_py.aio.lanes import Lanes, rest_of
from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.errors import StatusError
from kcp_py.authn.anonymous import ALL_ANONYMOUS, AnonymousAccess
from kcp_py.authn.authenticator import Authenticator, Credentials, UnverifiedCredentialError
from kcp_py.authn.requestheader import ProxyHeaders
from kcp_py.authz.authorizer import Decision
from kcp_py.authz.impersonation import Wanted, authorize_impersonation
from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.sight import Sight, is_current
from kcp_py.request.user import ANONYMOUS, UserInfo
from kcp_py.telemetry.programcode import failed_function, passes

CHECK_SECONDS: Final = 50.0
"""The longest time between two checks of a request. Each is chosen at random, down to four fifths of it, which spreads the checks."""
TICK_SECONDS: Final = 1.0
"""Interval at which due requests are looked for."""
CHANGE_SECONDS: Final = 0.25
"""Interval of the checks that changes cause: changes that follow each other closely are handled together."""
_LONGEST_CHECK_SECONDS: Final = 30.0
"""The duration of one check. A request whose check takes longer is ended."""
_LOOKED_AT: Final = 2000
"""Requests that are looked at in one turn of the event loop, which takes a fraction of a millisecond."""
_SHARED: Final = 4096
_LONGEST_SHARED: Final = 512
_NO_HEADERS: Final[Mapping[bytes, bytes]] = MappingProxyType({})
_REFUSALS: Final = frozenset((401, 403))
_ORDINARY: Final = frozenset(
    b"accept accept-encoding accept-language audit-id cache-control connection content-length content-type host kubectl-command "
    b"kubectl-session pragma sec-websocket-key sec-websocket-version sec-websocket-extensions upgrade user-agent".split()
)
"""Headers that no authenticator reads."""


def reads_authorization(header: bytes) -> bool:
    """Whether an authenticator of the server reads a header."""
    return header == b"authorization"


def reads_any(header: bytes) -> bool:
    """Whether an authenticator may read a header where authenticators are not known: all but ordinary ones."""
    return header not in _ORDINARY and not header.startswith(b"impersonate-")


_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.server")


class EndStream(Protocol):
    """Ends a stream before its time."""

    def __call__(self, reason: Exception | None = None) -> None:
        """End it.

        Args:
            reason: None ends it cleanly and drops events that wait. Watches also take those of `Watcher.end`.
        """


class WatchedAuthorizer(Protocol):
    """An authorizer that knows whether its decisions can change without an announcement."""

    @property
    def announces_changes(self) -> bool:
        """Whether `LongRequests.changed` is called for each change of a decision. If not, each check decides again."""

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None: ...


class Admitted(Protocol):
    """What a request was admitted for: an `Exchange` behind its filters."""

    credentials: Credentials
    user: UserInfo
    impersonator: UserInfo | None
    wanted_user: Wanted | None
    cluster: ClusterSelection
    info: RequestInfo


class LongRequest:
    """A running request. There may be very many: equal parts are shared between requests."""

    __slots__ = ("_owner", "credentials", "end", "impersonator", "info", "sight", "user", "wanted_user")

    def __init__(self, owner: LongRequests, admitted: Admitted, end: Callable[[], None], sight: Sight | None) -> None:
        self._owner = owner
        self.sight = sight
        self.credentials = owner.reduced(admitted.credentials)
        self.user = admitted.user
        self.impersonator = admitted.impersonator
        self.wanted_user = admitted.wanted_user
        self.info = owner.shared(admitted.info)
        self.end: Callable[[], None] | None = end

    def leave(self) -> None:
        """The request has ended."""
        self._owner.remove(self)


class LongRequests:
    """The running requests of a server. `sweep` and `follow` run in the background."""

    def __init__(
        self,
        authenticator: Authenticator,
        authorizer: WatchedAuthorizer,
        *,
        anonymous: AnonymousAccess = ALL_ANONYMOUS,
        reads_header: Callable[[bytes], bool] = reads_authorization,
        proxy_headers: ProxyHeaders | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Begin without requests.

        Args:
            authenticator: that of the authentication filter.
            authorizer: that of the authorization filter.
            anonymous: which requests without credentials are those of `system:anonymous`.
            reads_header: whether authenticators read a header, by its name in lower case. Others are not kept while a request runs.
            proxy_headers: those that are read in requests of front proxies.
            clock: seconds.
            sleep: waits for seconds; replaced in tests.
        """
        self._proxy_headers = proxy_headers
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._anonymous = anonymous
        self._reads_header = reads_header
        self._clock = clock
        self._sleep = sleep
        self._throttle = Throttle()
        self._requests: set[LongRequest] = set()
        # By the second in which they are due. Requests that have ended stay until then.
        self._due: dict[int, list[LongRequest]] = {}
        self._some = asyncio.Event()
        self._changed_clusters: set[ClusterSelection] = set()
        self._changed_requests: set[LongRequest] = set()
        self._everything_changed = False
        # Those that changes concern, and whose checks have not begun.
        self._to_check: set[LongRequest] = set()
        self._change = asyncio.Event()
        self._headers: LRU[bytes, Mapping[bytes, bytes]] = LRU(_SHARED)
        self._infos: LRU[RequestInfo, RequestInfo] = LRU(_SHARED)
        self.changes = 0
        """Counts the calls of `changed`. The value from before a request was authorized is an argument of `add`."""

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, admitted: Admitted, end: Callable[[], None], *, changes: int, sight: Sight | None = None) -> LongRequest:
        """Check a request from now on, until its `leave` is called.

        Args:
            admitted: the request.
            end: ends it cleanly, and drops events that wait. Called once at most.
            changes: the value of `changes` before the request was authorized.
            sight: of a request over all clusters.
        """
        request = LongRequest(self, admitted, end, sight)
        self._requests.add(request)
        self._postpone(request)
        self._some.set()
        if changes != self.changes:
            self._changed_requests.add(request)
            self._change.set()
        return request

    def remove(self, request: LongRequest) -> None:
        """See `LongRequest.leave`."""
        request.end = None
        self._requests.discard(request)
        self._changed_requests.discard(request)

    def changed(self, cluster: ClusterSelection | None = None) -> None:
        """Check requests again within about a second: permissions or credentials have changed.

        Args:
            cluster: of the requests that may be concerned; None for all clusters.
        """
        self.changes += 1
        if cluster is None:
            self._everything_changed = True
        else:
            self._changed_clusters.add(cluster)
        self._change.set()

    # In the background

    async def sweep(self) -> None:
        """Check each request again and again."""
        async with Lanes(self._check_due) as checks:
            while True:
                if not self._due:
                    self._some.clear()
                    await self._some.wait()
                await self._sleep(TICK_SECONDS)
                now = self._clock()
                for second in [second for second in self._due if second <= now]:
                    for request in self._due.pop(second):
                        checks.add(request.credentials.cluster, request)
                await checks.begun()

    async def _check_due(self, request: LongRequest) -> None:
        await self._check(request, authorize=not self._authorizer.announces_changes)
        if request.end is not None:
            self._postpone(request)
            # The sweep may wait for requests that are due.
            self._some.set()

    def _postpone(self, request: LongRequest) -> None:
        second = int(self._clock() + CHECK_SECONDS * random.uniform(0.8, 1))
        self._due.setdefault(second, []).append(request)

    async def follow(self) -> None:
        """Check the requests that changes concern, soon after the changes."""
        self._to_check.clear()
        async with Lanes(self._check_changed) as checks:
            while True:
                await self._change.wait()
                self._change.clear()
                everything, self._everything_changed = self._everything_changed, False
                clusters, self._changed_clusters = self._changed_clusters, set()
                requests, self._changed_requests = self._changed_requests, set()
                if everything or clusters:
                    requests |= await self._concerned(None if everything else clusters)
                for request in requests - self._to_check:
                    checks.add(request.credentials.cluster, request)
                self._to_check |= requests
                await checks.begun()
                await self._sleep(CHANGE_SECONDS)

    async def _check_changed(self, request: LongRequest) -> None:
        # A change from now on is another one.
        self._to_check.discard(request)
        await self._check(request, authorize=True)

    async def _concerned(self, clusters: set[ClusterSelection] | None) -> set[LongRequest]:
        """The requests to some clusters; to all where none are given."""
        found: set[LongRequest] = set()
        requests = list(self._requests)
        for start in range(0, len(requests), _LOOKED_AT):
            await self._throttle.take()
            part = requests[start : start + _LOOKED_AT]
            found.update(part if clusters is None else (one for one in part if one.credentials.cluster in clusters))
        return found

    async def _check(self, request: LongRequest, *, authorize: bool) -> None:
        if request.end is None:
            return
        try:
            allowed = await _bounded(self._is_allowed(request, authorize=authorize))
        except TimeoutError:
            allowed = False
        except BaseException as error:
            if passes(error):
                raise
            # A failure of the store, or of a function of the program, must not end all watches. The next check decides.
            function = {"function": name} if (name := failed_function(error)) else {}
            _log.warning("long_request_not_checked", error=str(error) or type(error).__name__, **function)
            allowed = True
        if not allowed:
            self._end(request)

    def _end(self, request: LongRequest) -> None:
        end = request.end
        self.remove(request)
        if end is not None:
            end()

    async def _is_allowed(self, request: LongRequest, *, authorize: bool) -> bool:
        """Whether the filters would let the request through now.

        Raises:
            StatusError: it cannot be found out.
        """
        credentials, authorizer = request.credentials, self._authorizer
        try:
            user = await self._authenticator.authenticate(credentials)
        except StatusError as error:
            if error.code in _REFUSALS and not isinstance(error, UnverifiedCredentialError):
                return False
            raise
        if user is None:
            if not self._anonymous.allows(request.credentials.path):
                return False
            user = ANONYMOUS
        known = request.impersonator or request.user
        if user is not known and user != known:
            if (user.name, user.uid) != (known.name, known.uid):
                return False
            # Its groups are other ones.
            authorize = True
            if request.impersonator is None:
                request.user = user
            else:
                request.impersonator = user
        if not authorize:
            return True
        if request.wanted_user is not None:
            try:
                await authorize_impersonation(authorizer, user, credentials.cluster, info=request.info, wanted=request.wanted_user)
            except StatusError as error:
                if error.code in _REFUSALS:
                    return False
                raise
        decision = await authorizer.authorize(request.user, credentials.cluster, request.info)
        if decision is None or not decision.allowed:
            return False
        # The caller may have become another subject of grants, which its watch does not follow.
        return request.sight is None or is_current(request.sight, decision.sight)

    # What requests have in common

    def reduced(self, credentials: Credentials) -> Credentials:
        """Credentials with the headers alone that authenticators read."""
        if credentials.proxy_certificate_der is not None and self._proxy_headers is not None:
            return self._reduced_of_proxy(credentials, self._proxy_headers)
        reads = self._reads_header
        kept = {name: value for name, value in credentials.headers.items() if reads(name)}
        if not kept:
            return credentials._replace(headers=_NO_HEADERS)
        if len(kept) == 1 and (token := kept.get(b"authorization")) is not None:
            return credentials._replace(headers=self._headers.setdefault(token, kept))
        return credentials._replace(headers=kept)

    def _reduced_of_proxy(self, credentials: Credentials, names: ProxyHeaders) -> Credentials:
        def reads(name: bytes) -> bool:
            return self._reads_header(name) or names.reads(name)

        kept = {name: value for name, value in credentials.headers.items() if reads(name)}
        return credentials._replace(headers=kept, repeated=tuple(header for header in credentials.repeated if reads(header[0])))

    def shared(self, info: RequestInfo) -> RequestInfo:
        """The equal info of another request, if there is one. Long ones are not kept for that."""
        selectors = info.selectors
        length = len(info.path) + (0 if selectors is None else len(selectors.field) + len(selectors.label))
        return info if length > _LONGEST_SHARED else self._infos.setdefault(info, info)


async def _bounded(check: Coroutine[Any, Any, bool]) -> bool:
    """The result of a check.

    Nearly all checks find what they need in memory. Only those that wait get a timer, which costs as much as the whole check.

    Raises:
        TimeoutError: it takes too long.
    """
    try:
        waiting = check.send(None)
    except StopIteration as done:
        return bool(done.value)
    async with asyncio.timeout(_LONGEST_CHECK_SECONDS):
        return await rest_of(check, waiting)
