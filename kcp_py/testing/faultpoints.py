"""Where faults happen: at requests over HTTP and in the process, before writes, in running watches, in calls of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import ClassVar, Final, NamedTuple, Protocol, TypeVar

from kcp_py.aio.clock import Timer
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.admission import AdmissionPlugin, Attributes
from kcp_py.request.context import RequestContext
from kcp_py.server.exchange import Exchange, Handler
from kcp_py.storage.contract import Storage
from kcp_py.storage.keys import route_of
from kcp_py.storage.wrapping import StorageCall, StorageMethod, WrappedStorage
from kcp_py.testing.faultrules import Request, Way

T = TypeVar("T")

_READS: Final = frozenset(("get", "list", "watch"))
_ADMITTED: Final = {"CREATE": "create", "UPDATE": "update", "DELETE": "delete", "CONNECT": "connect"}


class _Origin(NamedTuple):
    verb: str
    user_agent: str
    way: Way


_UNKNOWN: Final = _Origin("", "", "process")
_origin: ContextVar[_Origin] = ContextVar("kcp_py_fault_origin", default=_UNKNOWN)
"""Parts of the current request that admission does not get."""


class Rules(Protocol):
    """The rules as these points ask them: `Faults`."""

    watches: RunningWatches

    async def meet(self, request: Request) -> None: ...

    def disconnects(self, request: Request, *, afterwards: bool) -> bool: ...

    def shorten(self, request: Request, end: Callable[[Exception], None]) -> list[Timer]: ...

    @property
    def has_storage_rules(self) -> bool: ...

    async def around_storage(self, method: StorageMethod, places: Sequence[Request], proceed: Callable[[], Awaitable[T]]) -> T: ...


def request_of(context: RequestContext, way: Way, user_agent: str = "") -> Request:
    """What rules look at in a request for a resource."""
    info = context.info
    verbs = (info.verb, "update") if info.verb == "patch" else (info.verb,)
    resource = GroupResource(info.group, info.resource)
    return Request(str(context.cluster), resource, verbs, info.subresource, info.namespace, info.name, context.user.name, user_agent, way)


class RequestFaults:
    """A filter of requests over HTTP that sees those of the process, too (`client.requests.RequestObserver`).

    Writes meet the rules in admission, which knows the names of new objects.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def __call__(self, handler: Handler) -> Handler:
        """The filter."""
        return partial(self._handle, handler)

    async def _handle(self, handler: Handler, exchange: Exchange) -> None:
        info = exchange.context.info
        if not info.is_resource:
            await handler(exchange)
            return
        agent = exchange.headers.get(b"user-agent", b"").decode("latin-1")
        token = _origin.set(_Origin(info.verb, agent, "http"))
        try:
            request = request_of(exchange.context, "http", agent)
            if info.verb in _READS:
                await self._rules.meet(request)
            if self._rules.disconnects(request, afterwards=False):
                await exchange.abort()
                return
            if info.verb != "watch" and exchange.websocket is None and self._rules.disconnects(request, afterwards=True):
                await _answer_lost(handler, exchange)
                return
            await handler(exchange)
        finally:
            _origin.reset(token)
        if info.verb == "watch" and exchange.end is not None:
            exchange.at_end(self._rules.watches.began(request, exchange.end))

    async def around(self, context: RequestContext, proceed: Callable[[], Awaitable[T]]) -> T:
        """`RequestObserver.around`."""
        token = _origin.set(_Origin(context.info.verb, "", "process"))
        try:
            if context.info.verb in _READS:
                await self._rules.meet(request_of(context, "process"))
            return await proceed()
        finally:
            _origin.reset(token)

    def watching(self, context: RequestContext, end: Callable[[Exception], None]) -> Callable[[], None]:
        """`RequestObserver.watching`."""
        return self._rules.watches.began(request_of(context, "process"), end)


async def _answer_lost(handler: Handler, exchange: Exchange) -> None:
    send = exchange.send
    exchange.send = _dropped
    try:
        await handler(exchange)
    finally:
        exchange.send = send
        await exchange.abort()


async def _dropped(_: object) -> None:
    pass


class WriteFaults(AdmissionPlugin):
    """Faults of writes, over HTTP and in the process, before they are validated."""

    name: ClassVar[str] = "TestFaults"

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    async def mutate(self, attributes: Attributes) -> None:
        """Meet the rules."""
        origin = _origin.get()
        request = Request(
            attributes.cluster,
            attributes.resource.group_resource,
            tuple(filter(None, (_ADMITTED.get(attributes.operation), origin.verb))),
            attributes.subresource,
            attributes.namespace,
            attributes.name,
            attributes.user.name,
            origin.user_agent,
            origin.way,
        )
        await self._rules.meet(request)


class RunningWatches:
    """The watches that run, over HTTP and in the process."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._running: dict[int, tuple[Request, Callable[[Exception], None], asyncio.AbstractEventLoop]] = {}
        self._made = 0

    def began(self, request: Request, end: Callable[[Exception], None]) -> Callable[[], None]:
        """Keep a watch until the function that this returns is called."""
        self._made += 1
        number = self._made
        self._running[number] = (request, end, asyncio.get_running_loop())
        timers = self._rules.shorten(request, end)

        def leave() -> None:
            self._running.pop(number, None)
            for timer in timers:
                timer.cancel()

        return leave

    def end(self, selects: Callable[[Request], bool], reason: Callable[[], Exception]) -> int:
        """End those that are selected, from any thread; returns their number."""
        found = [one for one in list(self._running.values()) if selects(one[0])]
        for _, end, loop in found:
            loop.call_soon_threadsafe(end, reason())
        return len(found)


class StorageFaults(WrappedStorage):
    """A store whose calls meet the rules."""

    def __init__(self, storage: Storage, rules: Rules, root: str) -> None:
        """Wrap a store.

        Args:
            storage: the store.
            rules: those that calls meet.
            root: the prefix of all keys.
        """
        super().__init__(storage)
        self._rules = rules
        self._root = root

    async def around(self, call: StorageCall, proceed: Callable[[], Awaitable[T]]) -> T:
        """Meet the rules."""
        if not self._rules.has_storage_rules:
            return await proceed()
        return await self._rules.around_storage(call.method, [self._place(key, call) for key in call.keys], proceed)

    def _place(self, key: str, call: StorageCall) -> Request:
        """The object, or the part of the resource, of a key."""
        whole = call.method not in {"range", "watch"}
        route = route_of(key if whole else f"{key}-", self._root)
        group, _, rest = key[len(self._root) + 1 :].partition("/")
        resource = rest.partition("/")[0]
        found = GroupResource("" if group == "core" else group, resource) if resource and not group.startswith(".") else None
        if route is None:
            return Request("", found)
        return Request(route.cluster, found, namespace=route.namespace, name=route.name if whole else "")
