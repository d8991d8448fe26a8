"""`ResourceCache`: all objects of one resource, followed by one list and watch, and its latest events for the watches of clients.

Source of the rules: the documentation of the Kubernetes API (resource versions, watch bookmarks, streaming lists).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import httpcore
import orjson
import structlog

from kcp_py.proxy.reads import Place
from kcp_py.proxy.upstream import UnreachableError, Upstream

_PAGE: Final = 500
_OVERHEAD_BYTES: Final = 1200
"""What an object takes in addition to its JSON."""
_RING_EVENTS: Final = 10_000
_RING_BYTES: Final = 32 * 1024 * 1024
_WATCHER_EVENTS: Final = 10_000
"""Events that wait for a slow client before its watch ends. It goes on from the events that are kept."""
_SILENCE_SECONDS: Final = 180.0
"""A watch with bookmarks that shows nothing for so long has lost its server, which sends one each minute."""
_FIRST_DELAY: Final = 0.2
_LONGEST_DELAY: Final = 5.0

Labels = dict[str, str]
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.proxy")


class GoneError(Exception):
    """The resource cannot be cached: it is not served any more, or the proxy may not read it. `str()` is the reason."""


class Item(NamedTuple):
    """One object."""

    raw: bytes
    """JSON with apiVersion and kind."""
    namespace: str
    name: str
    labels: Labels
    version: int

    @property
    def metadata(self) -> bytes:
        """JSON of the `PartialObjectMetadata`."""
        head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        return orjson.dumps({**head, "metadata": orjson.loads(self.raw)["metadata"]})


class Event(NamedTuple):
    """One change. An event without an item is a bookmark."""

    kind: str
    """`ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`."""
    item: Item | None
    before: Item | None
    """The object before the change; None where there was none."""
    version: int


class Watcher:
    """The events for one client.

    Attributes:
        ended: whether no further events come: the client is too slow, or the resource is gone.
    """

    def __init__(self) -> None:
        self.ended = False
        self._events: deque[Event] = deque()
        self._wake = asyncio.Event()

    def put(self, event: Event) -> None:
        """An event has happened."""
        if len(self._events) >= _WATCHER_EVENTS:
            self.end()
            return
        self._events.append(event)
        self._wake.set()

    def end(self) -> None:
        """No further events come."""
        self.ended = True
        self._wake.set()

    async def take(self) -> list[Event]:
        """The events since the last call; empty at the end."""
        while not self._events and not self.ended:
            self._wake.clear()
            await self._wake.wait()
        found = list(self._events)
        self._events.clear()
        return found


class ResourceCache:
    """One resource.

    Attributes:
        place: of the resource.
        version: the resource version that the objects have reached.
        lost: whether the API server could not be reached and has not been reached again.
        size: bytes, approximately.
        kind, api_version: of the objects.
    """

    def __init__(self, place: Place, upstream: Upstream, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self.place = place
        self.version = 0
        self.lost = False
        self.size = 0
        self.kind = self.api_version = ""
        self._upstream = upstream
        self._sleep = sleep
        self._items: dict[tuple[str, str], Item] = {}
        self._sorted: list[Item] | None = None
        self._ring: deque[Event] = deque()
        self._ring_bytes = 0
        self._floor = 0
        self._watchers: set[Watcher] = set()
        self._loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._progress = asyncio.Event()

    @property
    def is_loaded(self) -> bool:
        """Whether the objects are here."""
        return self._loaded.done() and not self._loaded.cancelled() and self._loaded.exception() is None

    @property
    def is_watched(self) -> bool:
        """Whether a client watches."""
        return bool(self._watchers)

    async def loaded(self, seconds: float) -> bool:
        """Wait for the objects. Returns whether they are here."""
        if not self._loaded.done():
            await asyncio.wait([self._loaded], timeout=seconds)
        return self.is_loaded

    async def reached(self, version: int, seconds: float) -> bool:
        """Wait for a resource version. Returns whether the objects have reached it."""
        try:
            async with asyncio.timeout(seconds):
                while self.version < version:
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            return False
        return True

    def get(self, namespace: str, name: str) -> Item | None:
        """One object."""
        return self._items.get((namespace, name))

    def items(self, namespace: str, name: str) -> Iterator[Item]:
        """The objects of a namespace, or of all, in their order; those with the name, if there is one."""
        if self._sorted is None:
            self._sorted = [self._items[key] for key in sorted(self._items)]
        for item in self._sorted:
            if (not namespace or item.namespace == namespace) and (not name or item.name == name):
                yield item

    def watch(self, version: int | None) -> tuple[Watcher, list[Event]] | None:
        """Begin a watch.

        Args:
            version: of the last event that the client knows; None for no past events.

        Returns:
            What gets events from now on, and those since the version. None where they are not kept any more.
        """
        past: list[Event] = []
        if version is not None:
            if version < self._floor:
                return None
            past = [event for event in self._ring if event.version > version]
        watcher = Watcher()
        self._watchers.add(watcher)
        return watcher, past

    def end_watches(self) -> None:
        """End all watches. Clients begin them again."""
        for watcher in list(self._watchers):
            watcher.end()

    def leave(self, watcher: Watcher) -> None:
        """The client is gone."""
        self._watchers.discard(watcher)

    async def run(self) -> None:
        """List and watch until it is cancelled.

        Raises:
            GoneError: the resource cannot be cached.
        """
        delay = _FIRST_DELAY
        try:
            relist = True
            while True:
                try:
                    if relist or await self._is_another_history():
                        await self._list()
                    delay = _FIRST_DELAY
                    relist = True
                    relist = await self._watch()
                except UnreachableError as error:
                    # A list that has failed is made again; a watch that was lost goes on.
                    relist = not self.is_loaded
                    if not self.lost:
                        _log.warning("proxy_upstream_lost", path=self.place.path, error=str(error))
                    self.lost = True
                await self._sleep(delay * random.uniform(1, 1.5))
                delay = min(delay * 2, _LONGEST_DELAY)
        except GoneError as error:
            if not self._loaded.done():
                self._loaded.set_exception(error)
                # It may be that no request waits any more.
                self._loaded.exception()
            raise
        finally:
            self._loaded.cancel()
            for watcher in self._watchers:
                watcher.end()

    async def _is_another_history(self) -> bool:
        """Whether the server that is back after a loss has not come as far as the one before, as after the restoration of a copy."""
        if not self.lost:
            return False
        answer = await self._upstream.fetch("GET", f"{self.place.path}?limit=1".encode(), headers=_JSON, own=True)
        if answer.status != 200:
            # The list that follows says what it means.
            return True
        self.lost = False
        return _number(orjson.loads(answer.body)["metadata"].get("resourceVersion")) < self.version

    async def _list(self) -> None:
        """Read all objects. Watches see the differences."""
        found: dict[tuple[str, str], Item] = {}
        token, version = "", 0
        while True:
            query = f"limit={_PAGE}" + (f"&continue={quote(token, safe='')}" if token else "")
            answer = await self._upstream.fetch("GET", f"{self.place.path}?{query}".encode(), headers=_JSON, own=True)
            if answer.status == 410:
                # The pages took too long.
                found, token = {}, ""
                continue
            if answer.status in {429, 500, 502, 503, 504}:
                raise UnreachableError(f"status {answer.status}")
            if answer.status != 200:
                raise GoneError(f"status {answer.status}")
            page = orjson.loads(answer.body)
            kind, api_version = str(page.get("kind", "")).removesuffix("List"), str(page.get("apiVersion", ""))
            version = _number(page["metadata"].get("resourceVersion"))
            for obj in page.get("items") or ():
                item = item_of(obj, kind, api_version)
                found[item.namespace, item.name] = item
            await asyncio.sleep(0)
            token = page["metadata"].get("continue") or ""
            if not token:
                break
        if not self.is_loaded:
            self.kind, self.api_version = kind, api_version
            self._items, self._floor, self.version = found, version, version
        elif version < self.version:
            # Another history: versions of the old one mean nothing.
            self._items, self._floor, self.version = found, version, version
            self._ring.clear()
            self._ring_bytes = 0
            for watcher in list(self._watchers):
                watcher.end()
        else:
            for event in _differences(self._items, found, version):
                self._apply(event)
            self.version = max(self.version, version)
        self._sorted = None
        self.size = sum(len(item.raw) + _OVERHEAD_BYTES for item in self._items.values()) + self._ring_bytes
        self.lost = False
        if not self._loaded.done():
            self._loaded.set_result(None)
        self._progress.set()

    async def _watch(self) -> bool:
        """Follow the changes until the watch ends. Returns whether the objects have to be listed again."""
        seconds = random.randint(300, 600)
        query = f"watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={self.version}"
        target = f"{self.place.path}?{query}".encode()
        async with self._upstream.stream("GET", target, headers=_JSON, own=True, silence=_SILENCE_SECONDS) as response:
            if response.status in {410, 504}:
                # Too old, or newer than the server is.
                return True
            if response.status in {400, 401, 403, 404, 405}:
                raise GoneError(f"status {response.status}")
            if response.status != 200:
                raise UnreachableError(f"status {response.status}")
            lines = _lines(response)
            async with aclosing(lines):
                async for line in lines:
                    document = orjson.loads(line)
                    kind, obj = document["type"], document["object"]
                    if kind == "ERROR":
                        return True
                    self._take(kind, obj)
        return False

    def _take(self, kind: str, obj: dict[str, Any]) -> None:
        version = _number(obj["metadata"].get("resourceVersion"))
        if kind == "BOOKMARK":
            self._tell(Event(kind, None, None, version))
        else:
            item = item_of(obj, self.kind, self.api_version)
            before = self._items.get((item.namespace, item.name))
            self._apply(Event(kind, item, before, version))
        self.version = max(self.version, version)
        self._progress.set()

    def _apply(self, event: Event) -> None:
        item = event.item
        assert item is not None
        key = (item.namespace, item.name)
        if event.kind == "DELETED":
            gone = self._items.pop(key, None)
            self.size -= len(gone.raw) + _OVERHEAD_BYTES if gone is not None else 0
            self._sorted = None
        else:
            known = self._items.get(key)
            self._items[key] = item
            self.size += len(item.raw) - len(known.raw) if known is not None else len(item.raw) + _OVERHEAD_BYTES
            self._sorted = None
        self._ring.append(event)
        size = len(item.raw) + _OVERHEAD_BYTES
        self._ring_bytes += size
        self.size += size
        while len(self._ring) > _RING_EVENTS or self._ring_bytes > _RING_BYTES:
            oldest = self._ring.popleft()
            self._floor = oldest.version
            size = len(oldest.item.raw) + _OVERHEAD_BYTES if oldest.item is not None else 0
            self._ring_bytes -= size
            self.size -= size
        self._tell(event)

    def _tell(self, event: Event) -> None:
        for watcher in list(self._watchers):
            watcher.put(event)


def item_of(obj: dict[str, Any], kind: str, api_version: str) -> Item:
    """An object of a list or of an event; objects of lists may lack what their list says."""
    if "kind" not in obj or "apiVersion" not in obj:
        obj = {"kind": kind, "apiVersion": api_version, **obj}
    metadata = obj["metadata"]
    labels = metadata.get("labels") or {}
    return Item(orjson.dumps(obj), metadata.get("namespace") or "", metadata["name"], labels, _number(metadata.get("resourceVersion")))


def _differences(old: dict[tuple[str, str], Item], new: dict[tuple[str, str], Item], version: int) -> list[Event]:
    """The events that lead from old objects to new ones, in the order of their versions. Deletions have the version of the list."""
    found = []
    for key, item in new.items():
        before = old.get(key)
        if before is None:
            found.append(Event("ADDED", item, None, item.version))
        elif before.version != item.version:
            found.append(Event("MODIFIED", item, before, item.version))
    found.sort(key=lambda event: event.version)
    for key, item in old.items():
        if key not in new:
            obj = orjson.loads(item.raw)
            obj["metadata"]["resourceVersion"] = str(version)
            found.append(Event("DELETED", item._replace(raw=orjson.dumps(obj), version=version), item, version))
    return found


def _number(version: Any) -> int:
    """A resource version. All servers that this proxy knows have numbers.

    Raises:
        GoneError: it is something else.
    """
    if isinstance(version, str) and version.isascii() and version.isdigit():
        return int(version)
    raise GoneError("the resource versions are no numbers")


async def _lines(response: httpcore.Response) -> AsyncGenerator[bytes, None]:
    begun: list[bytes] = []
    async for part in response.aiter_stream():
        first, *others = part.split(b"\n")
        begun.append(first)
        for other in others:
            if line := b"".join(begun):
                yield line
            begun = [other]


_JSON: Final = ((b"Accept", b"application/json"),)
