"""`ReconcileFunction`: a function of a program and how it is called; `FunctionController` runs it as a controller."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from contextvars import copy_context
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypedDict

import structlog

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client.blocking import BlockingClient
from kcp_py.client.cache import by_owner
from kcp_py.client.clusterclient import ClusterClient
from kcp_py.client.contract import Client
from kcp_py.client.informer import Change, Informer, Informers
from kcp_py.client.keys import Key
from kcp_py.client.models import decode, described
from kcp_py.client.reflecting import Selection
from kcp_py.controllers.runtime.controller import ControllerSource, Later
from kcp_py.controllers.runtime.queue import WorkQueue
from kcp_py.library.functions import outcome_of
from kcp_py.library.reconciling.arguments import Arguments
from kcp_py.library.reconciling.events import EventWriter
from kcp_py.library.reconciling.ownership import with_finalizer
from kcp_py.logicalcluster import ClusterSelection

Kind = type | GroupVersionResource
Mapper = Callable[[Change], Iterable[Key]]
"""The objects that have to be looked at after a change of another one."""

_UID: Final = "uid"
_OWNER: Final = "owner"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.controllers")


class ReconcileOptions(TypedDict, total=False):
    """Options of a reconcile function."""

    name: str
    """Of the controller, the field manager and the source of events; by default that of the function with dashes."""
    owns: Sequence[Kind]
    """Kinds whose changes look at the objects that own them (`owned_by`)."""
    watches: Mapping[Any, Mapper]
    """Kinds whose changes look at the objects that a function names."""
    finalizer: str
    """Is put on each object before the function is called, and removed at the end of the deletion."""
    finalize: Callable[..., Any]
    """Called with an object that is being deleted, before the finalizer is removed, with such parameters, too. While it returns a time,
    the object stays."""
    deleting: bool
    """Call the function for objects that are being deleted, too."""
    generations: bool
    """Leave out changes of the metadata and the status alone, of kinds that have generations."""
    namespace: str
    """Only objects of this one; by default of all."""
    label_selector: str
    """Only objects that it selects."""
    workers: int
    """Objects that are worked on at the same time; 8 by default."""
    per_cluster: int
    """Those of one logical cluster; 4 by default."""
    rate: float
    """Calls per second at the most; 0, the default, for no limit."""
    timeout: float
    """Seconds after which a call of a coroutine function is ended and counts as failed; 300 by default."""


@dataclass(frozen=True)
class ReconcileFunction:
    """A function, and the options of its registration: `ReconcileOptions`."""

    function: Callable[..., Any]
    kind: Kind
    name: str
    owns: Sequence[Kind] = ()
    watches: Mapping[Any, Mapper] | None = None
    finalizer: str = ""
    finalize: Callable[..., Any] | None = None
    deleting: bool = False
    generations: bool = False
    namespace: str = ""
    label_selector: str = ""
    workers: int = 8
    per_cluster: int = 4
    rate: float = 0.0
    timeout: float = 300.0


def resource_of(kind: Kind) -> GroupVersionResource:
    """The resource of a kind."""
    return kind if isinstance(kind, GroupVersionResource) else described(kind).resource


def by_uid(obj: Mapping[str, Any]) -> Iterable[str]:
    """An indexer."""
    return (obj["metadata"].get("uid", ""),)


class FunctionController:
    """A `Controller` that calls one function with objects from a cache."""

    sources: Sequence[ControllerSource] = ()
    """None: `follow` fills the queue."""

    def __init__(self, definition: ReconcileFunction, client: Client, informers: Informers, *, cluster: ClusterSelection) -> None:
        """Prepare; nothing is asked for before `follow`.

        Args:
            definition: the function.
            client: of all clusters.
            informers: of the client, shared with other controllers.
            cluster: whose objects, or `WILDCARD`.
        """
        self.definition = definition
        self.name = definition.name
        self.per_cluster = definition.per_cluster
        self.workers = definition.workers
        self._client = client
        self._informers = informers
        self._cluster = cluster
        self._events = EventWriter(client, definition.name)
        self._arguments = Arguments(definition.function)
        self._finalize_arguments = Arguments(definition.finalize) if definition.finalize is not None else None
        self._primary: Informer | None = None
        self._synced = asyncio.Event()
        self._threads: ThreadPoolExecutor | None = None
        self._next = 0.0
        self._active = 0
        self._stopping = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def follow(self, queue: WorkQueue) -> None:
        """Fill a queue from the changes of the objects, of those that they own and of those that are watched, until cancelled."""
        definition = self.definition
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            selection = Selection(self._cluster, resource_of(definition.kind), definition.namespace, definition.label_selector)
            primary = await stack.enter_async_context(self._informers.use(selection, {_UID: by_uid}))
            used = [primary]

            def changed(change: Change) -> None:
                if not (definition.generations and _is_same_generation(change)):
                    queue.add(change.key)

            stack.callback(primary.on_change(changed))
            for owned in definition.owns:
                # Only their owners count.
                selection = Selection(self._cluster, resource_of(owned), definition.namespace, metadata_only=True)
                informer = await stack.enter_async_context(self._informers.use(selection, {_OWNER: by_owner}))
                stack.callback(informer.on_change(lambda change: _add_owners(primary, change, queue)))
                used.append(informer)
            for kind, mapper in (definition.watches or {}).items():
                informer = await stack.enter_async_context(self._informers.use(Selection(self._cluster, resource_of(kind))))
                stack.callback(informer.on_change(partial(_add_mapped, mapper, queue)))
                used.append(informer)
            tasks.create_task(self._events.run())
            for one in used:
                await one.wait_for_sync()
            # Owned objects may have come before their owners.
            _add_all(primary.keys(), queue)
            self._primary = primary
            self._synced.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._synced.clear()
                if self._threads is not None:
                    self._threads.shutdown(wait=False, cancel_futures=True)
                    self._threads = None

    async def reconcile(self, key: Key) -> int | Later:
        """Call the function for one object, if it is there.

        Raises:
            Exception: of the function; it is called again.
        """
        await self._synced.wait()
        assert self._primary is not None
        if self._stopping:
            await asyncio.get_running_loop().create_future()
        await self._pace()
        self._active += 1
        self._idle.clear()
        try:
            return await self._look(self._primary, key)
        finally:
            self._active -= 1
            if not self._active:
                self._idle.set()

    async def stop(self) -> None:
        """Begin nothing any more, and wait for the end of calls that run."""
        self._stopping = True
        await self._idle.wait()

    async def _look(self, primary: Informer, key: Key) -> int | Later:
        definition = self.definition
        obj = primary.get(*key)
        if obj is None:
            return 0
        finalizer = definition.finalizer
        held = finalizer in (obj["metadata"].get("finalizers") or ())
        if obj["metadata"].get("deletionTimestamp"):
            if finalizer and held and definition.finalize is not None:
                assert self._finalize_arguments is not None
                try:
                    later = await self._call(definition.finalize, self._finalize_arguments, key, obj=obj)
                except _UnreadableError:
                    # What the function would have cleaned up is still there.
                    return 0
                if later is not None:
                    return later
            if finalizer and held:
                await self._patch_finalizer(key, obj, present=False)
                return 0
            if not definition.deleting:
                return 0
        elif finalizer and not held:
            # The function works on marked objects only: nothing that it makes outlives its object unnoticed.
            patched = await self._patch_finalizer(key, obj, present=True)
            if patched is None:
                return 0
            obj = patched
        try:
            return await self._call(definition.function, self._arguments, key, obj=obj) or 0
        except _UnreadableError:
            return 0

    async def _patch_finalizer(self, key: Key, obj: Mapping[str, Any], *, present: bool) -> dict[str, Any] | None:
        """Add or remove the finalizer; None where the object is gone.

        Raises:
            StatusError: 409, the object has changed.
        """
        document = with_finalizer(obj, self.definition.finalizer, present=present)
        try:
            return await self._client.patch(
                key.cluster, resource_of(self.definition.kind), key.namespace, key.name, document=document, field_manager=self.name
            )
        except StatusError as error:
            if error.code != 404:
                raise
            return None

    async def _call(self, function: Callable[..., Any], arguments: Arguments, key: Key, *, obj: dict[str, Any]) -> Later | None:
        """Call a function for an object.

        Raises:
            _UnreadableError: the object does not fit its class; it is looked at again when it changes.
            Exception: of the function.
        """
        definition = self.definition
        log = _log.bind(controller=self.name, cluster=key.cluster, namespace=key.namespace, name=key.name)
        recorder = self._events.recorder(key.cluster, obj)
        try:
            given = obj if isinstance(definition.kind, GroupVersionResource) else decode(definition.kind, obj)
        except ValueError as error:
            log.warning("object_unreadable", error=str(error))
            recorder.warning("Unreadable", f"{self.name}: the object does not fit its class: {error}")
            raise _UnreadableError from error
        client = ClusterClient(self._client, key.cluster, namespace=key.namespace or "default", field_manager=self.name)
        available = {"object": given, "client": client, "cluster": key.cluster, "key": key, "log": log, "recorder": recorder}
        available |= {"namespace": key.namespace, "name": key.name}
        if inspect.iscoroutinefunction(function):
            try:
                async with asyncio.timeout(definition.timeout):
                    result = await function(**arguments.of(available))
            except TimeoutError as error:
                raise TimeoutError(f"{self.name}: no end after {definition.timeout:g} s") from error
        else:
            result = await self._in_thread(function, arguments, available, log=log)
        return _later(result, self.name)

    async def _in_thread(self, function: Callable[..., Any], arguments: Arguments, available: dict[str, Any], *, log: Any) -> Any:
        loop = asyncio.get_running_loop()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix=self.name)
        client = BlockingClient(available["client"], loop)
        given = arguments.of({**available, "client": client})
        running = loop.run_in_executor(self._threads, copy_context().run, outcome_of, partial(function, **given))
        try:
            done, _ = await asyncio.wait((running,), timeout=self.definition.timeout)
            if not done:
                # A thread cannot be interrupted. Another call for the object would run at the same time.
                log.error("reconcile_hangs", seconds=self.definition.timeout)
            result, error = await running
        finally:
            client.end()
        if error is not None:
            raise error
        return result

    async def _pace(self) -> None:
        """Wait for this call's turn, where calls are limited."""
        if self.definition.rate:
            loop = asyncio.get_running_loop()
            self._next = max(self._next, loop.time()) + 1 / self.definition.rate
            await asyncio.sleep(self._next - 1 / self.definition.rate - loop.time())


