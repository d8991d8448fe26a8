"""What all clusters serve together follows from what each of them defines."""

from __future__ import annotations

from collections.abc import Callable, Collection

import orjson
import pytest

from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.compilation import LoadedCRD
from kcp_py.registry.catalog.table import ResourceUnion
from kcp_py.registry.catalog.wildcard import MOST_ASKED, WildcardTables
from kcp_py.request.sight import EVERY_CLUSTER, Sight, SightChange
from kcp_py.storage.contract import Delete, Put
from tests.client.registry import Registry, make_crd
from tests.registry.conftest import A, B, C, Elsewhere, SteppedStorage, crd_key, stored

pytestmark = pytest.mark.anyio


@pytest.fixture
def wildcard(registry: Registry) -> WildcardTables:
    return WildcardTables(registry.storage, registry.fanout, registry.tables)


def custom(union: ResourceUnion) -> list[tuple[str, str]]:
    """Plural and version of what CRDs define, in order."""
    return [(one.resource, one.version) for one in union.resources() if one.group == "example.com"]


class Part(Sight):
    """A caller that sees some clusters."""

    scope, known_since, changed_at = "part", 0, 0

    def __init__(self, names: Collection[str], *, few: bool) -> None:
        self._names, self._few = names, few

    def sees(self, cluster: str, revision: int = 0) -> bool:
        del revision
        return cluster in self._names

    shows = sees

    def few(self, revision: int = 0) -> Collection[str] | None:
        del revision
        return self._names if self._few else None

    def listen(self, listener: Callable[[SightChange], None]) -> Callable[[], None]:
        del listener
        return lambda: None


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


@pytest.mark.parametrize("few", [True, False], ids=["few clusters", "some of all"])
async def test_a_part_of_the_clusters(wildcard: WildcardTables, elsewhere: Elsewhere, *, few: bool) -> None:
    """A caller that sees some clusters finds what these define, and nothing of others."""
    await elsewhere.define(A, stored(make_crd("gadgets", kind="Gadget")))
    await elsewhere.define(B, stored(versions=[{"name": "v2"}]))
    await elsewhere.define(C, stored())
    sight = Part({B, Name("nowhere")}, few=few)
    found = await wildcard.find("example.com", "v2", "widgets", sight=sight)
    assert found is not None
    assert found.guards[0].key == crd_key(B)
    assert await wildcard.find("example.com", "v1", "widgets", sight=sight) is None
    assert await wildcard.find("example.com", "v1", "gadgets", sight=sight) is None
    assert custom(await wildcard.union(sight)) == [("widgets", "v2")]


async def test_no_table_is_worked_out(wildcard: WildcardTables, registry: Registry, elsewhere: Elsewhere) -> None:
    """Requests over all clusters evict no table that requests of single clusters use."""
    for cluster in (A, B):
        await elsewhere.define(cluster, stored())
    served = await wildcard.find("example.com", "v1", "widgets", sight=EVERY_CLUSTER)
    assert served is not None
    assert await registry.tables.glance_in(B, served) == await registry.tables.glance_in(B, served)
    await wildcard.forms("example.com", "v1", "widgets", sight=EVERY_CLUSTER)
    await wildcard.union(EVERY_CLUSTER)
    assert len(registry.tables) == 0


async def test_what_a_glance_sees_is_what_the_table_says(wildcard: WildcardTables, registry: Registry, elsewhere: Elsewhere) -> None:
    """Both find one resource with one set of conditions of writes, and nothing where the cluster does not serve the version."""
    await elsewhere.define(A, stored())
    await elsewhere.define(B, stored())
    await elsewhere.define(C, stored(versions=[{"name": "v2"}]))
    served = await wildcard.find("example.com", "v1", "widgets", sight=EVERY_CLUSTER)
    assert served is not None
    for cluster in (A, B, C, Name("nowhere")):
        seen = await registry.tables.glance_in(cluster, served)
        assert seen == (await registry.tables.get(cluster)).find_same(served) == await registry.tables.glance_in(cluster, served)
        assert (seen is not None) is (cluster in {A, B})


async def test_forms_in_turns_are_compiled_once(wildcard: WildcardTables, registry: Registry, elsewhere: Elsewhere) -> None:
    """A list over clusters with several forms of a resource compiles each form once, although no table keeps it."""
    clusters = [Name(f"c{number:02}") for number in range(20)]
    for number, cluster in enumerate(clusters):
        await elsewhere.define(cluster, stored(versions=[{"name": "v1"}, {"name": f"v{2 + number % 3}"}]))
    served = await wildcard.find("example.com", "v1", "widgets", sight=EVERY_CLUSTER)
    assert served is not None
    for _ in range(2):
        for cluster in clusters:
            assert await registry.tables.glance_in(cluster, served) is not None
    assert registry.crds.compiled.compilations == 3
    assert len(registry.tables) == 0


async def test_known_definitions_are_not_parsed_again(
    wildcard: WildcardTables, registry: Registry, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next page over the same clusters parses no definition that is still the same; a change is seen at once."""
    for cluster in (A, B):
        await elsewhere.define(cluster, stored())
    served = await wildcard.find("example.com", "v1", "widgets", sight=EVERY_CLUSTER)
    assert served is not None
    before = [await registry.tables.glance_in(cluster, served) for cluster in (A, B)]
    parsed: list[bytes] = []
    load = registry.crds.compiled.load

    async def counted(value: bytes) -> LoadedCRD:
        parsed.append(value)
        return await load(value)

    monkeypatch.setattr(registry.crds.compiled, "load", counted)
    assert [await registry.tables.glance_in(cluster, served) for cluster in (A, B)] == before
    assert not parsed
    await elsewhere.define(A, stored(versions=[{"name": "v2"}]))
    assert await registry.tables.glance_in(A, served) is None
    assert len(parsed) == 1
    await registry.storage.transact((), (Delete(crd_key(B)),))
    assert await registry.tables.glance_in(B, served) is None
    await elsewhere.define(B, stored(None, "Unrelated"))
    assert await registry.tables.glance_in(B, served) is None
    registry.tables.clear()
    await elsewhere.define(B, stored())
    assert (found := await registry.tables.glance_in(B, served)) is not None
    assert before[1] is not None
    assert found.guards != before[1].guards
    assert found.resource is before[1].resource


async def test_columns_come_from_a_bounded_number_of_clusters(wildcard: WildcardTables, storage: SteppedStorage) -> None:
    """A Table over very many clusters asks some of them how they define the resource."""
    value = orjson.dumps(stored())
    await storage.transact((), tuple(Put(crd_key(Name(f"c{number:04}")), value) for number in range(450)))
    await storage.transact((), tuple(Put(crd_key(Name(f"d{number:04}")), value) for number in range(450)))
    await storage.transact((), tuple(Put(crd_key(Name(f"e{number:04}")), value) for number in range(450)))
    before = len(storage.read)
    assert len(await wildcard.forms("example.com", "v1", "widgets", sight=EVERY_CLUSTER)) == 1
    assert len(storage.read) - before == MOST_ASKED
