"""`Caches`: the caches of resources, made when they are first read, within a bound, and dropped when they are idle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Self

import structlog

from kcp_py.aio.lru import LRU
from kcp_py.proxy.cache import ResourceCache
from kcp_py.proxy.items import GoneError
from kcp_py.proxy.reads import Place
from kcp_py.proxy.upstream import Upstream

_REFUSED_SECONDS: Final = 30.0
"""A resource that cannot be cached is not tried again for so long."""
_REFUSED: Final = 4096
_LOOK_SECONDS: Final = 5.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.proxy")


class Caches:
    """All caches of a proxy: an asynchronous context manager."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        resources: Sequence[str] = ("*",),
        most_bytes: int,
        idle_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with none.

        Args:
            upstream: has the objects.
            resources: which ones to cache: `*` for all, `pods` or `deployments.apps` for one, with `-` before it for all others.
            most_bytes: of all caches. A cache that does not fit is dropped, the longest unused first.
            idle_seconds: caches that are not read or watched for so long are dropped.
            clock: seconds.
        """
        self._upstream = upstream
        self._included = frozenset(one for one in resources if not one.startswith("-"))
        self._excluded = frozenset(one.removeprefix("-") for one in resources if one.startswith("-"))
        self._most_bytes = most_bytes
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._caches: dict[Place, ResourceCache] = {}
        self._used: dict[Place, float] = {}
        self._tasks: dict[Place, asyncio.Task[None]] = {}
        self._versions: dict[Place, set[Place]] = {}
        self._refused: LRU[Place, float] = LRU(_REFUSED)
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        tasks = [*self._tasks.values(), *([self._looking] if self._looking is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __iter__(self) -> Iterator[ResourceCache]:
        return iter(list(self._caches.values()))

    def find(self, place: Place) -> ResourceCache | None:
        """The cache of a resource, as it is; None without one."""
        cache = self._caches.get(place)
        if cache is not None:
            self._used[place] = self._clock()
        return cache

    def wants(self, place: Place) -> bool:
        """Whether the resource has a cache, or may have one now."""
        if place in self._caches:
            return True
        name = f"{place.resource}.{place.group}" if place.group else place.resource
        if name in self._excluded or not ("*" in self._included or name in self._included):
            return False
        refused = self._refused.get(place)
        return refused is None or refused <= self._clock()

    def open(self, place: Place) -> ResourceCache | None:
        """The cache of a resource, which begins to load if it is new. None for resources that are not cached."""
        cache = self.find(place)
        if cache is None and self.wants(place):
            cache = self._caches[place] = ResourceCache(place, self._upstream)
            self._versions.setdefault(place.of_all_versions, set()).add(place)
            self._used[place] = self._clock()
            task = self._tasks[place] = asyncio.create_task(cache.run())
            task.add_done_callback(lambda ended: self._ended(place, ended))
        return cache

    def note_write(self, place: Place, version: int | None) -> None:
        """A write through the proxy has changed a resource, or may have. A new cache has it anyway.

        Args:
            place: of the resource, in the version of the write.
            version: see `ResourceCache.note_write`.
        """
        for one in self._versions.get(place.of_all_versions, ()):
            self._caches[one].note_write(version)

    def _ended(self, place: Place, task: asyncio.Task[None]) -> None:
        self._caches.pop(place, None)
        self._used.pop(place, None)
        self._tasks.pop(place, None)
        places = self._versions[place.of_all_versions]
        places.discard(place)
        if not places:
            del self._versions[place.of_all_versions]
        if task.cancelled():
            return
        error = task.exception()
        self._refused.set(place, self._clock() + _REFUSED_SECONDS)
        if isinstance(error, GoneError):
            _log.info("proxy_cache_refused", path=place.path, reason=str(error))
        else:
            _log.error("proxy_cache_failed", path=place.path, error=repr(error), exc_info=error)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.trim()

    def trim(self) -> None:
        """Drop idle caches, and the longest unused ones until the rest fits."""
        now = self._clock()
        for place, cache in self._caches.items():
            if cache.is_watched:
                self._used[place] = now
        by_use = sorted(self._caches, key=lambda place: self._used[place])
        total = sum(cache.size for cache in self._caches.values())
        for place in by_use:
            cache = self._caches[place]
            # A lost one cannot be read again now.
            is_idle = not cache.lost and now - self._used[place] >= self._idle_seconds
            if not is_idle and total <= self._most_bytes:
                continue
            total -= cache.size
            if not is_idle:
                self._refused.set(place, now + _REFUSED_SECONDS)
            _log.info("proxy_cache_dropped", path=place.path, bytes=cache.size, reason="idle" if is_idle else "memory")
            self._tasks[place].cancel()
