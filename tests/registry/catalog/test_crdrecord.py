"""The index of CRDs is kept in the store, and the next process begins with it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import orjson
import pytest

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.crdindex import RECORD, CRDIndex
from kcp_py.registry.catalog.crdrecord import LOOKS, run_crd_record
from kcp_py.storage.contract import Delete, NoSpaceError, Put, Storage
from kcp_py.storage.keys import internal_key, resource_keys
from tests.client.registry import CRDS, ROOT, Registry
from tests.registry.conftest import A, B, C, Elsewhere, SteppedStorage, crd_key, feed_begins_again, stored

pytestmark = pytest.mark.anyio

KEYS = resource_keys(ROOT, CRDS.group, CRDS.resource, namespaced=False)
KEY = internal_key(ROOT, RECORD)
WIDGETS, GADGETS = GroupResource("example.com", "widgets"), GroupResource("example.com", "gadgets")
VALUE = orjson.dumps(stored())


class Looks:
    """The sleep of the task: it returns when the test says so."""

    def __init__(self) -> None:
        self.asleep = asyncio.Event()
        self.begin: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def __call__(self, _seconds: float) -> None:
        self.asleep.set()
        await self.begin

    async def look(self, times: int = 1) -> None:
        for _ in range(times):
            await self.asleep.wait()
            self.asleep.clear()
            begin, self.begin = self.begin, asyncio.get_running_loop().create_future()
            begin.set_result(None)
            await self.asleep.wait()


def next_index(registry: Registry) -> CRDIndex:
    """The index of another process, which follows the feed from now on."""
    index = CRDIndex(registry.storage, KEYS)
    registry.fanout.listen(KEYS.prefix, index.apply)
    return index


async def found(index: CRDIndex) -> dict[str, list[Name]]:
    return {str(one): sorted([name async for _, name in index.clusters({one})]) for one in sorted(await index.resources())}


async def define(storage: Storage, names: Collection[Name], crd: str = "widgets.example.com") -> None:
    await storage.transact((), [Put(crd_key(name, crd), VALUE) for name in names])


async def test_the_next_process_reads_no_keys(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """It reads the record, and the changes since: creations, updates, deletions, and CRDs that were created again."""
    await define(storage, [A, B, C])
    await define(storage, [A], "gadgets.example.com")
    revision = await elsewhere.delete(crd_key(C))
    index = next_index(registry)
    await index.resources()
    # The first write of a record is two, and covers neither.
    assert await index.save(revision) == revision
    await registry.fanout.reached(await storage.revision())
    revision = registry.fanout.revision
    assert await index.save(revision) == revision + 1
    await elsewhere.delete(crd_key(A, "gadgets.example.com"))
    await elsewhere.define(B, stored())
    await elsewhere.delete(crd_key(A))
    await elsewhere.define(A, stored())
    await elsewhere.define(C, stored())
    following = next_index(registry)
    before = storage.ranges
    assert await following.restore() == revision + 1
    assert await following.resources() == [WIDGETS]
    assert await found(following) == await found(index)
    assert [one.count for one in (following._known or {}).values()] == [3]
    assert storage.ranges == before


async def test_nothing_is_read_or_written_before_a_request(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """A server without requests over all clusters pays nothing."""
    await elsewhere.define(A, stored())
    index, looks = next_index(registry), Looks()
    before = storage.ranges, await storage.revision()
    task = asyncio.ensure_future(run_crd_record(index, registry.fanout, sleep=looks))
    await looks.look(2 * LOOKS)
    assert (storage.ranges, await storage.revision()) == before
    await index.resources()
    await looks.look()
    assert await storage.get(KEY) is not None
    task.cancel()


async def test_a_record_is_written_when_the_store_has_changed(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """After a minute with writes, also of other objects, so that the history after it is kept; an idle store stays idle."""
    await elsewhere.define(A, stored())
    index, other, looks, others = next_index(registry), next_index(registry), Looks(), Looks()
    await index.resources()
    await other.resources()
    tasks = [asyncio.ensure_future(run_crd_record(one, registry.fanout, sleep=sleep)) for one, sleep in ((index, looks), (other, others))]
    await looks.look(1 + LOOKS)
    await registry.fanout.reached(await storage.revision())
    written = await storage.revision()
    await looks.look(3 * LOOKS)
    await others.look(3 * LOOKS)
    assert await storage.revision() == written
    changed = await elsewhere.put("/registry/core/configmaps/team-a/default/one", {"metadata": {}})
    await looks.look(LOOKS)
    assert await storage.revision() == changed + 1
    await registry.fanout.reached(await storage.revision())
    written = await storage.revision()
    assert written == registry.fanout.revision
    await others.look(2 * LOOKS)
    assert await storage.revision() == written
    # A compaction of all that is past does not make it useless.
    await storage.compact(await storage.revision())
    assert await next_index(registry).restore() == written
    for task in tasks:
        task.cancel()


async def test_a_history_that_is_not_known_any_more(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """The record is not used: the keys are read when a request needs them, and not before."""
    index = next_index(registry)
    await index.resources()
    await index.save(await elsewhere.define(A, stored()))
    await define(storage, [B])
    await storage.compact(await elsewhere.define(C, stored()))
    following = next_index(registry)
    before = storage.ranges
    assert await following.restore() == 0
    assert storage.ranges == before
    assert await found(following) == {str(WIDGETS): [A, B, C]}


@pytest.mark.parametrize("value", [b"{", b'{"created":1,"revision":1}', b'{"created":0,"revision":1,"definitions":{"a":1}}'])
async def test_a_record_that_is_none(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere, value: bytes) -> None:
    """Something else at its place is not used, and is replaced."""
    await elsewhere.define(A, stored())
    await storage.transact((), [Put(KEY, value)])
    index = next_index(registry)
    assert await index.restore() == 0
    assert await found(index) == {str(WIDGETS): [A]}
    assert await index.save(await storage.revision()) > 0
    assert await next_index(registry).restore() > 0


async def test_changes_while_it_is_restored(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """Each change counts once, whether the history or the feed brings it."""
    index = next_index(registry)
    await index.resources()
    await index.save(await elsewhere.define(A, stored()))
    # Written, and not yet in the feed.
    await define(storage, [B])
    following = next_index(registry)
    restoring = asyncio.ensure_future(following.restore())
    for number in range(20):
        await storage.transact((), [Put(crd_key(Name(f"n{number}")), VALUE)])
        if number % 3 == 0:
            await storage.transact((), [Delete(crd_key(Name(f"n{number}")))])
        await asyncio.sleep(0)
    assert await restoring > 0
    await registry.fanout.reached(await storage.revision())
    expected = sorted([A, B, *(Name(f"n{number}") for number in range(20) if number % 3)])
    assert await found(following) == {str(WIDGETS): expected}
    assert [one.count for one in (following._known or {}).values()] == [len(expected)]


async def test_an_index_ahead_of_the_feed_is_not_saved(registry: Registry) -> None:
    """It was read at a later revision than the feed has come to: the changes between would count twice."""
    storage = registry.storage
    await define(storage, [A])
    index = CRDIndex(storage, KEYS)
    await index.resources()
    assert await index.save(await storage.revision() - 1) == 0
    assert await index.save(await storage.revision()) > 0


async def test_events_may_be_missed(registry: Registry, elsewhere: Elsewhere) -> None:
    """After a gap of the feed, the record and the history give the same as the keys."""
    await elsewhere.define(A, stored())
    await registry.crds.index.resources()
    await registry.crds.index.save(registry.fanout.revision)
    await elsewhere.delete(crd_key(A))
    await elsewhere.define(B, stored())
    await feed_begins_again(registry)
    assert await found(registry.crds.index) == {str(WIDGETS): [B]}


async def test_a_full_store_keeps_the_task(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """The next look writes the record."""
    await elsewhere.define(A, stored())
    index, looks = next_index(registry), Looks()
    await index.resources()
    task = asyncio.ensure_future(run_crd_record(index, registry.fanout, sleep=looks))
    await looks.asleep.wait()

    async def fail() -> None:
        raise NoSpaceError("full")

    storage.after_commit(fail)
    await looks.look()
    assert not task.done()
    await looks.look()
    assert await next_index(registry).restore() > 0
    task.cancel()
