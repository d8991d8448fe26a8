"""`ResourceCache`: all objects of one resource, followed by one list and watch, and its latest events for the watches of clients.

Source of the rules: the documentation of the Kubernetes API (resource versions, watch bookmarks, streaming lists).
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left, insort
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, Final, NoReturn
from urllib.parse import quote

import httpcore
import orjson
import structlog

from kcp_py.proxy.eventlog import OVERHEAD_BYTES, EventLog, Watcher
from kcp_py.proxy.items import Event, GoneError, Item, differences, item_of, number_of
from kcp_py.proxy.reads import Place
from kcp_py.proxy.upstream import UnreachableError, Upstream

_PAGE: Final = 500
_SILENCE_SECONDS: Final = 180.0
"""A watch with bookmarks that shows nothing for so long has lost its server, which sends one each minute."""
UNKNOWN_SECONDS: Final = 3.0
"""After a write whose resource version is not known, reads of the newest state are passed on for so long."""
_RETRIED: Final = frozenset((410, 429, 500, 502, 503, 504))
_FIRST_DELAY: Final = 0.2
_LONGEST_DELAY: Final = 5.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.proxy")


class ResourceCache:
    """One resource.

    Attributes:
        place: of the resource.
        version: the resource version that the objects have reached.
        lost: whether the API server could not be reached and has not been reached again.
        ended: whether nothing follows the resource any more: the objects are not answered any more.
        kind, api_version: of the objects.
    """

    def __init__(self, place: Place, upstream: Upstream, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self.place = place
        self.version = 0
        self.lost = False
        self.ended = False
        self.kind = self.api_version = ""
        self._upstream = upstream
        self._sleep = sleep
        self._items: dict[tuple[str, str], Item] = {}
        # Sorted.
        self._keys: list[tuple[str, str]] = []
        self._bytes = 0
        self._events = EventLog()
        self._loop = asyncio.get_running_loop()
        self._loaded: asyncio.Future[None] = self._loop.create_future()
        self._progress = asyncio.Event()
        # What writes through the proxy have led to, since the last list began and before it.
        self._written = self._written_before = 0
        self._unknown_until = 0.0
        self._refusals = 0
        # That the server has shown in another answer.
        self._newest = 0
        # Whether the last watch has shown anything.
        self._moved = False

    @property
    def size(self) -> int:
        """Bytes, approximately."""
        return self._bytes + self._events.size

    @property
    def is_loaded(self) -> bool:
        """Whether the objects are here."""
        return not self.ended and self._loaded.done() and not self._loaded.cancelled() and self._loaded.exception() is None

    @property
    def is_watched(self) -> bool:
        """Whether a client watches."""
        return self._events.is_watched

    async def loaded(self, seconds: float) -> bool:
        """Wait for the objects. Returns whether they are here."""
        if not self._loaded.done():
            await asyncio.wait([self._loaded], timeout=seconds)
        return self.is_loaded

    async def reached(self, version: int, seconds: float) -> bool:
        """Wait for a resource version. Returns whether the objects have reached it."""
        try:
            async with asyncio.timeout(seconds):
                while self.version < version and not self.ended:
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            return False
        return not self.ended

    @property
    def written(self) -> int | None:
        """The version that a read of the newest state has to reach because of writes through the proxy; None where it is not known."""
        if self._unknown_until > self._loop.time() and not self.lost:
            return None
        return max(self._written, self._written_before)

    def note_write(self, version: int | None) -> None:
        """A write through the proxy has succeeded, or may have.

        Args:
            version: that it has led to; None where it is not known.
        """
        if version is None:
            self._unknown_until = self._loop.time() + UNKNOWN_SECONDS
        else:
            self._written = max(self._written, version)

    def get(self, namespace: str, name: str) -> Item | None:
        """One object."""
        return self._items.get((namespace, name))

    def items(self, namespace: str, name: str) -> list[Item]:
        """The objects of a namespace, or of all, in their order; those with the name, if there is one."""
        keys, items = self._keys, self._items
        if namespace and name:
            found = items.get((namespace, name))
            return [] if found is None else [found]
        if namespace:
            keys = keys[bisect_left(keys, (namespace, "")) : bisect_left(keys, (namespace + "\0", ""))]
        return [items[key] for key in keys if not name or key[1] == name]

    def watch(self, version: int | None) -> tuple[Watcher, list[Event]] | None:
        """Begin a watch; see `EventLog.watch`. None also where nothing follows the resource any more."""
        return None if self.ended else self._events.watch(version)

    def end_watches(self) -> None:
        """End all watches. Clients begin them again."""
        self._events.end()

    def leave(self, watcher: Watcher) -> None:
        """The client is gone."""
        self._events.leave(watcher)

    async def run(self) -> None:
        """List and watch until it is cancelled.

        Raises:
            GoneError: the resource cannot be cached.
        """
        delay = _FIRST_DELAY / 2
        try:
            relist = True
            while True:
                try:
                    if relist or await self._is_another_history():
                        await self._list()
                    self._moved = False
                    relist = await self._watch()
                except UnreachableError as error:
                    # A list that has failed is made again; a watch that was lost goes on.
                    relist = not self.is_loaded
                    if not self.lost:
                        _log.warning("proxy_upstream_lost", path=self.place.path, error=str(error))
                    self.lost = True
                delay = _FIRST_DELAY if self._moved else min(delay * 2, _LONGEST_DELAY)
                await self._sleep(delay * random.uniform(1, 1.5))
        except GoneError as error:
            if not self._loaded.done():
                self._loaded.set_exception(error)
                # It may be that no request waits any more.
                self._loaded.exception()
            raise
        finally:
            self.ended = True
            self._loaded.cancel()
            self._events.end()
            self._progress.set()

    async def has_come_to(self, version: int) -> bool:
        """Whether the API server has come to a resource version, of which the objects may be short.

        Some servers let a watch from a version that they have never had wait for it.
        """
        if self.version < version and not self.lost:
            with suppress(UnreachableError, GoneError):
                self._newest = max(self._newest, await self._ask_newest())
        return not self.lost and max(self.version, self._newest) >= version

    async def _ask_newest(self) -> int:
        """The resource version of the newest state.

        Raises:
            UnreachableError: the server does not answer.
            GoneError: the resource cannot be cached.
        """
        answer = await self._upstream.fetch("GET", f"{self.place.path}?limit=1".encode(), headers=_JSON, own=True)
        if answer.status in _RETRIED:
            raise UnreachableError(f"status {answer.status}")
        if answer.status != 200:
            self._refuse(answer.status)
        self._refusals = 0
        return number_of(orjson.loads(answer.body)["metadata"].get("resourceVersion"))

    async def _is_another_history(self) -> bool:
        """Whether the server has not come as far as the one that was watched, as after the restoration of a copy.

        Not only behind a loss: a server that is stopped in order ends its watches in order.
        """
        if await self._ask_newest() < self.version:
            return True
        self.lost = False
        return False

    async def _list(self) -> None:
        """Read all objects. Watches see the differences."""
        # The list is read from the newest state: it includes all writes before its begin, also in another history.
        self._written_before, self._written = max(self._written_before, self._written), 0
        found: dict[tuple[str, str], Item] = {}
        token, version = "", 0
        while True:
            query = f"limit={_PAGE}" + (f"&continue={quote(token, safe='')}" if token else "")
            answer = await self._upstream.fetch("GET", f"{self.place.path}?{query}".encode(), headers=_JSON, own=True)
            if answer.status in _RETRIED:
                # 410: the pages took too long.
                raise UnreachableError(f"status {answer.status}")
            if answer.status != 200:
                self._refuse(answer.status)
            page = orjson.loads(answer.body)
            kind, api_version = str(page.get("kind", "")).removesuffix("List"), str(page.get("apiVersion", ""))
            version = number_of(page["metadata"].get("resourceVersion"))
            for obj in page.get("items") or ():
                item = item_of(obj, kind, api_version)
                found[item.namespace, item.name] = item
            await asyncio.sleep(0)
            token = page["metadata"].get("continue") or ""
            if not token:
                break
        self._refusals = 0
        if self.is_loaded and version >= self.version:
            changes = differences(self._items, found, version)
            for event in changes:
                self._change(event)
            self._events.append_differences(changes, version)
        else:
            if self.is_loaded:
                # Another history: versions of the old one mean nothing.
                self._events.expire()
                self._newest = 0
            self.kind, self.api_version = kind, api_version
            self._items, self._keys = found, sorted(found)
            self._bytes = sum(len(item.raw) + OVERHEAD_BYTES for item in found.values())
            self._events.begin(version)
        self.version = version
        self._written_before = 0
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
                self._refuse(response.status)
            if response.status != 200:
                raise UnreachableError(f"status {response.status}")
            self._refusals = 0
            lines = _lines(response)
            async with aclosing(lines):
                async for line in lines:
                    document = orjson.loads(line)
                    kind, obj = document["type"], document["object"]
                    if kind == "ERROR":
                        return True
                    self._take(kind, obj)
        return False

    def _refuse(self, status: int) -> NoReturn:
        """The server does not let the proxy read. A token may have ended: its source is read again behind a refusal.

        Raises:
            GoneError: it is so.
            UnreachableError: it may be otherwise next time.
        """
        self._refusals += 1
        if status == 401 and self._refusals == 1:
            raise UnreachableError(f"status {status}")
        raise GoneError(f"status {status}")

    def _take(self, kind: str, obj: dict[str, Any]) -> None:
        version = number_of(obj["metadata"].get("resourceVersion"))
        if kind == "BOOKMARK":
            self._events.tell(Event(kind, None, None, version))
        else:
            item = item_of(obj, self.kind, self.api_version)
            event = Event(kind, item, self._items.get((item.namespace, item.name)), version)
            self._change(event)
            self._events.append(event)
        self.version = max(self.version, version)
        self._moved = True
        self._progress.set()

    def _change(self, event: Event) -> None:
        """Change the objects."""
        item = event.item
        assert item is not None
        key = (item.namespace, item.name)
        known = self._items.get(key)
        if known is not None:
            self._bytes -= len(known.raw) + OVERHEAD_BYTES
        if event.kind != "DELETED":
            self._items[key] = item
            self._bytes += len(item.raw) + OVERHEAD_BYTES
            if known is None:
                insort(self._keys, key)
        elif known is not None:
            del self._items[key]
            del self._keys[bisect_left(self._keys, key)]


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
