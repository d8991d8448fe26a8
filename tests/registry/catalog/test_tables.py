"""The resources of a cluster follow from its own CRDs, at any moment and from any writer."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
import pytest
import structlog

from kcp_py.apis.builtin.resources import builtin_resources
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog import compilation as definitions_module
from kcp_py.registry.catalog.compilation import CompiledCRDs
from kcp_py.registry.catalog.crds import CRDSource
from kcp_py.registry.catalog.static import StaticSource
from kcp_py.registry.catalog.table import ResourceTable
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.schema.compilation import StructuralSchema, compile_schema
from kcp_py.storage.contract import Compare, Operation, Put
from kcp_py.storage.keys import resource_keys
from tests.client.registry import DEFINITIONS, ROOT, WIDGETS, Registry, definition
from tests.registry.conftest import A, B, C, Elsewhere, SteppedStorage, definition_key, feed_begins_again, stored

pytestmark = pytest.mark.anyio

WIDGET_PREFIX = f"{ROOT}/example.com/widgets/customresources/"


async def widgets(registry: Registry, cluster: Name = A, version: str = "v1") -> Served | None:
    return (await registry.tables.get(cluster)).find("example.com", version, "widgets")


def resources(table: ResourceTable) -> list[ServedResource]:
    """What CRDs define, in the order of the table."""
    return [served.resource for served in table.served.values()]


def gadgets() -> dict[str, Any]:
    return stored(definition("gadgets", kind="Gadget"))


async def delivered(registry: Registry, obj: Mapping[str, Any]) -> None:
    """Wait until the feed has delivered a write. A table that is loaded before then may be dropped when its event arrives."""
    await registry.fanout.reached(int(obj["metadata"]["resourceVersion"]))


async def test_a_cluster_without_definitions_serves_what_is_built_in(registry: Registry) -> None:
    """All such clusters have one table in common."""
    table = await registry.tables.get(A)
    assert table is await registry.tables.get(B) is registry.tables.builtin_table
    assert {resource.group_resource for resource in table.resources()} == {one.group_resource for one in registry.tables.builtins}
    assert table.find("", "v1", "configmaps") is registry.tables.builtin("", "v1", "configmaps")
    assert table.find("", "v2", "configmaps") is table.find("example.com", "v1", "widgets") is None


async def test_a_definition_serves_in_its_own_cluster(registry: Registry, elsewhere: Elsewhere) -> None:
    """With the key and revision under which writes are checked against it."""
    revision = await elsewhere.define(A, stored())
    served = await widgets(registry)
    assert served is not None
    assert served.resource.kind == "Widget"
    life = (Compare(definition_key(A), create_revision=revision),)
    guards = (Compare(definition_key(A), mod_revision=revision),)
    assert (served.fresh_since, served.guards, served.life, served.origin) == (revision, guards, life, None)
    assert served.per_cluster
    assert await widgets(registry, B) is None
    assert await widgets(registry, A, "v2") is None


async def test_every_served_version_is_found(registry: Registry, elsewhere: Elsewhere) -> None:
    """Those that are not served are not, even where objects are stored in them."""
    await elsewhere.define(A, stored(versions=[{"name": "v1", "served": False}, {"name": "v2"}, {"name": "v3"}]))
    found = [await widgets(registry, A, version) for version in ("v1", "v2", "v3")]
    assert [one and one.resource.version for one in found] == [None, "v2", "v3"]
    assert {one.resource.storage_version for one in found if one} == {"v1"}


@pytest.mark.parametrize(
    ("conditions", "found", "discovered"),
    [
        pytest.param(("Unrelated",), False, False, id="names not accepted"),
        pytest.param(("NamesAccepted",), True, False, id="accepted"),
        pytest.param(("NamesAccepted", "Established"), True, True, id="established"),
        pytest.param(("Established",), True, True, id="established, then in conflict"),
    ],
)
async def test_conditions_decide(
    registry: Registry, elsewhere: Elsewhere, conditions: tuple[str, ...], *, found: bool, discovered: bool
) -> None:
    """Requests are answered from the moment the names are accepted, discovery lists established CRDs."""
    await elsewhere.define(A, stored(None, *conditions))
    table = await registry.tables.get(A)
    assert (table.find("example.com", "v1", "widgets") is not None) is found
    assert any(resource.resource == "widgets" for resource in table.resources()) is discovered


async def test_a_built_in_resource_is_never_shadowed(registry: Registry, elsewhere: Elsewhere) -> None:
    """A definition of one that was stored nevertheless, in whatever version, serves nothing."""
    crd = stored(definition("roles", "rbac.authorization.k8s.io", kind="Role"), versions=[{"name": "v1"}, {"name": "v7"}])
    await elsewhere.define(A, crd)
    table = await registry.tables.get(A)
    assert not table.served
    assert table.find("rbac.authorization.k8s.io", "v7", "roles") is None
    builtin = table.find("rbac.authorization.k8s.io", "v1", "roles")
    assert builtin is not None
    assert builtin.resource.typed


async def test_the_core_group_can_be_extended(registry: Registry, elsewhere: Elsewhere) -> None:
    """A definition with the group `""`, named `<plural>.core`, serves below `/api`, and its watches end with its changes."""
    crd = stored(definition("pods", "", kind="Pod"))
    crd["metadata"]["name"] = "pods.core"
    await elsewhere.define(A, crd)
    served = (await registry.tables.get(A)).find("", "v1", "pods")
    assert served is not None
    watcher = registry.fanout.attach(served.resource.keys.prefix, cluster=A, after=registry.fanout.revision)
    await elsewhere.define(A, crd | {"metadata": crd["metadata"] | {"labels": {"a": "b"}}})
    await registry.tables.get(A)
    assert not watcher.ended
    await elsewhere.delete(definition_key(A, "pods.core"))
    assert watcher.ended


async def test_equal_clusters_share_what_is_heavy(registry: Registry, elsewhere: Elsewhere) -> None:
    """Tables are each cluster's own, their digests and compiled definitions those of all that define the same."""
    for cluster in (A, B):
        await elsewhere.define(cluster, stored(uid=cluster))
    await elsewhere.define(C, stored(versions=[{"name": "v1beta1"}]))
    a, b, c = [await registry.tables.get(cluster) for cluster in (A, B, C)]
    assert a is not b
    assert (a.digest, resources(a)) == (b.digest, resources(b))
    assert len({a.digest, c.digest, registry.tables.builtin_table.digest}) == 3
    assert len(registry.crds.compiled) == 2


