"""What all clusters serve together follows from what each of them defines."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from kcp_py.registry.catalog.wildcard import WildcardIndex
from kcp_py.storage.contract import Delete, Event, Put
from kcp_py.storage.keys import resource_keys
from kcp_py.watchcache import ObjectEvent, Route
from tests.client.registry import DEFINITIONS, ROOT, Registry, definition
from tests.registry.conftest import A, B, C, Elsewhere, SteppedStorage, definition_key, feed_begins_again, stored

pytestmark = pytest.mark.anyio

KEYS = resource_keys(ROOT, DEFINITIONS.group, DEFINITIONS.resource, namespaced=False)


@pytest.fixture
def wildcard(registry: Registry) -> WildcardIndex:
    return WildcardIndex(registry.storage, registry.feed, registry.tables, KEYS)


async def owner(wildcard: WildcardIndex, version: str = "v1") -> str | None:
    """The key of the definition by which widgets are served."""
    found = await wildcard.find("example.com", version, "widgets")
    return None if found is None else found.definition_key


async def test_built_in_resources_need_no_index(wildcard: WildcardIndex, storage: SteppedStorage) -> None:
    """They are found without a look into the store."""
    before = storage.ranges
    found = await wildcard.find("", "v1", "configmaps")
    assert found is not None
    assert found.resource.builtin
    assert storage.ranges == before


async def test_a_resource_is_served_where_one_cluster_serves_it(wildcard: WildcardIndex, elsewhere: Elsewhere) -> None:
    """Whichever has the version, and only once its names are accepted."""
    assert await owner(wildcard) is None
    await elsewhere.define(A, stored(None, "Unrelated"))
    assert await owner(wildcard) is None
    await elsewhere.define(B, stored())
    await elsewhere.define(C, stored(versions=[{"name": "v1"}, {"name": "v2"}]))
    assert await owner(wildcard) == definition_key(B)
    assert await owner(wildcard, "v2") == definition_key(C)
    assert await owner(wildcard, "v3") is None


async def test_clusters_join_and_leave(wildcard: WildcardIndex, elsewhere: Elsewhere) -> None:
    """The index follows the feed; when the last cluster leaves, nothing is kept of the name."""
    await elsewhere.define(A, stored())
    assert await owner(wildcard) == definition_key(A)
    await elsewhere.define(B, stored())
    await elsewhere.delete(definition_key(A))
    assert await owner(wildcard) == definition_key(B)
    await elsewhere.delete(definition_key(B))
    assert await owner(wildcard) is None
    assert wildcard._clusters == {}
    await elsewhere.define(C, stored())
    assert await owner(wildcard) == definition_key(C)


async def test_it_is_read_once(wildcard: WildcardIndex, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """Not before it is needed, and for all first requests together."""
    await elsewhere.define(A, stored())
    assert wildcard._clusters is None
    before = storage.ranges
    await asyncio.gather(*(wildcard.find("other.io", "v1", "others") for _ in range(5)))
    assert storage.ranges == before + 1
    await wildcard.find("other.io", "v1", "others")
    assert storage.ranges == before + 1


async def test_changes_while_it_is_read(wildcard: WildcardIndex, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """Definitions that come or go after the store was read and before the answer is there are not missed."""
    await elsewhere.define(A, stored())

    async def change() -> None:
        await elsewhere.define(B, stored())
        await elsewhere.define(C, stored())
        await elsewhere.delete(definition_key(A))
        await elsewhere.delete(definition_key(B))

    storage.after_read(change)
    assert await owner(wildcard) == definition_key(C)
    assert wildcard._clusters == {"widgets.example.com": {C: None}}
    assert wildcard._changed_meanwhile == []


async def test_an_event_from_before_the_read_says_nothing_new(wildcard: WildcardIndex, storage: SteppedStorage) -> None:
    """A definition that was gone when the store was read does not come back with the late news of its creation."""
    value = orjson.dumps(stored())
    created = await storage.transact((), (Put(definition_key(A), value),))
    await storage.transact((), (Delete(definition_key(A)),))
    late = ObjectEvent(Route(KEYS.prefix, A, "", "widgets.example.com"), Event(definition_key(A), value, created, created, None))

    async def come_late() -> None:
        wildcard._definition_changed(late)

    storage.after_read(come_late)
    assert await owner(wildcard) is None
    assert wildcard._clusters == {}


async def test_a_gap_while_it_is_read(wildcard: WildcardIndex, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """What was read before events may have been missed is thrown away, and read again."""
    await elsewhere.define(A, stored())

    async def miss() -> None:
        await elsewhere.delete(definition_key(A))
        await elsewhere.define(B, stored())
        wildcard._changed_meanwhile.clear()
        wildcard.clear()

    before = storage.ranges
    storage.after_read(miss)
    assert await owner(wildcard) == definition_key(B)
    assert wildcard._clusters == {"widgets.example.com": {B: None}}
    assert storage.ranges > before + 1


async def test_a_gap_afterwards(wildcard: WildcardIndex, registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """A feed that begins again has the index read again."""
    await elsewhere.define(A, stored())
    await owner(wildcard)
    await feed_begins_again(registry)
    assert wildcard._clusters is None
    before = storage.ranges
    assert await owner(wildcard) == definition_key(A)
    assert storage.ranges > before


async def test_discovery_over_all_clusters(wildcard: WildcardIndex, elsewhere: Elsewhere) -> None:
    """Each kind once, in the order of names, as the first cluster that has established it defines it."""
    gadgets = definition("gadgets", kind="Gadget")
    await elsewhere.define(A, stored(None, "NamesAccepted"))
    await elsewhere.define(B, stored(versions=[{"name": "v2"}]))
    await elsewhere.define(C, stored())
    await elsewhere.define(C, stored(gadgets))
    table = await wildcard.table()
    assert [definition.plural for definition in table.definitions] == ["gadgets", "widgets"]
    assert [resource.version for resource in table.resources() if resource.resource == "widgets"] == ["v2"]
    assert table.find("example.com", "v1", "gadgets") is None


async def test_a_cluster_that_is_gone_by_now(wildcard: WildcardIndex, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """An index that the feed has not corrected yet names a cluster without the definition: the next one answers."""
    for cluster in (A, B):
        await elsewhere.define(cluster, stored())
    await wildcard.table()
    assert await owner(wildcard) == definition_key(A)
    await storage.transact((), (Delete(definition_key(A)),))
    wildcard._tables.invalidate(A)
    assert await owner(wildcard) == definition_key(B)
    assert [definition.plural for definition in (await wildcard.table()).definitions] == ["widgets"]