class _UnreadableError(Exception):
    """An object does not fit its class."""


def _is_same_generation(change: Change) -> bool:
    """Whether neither the specification nor the deletion of an object has changed."""
    if change.type != "MODIFIED" or change.old is None:
        return False
    new, old = change.obj["metadata"], change.old["metadata"]
    return "generation" in new and all(new.get(name) == old.get(name) for name in ("generation", "deletionTimestamp"))


def _add_owners(primary: Informer, change: Change, queue: WorkQueue) -> None:
    """Look at the owners of an object, and at those that it had before."""
    uids = {*by_owner(change.obj), *(by_owner(change.old) if change.old is not None else ())}
    for uid in uids:
        for owner in primary.by_index(_UID, change.key.cluster, uid):
            metadata = owner["metadata"]
            queue.add(Key(change.key.cluster, metadata.get("namespace", ""), metadata["name"]))


def _add_mapped(mapper: Mapper, queue: WorkQueue, change: Change) -> None:
    _add_all(mapper(change), queue)


def _add_all(keys: Iterable[Key], queue: WorkQueue) -> None:
    for key in keys:
        queue.add(key)


def _later(result: Any, name: str) -> Later | None:
    """The answer of a function: None, seconds, a timedelta or `Later`.

    Raises:
        TypeError: it is something else.
    """
    if result is None or isinstance(result, Later):
        return result
    if isinstance(result, timedelta):
        return Later(result.total_seconds())
    if isinstance(result, (int, float)) and not isinstance(result, bool):
        return Later(float(result))
    raise TypeError(f"{name}: a reconcile function returns None, seconds, a timedelta or Later, not {type(result).__name__}")
