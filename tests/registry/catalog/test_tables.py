"""The resources of a cluster follow from its own CRDs. All clusters share the built-in ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import structlog

from kcp_py.apis.builtin.resources import builtin_resources
from kcp_py.registry.catalog.compilation import CompiledCRDs
from kcp_py.registry.catalog.crds import CRDSource
from kcp_py.registry.catalog.static import StaticSource
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.clusterbudget import ClusterBudget
from kcp_py.storage.contract import Compare
from kcp_py.storage.keys import resource_keys
from tests.client.registry import CRDS, ROOT, Registry, make_crd
from tests.registry.catalog.crdtables import WIDGET_PREFIX, gadgets, resources, widgets
from tests.registry.conftest import A, B, C, Elsewhere, SteppedStorage, crd_key, stored

pytestmark = pytest.mark.anyio


async def test_a_cluster_without_crds_serves_the_built_in_kinds(registry: Registry) -> None:
    """All such clusters have one table in common."""
    table = await registry.tables.get(A)
    assert table is await registry.tables.get(B) is registry.tables.builtin_table
    assert {resource.group_resource for resource in table.resources()} == {one.group_resource for one in registry.tables.builtins}
    assert table.find("", "v1", "configmaps") is registry.tables.builtin("", "v1", "configmaps")
    assert table.find("", "v2", "configmaps") is table.find("example.com", "v1", "widgets") is None


async def test_a_crd_is_served_in_its_own_cluster(registry: Registry, elsewhere: Elsewhere) -> None:
    """With the key and revision under which writes are checked against it."""
    revision = await elsewhere.define(A, stored())
    served = await widgets(registry)
    assert served is not None
    assert served.resource.kind == "Widget"
    life = (Compare(crd_key(A), create_revision=revision),)
    guards = (Compare(crd_key(A), mod_revision=revision),)
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
    crd = stored(make_crd("roles", "rbac.authorization.k8s.io", kind="Role"), versions=[{"name": "v1"}, {"name": "v7"}])
    await elsewhere.define(A, crd)
    table = await registry.tables.get(A)
    assert not table.served
    assert table.find("rbac.authorization.k8s.io", "v7", "roles") is None
    builtin = table.find("rbac.authorization.k8s.io", "v1", "roles")
    assert builtin is not None
    assert builtin.resource.typed


async def test_the_core_group_can_be_extended(registry: Registry, elsewhere: Elsewhere) -> None:
    """A definition with the group `""`, named `<plural>.core`, serves below `/api`, and its watches end with its changes."""
    crd = stored(make_crd("pods", "", kind="Pod"))
    crd["metadata"]["name"] = "pods.core"
    await elsewhere.define(A, crd)
    served = (await registry.tables.get(A)).find("", "v1", "pods")
    assert served is not None
    watcher = registry.fanout.attach(served.resource.keys.prefix, cluster=A, after=registry.fanout.revision)
    await elsewhere.define(A, crd | {"metadata": crd["metadata"] | {"labels": {"a": "b"}}})
    await registry.tables.get(A)
    assert not watcher.ended
    await elsewhere.delete(crd_key(A, "pods.core"))
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


async def test_stored_resources_are_listed_once(registry: Registry, elsewhere: Elsewhere) -> None:
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
    keys = resource_keys(ROOT, CRDS.group, CRDS.resource, namespaced=False)
    access = replace(registry.access, budget=ClusterBudget(0))
    crds = CRDSource(access, registry.fanout, CompiledCRDs(ROOT), keys)
    tables = ResourceTables(access, registry.fanout, (StaticSource(builtin_resources(ROOT)), crds))
    for cluster in (A, B, C):
        await tables.get(cluster)
    assert (len(tables), tables.cached(A), tables.cached(C)) == (1, None, tables.builtin_table)
    before = storage.ranges
    await tables.get(C)
    await tables.get(A)
    assert storage.ranges == before + 1


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
async def test_a_malformed_crd_alone_is_not_served(
    registry: Registry, elsewhere: Elsewhere, spoil: Callable[[dict[str, Any]], object]
) -> None:
    """A CRD that another server has written is logged, and served once it is corrected."""
    await elsewhere.define(A, gadgets())
    crd = stored(make_crd("gizmos", kind="Gizmo"))
    spoil(crd)
    with structlog.testing.capture_logs() as logs:
        await elsewhere.define(A, crd)
        table = await registry.tables.get(A)
    assert [resource.resource for resource in resources(table)] == ["gadgets"]
    (log,) = logs
    assert (log["event"], log["cluster"], log["name"]) == ("definition_not_served", A, "gizmos.example.com")
    watcher = registry.fanout.attach(f"{ROOT}/example.com/gizmos/customresources/", cluster=A, after=registry.fanout.revision)
    await elsewhere.define(A, stored(make_crd("gizmos", kind="Gizmo")))
    assert watcher.ended
    assert (await registry.tables.get(A)).find("example.com", "v1", "gizmos") is not None


async def test_names_are_held_whether_served_or_not(registry: Registry, elsewhere: Elsewhere) -> None:
    """Of one cluster and group; of a definition whose status is malformed, what can be read."""
    await elsewhere.define(A, stored())
    refused = stored(make_crd("gadgets", kind="Gadget"), "Unrelated")
    refused["status"]["acceptedNames"] = {"plural": "gadgets", "kind": 7, "shortNames": ["g", []]}
    await elsewhere.define(A, refused)
    await elsewhere.define(A, stored(make_crd("others", "example.org", kind="Other")))
    held = await registry.tap.held_names(A, "example.com")
    assert [one.name for one in held] == ["gadgets.example.com", "widgets.example.com"]
    assert held[0].accepted == {"plural": "gadgets", "shortNames": ["g"]}
    assert held[1].accepted["kind"] == "Widget"
    assert await registry.tap.held_names(B, "example.com") == []


async def test_definitions_that_are_evicted_while_they_are_read_are_not_kept(
    registry: Registry, elsewhere: Elsewhere, storage: SteppedStorage
) -> None:
    """Whatever is cached is counted: the outcome of such a load answers its request alone, and counts with the table at most."""
    await elsewhere.define(A, stored())
    budget, crds = registry.access.budget, registry.crds._crds
    before = budget.size

    async def evict() -> None:
        crds._kept.evict(A)

    storage.after_read(evict)
    table = await registry.tables.get(A)
    assert [resource.resource for resource in resources(table)] == ["widgets"]
    assert (crds.peek(A), len(crds._progress), len(crds._kept)) == (None, 0, 0)
    assert registry.tables.peek(A) is table
    cost = table.served[table.find_all(resources(table)[0].group_resource)[0].resource.key].resource.cost
    assert cost is not None
    assert budget.size - before > cost.memory
