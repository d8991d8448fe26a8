"""Each CRD is compiled once for all clusters that have it, and only as long as one has it."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog import compilation
from kcp_py.schema.compilation import StructuralSchema, compile_schema
from kcp_py.storage.contract import Compare, Put
from tests.client.registry import Registry, make_crd
from tests.registry.catalog.crdtables import resources, widgets
from tests.registry.conftest import A, B, Elsewhere, SteppedStorage, crd_key, stored

pytestmark = pytest.mark.anyio


async def test_a_compiled_crd_goes_when_no_cluster_uses_it(registry: Registry, elsewhere: Elsewhere) -> None:
    """Compiled once for all clusters that have it, it stays as long as one of them is remembered."""
    for cluster in (A, B):
        await elsewhere.define(cluster, stored())
        await registry.tables.get(cluster)
    assert len(registry.crds.compiled) == 1
    kept = await widgets(registry, B)
    await elsewhere.delete(crd_key(A))
    await registry.tables.get(A)
    assert await widgets(registry, B) is kept
    assert len(registry.crds.compiled) == 1
    del kept
    await elsewhere.delete(crd_key(B))
    gc.collect()
    assert len(registry.crds.compiled) == 0


async def test_a_label_on_a_crd_compiles_nothing(registry: Registry, elsewhere: Elsewhere) -> None:
    """What serves stays, under the new revision that writes are checked against."""
    await elsewhere.define(A, stored())
    before = await widgets(registry)
    revision = await elsewhere.define(A, stored(labels={"a": "b"}))
    after = await widgets(registry)
    assert before is not None
    assert after is not None
    assert after.resource is before.resource
    assert after.guards == (Compare(crd_key(A), mod_revision=revision),)
    assert registry.crds.compiled.compilations == 1


async def test_many_clusters_with_equal_crds_compile_each_once(registry: Registry) -> None:
    """However many clusters there are."""
    definitions = [stored(make_crd(f"gadget{number}s", kind=f"Gadget{number}")) for number in range(20)]
    clusters = [Name(f"same-{number}") for number in range(50)]
    for cluster in clusters:
        await registry.storage.transact(
            (),
            [
                Put(crd_key(cluster, crd["metadata"]["name"]), orjson.dumps({**crd, "metadata": {**crd["metadata"], "uid": cluster}}))
                for crd in definitions
            ],
        )
    await registry.fanout.reached(await registry.storage.revision())
    tables = [await registry.tables.get(cluster) for cluster in clusters]
    assert registry.crds.compiled.compilations == len(registry.crds.compiled) == 20
    assert len({table.digest for table in tables}) == 1
    assert len({tuple(resources(table)) for table in tables}) == 1


async def test_a_removed_crd_is_not_kept_by_a_table_that_is_being_built(
    registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere
) -> None:
    """Callers that asked for the table before the removal may still see it, but it is not kept."""
    await elsewhere.define(A, stored())

    async def remove() -> None:
        await elsewhere.delete(crd_key(A))

    storage.after_read(remove)
    assert await widgets(registry) is not None
    gc.collect()
    assert len(registry.crds.compiled) == 0


async def test_a_large_crd_is_compiled_in_a_thread(registry: Registry, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, for all who wait for it; and the event loop goes on."""
    properties = {f"field{number}": {"type": "string", "description": "x" * 100} for number in range(1_000)}
    crd = stored(versions=[{"schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}])
    for cluster in (A, B):
        await elsewhere.define(cluster, crd)
    threads: list[int] = []

    def compiling(document: Mapping[str, Any]) -> StructuralSchema:
        threads.append(threading.get_ident())
        return compile_schema(document)

    monkeypatch.setattr(compilation, "compile_schema", compiling)
    first, second = await asyncio.gather(widgets(registry, A), widgets(registry, B))
    assert first is not None
    assert second is not None
    assert first.resource is second.resource
    assert len(threads) == 1
    assert threads != [threading.get_ident()]
