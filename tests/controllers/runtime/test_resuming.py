"""Work that the last process could not finish."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kcp_py.aio.cooperative import Throttle
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client.unfinished import UnfinishedWork
from kcp_py.controllers import start_controllers
from kcp_py.controllers.events import EventTTLController
from kcp_py.controllers.namespaces import NamespaceController
from kcp_py.controllers.runtime.queue import Key, WorkQueue
from kcp_py.controllers.runtime.resuming import LOOKS, LOOKS_WHILE_READING, MOST_BYTES, MOST_KEYS, REVISIONS, Resumed, Resumption
from kcp_py.logicalcluster import Name
from kcp_py.storage.contract import Put
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.opening import open_storage
from kcp_py.tenancy import LOGICAL_CLUSTER
from tests.client.registry import (
    CONFIG_MAPS,
    CRDS,
    NAMESPACES,
    WIDGETS,
    Registry,
    config_map,
    make_crd,
    namespace,
    open_registry,
    widget,
)

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
NAME = "widgets.example.com"


def store(path: Path) -> Any:
    return open_storage("sqlite", path=path / "store.db")


def start_without_reading(registry: Registry) -> None:
    """Run all controllers as in a store whose objects take for ever to read."""
    registry.tap._scans = Throttle(seconds=0, pause=1e12)
    start_controllers(registry.supervisor, registry.client, registry.tap, ("*", "-garbage-collector-controller"))


def controller(registry: Registry) -> NamespaceController:
    return NamespaceController(registry.client, registry.tap, clock=lambda: 0.0, grace=0)


def resumption(registry: Registry, *queues: WorkQueue, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep) -> Resumption:
    return Resumption(registry.tap.work, [Resumed(controller(registry), queue) for queue in queues], sleep=sleep)


INTERRUPTED = [
    pytest.param(NAMESPACES, "shop", id="namespace"),
    pytest.param(CRDS, NAME, id="definition"),
    pytest.param(LOGICAL_CLUSTER, "cluster", id="cluster"),
]


async def interrupt(registry: Registry, resource: GroupVersionResource, name: str) -> None:
    """Begin a deletion that no controller carries out."""
    await registry.establish(TEAM)
    await registry.client.create(TEAM, NAMESPACES, namespace("shop"))
    await registry.client.create(TEAM, CONFIG_MAPS, config_map("one", "shop"))
    await registry.client.create(TEAM, WIDGETS, widget("one"))
    await registry.client.delete(TEAM, resource, "", name)


@pytest.mark.parametrize(("resource", "name"), INTERRUPTED)
async def test_an_interrupted_deletion_continues_before_objects_are_read(tmp_path: Path, resource: GroupVersionResource, name: str) -> None:
    """What changed after the record is in the history: here there is no record yet."""
    async with open_registry(store(tmp_path)) as registry:
        await interrupt(registry, resource, name)
    async with open_registry(store(tmp_path)) as registry:
        start_without_reading(registry)
        await registry.until_gone(TEAM, resource, "", name)


@pytest.mark.parametrize(("resource", "name"), INTERRUPTED)
async def test_a_deletion_that_waited_continues_before_objects_are_read(tmp_path: Path, resource: GroupVersionResource, name: str) -> None:
    """What waited when the record was written is in the record, when its last change is not known any more."""
    async with open_registry(store(tmp_path)) as registry:
        await interrupt(registry, resource, name)
        queues = {loop.name: loop.queue for loop in start_controllers(registry.supervisor, registry.client, registry.tap, ())}
        assert queues == {}
        names = {
            NAMESPACES: "namespace-controller",
            CRDS: "customresourcedefinition-controller",
            LOGICAL_CLUSTER: "logicalcluster-controller",
        }
        keys = {names[resource]: [Key(TEAM, "", name)], "unknown-controller": [Key(TEAM, "", "x")]}
        revision = await registry.storage.revision()
        await registry.tap.work.save(UnfinishedWork(revision, keys, {}))
        await registry.storage.compact(await registry.storage.revision())
    async with open_registry(store(tmp_path)) as registry:
        start_without_reading(registry)
        await registry.until_gone(TEAM, resource, "", name)


async def test_a_definition_that_was_created_just_before_is_served(tmp_path: Path) -> None:
    """Its names are accepted before all objects are read."""
    async with open_registry(store(tmp_path)) as registry:
        await registry.client.create(TEAM, CRDS, make_crd())
    async with open_registry(store(tmp_path)) as registry:
        start_without_reading(registry)
        await registry.until_condition(TEAM, NAME, "Established")


async def test_what_waits_is_recorded() -> None:
    """With the revision up to which changes are known."""
    async with open_registry(MemoryStorage()) as registry:
        queue = WorkQueue()
        queue.add(Key(TEAM, "", "shop"))
        await registry.client.create(TEAM, NAMESPACES, namespace("shop"))
        revision = await registry.storage.revision()
        await registry.fanout.reached(revision)
        await resumption(registry, queue).save(revision)
        work = await registry.tap.work.load()
        assert work is not None
        assert work.keys == {NamespaceController.name: [Key(TEAM, "", "shop")]}
        other = WorkQueue()
        await resumption(registry, other).resume()
        assert other.unfinished(10) == [Key(TEAM, "", "shop")]


async def test_an_idle_server_writes_no_record() -> None:
    """Only changes of objects are a reason for one."""
    async with open_registry(MemoryStorage()) as registry:
        kept = resumption(registry, WorkQueue())
        await registry.client.create(TEAM, NAMESPACES, namespace("shop"))
        revisions = []
        for _ in range(3):
            revisions.append(await registry.storage.revision())
            await registry.fanout.reached(revisions[-1])
            await kept.save(revisions[-1])
        assert revisions[0] < revisions[1] == revisions[2]


async def test_controllers_with_much_do_not_push_out_others() -> None:
    """Where not all keys have room, those of the controller with the fewest come first."""
    async with open_registry(MemoryStorage()) as registry:
        many, few = WorkQueue(), WorkQueue()
        for number in range(MOST_KEYS + 1):
            many.add(Key(Name(f"c{number}"), "x" * 253, "y" * 353))
        few.add(Key(TEAM, "", "shop"))
        first, second = controller(registry), controller(registry)
        first.name = "first"
        found = Resumption(registry.tap.work, [Resumed(first, many), Resumed(second, few)])._unfinished()
        assert found[NamespaceController.name] == [Key(TEAM, "", "shop")]
        assert 0 < len(found["first"]) < MOST_KEYS
        assert sum(len(part) for keys in found.values() for key in keys for part in key) <= MOST_BYTES


async def test_controllers_that_look_from_time_to_time_are_left_out() -> None:
    """A restart interrupts nothing of theirs, and their keys are very many."""
    async with open_registry(MemoryStorage()) as registry:
        queue = WorkQueue()
        queue.add(Key(TEAM, "", ""))
        resumed = Resumption(registry.tap.work, [Resumed(EventTTLController(registry.client, ttl=1), queue)])
        assert resumed._unfinished() == {}


class Looks:
    """A sleep that ends the run after some looks."""

    def __init__(self, most: int, before: Callable[[], Awaitable[object]] | None = None) -> None:
        self.most = most
        self.before = before

    async def __call__(self, seconds: float) -> None:
        del seconds
        if not self.most:
            raise EndedError
        self.most -= 1
        if self.before is not None:
            await self.before()


class EndedError(Exception):
    """The end of a run."""


async def is_written(registry: Registry, looks: int) -> bool:
    """Whether a run writes a record within some looks."""
    before = await registry.storage.revision()
    with pytest.raises(EndedError):
        await resumption(registry, WorkQueue(), sleep=Looks(looks)).run()
    return await registry.storage.revision() != before


async def test_a_record_is_written_once_a_minute() -> None:
    """Sooner while objects are read, and after many writes."""
    async with open_registry(MemoryStorage()) as registry:
        await registry.client.create(TEAM, NAMESPACES, namespace("shop"))
        await registry.fanout.reached(await registry.storage.revision())
        assert not await is_written(registry, LOOKS - 1)
        assert await is_written(registry, LOOKS)
        reader = registry.tap._followers.add("/registry/core/namespaces/")
        reader.position = "/registry/core/namespaces/b"
        assert not await is_written(registry, LOOKS_WHILE_READING - 1)
        assert await is_written(registry, LOOKS_WHILE_READING)
        registry.tap._followers.remove(reader)
        await registry.client.create(TEAM, NAMESPACES, namespace("other"))
        for _ in range(REVISIONS):
            await registry.storage.transact([], [Put("/registry/core/configmaps/team-a/default/one", b"{}")])
        await registry.fanout.reached(await registry.storage.revision())
        assert await is_written(registry, 1)


async def test_no_record_is_written_while_changes_were_missed() -> None:
    """It would not be true before all objects were read."""
    async with open_registry(MemoryStorage()) as registry:
        await registry.client.create(TEAM, NAMESPACES, namespace("shop"))
        await registry.fanout.reached(await registry.storage.revision())
        registry.tap._followers.add("/registry/core/namespaces/")
        registry.tap._followers.miss()
        assert not await is_written(registry, LOOKS)