async def test_stored_resources_are_told_once(registry: Registry, elsewhere: Elsewhere) -> None:
    """Whatever versions and groups objects are served in, they are stored in one place; custom resources come first."""
    await elsewhere.define(A, stored(versions=[{"name": "v1"}, {"name": "v2"}]))
    prefixes = [served.resource.keys.prefix for served in (await registry.tables.get(A)).stored_resources()]
    assert prefixes[0] == WIDGET_PREFIX
    assert len(prefixes) == len(set(prefixes)) == 1 + len({one.keys.prefix for one in registry.tables.builtins})


async def test_a_table_for_documents_serves_nothing_itself(registry: Registry, elsewhere: Elsewhere) -> None:
    """It lists resources, and finds none: which cluster serves them is not known."""
    await elsewhere.define(A, stored())
    table = await registry.tables.get(A)
    union = registry.tables.union_of(resources(table))
    assert {"configmaps", "widgets"} <= {resource.resource for resource in union.resources()}
    assert union.digest == table.digest
    assert not hasattr(union, "find")


async def test_tables_are_bounded(registry: Registry, storage: SteppedStorage) -> None:
    """One that had to go is worked out again."""
    keys = resource_keys(ROOT, DEFINITIONS.group, DEFINITIONS.resource, namespaced=False)
    crds = CRDSource(registry.access, registry.fanout, CompiledCRDs(ROOT), keys, capacity=2)
    tables = ResourceTables(registry.access, registry.fanout, (StaticSource(builtin_resources(ROOT)), crds), capacity=2)
    for cluster in (A, B, C):
        await tables.get(cluster)
    assert (len(tables), tables.cached(A), tables.cached(C)) == (2, None, tables.builtin_table)
    before = storage.ranges
    await tables.get(C)
    await tables.get(A)
    assert storage.ranges == before + 1


