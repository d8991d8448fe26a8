"""Whatever happens at the same time: usage is the number of objects, and limits give exactly what they have."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.registry.clusterlimits import BYTES_ANNOTATION, OBJECTS_ANNOTATION
from kcp_py.registry.quota.growth import count_used
from kcp_py.storage.memory import MemoryStorage
from kcp_py.tenancy import LOGICAL_CLUSTER
from tests.client.registry import CONFIG_MAPS, ROOT, config_map
from tests.registry.quota.conftest import QUOTAS, TEAM, Charged, Servers, open_charged

SECRETS = GroupVersionResource("", "v1", "secrets")
KINDS = {"configmaps": CONFIG_MAPS, "secrets": SECRETS}

Step = tuple[Literal["create", "delete", "limit", "drop", "resize", "bound", "recount"], str, int]
STEPS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(sorted(KINDS)), st.integers(0, 5)),
    st.tuples(st.just("delete"), st.sampled_from(sorted(KINDS)), st.integers(0, 5)),
    st.tuples(st.just("limit"), st.sampled_from(sorted(KINDS)), st.integers(0, 4)),
    st.tuples(st.just("drop"), st.just("configmaps"), st.just(0)),
)
WITH_LIMITS = st.one_of(
    STEPS,
    st.tuples(st.just("resize"), st.sampled_from(sorted(KINDS)), st.integers(0, 5)),
    st.tuples(st.just("bound"), st.sampled_from([OBJECTS_ANNOTATION, BYTES_ANNOTATION]), st.integers(0, 5)),
    st.tuples(st.just("recount"), st.just(""), st.just(0)),
)


async def carry_out(charged: Charged, step: Step) -> None:
    """One step. The server may refuse it for reasons that follow from the others."""
    what, kind, number = step
    client, name = charged.client, f"o-{number}"
    try:
        match what:
            case "create":
                obj = {**config_map(name), "kind": "ConfigMap" if kind == "configmaps" else "Secret", "data": {}}
                await client.create(TEAM, KINDS[kind], obj)
            case "delete":
                await client.delete(TEAM, KINDS[kind], "default", name)
            case "limit":
                try:
                    await charged.quota(hard={kind: str(number)})
                except StatusError:
                    await client.patch(TEAM, QUOTAS, "default", "q", document={"spec": {"hard": {kind: str(number)}}})
            case "resize":
                size = 400 * (number % 3) + number
                await client.patch(TEAM, KINDS[kind], "default", name, document={"metadata": {"annotations": {"x": "y" * size}}})
            case "bound":
                text = str(number * 700 if kind == BYTES_ANNOTATION else number)
                await client.patch(TEAM, LOGICAL_CLUSTER, "", "cluster", document={"metadata": {"annotations": {kind: text}}})
            case "recount":
                await charged.ledger.recount_cluster(TEAM)
            case _:
                await client.delete(TEAM, QUOTAS, "default", "q")
    except StatusError as error:
        if error.reason not in {"AlreadyExists", "NotFound", "Forbidden"}:
            raise


async def count(charged: Charged, kind: str) -> int:
    return len((await charged.client.list(TEAM, KINDS[kind])).items)


async def check(charged: Charged) -> None:
    """The quota, if there is one, tells the number of objects."""
    try:
        used = await charged.used()
    except StatusError:
        return
    assert used == {kind: str(await count(charged, kind)) for kind in used}


async def check_usage(charged: Charged) -> None:
    """The usage of the cluster, which is kept exactly as long as it has limits, is that of its objects."""
    cluster = await charged.client.get(TEAM, LOGICAL_CLUSTER, "", "cluster")
    used = await charged.ledger.used(TEAM)
    assert (used is not None) is charged.ledger.limits(TEAM, cluster["metadata"].get("annotations")).counted
    assert used is None or used == await count_used(charged.storage, ROOT, TEAM)


async def race_for(charged: Charged, several: Servers, room: int, rivals: int) -> None:
    """Let writers race for some units."""

    async def create(number: int) -> None:
        several.select(number)
        await charged.client.create(TEAM, CONFIG_MAPS, config_map(f"rival-{number}"))

    have = await count(charged, "configmaps")
    await carry_out(charged, ("drop", "configmaps", 0))
    await charged.quota(hard={"configmaps": str(have + room)})
    answers = await asyncio.gather(*map(create, range(rivals)), return_exceptions=True)
    assert sum(answer is None for answer in answers) == min(room, rivals)
    await check(charged)


async def race_in_cluster(charged: Charged, several: Servers, room: int, rivals: int) -> None:
    """Let writers race for the last objects of the cluster."""

    async def create(number: int) -> None:
        several.select(number)
        await charged.client.create(TEAM, CONFIG_MAPS, config_map(f"rival-{number}"))

    await carry_out(charged, ("drop", "configmaps", 0))
    have = (await count_used(charged.storage, ROOT, TEAM)).objects
    if not have + room:
        return
    annotations = {OBJECTS_ANNOTATION: str(have + room), BYTES_ANNOTATION: None}
    await charged.client.patch(TEAM, LOGICAL_CLUSTER, "", "cluster", document={"metadata": {"annotations": annotations}})
    answers = await asyncio.gather(*map(create, range(rivals)), return_exceptions=True)
    assert sum(answer is None for answer in answers) == min(room, rivals)
    await check_usage(charged)


async def run(groups: Sequence[Sequence[Step]], room: int, rivals: int, *, servers: int, limits: bool = False) -> None:
    async with open_charged(MemoryStorage(), shared=servers > 1) as charged:
        several = Servers(charged, servers)

        async def on_a_server(index: int, step: Step) -> None:
            several.select(index)
            await carry_out(charged, step)

        for steps in groups:
            await asyncio.gather(*(on_a_server(index, step) for index, step in enumerate(steps)))
            await check(charged)
            await check_usage(charged)
        await (race_in_cluster if limits else race_for)(charged, several, room, rivals)


@pytest.mark.parametrize("servers", [1, 2])
@settings(max_examples=40)
@given(groups=st.lists(st.lists(STEPS, min_size=1, max_size=8), max_size=6), room=st.integers(0, 3), rivals=st.integers(1, 8))
def test_usage_is_the_number_of_objects(servers, groups, room, rivals):
    """For any writes at the same time, on one server and on two."""
    asyncio.run(run(groups, room, rivals, servers=servers))


@pytest.mark.parametrize("servers", [1, 2])
@settings(max_examples=40)
@given(groups=st.lists(st.lists(WITH_LIMITS, min_size=1, max_size=8), max_size=6), room=st.integers(0, 3), rivals=st.integers(1, 8))
def test_usage_of_a_cluster_is_what_it_has(servers, groups, room, rivals):
    """For any writes, limits, quotas and counts at the same time, on one server and on two."""
    asyncio.run(run(groups, room, rivals, servers=servers, limits=True))
