"""The index of CRDs knows which clusters have a CRD, in an amount of memory that does not grow with them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import aclosing

import orjson
import pytest

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.crdindex import CRDIndex
from kcp_py.registry.catalog.knownclusters import MOST_NAMED
from kcp_py.storage.contract import Delete, Event, Put, UnavailableError
from kcp_py.storage.keys import resource_keys
from kcp_py.watchcache import ObjectEvent, Route
from tests.client.registry import CRDS, ROOT, Registry, make_crd
from tests.registry.conftest import A, B, C, Elsewhere, SteppedStorage, crd_key, feed_begins_again, stored

pytestmark = pytest.mark.anyio

KEYS = resource_keys(ROOT, CRDS.group, CRDS.resource, namespaced=False)
WIDGETS = GroupResource("example.com", "widgets")
GADGETS = GroupResource("example.com", "gadgets")
OTHERS = GroupResource("other.io", "others")


@pytest.fixture
def index(registry: Registry) -> CRDIndex:
    return registry.crds.index


async def clusters(index: CRDIndex, resource: GroupResource = WIDGETS) -> list[Name]:
    return [cluster async for _, cluster in index.clusters({resource})]


def many(prefix: str, count: int) -> list[Name]:
    """Names in the order of keys."""
    return [Name(f"{prefix}{number:04}") for number in range(count)]


async def define(storage: SteppedStorage, names: Collection[Name], crd: str = "widgets.example.com") -> int:
    """CRDs of many clusters, with a few writes. Returns the revision."""
    value, ordered = orjson.dumps(stored()), [*names]
    revision = 0
    for start in range(0, len(ordered), 500):
        revision = await storage.transact((), tuple(Put(crd_key(name, crd), value) for name in ordered[start : start + 500]))
    return revision


async def test_a_read_that_ended_in_this_iteration(index: CRDIndex, elsewhere: Elsewhere) -> None:
    """It left nothing and is not forgotten yet, such as one for a record that does not exist. The next one does not wait for it."""
    await elsewhere.define(A, stored())
    index._filling = asyncio.get_running_loop().create_future()
    index._filling.set_result(None)
    assert [*await index.resources()] == [WIDGETS]


async def test_clusters_join_and_leave(index: CRDIndex, elsewhere: Elsewhere) -> None:
    """The index follows the feed; when the last cluster leaves, nothing is kept of the name."""
    await elsewhere.define(A, stored())
    assert await clusters(index) == [A]
    await elsewhere.define(B, stored())
    await elsewhere.delete(crd_key(A))
    assert await clusters(index) == [B]
    await elsewhere.delete(crd_key(B))
    assert await clusters(index) == []
    assert await index.resources() == []
    await elsewhere.define(C, stored())
    await elsewhere.define(C, stored(versions=[{"name": "v1"}, {"name": "v2"}]))
    assert await clusters(index) == [C]
    await elsewhere.delete(crd_key(C))
    assert await index.resources() == []


async def test_it_is_read_once(index: CRDIndex, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """Not before it is needed, and for all first requests together."""
    await elsewhere.define(A, stored())
    before = storage.ranges
    await asyncio.gather(*(index.resources() for _ in range(5)))
    assert storage.ranges == before + 1
    assert await clusters(index, OTHERS) == []
    assert storage.ranges == before + 1


async def test_most_resources_are_found_without_it(index: CRDIndex, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """The first cluster that is found is remembered, until it loses its CRD."""
    await define(storage, many("m", 1_500))
    await elsewhere.define(B, stored())

    async def first() -> Name:
        async with aclosing(index.clusters({WIDGETS})) as pairs:
            return (await anext(pairs))[1]

    before = storage.ranges
    assert await first() == "m0000"
    assert storage.ranges == before + 1
    assert await first() == "m0000"
    assert storage.ranges == before + 1
    await elsewhere.delete(crd_key(Name("m0000")))
    assert await first() == "m0001"


async def test_many_clusters_are_not_kept(index: CRDIndex, storage: SteppedStorage) -> None:
    """Of a CRD that many clusters have, the index names some; all are found, each once, in the order of keys."""
    names = many("m", 2_500)
    await define(storage, names)
    await define(storage, names[7:9], "gadgets.example.com")
    assert sorted(await index.resources()) == [GADGETS, WIDGETS]
    assert index._known is not None
    assert [(known.count, len(known.clusters)) for known in index._known.values()] == [(2_500, MOST_NAMED), (2, 2)]
    assert await clusters(index) == names
    before = storage.ranges
    assert await clusters(index, GADGETS) == names[7:9]
    assert storage.ranges == before


async def test_named_clusters_that_are_gone(index: CRDIndex, storage: SteppedStorage, registry: Registry) -> None:
    """The others are still found when all clusters that the index names have lost the CRD, and when few are left."""
    names = many("m", 350)
    await define(storage, names)
    await index.resources()
    for gone, left in ((names[:200], names[200:]), (names[200:340], names[340:])):
        revision = await storage.transact((), tuple(Delete(crd_key(name)) for name in gone))
        await registry.fanout.reached(revision)
        assert await clusters(index) == left
    revision = await define(storage, names[:3])
    await registry.fanout.reached(revision)
    assert await clusters(index) == [*names[:3], *names[340:]]


async def test_found_resources_are_not_looked_for(index: CRDIndex, storage: SteppedStorage) -> None:
    """A consumer that needs one cluster of each resource reads as far as the last one that it lacks."""
    names = many("m", 2_500)
    await define(storage, names)
    await define(storage, names[1_200:], "gadgets.example.com")
    await index.resources()
    wanted = {WIDGETS, GADGETS}
    found = {}
    before = storage.ranges
    async with aclosing(index.clusters(wanted)) as pairs:
        async for resource, cluster in pairs:
            if resource == GADGETS and cluster < "m1400":
                continue  # not good enough
            assert resource not in found
            found[resource] = cluster
            wanted.discard(resource)
    assert found == {WIDGETS: "m0000", GADGETS: "m1400"}
    assert storage.ranges - before == 2


async def test_changes_while_it_is_read(index: CRDIndex, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """Definitions that come or go after the store was read and before the answer is there are not missed."""
    await elsewhere.define(A, stored())

    async def change() -> None:
        await elsewhere.define(B, stored())
        await elsewhere.define(C, stored())
        await elsewhere.delete(crd_key(A))
        await elsewhere.delete(crd_key(B))

    storage.after_read(change)
    assert await index.resources() == [WIDGETS]
    assert await clusters(index) == [C]
    assert index._journal == []


async def test_changes_between_pages(index: CRDIndex, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """What changes before its page is read is in the page, and what changes later is counted: nothing twice."""
    names = many("m", 2_500)
    await define(storage, names)
    early, late = Name("m0000-early"), Name("m2400-late")

    async def change() -> None:
        for name in (early, late):
            await elsewhere.define(name, stored())
        for name in (names[5], names[2_300]):
            await elsewhere.delete(crd_key(name))

    storage.after_read(change)
    await index.resources()
    assert index._known is not None
    assert index._known["widgets.example.com"].count == 2_500
    assert set(await clusters(index)) == {early, late, *names} - {names[5], names[2_300]}
    await elsewhere.delete(crd_key(late))
    await elsewhere.delete(crd_key(early))
    assert index._known["widgets.example.com"].count == 2_498
    assert index._revisions == []


async def test_an_event_from_before_the_read_says_nothing_new(index: CRDIndex, storage: SteppedStorage) -> None:
    """A definition that was gone when the store was read does not come back with the late news of its creation."""
    value = orjson.dumps(stored())
    created = await storage.transact((), (Put(crd_key(A), value),))
    await storage.transact((), (Delete(crd_key(A)),))
    late = ObjectEvent(Route(KEYS.prefix, A, "", "widgets.example.com"), Event(crd_key(A), value, created, created, None))

    async def come_late() -> None:
        index.apply(late)

    storage.after_read(come_late)
    assert await index.resources() == []
    index.apply(late)
    assert await index.resources() == []


async def test_a_gap_while_it_is_read(index: CRDIndex, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """Data that was read before events may have been missed is read again."""
    await elsewhere.define(A, stored())

    async def miss() -> None:
        await elsewhere.delete(crd_key(A))
        await elsewhere.define(B, stored())
        index._journal.clear()
        index.clear()

    before = storage.ranges
    storage.after_read(miss)
    assert await index.resources() == [WIDGETS]
    assert await clusters(index) == [B]
    assert storage.ranges > before + 1


async def test_a_gap_afterwards(index: CRDIndex, registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """A feed that begins again has the index read again."""
    await elsewhere.define(A, stored())
    await index.resources()
    await feed_begins_again(registry)
    before = storage.ranges
    assert await clusters(index) == [A]
    assert storage.ranges > before


async def test_a_request_that_gives_up(index: CRDIndex, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """The index is read to the end, so that the next request finds it, however long it takes."""
    await elsewhere.define(A, stored())
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        reading.set()
        await go_on.wait()

    storage.after_read(wait)
    before = storage.ranges
    request = asyncio.ensure_future(index.resources())
    await reading.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    go_on.set()
    assert await index.resources() == [WIDGETS]
    assert storage.ranges == before + 1


async def test_a_store_that_cannot_be_read(index: CRDIndex, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """The error is that of the requests that wait; the next one reads the index."""
    await elsewhere.define(A, stored())

    async def fail() -> None:
        raise UnavailableError("no answer")

    storage.after_read(fail)
    answers = await asyncio.gather(index.resources(), index.resources(), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["no answer", "no answer"]
    assert await index.resources() == [WIDGETS]


async def test_a_core_group(index: CRDIndex, elsewhere: Elsewhere) -> None:
    """CRDs of the core group have a name of their own form."""
    await elsewhere.define(A, stored(make_crd("pods", "core", kind="Pod")))
    assert await index.resources() == [GroupResource("", "pods")]
    assert await clusters(index, GroupResource("", "pods")) == [A]