async def test_a_change_elsewhere_is_served_when_the_feed_has_brought_it(registry: Registry, elsewhere: Elsewhere) -> None:
    """Creation, change and removal of a definition."""
    assert await widgets(registry) is None
    await elsewhere.define(A, stored())
    assert await widgets(registry) is not None
    revision = await elsewhere.define(A, stored(versions=[{"name": "v1"}, {"name": "v2"}]))
    served = await widgets(registry, A, "v2")
    assert served is not None
    assert served.guards == (Compare(definition_key(A), mod_revision=revision),)
    await elsewhere.delete(definition_key(A))
    assert await widgets(registry) is None


async def test_a_write_here_is_served_at_once(registry: Registry, storage: SteppedStorage) -> None:
    """Between the commit and its acknowledgement readers see it, and remember nothing; its writer finds it when it is told."""
    crd = await registry.client.create(A, DEFINITIONS, definition())
    await delivered(registry, crd)
    assert await widgets(registry) is None
    assert registry.tables.cached(A) is not None
    seen: list[object] = []

    async def look() -> None:
        seen.extend((await widgets(registry) is not None, registry.tables.cached(A)))

    storage.after_commit(look)
    status = crd["status"] | {"conditions": [{"type": "NamesAccepted", "status": "True"}], "acceptedNames": crd["spec"]["names"]}
    updated = await registry.client.update(A, DEFINITIONS, crd | {"status": status}, subresource="status")
    assert seen == [True, None]
    assert await widgets(registry) is not None
    await delivered(registry, updated)
    assert await widgets(registry) is not None
    assert registry.tables.cached(A) is not None


