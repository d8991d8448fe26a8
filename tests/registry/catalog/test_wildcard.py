"""What all clusters serve together follows from what each of them defines."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from kcp_py.registry.catalog.crdindex import CRDIndex
from kcp_py.registry.catalog.table import ResourceUnion
from kcp_py.registry.catalog.wildcard import WildcardTables
from kcp_py.request.sight import EVERY_CLUSTER
from kcp_py.storage.contract import Delete, Event, Put
from kcp_py.storage.keys import resource_keys
from kcp_py.watchcache import ObjectEvent, Route
from tests.client.registry import CRDS, ROOT, Registry, make_crd
from tests.registry.conftest import A, B, C, Elsewhere, SteppedStorage, crd_key, feed_begins_again, stored

pytestmark = pytest.mark.anyio

KEYS = resource_keys(ROOT, CRDS.group, CRDS.resource, namespaced=False)


@pytest.fixture
def wildcard(registry: Registry) -> WildcardTables:
    return WildcardTables(registry.storage, registry.fanout, registry.tables)


@pytest.fixture
def index(registry: Registry) -> CRDIndex:
    return registry.crds._index


def custom(union: ResourceUnion) -> list[tuple[str, str]]:
    """Plural and version of what CRDs define, in order."""
    return [(one.resource, one.version) for one in union.resources() if one.group == "example.com"]


async def owner(wildcard: WildcardTables, version: str = "v1") -> str | None:
    """The key of the definition by which widgets are served."""
    found = await wildcard.find("example.com", version, "widgets", sight=EVERY_CLUSTER)
    return None if found is None else found.guards[0].key


async def test_built_in_resources_need_no_index(wildcard: WildcardTables, storage: SteppedStorage) -> None:
    """They are found without a look into the store."""
    before = storage.ranges
    found = await wildcard.find("", "v1", "configmaps", sight=EVERY_CLUSTER)
    assert found is not None
    assert found.resource.typed
    assert storage.ranges == before


async def test_a_resource_is_served_where_one_cluster_serves_it(wildcard: WildcardTables, elsewhere: Elsewhere) -> None:
    """Whichever has the version, and only once its names are accepted."""
    assert await owner(wildcard) is None
    await elsewhere.define(A, stored(None, "Unrelated"))
    assert await owner(wildcard) is None
    await elsewhere.define(B, stored())
    await elsewhere.define(C, stored(versions=[{"name": "v1"}, {"name": "v2"}]))
    assert await owner(wildcard) == crd_key(B)
    assert await owner(wildcard, "v2") == crd_key(C)
    assert await owner(wildcard, "v3") is None


async def test_clusters_join_and_leave(wildcard: WildcardTables, index: CRDIndex, elsewhere: Elsewhere) -> None:
    """The index follows the feed; when the last cluster leaves, nothing is kept of the name."""
    await elsewhere.define(A, stored())
    assert await owner(wildcard) == crd_key(A)
    await elsewhere.define(B, stored())
    await elsewhere.delete(crd_key(A))
    assert await owner(wildcard) == crd_key(B)
    await elsewhere.delete(crd_key(B))
    assert await owner(wildcard) is None
    assert index._clusters == {}
    await elsewhere.define(C, stored())
    assert await owner(wildcard) == crd_key(C)


async def test_it_is_read_once(wildcard: WildcardTables, index: CRDIndex, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """Not before it is needed, and for all first requests together."""
    await elsewhere.define(A, stored())
    assert index._clusters is None
    before = storage.ranges
    await asyncio.gather(*(wildcard.find("other.io", "v1", "others", sight=EVERY_CLUSTER) for _ in range(5)))
    assert storage.ranges == before + 1
    await wildcard.find("other.io", "v1", "others", sight=EVERY_CLUSTER)
    assert storage.ranges == before + 1


async def test_changes_while_it_is_read(wildcard: WildcardTables, index: CRDIndex, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """Definitions that come or go after the store was read and before the answer is there are not missed."""
    await elsewhere.define(A, stored())

    async def change() -> None:
        await elsewhere.define(B, stored())
        await elsewhere.define(C, stored())
        await elsewhere.delete(crd_key(A))
        await elsewhere.delete(crd_key(B))

    storage.after_read(change)
    assert await owner(wildcard) == crd_key(C)
    assert index._clusters == {"widgets.example.com": {C: None}}
    assert index._changed_meanwhile == []


async def test_an_event_from_before_the_read_says_nothing_new(wildcard: WildcardTables, index: CRDIndex, storage: SteppedStorage) -> None:
    """A definition that was gone when the store was read does not come back with the late news of its creation."""
    value = orjson.dumps(stored())
    created = await storage.transact((), (Put(crd_key(A), value),))
    await storage.transact((), (Delete(crd_key(A)),))
    late = ObjectEvent(Route(KEYS.prefix, A, "", "widgets.example.com"), Event(crd_key(A), value, created, created, None))

    async def come_late() -> None:
        index.apply(late)

    storage.after_read(come_late)
    assert await owner(wildcard) is None
    assert index._clusters == {}


async def test_a_gap_while_it_is_read(wildcard: WildcardTables, index: CRDIndex, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """Data that was read before events may have been missed is read again."""
    await elsewhere.define(A, stored())

    async def miss() -> None:
        await elsewhere.delete(crd_key(A))
        await elsewhere.define(B, stored())
        index._changed_meanwhile.clear()
        index.clear()

    before = storage.ranges
    storage.after_read(miss)
    assert await owner(wildcard) == crd_key(B)
    assert index._clusters == {"widgets.example.com": {B: None}}
    assert storage.ranges > before + 1


async def test_a_gap_afterwards(
    wildcard: WildcardTables, index: CRDIndex, registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere
) -> None:
    """A feed that begins again has the index read again."""
    await elsewhere.define(A, stored())
    await owner(wildcard)
    await feed_begins_again(registry)
    assert index._clusters is None
    before = storage.ranges
    assert await owner(wildcard) == crd_key(A)
    assert storage.ranges > before


async def test_discovery_over_all_clusters(wildcard: WildcardTables, elsewhere: Elsewhere) -> None:
    """Each kind once, in the order of names, as the first cluster that has established it defines it."""
    gadgets = make_crd("gadgets", kind="Gadget")
    await elsewhere.define(A, stored(None, "NamesAccepted"))
    await elsewhere.define(B, stored(versions=[{"name": "v2"}]))
    await elsewhere.define(C, stored())
    await elsewhere.define(C, stored(gadgets))
    union = await wildcard.union(EVERY_CLUSTER)
    assert custom(union) == [("gadgets", "v1"), ("widgets", "v2")]


async def test_a_cluster_that_is_gone_by_now(wildcard: WildcardTables, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """An index that the feed has not corrected yet names a cluster without the definition: the next one answers."""
    for cluster in (A, B):
        await elsewhere.define(cluster, stored())
    await wildcard.union(EVERY_CLUSTER)
    assert await owner(wildcard) == crd_key(A)
    await storage.transact((), (Delete(crd_key(A)),))
    wildcard._tables.invalidate(A)
    assert await owner(wildcard) == crd_key(B)
    assert custom(await wildcard.union(EVERY_CLUSTER)) == [("widgets", "v1")]
