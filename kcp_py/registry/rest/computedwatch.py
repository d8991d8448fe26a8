"""`ComputedWatch`: a watch of a resource that a user's class serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import structlog

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.rest.answered import HIDDEN, answered
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.rest.selection import Selection
from kcp_py.registry.rest.storage import Object, ObjectEvent, ReadRequest, RestStorage
from kcp_py.registry.store.access import translate
from kcp_py.storage.contract import StorageError
from kcp_py.watchcache import Watcher

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.registry")


class ComputedWatch:
    """One watch of a computed resource, which its generator, the cluster, the server or its client ends."""

    def __init__(self, registry: Registry, rest: RestStorage, request: ReadRequest, cluster_state: ClusterState) -> None:
        self._registry = registry
        self.target: Final = request.target
        self._request = request
        self._state = cluster_state
        self._selected = _SelectedEvents(Selection(request.options, request.target.resource))
        events = rest.watch(request)
        assert isinstance(events, AsyncGenerator), "computed watches are generators"
        self._events: AsyncGenerator[ObjectEvent, None] = events
        # Nothing is ever stored below this prefix: the watcher notices the end of the cluster and of the server alone.
        self.watcher: Final[Watcher] = registry.fanout.reserve(request.target.resource.keys.prefix, cluster=cluster_state.name)

    async def start(self) -> None:
        """Check that the cluster is still that of the request.

        Raises:
            StaleStateError: it is not.
        """
        await self._registry.clusters.confirm(self._state)
        self._registry.fanout.begin(self.watcher, self._registry.fanout.revision)

    async def aclose(self) -> None:
        """End the watch; safe to call twice."""
        await self._registry.fanout.detach(self.watcher)
        await self._events.aclose()

    async def changes(self, seconds: float | None = None) -> AsyncGenerator[ObjectEvent, None]:
        """The selected changes, until the generator or the watcher ends, or for a time.

        Raises:
            StatusError: of the storage; 500 where it has failed otherwise, which is logged.
        """
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        ended = asyncio.ensure_future(_until_end(self.watcher))
        following: asyncio.Future[ObjectEvent | None] | None = None
        events = self._shown()
        try:
            while deadline is None or deadline > loop.time():
                following = asyncio.ensure_future(anext(events, None))
                left = None if deadline is None else deadline - loop.time()
                await asyncio.wait((following, ended), timeout=left, return_when=asyncio.FIRST_COMPLETED)
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

    async def _shown(self) -> AsyncGenerator[ObjectEvent, None]:
        target = self._request.target
        try:
            async with aclosing(self._events) as events:
                async for event in events:
                    obj = answered(event.obj, target)
                    if kind := self._selected.kind_of(event.type, obj):
                        yield ObjectEvent(kind, obj)
        except StatusError:
            raise
        except StorageError as error:
            raise translate(error) from error
        except Exception as error:
            _log.exception("watch_failed", audit_id=self._request.context.audit_id, resource=str(target.resource.group_resource))
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

    def kind_of(self, kind: str, obj: Object) -> str:
        """The type of the event for the client; empty for an event that it does not see."""
        if self._selection.empty:
            return kind
        place = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        known = place in self._shown
        if kind == "DELETED" or not self._selection.matches(obj):
            self._shown.discard(place)
            return "DELETED" if known else ""
        self._shown.add(place)
        return "MODIFIED" if known else "ADDED"
