"""The garbage collector against a model, for graphs of owners at random."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from kcp_py.apimachinery.errors import StatusError
from kcp_py.controllers import start_controllers
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import CONFIG_MAPS, Registry, open_registry
from tests.controllers.garbage.dependents import add, reference, settle

CLUSTERS = (Name("team-a"), Name("team-b"))
NAMES = "abcdefg"

Graph = dict[str, dict[str, bool]]
"""Name -> owner -> whether it blocks."""


class Deletion(NamedTuple):
    cluster: Name
    name: str
    propagation: str


graphs = st.dictionaries(
    st.sampled_from(NAMES), st.dictionaries(st.sampled_from(NAMES), st.booleans(), max_size=3), min_size=2, max_size=len(NAMES)
).map(lambda graph: {name: {owner: blocks for owner, blocks in owners.items() if owner in graph} for name, owners in graph.items()})
deletions = st.builds(Deletion, st.sampled_from(CLUSTERS), st.sampled_from(NAMES), st.sampled_from(["Background", "Foreground", "Orphan"]))


def delete(graph: Graph, deletion: Deletion) -> None:
    """The remaining objects: an object stays if it never had an owner, or as long as one of its owners does."""
    graph.pop(deletion.name)
    rooted = {name for name, owners in graph.items() if not owners}
    if deletion.propagation == "Orphan":
        for name, owners in graph.items():
            if owners.pop(deletion.name, None) is not None and not owners:
                rooted.add(name)
    while gone := [name for name, owners in graph.items() if name not in rooted and not owners.keys() & graph.keys()]:
        for name in gone:
            del graph[name]
    for owners in graph.values():
        for owner in owners.keys() - graph.keys():
            del owners[owner]


async def stored(registry: Registry, cluster: Name) -> Graph:
    items = (await registry.client.list(cluster, CONFIG_MAPS, "default")).items
    return {
        item["metadata"]["name"]: {owner["name"]: owner["blockOwnerDeletion"] for owner in item["metadata"].get("ownerReferences", ())}
        for item in items
    }


async def make(registry: Registry, cluster: Name, graph: Graph) -> None:
    """Create the objects without owners, which may come later or form cycles, and then give them these."""
    made = {name: await add(registry, cluster, name) for name in graph}
    for name, owners in graph.items():
        if owners:
            metadata = made[name]["metadata"]
            metadata["ownerReferences"] = [reference(made[owner], blocks=blocks) for owner, blocks in owners.items()]
            await registry.client.update(cluster, CONFIG_MAPS, made[name])


def without_blocks(graph: Mapping[str, Mapping[str, bool]]) -> dict[str, set[str]]:
    """Whether a reference blocks may be changed to end a cycle."""
    return {name: set(owners) for name, owners in graph.items()}


@settings(max_examples=60, deadline=None)
@given(first=graphs, second=graphs, steps=st.lists(deletions, max_size=5))
def test_what_is_left_is_what_the_model_leaves(first: Graph, second: Graph, steps: list[Deletion]) -> None:
    """After any deletions, in two clusters with equal names, exactly the objects of the model are left, with its owners."""

    async def run() -> None:
        async with open_registry(MemoryStorage()) as registry:
            start_controllers(registry.supervisor, registry.client, registry.tap, ("garbage-collector-controller",))
            model = {
                cluster: {name: dict(owners) for name, owners in graph.items()}
                for cluster, graph in zip(CLUSTERS, (first, second), strict=True)
            }
            for cluster in CLUSTERS:
                await make(registry, cluster, model[cluster])
            for step in steps:
                if step.name not in model[step.cluster]:
                    continue
                delete(model[step.cluster], step)
                await registry.client.delete(step.cluster, CONFIG_MAPS, "default", step.name, propagation=step.propagation)

                async def as_modelled(cluster: Name = step.cluster) -> bool:
                    return without_blocks(await stored(registry, cluster)) == without_blocks(model[cluster])

                await registry.until(as_modelled)
            for cluster in CLUSTERS:
                await settle(registry, cluster)
                assert without_blocks(await stored(registry, cluster)) == without_blocks(model[cluster])

    asyncio.run(run())


@settings(max_examples=40, deadline=None)
@given(graph=graphs, names=st.lists(st.sampled_from(NAMES), max_size=5), propagation=st.sampled_from(["Background", "Foreground"]))
def test_deletions_at_once_leave_the_same(graph: Graph, names: list[str], propagation: str) -> None:
    """Deletions that run into each other leave what they would have left one after the other."""
    cluster = CLUSTERS[0]

    async def run() -> None:
        async with open_registry(MemoryStorage()) as registry:
            start_controllers(registry.supervisor, registry.client, registry.tap, ("garbage-collector-controller",))
            await make(registry, cluster, graph)
            model = {name: dict(owners) for name, owners in graph.items()}
            for name in names:
                try:
                    await registry.client.delete(cluster, CONFIG_MAPS, "default", name, propagation=propagation)
                except StatusError as error:
                    if error.code != 404:
                        raise
                if name in model:
                    delete(model, Deletion(cluster, name, propagation))

            async def as_modelled() -> bool:
                return without_blocks(await stored(registry, cluster)) == without_blocks(model)

            await registry.until(as_modelled)

    asyncio.run(run())
