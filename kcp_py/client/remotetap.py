"""`RemoteTap`: the tap on the store of a server in another process, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from copy import copy
from typing import Any, Final, NamedTuple, NoReturn, Self

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.client.paths import cluster_path
from kcp_py.client.tap import Holder, ObjectChange, ObjectFilter, StoredResource
from kcp_py.client.tapwire import (
    HEARTBEAT_SECONDS,
    ROOT,
    VERSION,
    Deletion,
    FinalizerRemoval,
    Recount,
    deletion_body,
    filter_text,
    finalizer_body,
    merged,
    read_change,
    recount_body,
)
from kcp_py.client.transport import Headers, Query, Transport, impersonation, status_error_of
from kcp_py.logicalcluster import WILDCARD, Name
from kcp_py.registry.catalog.compilation import HeldNames
from kcp_py.registry.store.collection import Remaining
from kcp_py.request.user import UserInfo
from kcp_py.schema.crd.names_conditions import BuiltinNames

_CHANGING: Final = frozenset(("changes", "observations"))
_SILENCE_SECONDS: Final = 3 * HEARTBEAT_SECONDS


class RemoteTap:
    """A `Tap` of the server that a transport reaches. Observers are called while `run` is running.

    They are told that they may have missed changes when it begins after objects were read.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._user: Headers = ()
        self._observation = _Observation(self)
        self._streams = _Streams()

    def acting_as(self, user: UserInfo) -> Self:
        """`Tap.acting_as`. Observers are those of this tap."""
        other = copy(self)
        other._user = impersonation(user.name, user.uid, user.groups, user.extra)  # noqa: SLF001 - a copy of this object
        return other

    @property
    def watching(self) -> bool:
        """Whether changes are followed, and no stream of them is waiting for the server."""
        return 0 < self._streams.wanted == self._streams.open

    async def run(self) -> None:
        """Call observers, until cancelled.

        Raises:
            StatusError: the server cannot be reached; run again to go on.
        """
        await self._observation.run()

    async def changes(self, resource: GroupVersionResource, *, wanted: ObjectFilter) -> AsyncGenerator[ObjectChange, None]:
        """`Tap.changes`, without the object before."""
        query = (*_resource(resource), ("filter", filter_text(wanted)))
        async with aclosing(self.lines("changes", query)) as lines:
            async for line in lines:
                yield read_change(line)

    def on_removal(self, callback: Callable[[Name], None]) -> Callable[[], None]:
        """`Tap.on_removal`."""
        return self._observation.add_removal(callback)

    def observe(
        self, observer: Callable[[ObjectChange], None], *, concerned: ObjectFilter, missed: Callable[[], None]
    ) -> Callable[[], None]:
        """`Tap.observe`."""
        return self._observation.add(_Observer(observer, concerned, missed))

    async def stored_objects(
        self, cluster: Name | None, *, concerned: ObjectFilter, resource: GroupResource | None = None, limit: int = 0
    ) -> AsyncGenerator[ObjectChange, None]:
        """`Tap.stored_objects`."""
        query = [("filter", filter_text(concerned)), ("limit", str(limit))]
        if cluster is not None:
            query.append(("cluster", cluster))
        if resource is not None:
            query += [("group", resource.group), ("resource", resource.resource)]
        # What happens while objects are read is seen by observers, or was missed by them.
        await self._observation.attached()
        async with aclosing(self.lines("objects", query)) as lines:
            async for line in lines:
                if "revision" in line:
                    await self._observation.reached(line["revision"])
                    return
                yield read_change(line)
        _raise_cut()

    async def held_names(self, cluster: Name, group: str) -> Sequence[HeldNames]:
        """`Tap.held_names`."""
        found = await self._get("names", (("cluster", cluster), ("group", group)))
        return [HeldNames(**held) for held in found]

    async def builtin_names(self) -> Mapping[str, Sequence[BuiltinNames]]:
        """`Tap.builtin_names`."""
        found = await self._get("builtins")
        return {
            group: [BuiltinNames(**{**one, "short_names": tuple(one["short_names"])}) for one in names] for group, names in found.items()
        }

    async def stored_resources(self, cluster: Name) -> Sequence[StoredResource]:
        """`Tap.stored_resources`."""
        found = await self._get("resources", (("cluster", cluster),))
        return [StoredResource(GroupResource(one["group"], one["resource"]), one["custom"], one["namespaced"]) for one in found]

    async def delete_stored(
        self,
        cluster: Name,
        resource: StoredResource,
        namespace: str = "",
        *,
        settled: Collection[str] = (),
        holder: Holder | None = None,
    ) -> Remaining:
        """`Tap.delete_stored`. Where the server's time limit ends it, deleted objects stay deleted."""
        found = await self._post("deletions", deletion_body(Deletion(cluster, resource, namespace, sorted(settled), holder)))
        return Remaining(found["objects"], found["finalizers"])

    async def remove_finalizer(
        self, cluster: Name, resource: GroupVersionResource, namespace: str, name: str, *, finalizer: str, uid: str
    ) -> None:
        """`Tap.remove_finalizer`."""
        await self._post("finalizers", finalizer_body(FinalizerRemoval(cluster, resource, namespace, name, finalizer, uid)))

    async def recount_quota(self, cluster: Name, namespace: str, name: str) -> None:
        """`Tap.recount_quota`."""
        await self._post("recounts", recount_body(Recount(cluster, namespace, name)))

    async def lines(self, what: str, query: Query) -> AsyncGenerator[dict[str, Any], None]:
        """The decoded lines of a stream.

        Raises:
            StatusError: the failure that ends it.
        """
        with self._streams.counted(what):
            async with self._transport.stream(_path(what), query=query, headers=self._user, silence=_SILENCE_SECONDS) as lines:
                with self._streams.opened(what):
                    async for text in lines:
                        line = orjson.loads(text)
                        if "error" in line:
                            raise status_error_of(line["error"])
                        yield line

    async def _get(self, what: str, query: Query = ()) -> Any:
        return await self._transport.request("GET", _path(what), query=query, headers=self._user)

    async def _post(self, what: str, body: bytes) -> Any:
        headers = (*self._user, ("Content-Type", "application/json"))
        return await self._transport.request("POST", _path(what), headers=headers, body=body)


