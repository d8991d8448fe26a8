"""`ComputedWatch`: a watch of a resource that a user's class serves, and `ClusterWatch`, that of one cluster."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import structlog

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.registry.rest.answered import HIDDEN, answered
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.rest.selection import Selection
from kcp_py.registry.rest.storage import Object, ObjectEvent, ReadRequest, RestStorage
from kcp_py.registry.store.access import translate
from kcp_py.storage.contract import StorageError
from kcp_py.telemetry.programcode import failed_function, passes
from kcp_py.watchcache import WatchCutError, Watcher

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.registry")


class ComputedWatch(ABC):
    """One watch of a computed resource, which its events, the server or its client ends.

    Call `start`, then iterate over `changes`. Call `aclose` at the end.
    """

    def __init__(self, registry: Registry, request: ReadRequest, watcher: Watcher) -> None:
        """Prepare a watch.

        Args:
            registry: the clusters and their changes.
            request: the watched collection, selectors and user.
            watcher: ends the watch. Nothing is ever stored below its prefix.

        Raises:
            StatusError: 400 for unusable selectors.
        """
        self._registry = registry
        self._request = request
        self._selection = Selection(request.options, request.target.resource)
        self.target: Final = request.target
        self.watcher: Final = watcher

    @abstractmethod
    async def start(self) -> None:
        """Check what the request relies on.

        Raises:
            StaleStateError: the cluster is not that of the request any more.
        """

    async def aclose(self) -> None:
        """End the watch; safe to call twice."""
        await self._registry.fanout.detach(self.watcher)

    @abstractmethod
    def _events(self) -> AsyncGenerator[ObjectEvent, None]:
        """The selected changes, see `shown`."""

    async def changes(self, seconds: float | None = None) -> AsyncGenerator[ObjectEvent, None]:
        """The selected changes, until they or the watcher end, or for a time.

        Raises:
            StatusError: of the storage; 500 where it has failed otherwise, which is logged; the reason for which the watch was ended.
            WatchCutError: the connection of the client is to be cut.
        """
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        ended = asyncio.ensure_future(_until_end(self.watcher))
        following: asyncio.Future[ObjectEvent | None] | None = None
        events = self._events()
        try:
            while deadline is None or deadline > loop.time():
                following = asyncio.ensure_future(anext(events, None))
                left = None if deadline is None else deadline - loop.time()
                await asyncio.wait((following, ended), timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if ended.done() and isinstance(reason := self.watcher.reason, (StatusError, WatchCutError)):
                    raise reason
                if ended.done() or not following.done():
                    return
                if (event := following.result()) is None:
                    return
                yield event
        finally:
            ended.cancel()
            if following is not None and not following.done():
                # A generator that runs cannot be closed.
                following.cancel()
                await asyncio.wait((following,))
            await events.aclose()


class ClusterWatch(ComputedWatch):
    """A watch in one cluster: the generator of the storage. It ends with the generator and with the cluster, too."""

    def __init__(self, registry: Registry, rest: RestStorage, request: ReadRequest) -> None:
        """See `ComputedWatch`.

        Raises:
            StatusError: of the storage.
        """
        target = request.target
        super().__init__(registry, request, registry.fanout.reserve(target.resource.keys.prefix, cluster=target.cluster_state.name))
        self._told = told(rest, request)

    async def start(self) -> None:
        """`ComputedWatch.start`."""
        await self._registry.clusters.confirm(self.target.cluster_state)
        self._registry.fanout.begin(self.watcher, self._registry.fanout.revision)

    async def aclose(self) -> None:
        """`ComputedWatch.aclose`."""
        await super().aclose()
        await self._told.aclose()

    def _events(self) -> AsyncGenerator[ObjectEvent, None]:
        return shown(self._told, self._request, self._selection)


def told(rest: RestStorage, request: ReadRequest) -> AsyncGenerator[ObjectEvent, None]:
    """The changes as the storage gives them.

    Raises:
        StatusError: of the storage.
    """
    events = rest.watch(request)
    assert isinstance(events, AsyncGenerator), "computed watches are generators"
    return events


async def shown(
    told: AsyncGenerator[ObjectEvent, None], request: ReadRequest, selection: Selection, *, wildcard: bool = False
) -> AsyncGenerator[ObjectEvent, None]:
    """The changes of one cluster as clients see them: selected, and with the fields that the server adds.

    Raises:
        StatusError: of the storage; 500 where it has failed otherwise, which is logged.
    """
    target = request.target
    selected = _SelectedEvents(selection)
    try:
        async with aclosing(told) as events:
            async for event in events:
                if event.type == "BOOKMARK":
                    yield event
                    continue
                obj = answered(event.obj, target, wildcard=wildcard)
                if kind := selected.kind_of(event.type, obj, event.previous):
                    yield ObjectEvent(kind, obj)
    except StatusError:
        raise
    except StorageError as error:
        raise translate(error) from error
    except BaseException as error:
        if passes(error):
            raise
        cluster, resource, function = target.cluster_state.name, str(target.resource.group_resource), failed_function(error)
        _log.exception("watch_failed", audit_id=request.context.audit_id, cluster=cluster, resource=resource, function=function)
        raise errors.internal(HIDDEN) from error


async def _until_end(watcher: Watcher) -> None:
    while not watcher.ended:
        await watcher.wait()


class _SelectedEvents:
    """Event types under selectors: an object that begins to match is ADDED, one that ceases to match is DELETED."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._shown: set[tuple[str, str]] = set()
        """Namespace and name of each object that the client knows; empty where everything is selected."""

    def kind_of(self, kind: str, obj: Object, previous: Object | None) -> str:
        """The type of the event for the client; empty for an event that it does not see.

        Args:
            kind: the type.
            obj: the object, as the last one where it is deleted.
            previous: the object before, where the storage knows it.
        """
        if self._selection.empty:
            return kind
        place = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        known = place in self._shown or (previous is not None and self._selection.matches(previous))
        if kind == "DELETED" or not self._selection.matches(obj):
            self._shown.discard(place)
            return "DELETED" if known else ""
        self._shown.add(place)
        return "MODIFIED" if known else "ADDED"