async def test_what_was_read_before_a_commit_is_not_known_after_it(
    registry: Registry, storage: SteppedStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request between the beginning of a write and its commit leaves nothing that a request between commit and acknowledgement takes."""
    crd = await registry.client.create(A, DEFINITIONS, definition())
    assert await widgets(registry) is None
    seen: list[bool] = []

    async def look() -> None:
        seen.append(await widgets(registry) is not None)

    commit = storage.transact

    async def transact(compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        await look()
        return await commit(compares, operations)

    monkeypatch.setattr(storage, "transact", transact)
    storage.after_commit(look)
    status = crd["status"] | {"conditions": [{"type": "NamesAccepted", "status": "True"}], "acceptedNames": crd["spec"]["names"]}
    await registry.client.update(A, DEFINITIONS, crd | {"status": status}, subresource="status")
    assert seen == [False, True]


@pytest.mark.parametrize("own", [pytest.param(True, id="here"), pytest.param(False, id="elsewhere")])
async def test_a_definition_written_while_the_table_is_built(
    registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere, *, own: bool
) -> None:
    """Only callers that asked before the change get the old table."""
    await elsewhere.define(B, stored())

    async def define() -> None:
        if own:
            await registry.client.create(A, DEFINITIONS, definition("gadgets", kind="Gadget"))
        else:
            await elsewhere.define(A, gadgets())

    storage.after_read(define)
    assert not (await registry.tables.get(A)).served
    assert registry.tables.cached(A) is None
    assert len((await registry.tables.get(A)).served) == (0 if own else 1)
    # A table of another cluster, which was built in the meantime, is not affected.
    storage.after_read(lambda: elsewhere.delete(definition_key(A, "gadgets.example.com")))
    assert await widgets(registry, B) is not None
    assert registry.tables.cached(B) is not None


async def test_a_cluster_that_ends_while_its_table_is_built(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """The table of a deleted cluster is not used for the next cluster of its name."""
    await registry.clusters.ensure(A)
    await elsewhere.define(A, stored())

    async def end() -> None:
        await elsewhere.delete(definition_key(A))
        await elsewhere.delete(registry.clusters.key(A))
        await registry.clusters.ensure(A)
        assert await widgets(registry) is None

    storage.after_read(end)
    assert await widgets(registry) is not None
    assert await widgets(registry) is None


@pytest.mark.parametrize("remembered", [pytest.param(True, id="table at hand"), pytest.param(False, id="table forgotten")])
async def test_watches_end_with_what_they_were_promised(registry: Registry, elsewhere: Elsewhere, *, remembered: bool) -> None:
    """A changed or removed definition ends the watches of its resource in its cluster: no others, and not for a mere label."""
    for cluster in (A, B):
        await elsewhere.define(cluster, stored())
    await elsewhere.define(A, gadgets())
    gadget_prefix = WIDGET_PREFIX.replace("widgets", "gadgets")
    places = [(WIDGET_PREFIX, A), (WIDGET_PREFIX, B), (gadget_prefix, A), (WIDGET_PREFIX, "")]

    async def ended_by(crd: dict[str, Any] | None) -> list[bool]:
        registry.tables.clear()
        if remembered:
            await registry.tables.get(A)
        watchers = [registry.fanout.attach(prefix, cluster=cluster, after=registry.fanout.revision) for prefix, cluster in places]
        await (elsewhere.delete(definition_key(A)) if crd is None else elsewhere.define(A, crd))
        ended = [watcher.ended for watcher in watchers]
        for watcher in watchers:
            await registry.fanout.detach(watcher)
        return ended

    assert await ended_by(stored(labels={"a": "b"})) == [False, False, False, False]
    assert await ended_by(stored(versions=[{"name": "v1"}, {"name": "v2"}])) == [True, False, False, False]
    assert await ended_by(stored(None, "Unrelated")) == [True, False, False, False]
    assert await ended_by(stored()) == [True, False, False, False]
    assert await ended_by(None) == [True, False, False, False]
    assert await ended_by(stored()) == [False, False, False, False]


async def test_all_is_forgotten_when_events_may_have_been_missed(registry: Registry) -> None:
    """A feed that begins again has every table worked out anew."""
    await registry.tables.get(A)
    await feed_begins_again(registry)
    assert len(registry.tables) == 0


async def test_a_definition_goes_when_nobody_uses_it(registry: Registry, elsewhere: Elsewhere) -> None:
    """Compiled once for all clusters that have it, it stays as long as one of them is remembered."""
    for cluster in (A, B):
        await elsewhere.define(cluster, stored())
        await registry.tables.get(cluster)
    assert len(registry.crds.compiled) == 1
    kept = await widgets(registry, B)
    await elsewhere.delete(definition_key(A))
    await registry.tables.get(A)
    assert await widgets(registry, B) is kept
    assert len(registry.crds.compiled) == 1
    del kept
    await elsewhere.delete(definition_key(B))
    gc.collect()
    assert len(registry.crds.compiled) == 0


async def test_only_what_changed_is_looked_into(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """With many definitions, one that is added, changed or removed is read alone, and all others serve as before."""
    for number in range(100):
        await elsewhere.define(A, stored(definition(f"gadget{number}s", kind=f"Gadget{number}")))
    before = await registry.tables.get(A)
    compilations, read = registry.crds.compiled.compilations, len(storage.read)
    assert compilations == 100
    await elsewhere.define(A, stored())
    await elsewhere.define(A, stored(definition("gadget7s", kind="Gadget7", shortNames=["g"])))
    await elsewhere.delete(definition_key(A, "gadget8s.example.com"))
    after = await registry.tables.get(A)
    assert registry.crds.compiled.compilations - compilations == 2
    names = ["gadget7s.example.com", "gadget8s.example.com", "widgets.example.com"]
    assert storage.read[read:] == [definition_key(A, name) for name in names]
    kept = [resource for resource in resources(before) if resource.resource not in {"gadget7s", "gadget8s"}]
    assert [resource for resource in resources(after) if resource in set(kept)] == kept
    assert len(after.served) == 100
    assert after.find("example.com", "v1", "gadget8s") is None
    assert after.find("example.com", "v1", "widgets") is not None
    assert after.find("example.com", "v1", "gadget9s") is before.find("example.com", "v1", "gadget9s")


async def test_one_change_lists_nothing(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """What has changed is known by its key, for writes here and elsewhere; only where that is not known all keys are looked at."""
    for number in range(5):
        await elsewhere.define(A, stored(definition(f"gadget{number}s", kind=f"Gadget{number}")))
    await registry.tables.get(A)
    ranges = storage.ranges
    await elsewhere.define(A, stored())
    assert await widgets(registry) is not None
    await registry.client.create(A, DEFINITIONS, definition("gizmos", kind="Gizmo"))
    await elsewhere.delete(definition_key(A))
    assert await widgets(registry) is None
    assert storage.ranges == ranges
    revision = await storage.transact((), (Put(definition_key(A), orjson.dumps(stored())),))
    registry.tables.invalidate(A)
    assert await widgets(registry) is not None
    assert storage.ranges == ranges + 1
    await registry.fanout.reached(revision)


@pytest.mark.parametrize("removed", [pytest.param(False, id="changed"), pytest.param(True, id="removed")])
async def test_a_load_that_began_earlier_leaves_nothing(
    registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere, *, removed: bool
) -> None:
    """What it found may be older than what another has found meanwhile."""
    await elsewhere.define(A, gadgets())
    await elsewhere.define(A, stored())
    assert await widgets(registry) is not None

    async def overtake() -> None:
        if removed:
            await elsewhere.delete(definition_key(A))
        else:
            await elsewhere.define(A, stored(versions=[{"name": "v2"}]))
        assert await widgets(registry) is None

    await elsewhere.define(A, stored(labels={"a": "b"}))
    storage.after_read(overtake)
    assert await widgets(registry) is not None
    assert await widgets(registry) is None
    assert (await widgets(registry, A, "v2") is None) is removed


def _without_namespace(crd: dict[str, Any]) -> None:
    client = {"service": {"name": "converter"}}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(_without_namespace, id="service without namespace"),
        pytest.param(lambda crd: crd.pop("spec"), id="no specification"),
        pytest.param(lambda crd: crd["spec"]["versions"][0].pop("storage"), id="no storage version"),
        pytest.param(lambda crd: crd["spec"].update(versions={}), id="versions of another type"),
        pytest.param(lambda crd: crd["spec"]["versions"][0].update(schema=[7]), id="schema of another type"),
        pytest.param(lambda crd: crd.update(status={"conditions": 7, "acceptedNames": []}), id="status of another type"),
    ],
)
async def test_a_malformed_definition_alone_is_not_served(
    registry: Registry, elsewhere: Elsewhere, spoil: Callable[[dict[str, Any]], object]
) -> None:
    """A CRD that another server has written is logged, and served once it is corrected."""
    await elsewhere.define(A, gadgets())
    crd = stored(definition("gizmos", kind="Gizmo"))
    spoil(crd)
    with structlog.testing.capture_logs() as logs:
        await elsewhere.define(A, crd)
        table = await registry.tables.get(A)
    assert [resource.resource for resource in resources(table)] == ["gadgets"]
    (log,) = logs
    assert (log["event"], log["cluster"], log["name"]) == ("definition_not_served", A, "gizmos.example.com")
    watcher = registry.fanout.attach(f"{ROOT}/example.com/gizmos/customresources/", cluster=A, after=registry.fanout.revision)
    await elsewhere.define(A, stored(definition("gizmos", kind="Gizmo")))
    assert watcher.ended
    assert (await registry.tables.get(A)).find("example.com", "v1", "gizmos") is not None


async def test_names_are_held_whether_served_or_not(registry: Registry, elsewhere: Elsewhere) -> None:
    """Of one cluster and group; of a definition whose status is malformed, what can be read."""
    await elsewhere.define(A, stored())
    refused = stored(definition("gadgets", kind="Gadget"), "Unrelated")
    refused["status"]["acceptedNames"] = {"plural": "gadgets", "kind": 7, "shortNames": ["g", []]}
    await elsewhere.define(A, refused)
    await elsewhere.define(A, stored(definition("others", "example.org", kind="Other")))
    held = await registry.tap.held_names(A, "example.com")
    assert [one.name for one in held] == ["gadgets.example.com", "widgets.example.com"]
    assert held[0].accepted == {"plural": "gadgets", "shortNames": ["g"]}
    assert held[1].accepted["kind"] == "Widget"
    assert await registry.tap.held_names(B, "example.com") == []


async def test_a_label_on_a_definition_compiles_nothing(registry: Registry, elsewhere: Elsewhere) -> None:
    """What serves stays, under the new revision that writes are checked against."""
    await elsewhere.define(A, stored())
    before = await widgets(registry)
    revision = await elsewhere.define(A, stored(labels={"a": "b"}))
    after = await widgets(registry)
    assert before is not None
    assert after is not None
    assert after.resource is before.resource
    assert after.guards == (Compare(definition_key(A), mod_revision=revision),)
    assert registry.crds.compiled.compilations == 1


async def test_many_clusters_with_the_same_definitions_compile_each_once(registry: Registry) -> None:
    """However many clusters there are."""
    definitions = [stored(definition(f"gadget{number}s", kind=f"Gadget{number}")) for number in range(20)]
    clusters = [Name(f"same-{number}") for number in range(50)]
    for cluster in clusters:
        await registry.storage.transact(
            (),
            [
                Put(
                    definition_key(cluster, crd["metadata"]["name"]), orjson.dumps({**crd, "metadata": {**crd["metadata"], "uid": cluster}})
                )
                for crd in definitions
            ],
        )
    await registry.fanout.reached(await registry.storage.revision())
    tables = [await registry.tables.get(cluster) for cluster in clusters]
    assert registry.crds.compiled.compilations == len(registry.crds.compiled) == 20
    assert len({table.digest for table in tables}) == 1
    assert len({tuple(resources(table)) for table in tables}) == 1


async def test_a_removed_definition_is_not_kept_by_a_table_in_the_making(
    registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere
) -> None:
    """Callers that asked for the table before the removal may still see it, but it is not kept."""
    await elsewhere.define(A, stored())

    async def remove() -> None:
        await elsewhere.delete(definition_key(A))

    storage.after_read(remove)
    assert await widgets(registry) is not None
    gc.collect()
    assert len(registry.crds.compiled) == 0


async def test_a_big_definition_is_compiled_in_a_thread(registry: Registry, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, for all who wait for it; and the event loop goes on."""
    properties = {f"field{number}": {"type": "string", "description": "x" * 100} for number in range(1_000)}
    crd = stored(versions=[{"schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}])
    for cluster in (A, B):
        await elsewhere.define(cluster, crd)
    threads: list[int] = []

    def compiling(document: Mapping[str, Any]) -> StructuralSchema:
        threads.append(threading.get_ident())
        return compile_schema(document)

    monkeypatch.setattr(definitions_module, "compile_schema", compiling)
    first, second = await asyncio.gather(widgets(registry, A), widgets(registry, B))
    assert first is not None
    assert second is not None
    assert first.resource is second.resource
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


async def test_a_write_of_an_object_touches_no_table(registry: Registry, elsewhere: Elsewhere) -> None:
    """Only definitions do."""
    await elsewhere.define(A, stored())
    table = await registry.tables.get(A)
    await registry.client.create(A, WIDGETS, {"metadata": {"name": "one", "namespace": "default"}})
    assert registry.tables.cached(A) is table
