"""What a cluster serves may depend on objects of other clusters: tables, writes and watches follow them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence

import orjson
import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.apis.upstream.resources import upstream_resources
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog import tables as tables_module
from kcp_py.registry.catalog.source import Dependency, ResourceSource, SourceContext
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.resource import Served
from kcp_py.storage.contract import Compare, Delete, KeyValue, Operation
from kcp_py.storage.keys import resource_keys
from tests.client.registry import CONFIG_MAPS, ROOT, Registry, config_map, open_registry
from tests.registry.conftest import A, B, C, Elsewhere, SteppedStorage

pytestmark = pytest.mark.anyio

PRIORITY_CLASSES = GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses")
MAPS = resource_keys(ROOT, "", "configmaps", namespaced=True)


class BoundSource(ResourceSource):
    """Priority classes for clusters with a config map `binding` that names another cluster, if that one has a config map `export`."""

    def __init__(self) -> None:
        self.exporters: dict[Name, Name] = {}
        self.calls = 0

    def connect(self, context: SourceContext) -> None:
        self._storage = context.storage
        (self._resource,) = upstream_resources(context.root, ["priorityclasses"])

    async def resources(self, cluster: Name) -> Sequence[Served]:
        self.calls += 1
        binding = await self._storage.get(key(cluster, "binding"))
        if binding is None:
            return ()
        exporter = self.exporters[cluster] = Name(orjson.loads(binding.value)["data"]["exporter"])
        export = await self._storage.get(key(exporter, "export"))
        return () if export is None else (Served(self._resource, guards=(unchanged(binding), unchanged(export))),)

    def depends_on(self, cluster: Name) -> Iterable[Dependency]:
        yield Dependency(MAPS.prefix, cluster)
        if (exporter := self.exporters.get(cluster)) is not None:
            yield Dependency(MAPS.prefix, exporter)

    async def group_resources(self) -> Collection[GroupResource]:
        return (PRIORITY_CLASSES.group_resource,)

    async def clusters(self, resource: GroupResource) -> Collection[Name]:
        del resource
        return tuple(self.exporters)


def key(cluster: Name, name: str) -> str:
    return MAPS.object_key(cluster, "default", name)


def unchanged(item: KeyValue) -> Compare:
    return Compare(item.key, mod_revision=item.mod_revision)


@pytest.fixture
def source() -> BoundSource:
    return BoundSource()


@pytest.fixture
async def registry(storage: SteppedStorage, source: BoundSource) -> AsyncIterator[Registry]:
    async with open_registry(storage, [source]) as opened:
        yield opened


async def bind(registry: Registry, cluster: Name, exporter: Name) -> None:
    await registry.client.create(cluster, CONFIG_MAPS, {**config_map("binding"), "data": {"exporter": exporter}})


async def export(registry: Registry, cluster: Name) -> None:
    await registry.client.create(cluster, CONFIG_MAPS, config_map("export"))


async def serves(registry: Registry, cluster: Name) -> bool:
    return (await registry.tables.get(cluster)).find(*PRIORITY_CLASSES) is not None


async def settled(registry: Registry) -> None:
    """Wait until the feed has delivered every write. A table that is loaded before then may be dropped when its event arrives."""
    await registry.fanout.reached(await registry.storage.revision())


async def test_a_change_in_another_cluster_is_followed(registry: Registry, elsewhere: Elsewhere, source: BoundSource) -> None:
    """By writes here and elsewhere; and nothing is worked out again while nothing changes."""
    await bind(registry, A, B)
    assert not await serves(registry, A)
    await export(registry, B)
    assert await serves(registry, A)
    await settled(registry)
    assert await serves(registry, A)
    calls = source.calls
    assert await serves(registry, A)
    await registry.client.create(C, CONFIG_MAPS, config_map("other"))
    assert await serves(registry, A)
    assert source.calls == calls
    await elsewhere.delete(key(B, "export"))
    assert not await serves(registry, A)


async def test_a_cluster_that_is_bound_to_another_one_from_now_on(registry: Registry, elsewhere: Elsewhere) -> None:
    """The former one does not count any more."""
    await bind(registry, A, B)
    await export(registry, C)
    assert not await serves(registry, A)
    await elsewhere.delete(key(A, "binding"))
    await bind(registry, A, C)
    assert await serves(registry, A)
    await settled(registry)
    table = await registry.tables.get(A)
    await export(registry, B)
    await settled(registry)
    assert await registry.tables.get(A) is table


async def test_a_dependency_that_changes_before_it_is_known(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """The first load finds out on which cluster the table depends. A change there meanwhile is not lost."""
    await bind(registry, A, B)
    await settled(registry)

    async def read_binding() -> None:
        async def export_behind_the_read() -> None:
            await elsewhere.put(key(B, "export"), config_map("export"))

        storage.after_read(export_behind_the_read)

    storage.after_read(read_binding)
    assert await serves(registry, A)
    assert registry.tables.cached(A) is not None


async def test_every_guard_has_to_hold(
    registry: Registry, storage: SteppedStorage, source: BoundSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write is not stored when the second of them fails in the last moment; what it relied on is worked out again."""
    await bind(registry, A, B)
    await export(registry, B)
    await settled(registry)
    assert await serves(registry, A)
    commit = storage.transact

    async def transact(compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        monkeypatch.undo()
        await commit((), (Delete(key(B, "export")),))
        return await commit(compares, operations)

    monkeypatch.setattr(storage, "transact", transact)
    calls = source.calls
    with pytest.raises(StatusError) as refused:
        await registry.client.create(A, PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1})
    assert refused.value.code == 404
    assert source.calls > calls
    assert not [item for item in await registry.keys(A) if "priorityclasses" in item]


async def test_what_is_known_of_dependencies_is_bounded(registry: Registry, source: BoundSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table whose dependencies had to be forgotten is forgotten with them, and worked out again."""
    tables = ResourceTables(registry.access, registry.fanout, [source])
    monkeypatch.setattr(tables_module, "_MOST_DEPENDENT", 2)
    await export(registry, B)
    clusters = [Name(f"bound-{number}") for number in range(5)]
    for cluster in clusters:
        await bind(registry, cluster, B)
    await settled(registry)
    for cluster in clusters:
        assert (await tables.get(cluster)).find(*PRIORITY_CLASSES) is not None
    assert [tables.cached(cluster) is not None for cluster in clusters] == [False, False, False, True, True]
    assert tables._dependents == {B: set(clusters[3:])}
