"""`Informer`: the objects of a resource in memory, kept up to date, with handlers of changes; `Informers` share them.

Source: k8s.io/client-go `tools/cache` (`SharedIndexInformer`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, NamedTuple, Self

import structlog

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery.meta.selectors import parse_label_selector
from kcp_py.client.cache import Indexer, ObjectCache
from kcp_py.client.contract import Client
from kcp_py.client.keys import Key, key_of
from kcp_py.client.reflecting import Backoff, Selection, follow
from kcp_py.logicalcluster import Name
from kcp_py.telemetry.programcode import passes

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.client")


class Change(NamedTuple):
    """A change of one object that an informer has seen."""

    type: str
    """`ADDED`, `MODIFIED` or `DELETED`."""
    key: Key
    obj: dict[str, Any]
    """The object; where it was deleted, its last known state."""
    old: dict[str, Any] | None
    """The object before; None where it did not exist."""


Handler = Callable[[Change], None]


class Informer:
    """A cache that follows a resource, in one cluster or in all.

    ::

        async with Informer(client, Selection(WILDCARD, SHIPS)) as ships:
            await ships.wait_for_sync()
            ships.list("team-a", label_selector="fleet=north")

    `metadata.managedFields` is left out of the cache, unless it is asked for: it is often larger than the rest.
    """

    def __init__(
        self,
        client: Client,
        selection: Selection,
        *,
        indexers: Mapping[str, Indexer] | None = None,
        managed_fields: bool = False,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        backoff: Backoff | None = None,
    ) -> None:
        """Prepare; `run`, or the `async with` statement, does the rest.

        Args:
            client: whose API is followed.
            selection: which objects.
            indexers: by the names of their indexes; more may be added with `add_indexer`.
            managed_fields: keep `metadata.managedFields`.
            sleep: for tests.
            backoff: for tests.
        """
        self._client = client
        self.selection = selection
        self._managed_fields = managed_fields
        self._sleep = sleep
        self._backoff = backoff
        self._cache = ObjectCache(indexers)
        self.add_indexer = self._cache.add_indexer
        self._handlers: list[Handler] = []
        self._synced = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run(), name=f"informer {self.selection}")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def __len__(self) -> int:
        """How many objects are known."""
        return len(self._cache)

    @property
    def synced(self) -> bool:
        """Whether all objects have been listed once."""
        return self._synced.is_set()

    async def wait_for_sync(self, timeout: float | None = None) -> None:
        """Wait until all objects have been listed once.

        Raises:
            TimeoutError: they have not been after so many seconds.
        """
        async with asyncio.timeout(timeout):
            await self._synced.wait()

    def on_change(self, handler: Handler) -> Callable[[], None]:
        """Have a function called with each change; at once with each known object as ADDED. It must not block.

        Returns:
            Ends the calls.
        """
        for key in self._cache:
            if (obj := self._cache.get(key)) is not None:
                _call(handler, Change("ADDED", key, obj, None))
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler) if handler in self._handlers else None

    def get(self, cluster: Name, namespace: str, name: str) -> dict[str, Any] | None:
        """An object, for the caller to change; None where there is none."""
        return self._cache.get(Key(cluster, namespace, name))

    def keys(self, cluster: Name | None = None, namespace: str = "") -> Sequence[Key]:
        """The keys of the objects of a cluster, or of all with None."""
        return self._cache.keys(cluster, namespace)

    def list(self, cluster: Name | None = None, namespace: str = "", *, label_selector: str = "") -> Sequence[dict[str, Any]]:
        """Objects, for the caller to change.

        Args:
            cluster: None for all.
            namespace: empty for all.
            label_selector: such as `app=web,tier in (a,b)`.

        Raises:
            ValueError: the selector cannot be read.
        """
        selector = parse_label_selector(label_selector) if label_selector else None
        found = self._read(self._cache.keys(cluster, namespace))
        return found if selector is None else [obj for obj in found if selector.matches(obj["metadata"].get("labels") or {})]

    def by_index(self, index: str, cluster: Name, value: str) -> Sequence[dict[str, Any]]:
        """The objects of one cluster that an index has for a value.

        Raises:
            KeyError: there is no such index.
        """
        return self._read(self._cache.indexed(index, cluster, value))

    async def run(self) -> None:
        """Follow the resource until cancelled, and call the handlers."""
        async with aclosing(self.changes()) as changes:
            async for change in changes:
                for handler in tuple(self._handlers):
                    _call(handler, change)

    async def changes(self) -> AsyncGenerator[Change, None]:
        """What `run` calls handlers with, for a caller that runs the informer itself.

        An object that was deleted and made anew while no watch was open comes as DELETED, then ADDED. A state that is known already does
        not come again. An object that cannot be read is logged and left out.
        """
        missing: set[Key] = set()
        time_slice = TimeSlice()
        async with aclosing(follow(self._client, self.selection, sleep=self._sleep, backoff=self._backoff)) as steps:
            async for step in steps:
                await time_slice.yield_if_due()
                if step.type == "LISTING":
                    missing = set(self._cache)
                    continue
                if step.type == "SYNCED":
                    for key in sorted(missing):
                        if (gone := self._cache.remove(key)) is not None:
                            yield Change("DELETED", key, gone, gone)
                    missing = set()
                    self._synced.set()
                    continue
                try:
                    key = key_of(step.obj, self.selection.cluster)
                except (KeyError, TypeError, ValueError) as error:
                    _log.error("object_ignored", objects=str(self.selection), error=repr(error))
                    continue
                missing.discard(key)
                for change in self._take(key, step.obj, deleted=step.type == "DELETED"):
                    yield change

    def _take(self, key: Key, obj: dict[str, Any], *, deleted: bool) -> Sequence[Change]:
        if not self._managed_fields and "managedFields" in obj["metadata"]:
            obj = {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != "managedFields"}}
        if deleted:
            old = self._cache.remove(key)
            return [] if old is None else [Change("DELETED", key, obj, old)]
        known = self._cache.get(key)
        if known is not None and known["metadata"].get("uid") == obj["metadata"].get("uid"):
            if known["metadata"].get("resourceVersion") == obj["metadata"].get("resourceVersion"):
                return []
            self._cache.put(key, obj)
            return [Change("MODIFIED", key, obj, known)]
        self._cache.put(key, obj)
        added = Change("ADDED", key, obj, None)
        return [added] if known is None else [Change("DELETED", key, known, known), added]

    def _read(self, keys: Sequence[Key]) -> Sequence[dict[str, Any]]:
        return [obj for key in keys if (obj := self._cache.get(key)) is not None]


class Informers:
    """Informers of one client, shared among all users of the same objects: an informer runs while it is used."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._used: dict[Selection, tuple[Informer, int]] = {}

    def __len__(self) -> int:
        """How many run."""
        return len(self._used)

    @asynccontextmanager
    async def use(self, selection: Selection, indexers: Mapping[str, Indexer] | None = None) -> AsyncIterator[Informer]:
        """The informer of some objects, which runs within the `async with` statement.

        Args:
            selection: which objects.
            indexers: added to those that others have asked for.

        Raises:
            ValueError: others use the name of an index for another one.
        """
        informer, users = self._used.get(selection) or (Informer(self._client, selection), 0)
        for name, indexer in (indexers or {}).items():
            informer.add_indexer(name, indexer)
        self._used[selection] = informer, users + 1
        if not users:
            await informer.__aenter__()
        try:
            yield informer
        finally:
            informer, users = self._used[selection]
            if users == 1:
                del self._used[selection]
                await informer.__aexit__()
            else:
                self._used[selection] = informer, users - 1


def _call(handler: Handler, change: Change) -> None:
    try:
        handler(change)
    except BaseException as error:
        if passes(error):
            raise
        # One handler must not stop the others.
        _log.error("handler_failed", handler=getattr(handler, "__qualname__", repr(handler)), name=change.key.name, exc_info=error)