class _Streams:
    """How many streams of changes a process wants, and how many it has."""

    def __init__(self) -> None:
        self.wanted = 0
        self.open = 0

    @contextmanager
    def counted(self, what: str) -> Iterator[None]:
        """Within it, a stream is wanted. Streams of stored objects do not count."""
        count = what in _CHANGING
        self.wanted += count
        try:
            yield
        finally:
            self.wanted -= count

    @contextmanager
    def opened(self, what: str) -> Iterator[None]:
        """Within it, the stream is open."""
        count = what in _CHANGING
        self.open += count
        try:
            yield
        finally:
            self.open -= count


class _Observer(NamedTuple):
    observer: Callable[[ObjectChange], None]
    concerned: ObjectFilter
    missed: Callable[[], None]


class _Observation:
    """The one stream that all observers of a process share."""

    def __init__(self, tap: RemoteTap) -> None:
        self._tap = tap
        self._observers: list[_Observer] = []
        self._removals: list[Callable[[Name], None]] = []
        self._asked = asyncio.Event()
        """Set when the filter of the stream is not that of the observers any more."""
        self._revision = -1
        """Up to which observers were called; -1 while there is no stream."""
        self._moved = asyncio.Event()
        """Replaced whenever it is set, which wakes all that wait for the revision, for `run`, or for observers to end."""
        self._cuts = 0
        self._behind = False
        """Whether observers may have missed changes before the stream begins."""
        self._running = False

    def add(self, observer: _Observer) -> Callable[[], None]:
        self._observers.append(observer)
        self._asked.set()

        def end() -> None:
            self._observers.remove(observer)
            self._wake()

        return end

    def add_removal(self, callback: Callable[[Name], None]) -> Callable[[], None]:
        self._removals.append(callback)
        self._asked.set()
        return lambda: self._removals.remove(callback)

    async def attached(self) -> None:
        """Wait until observers, if there are any, are called with what happens. Nothing calls them before `run` runs."""
        while self._observers and self._running and (self._revision < 0 or self._asked.is_set()):
            await self._moved.wait()
        self._behind = self._behind or not self._running

    async def reached(self, revision: int) -> None:
        """Wait until observers, if there are any, were called with everything up to a revision.

        Raises:
            StatusError: 503 where the stream was cut meanwhile; observers know that they have missed something.
        """
        cuts = self._cuts
        while self._observers and self._running and self._revision < revision:
            if self._cuts != cuts:
                _raise_cut()
            await self._moved.wait()

    async def run(self) -> None:
        self._running = True
        try:
            while True:
                await self._asked.wait()
                self._asked.clear()
                await self._follow_until_asked()
        finally:
            self._running = False
            self._cut()

    async def _follow_until_asked(self) -> None:
        following = asyncio.ensure_future(self._follow(merged([one.concerned for one in self._observers])))
        try:
            while not following.done() and not self._asked.is_set():
                asking = asyncio.ensure_future(self._asked.wait())
                await asyncio.wait((following, asking), return_when=asyncio.FIRST_COMPLETED)
                asking.cancel()
            if following.done():
                following.result()
        finally:
            following.cancel()
            # Before the wait, which another cancellation may interrupt: the next run has to begin a stream, or readers wait for ever.
            self._asked.set()
            self._cut()
            await asyncio.wait((following,))

    async def _follow(self, concerned: ObjectFilter) -> None:
        async with aclosing(self._tap.lines("observations", (("filter", filter_text(concerned)),))) as lines:
            async for line in lines:
                if "revision" in line:
                    self._move(line["revision"])
                else:
                    self._show(read_change(line))

    def _move(self, revision: int) -> None:
        if self._revision < 0:
            if self._behind:
                for one in list(self._observers):
                    one.missed()
            self._behind = True
        self._revision = revision
        self._wake()

    def _cut(self) -> None:
        self._revision = -1
        self._cuts += 1
        self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def _show(self, change: ObjectChange) -> None:
        for one in list(self._observers):
            if one.concerned.shows(change.resource, change.value, change.previous):
                one.observer(change)
        if change.value is None:
            for callback in list(self._removals):
                callback(change.cluster)


def _path(what: str) -> str:
    return f"{cluster_path(WILDCARD)}/{ROOT}/{VERSION}/{what}"


def _resource(resource: GroupVersionResource) -> Query:
    return (("group", resource.group), ("version", resource.version), ("resource", resource.resource))


def _raise_cut() -> NoReturn:
    raise errors.service_unavailable("the connection to the server was cut")
