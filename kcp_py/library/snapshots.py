"""`SnapshotStorage`: a read-only resource from one function that returns all of its objects."""

from __future__ import annotations

import asyncio
import time
import uuid
from abc import abstractmethod
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery import errors
from kcp_py.logicalcluster import Name
from kcp_py.registry.rest.storage import Object, ObjectEvent, ObjectsAt, ReadRequest, RestStorage, bookmark

_Place = tuple[str, str]
"""Namespace and name."""
_UIDS: Final = uuid.UUID("6a0f0f4e-6f0c-4a54-9d0b-6d1d7c1b6f7e")
_MOST_CLUSTERS: Final = 6_000
"""Logical clusters whose objects are kept while no watch needs them: more than a watch over all clusters follows."""
_TOO_OLD: Final = "too old resource version: {} ({})"


class _Kept(NamedTuple):
    """One object as it was last seen."""

    obj: Object
    content: bytes
    """The object as its author gave it."""


class _Change(NamedTuple):
    version: int
    type: str
    obj: Object
    previous: Object | None


class SnapshotStorage(RestStorage):
    """Serves what `items` returns: get, lists with pages, and watches, which compare the present objects with those before.

    ::

        class Prices(SnapshotStorage):
            interval = 5.0

            async def items(self, cluster):
                return [{"metadata": {"name": name}, "price": price} for name, price in await fetch(cluster)]

    Each logical cluster has its own objects and changes. `items` is called for a list or a get when the last answer is older than
    `freshness`, at most once at a time for each cluster, and while a watch runs every `interval` seconds, however many clients there are.
    """

    versioned: ClassVar[bool] = True
    interval: float = 10.0
    """Seconds between two looks at the objects while they are watched."""
    freshness: float = 1.0
    """Seconds for which gets and lists are answered from the same objects."""
    history: int = 1_000
    """Changes of each cluster from which watches resume. Older resourceVersions are answered with 410."""

    @abstractmethod
    async def items(self, cluster: Name) -> Sequence[Object]:
        """All objects of a logical cluster, in any order.

        Each needs a `metadata.name`, and a `metadata.namespace` where the resource is namespaced. Objects without a uid get one that
        follows from their cluster, namespace and name. The resourceVersion is always that of the last change.

        Raises:
            StatusError: the answer to clients. Anything else is logged and answered with 500.
        """

    def changed(self, cluster: Name | None = None) -> None:
        """Look at the objects now: a notification has come. Call it on the event loop.

        Args:
            cluster: whose objects have changed; None for those of all clusters.
        """
        for name, one in self._states.items():
            if cluster in {None, name}:
                one.read_at = 0.0
                one.notices += 1
                one.wake()

    async def get(self, request: ReadRequest) -> Object:
        """`RestStorage.get`."""
        state = await self._fresh(request, self.freshness)
        found = state.objects.get((request.target.namespace, request.target.name))
        if found is None:
            raise errors.not_found(request.target.resource.group_resource, request.target.name)
        return _given(found.obj)

    async def list(self, request: ReadRequest) -> ObjectsAt:
        """`RestStorage.list`."""
        state = await self._fresh(request, self.freshness)
        namespace = request.target.namespace
        return ObjectsAt([_given(one.obj) for place, one in state.objects.items() if namespace in {"", place[0]}], self._version)

    def common_version(self, versions: Mapping[Name, int]) -> int:
        """`RestStorage.common_version`: the highest one that is not behind a change that the list of a cluster has not."""
        states = self._states
        bounds = [states[name].unchanged_until(version, self._version) if name in states else version for name, version in versions.items()]
        return min(bounds, default=self._version)

    async def watch(self, request: ReadRequest) -> AsyncGenerator[ObjectEvent, None]:
        """`RestStorage.watch`: resumes behind a resourceVersion, and begins with the present objects without one."""
        options, namespace = request.options, request.target.namespace
        state = self._state(request)
        state.watches += 1
        try:
            await self._refresh(state, request, self.interval)
            after = self._version
            if options.send_initial_events or options.resource_version in {"", "0"}:
                for (place, _), one in list(state.objects.items()):
                    if namespace in {"", place}:
                        yield ObjectEvent("ADDED", _given(one.obj))
                if options.send_initial_events and options.allow_watch_bookmarks:
                    yield bookmark(after, initial_events_end=True)
            else:
                after = self._resumed(options.resource_version, state)
            while True:
                if after < state.oldest:
                    raise errors.expired(_TOO_OLD.format(after, state.oldest))
                news = state.news
                for change in state.behind(after):
                    after = change.version
                    if namespace in {"", change.obj["metadata"].get("namespace", "")}:
                        yield ObjectEvent(change.type, _given(change.obj), change.previous)
                if options.allow_watch_bookmarks and after < self._version and not state.behind(after):
                    after = self._version
                    yield bookmark(after)
                if not state.behind(after):
                    await _wait(news, self.interval)
                    await self._refresh(state, request, self.interval * 0.9)
        finally:
            state.watches -= 1

    @property
    def _states(self) -> OrderedDict[Name, _State]:
        # Subclasses need not call `__init__`.
        if "_clusters" not in self.__dict__:
            self._clusters: OrderedDict[Name, _State] = OrderedDict()
            # Versions of a later process are larger: a client that comes back gets 410, or what has changed.
            self._version = self._forgotten = int(time.time() * 1000)
        return self._clusters

    def _state(self, request: ReadRequest) -> _State:
        cluster = request.target.cluster_state
        states = self._states
        state = states.get(cluster.name)
        if state is None or state.created_revision != cluster.created_revision:
            # Of a cluster that is read for the first time, no client knows an object. Of one that was forgotten, or that is another one of
            # the name, clients may know objects that are gone.
            oldest = self._forgotten if state is None else self._version
            state = states[cluster.name] = _State(cluster.created_revision, oldest, self.history)
            idle = (name for name, kept in states.items() if not kept.watches and kept is not state)
            if len(states) > _MOST_CLUSTERS and (longest := next(idle, None)) is not None:
                del states[longest]
                self._forgotten = self._version
        states.move_to_end(cluster.name)
        return state

    async def _fresh(self, request: ReadRequest, seconds: float) -> _State:
        """The objects of the cluster of a request, of which the newest are at most so old."""
        state = self._state(request)
        await self._refresh(state, request, seconds)
        return state

    async def _refresh(self, state: _State, request: ReadRequest, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        asked = loop.time()
        async with state.lock:
            if state.read_at and loop.time() - state.read_at < seconds:
                return
            cluster = request.target.cluster_state.name
            notices = -1
            while notices != state.notices:
                # A notification during the read may be about something that the read has not seen.
                notices = state.notices
                await self._compare(state, cluster, await self.items(cluster))
            state.read_at = asked

    async def _compare(self, state: _State, cluster: Name, items: Sequence[Object]) -> None:
        turns = TimeSlice()
        present: dict[_Place, _Kept] = {}
        changes: list[_Change] = []
        for item in items:
            content = orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
            metadata = item["metadata"]
            place = metadata.get("namespace") or "", metadata["name"]
            before = state.objects.get(place)
            if before is not None and before.content == content:
                present[place] = before
            else:
                obj: dict[str, Any] = orjson.loads(content)
                obj["metadata"].setdefault("uid", str(uuid.uuid5(_UIDS, "/".join((cluster, type(self).__qualname__, *place)))))
                obj["metadata"].pop("resourceVersion", None)
                present[place] = _Kept(obj, content)
                changes.append(_Change(0, "MODIFIED" if before else "ADDED", obj, before.obj if before else None))
            await turns.yield_if_due()
        for place, gone in state.objects.items():
            if place not in present:
                last = {**gone.obj, "metadata": dict(gone.obj["metadata"])}
                changes.append(_Change(0, "DELETED", last, gone.obj))
        for change in changes:
            self._version = max(self._version + 1, int(time.time() * 1000))
            change.obj["metadata"]["resourceVersion"] = str(self._version)
            state.add(change._replace(version=self._version))
        state.objects = MappingProxyType(dict(sorted(present.items())))
        if changes:
            state.wake()

    def _resumed(self, text: str, state: _State) -> int:
        """The version behind which a watch goes on.

        Raises:
            StatusError: 400 for no number, 410 for one whose changes are not kept, or that this process has not given.
        """
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise errors.bad_request(f'resourceVersion: Invalid value: "{text}": must be a number')
        version = int(text)
        if version < state.oldest or version > self._version:
            raise errors.expired(_TOO_OLD.format(text, state.oldest))
        return version


class _State:
    """The objects of one logical cluster."""

    def __init__(self, created_revision: int, oldest: int, history: int) -> None:
        self.created_revision: Final = created_revision
        """Of the cluster. A later cluster of the name has another one."""
        self.objects: Mapping[_Place, _Kept] = MappingProxyType({})
        """In the order of namespaces and names."""
        self.oldest = oldest
        """Watches resume behind it or later."""
        self.changes: deque[_Change] = deque()
        self.history = history
        self.watches = 0
        self.read_at = 0.0
        self.notices = 0
        self.lock: Final = asyncio.Lock()
        self.news = asyncio.Event()

    def add(self, change: _Change) -> None:
        """Keep a change, and forget the oldest one."""
        self.changes.append(change)
        if len(self.changes) > self.history:
            self.oldest = self.changes.popleft().version

    def behind(self, version: int) -> list[_Change]:
        """The changes behind a version."""
        if not self.changes or self.changes[-1].version <= version:
            return []
        return [change for change in self.changes if change.version > version]

    def unchanged_until(self, version: int, latest: int) -> int:
        """The highest version, up to the latest one, at which the objects are those of a version."""
        later = self.behind(version)
        return later[0].version - 1 if later else latest

    def wake(self) -> None:
        """Let watches look."""
        self.news.set()
        self.news = asyncio.Event()


async def _wait(news: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return


def _given(obj: Object) -> Object:
    """An object for one answer, to whose metadata the server adds: `clusterName` belongs to requests over all clusters alone."""
    return {**obj, "metadata": dict(obj["metadata"])}
