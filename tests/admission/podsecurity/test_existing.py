"""Warnings about the pods of a namespace that gets another level: complete, bounded, and without holding up other requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from kcp_py.admission.podsecurity import existing
from kcp_py.admission.podsecurity.existing import MOST_PODS, existing_violations
from kcp_py.admission.podsecurity.levels import Standard
from kcp_py.storage.contract import Put, Storage
from kcp_py.storage.memory import MemoryStorage

pytestmark = pytest.mark.anyio

PREFIX = "/pods/a/n/"
BASELINE = Standard("baseline")
HEAD = 'existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"'


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    async with MemoryStorage() as opened:
        yield opened


def pod(name: str, *, owner: str = "", runtime_class: str = "", **security: Any) -> dict[str, Any]:
    """A stored pod. `security` is the security context of its container."""
    owners = {"ownerReferences": [{"uid": "o", "controller": False}, {"uid": owner, "controller": True}]} if owner else {}
    spec: dict[str, Any] = {"containers": [{"name": "c", **({"securityContext": security} if security else {})}]}
    return {"metadata": {"name": name, **owners}, "spec": {**spec, **({"runtimeClassName": runtime_class} if runtime_class else {})}}


async def store(storage: Storage, *pods: Any, prefix: str = PREFIX) -> None:
    for start in range(0, len(pods), 500):
        puts = [Put(f"{prefix}{start + at:06}", orjson.dumps(one)) for at, one in enumerate(pods[start : start + 500])]
        await storage.transact([], puts)


async def warnings(storage: Storage, **more: Any) -> list[str]:
    return await existing_violations(storage, PREFIX, "n", BASELINE, **{"clock": lambda: 0.0, **more})


async def test_pods_are_grouped_by_their_violations(storage: Storage) -> None:
    """The first name of each group, in the order of the lines; other namespaces do not count."""
    await store(
        storage,
        pod("z", privileged=True),
        pod("b", privileged=True),
        pod("m", privileged=True),
        pod("good"),
        pod("x", procMount="Unmasked"),
        pod("a", privileged=True, procMount="Unmasked"),
        pod("w", privileged=True, procMount="Unmasked"),
    )
    await store(storage, pod("0", privileged=True), prefix="/pods/a/nn/")
    await store(storage, pod("0", privileged=True), prefix="/pods/b/n/")
    assert await warnings(storage) == [
        HEAD,
        "a (and 1 other pod): privileged, procMount",
        "b (and 2 other pods): privileged",
        "x: procMount",
    ]


async def test_pods_that_violate_nothing_are_not_mentioned(storage: Storage) -> None:
    """Neither are those of exempt classes, nor values of another form."""
    exempt = pod("k", runtime_class="kata", privileged=True)
    await store(storage, pod("a"), exempt, {"metadata": {}}, [], {"metadata": {"name": "b"}, "spec": {"containers": 5}})
    assert await warnings(storage, exempt_classes=frozenset({"kata"})) == []


async def test_one_pod_of_each_controller_comes_first(storage: Storage) -> None:
    """So many pods are checked, and others counted: a replica set of many pods hides none of another one."""
    replicas = [pod(f"r{index}", owner="one", privileged=True) for index in range(MOST_PODS + 500)]
    await store(storage, *replicas, pod("s", owner="two", procMount="Unmasked"), pod("t", privileged=True))
    found = await warnings(storage)
    assert found == [
        f"new PodSecurity enforce level only checked against the first {MOST_PODS} of {MOST_PODS + 502} existing pods",
        HEAD,
        f"r0 (and {MOST_PODS - 2} other pods): privileged",
        "s: procMount",
    ]


async def test_the_time_is_bounded(storage: Storage) -> None:
    """As soon as it is over, the others are counted alone."""
    await store(storage, *(pod(f"p{index:03}", privileged=True) for index in range(600)))
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.125
        return now

    checked = 9
    assert await warnings(storage, clock=clock) == [
        f"new PodSecurity enforce level only checked against the first {checked} of 600 existing pods",
        HEAD,
        f"p000 (and {checked - 1} other pods): privileged",
    ]


async def test_waiting_pods_do_not_fill_the_memory(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond a bound are not checked."""
    monkeypatch.setattr(existing, "_MOST_WAITING_BYTES", 1)
    await store(storage, *(pod(f"r{index}", owner="one", privileged=True) for index in range(10)))
    assert await warnings(storage) == [
        "new PodSecurity enforce level only checked against the first 2 of 10 existing pods",
        HEAD,
        "r0 (and 1 other pod): privileged",
    ]


async def test_other_tasks_run_meanwhile(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop is yielded between pods; a slice without duration stands for a busy machine."""
    monkeypatch.setattr("kcp_py.aio.cooperative.SLICE_SECONDS", 0)
    await store(storage, *(pod(f"p{index:03}") for index in range(400)))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count())
    assert await warnings(storage) == []
    other.cancel()
    assert turns >= 400
