"""The status of a LogicalCluster follows the limits and the usage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kcp_py.client import ObjectChange
from kcp_py.controllers.clusterlimits import DELAY_SECONDS, ClusterLimitsController
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.queue import Key, WorkQueue
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterlimits import BYTES_ANNOTATION, OBJECTS_ANNOTATION, WATCHES_ANNOTATION
from kcp_py.registry.quota.growth import count_used
from kcp_py.storage.contract import Delete, Put
from kcp_py.storage.memory import MemoryStorage
from kcp_py.tenancy import LOGICAL_CLUSTER
from tests.client.registry import CONFIG_MAPS, ROOT, config_map
from tests.registry.quota.conftest import TEAM, Charged, open_charged

pytestmark = pytest.mark.anyio

KEY = Key(TEAM, "", "cluster")
USAGE = f"{ROOT}/.kcp-py/usage/{TEAM}"


class Controlled:
    """A registry with the controller, whose time the test has in hand."""

    def __init__(self, charged: Charged) -> None:
        self.charged = charged
        self.now = 1000.0
        self.delays: list[float] = []
        self.queue = WorkQueue(schedule=self._schedule, clock=lambda: self.now)
        self.controller = ClusterLimitsController(
            charged.client, charged.ledger, self.queue, period=3600, clock=lambda: self.now, spread=lambda: 0.5
        )

    def _schedule(self, seconds: float, function: Any) -> Any:
        class Handle:
            def cancel(self) -> None:
                pass

        self.delays.append(seconds)
        del function
        return Handle()

    async def limit(self, **annotations: str | None) -> None:
        await self.charged.client.patch(TEAM, LOGICAL_CLUSTER, "", "cluster", document={"metadata": {"annotations": annotations}})

    async def status(self) -> dict[str, Any]:
        obj = await self.charged.client.get(TEAM, LOGICAL_CLUSTER, "", "cluster")
        return {name: value for name, value in obj["status"].items() if name in {"limits", "used"}}


@pytest.fixture
async def controlled() -> AsyncIterator[Controlled]:
    """See `Controlled`."""
    async with open_charged(MemoryStorage(), shared=True) as charged:
        yield Controlled(charged)


async def test_the_status_shows_limits_and_usage(controlled):
    """And neither once there are no limits."""
    assert await controlled.controller.reconcile(KEY) == 0
    assert await controlled.status() == {}
    await controlled.limit(**{OBJECTS_ANNOTATION: "5", WATCHES_ANNOTATION: "7"})
    made = await controlled.charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    assert await controlled.controller.reconcile(KEY) == Later(1800)
    size = (await count_used(controlled.charged.storage, ROOT, TEAM)).size
    used = {"objects": 1, "bytes": size, "customResourceDefinitions": 0}
    assert await controlled.status() == {"limits": {"objects": 5, "watches": 7}, "used": used}
    assert made["metadata"]["name"] == "a"
    await controlled.limit(**{OBJECTS_ANNOTATION: None})
    assert await controlled.controller.reconcile(KEY) == 0
    assert await controlled.status() == {"limits": {"watches": 7}}
    await controlled.limit(**{WATCHES_ANNOTATION: None})
    assert await controlled.controller.reconcile(KEY) == 0
    assert await controlled.status() == {}


async def test_a_status_that_is_right_is_not_written(controlled):
    """The controller sees its own writes."""
    await controlled.limit(**{OBJECTS_ANNOTATION: "5"})
    await controlled.controller.reconcile(KEY)
    before = await controlled.charged.storage.revision()
    await controlled.controller.reconcile(KEY)
    assert await controlled.charged.storage.revision() == before


async def test_a_charge_is_shown_after_a_delay(controlled):
    """Further charges do not postpone it; those after it are shown again."""
    await controlled.limit(**{OBJECTS_ANNOTATION: "50"})
    await controlled.controller.reconcile(KEY)
    controlled.delays.clear()
    for number in range(3):
        await controlled.charged.client.create(TEAM, CONFIG_MAPS, config_map(f"c-{number}"))
        controlled.now += 1
    assert controlled.delays == [DELAY_SECONDS]
    await controlled.controller.reconcile(KEY)
    await controlled.charged.client.create(TEAM, CONFIG_MAPS, config_map("d"))
    assert controlled.delays == [DELAY_SECONDS] * 2
    # The queue of a loop that was started again has lost its delayed keys.
    controlled.now += DELAY_SECONDS
    await controlled.charged.client.create(TEAM, CONFIG_MAPS, config_map("e"))
    assert controlled.delays == [DELAY_SECONDS] * 3


async def test_usage_is_counted_again_from_time_to_time(controlled):
    """What changed in the store itself is found then."""
    await controlled.limit(**{OBJECTS_ANNOTATION: "5"})
    await controlled.charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    assert await controlled.controller.reconcile(KEY) == Later(1800)
    await controlled.charged.storage.transact((), (Delete(f"{ROOT}/core/configmaps/{TEAM}/default/a"),))
    controlled.now += 1799
    assert await controlled.controller.reconcile(KEY) == Later(1)
    assert (await controlled.status())["used"]["objects"] == 1
    controlled.now += 1
    assert await controlled.controller.reconcile(KEY) == Later(3600)
    assert (await controlled.status())["used"]["objects"] == 0


async def test_limits_that_had_no_effect_get_it(controlled):
    """An earlier release stored the annotation and counted nothing."""
    await controlled.charged.registry.rewrite(
        f"{ROOT}/core.kcp.io/logicalclusters/{TEAM}/cluster",
        lambda obj: obj["metadata"].update(annotations={BYTES_ANNOTATION: "1Mi"}),
    )
    await controlled.charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    assert await controlled.charged.storage.get(USAGE) is None
    await controlled.controller.reconcile(KEY)
    assert (await controlled.status())["used"]["objects"] == 1


async def test_a_usage_without_limits_is_given_up(controlled):
    """Options have changed since it was counted."""
    await controlled.charged.storage.transact((), (Put(USAGE, b'{"objects":1,"size":2,"definitions":0}'),))
    assert await controlled.controller.reconcile(KEY) == 0
    assert await controlled.charged.storage.get(USAGE) is None


async def test_clusters_without_limits_are_not_looked_at(controlled):
    """Those that are gone are forgotten."""

    def change(cluster: Name, value: bytes | None) -> ObjectChange:
        return ObjectChange(cluster, LOGICAL_CLUSTER.group_resource, "", "cluster", value, None)

    keys = controlled.controller.keys
    assert list(keys(change(TEAM, b'{"metadata":{"annotations":{"other":"1"}}}'))) == []
    assert list(keys(change(TEAM, b'{"metadata":{"annotations":{"kcp-py.io/max-watches":"1"}}}'))) == [KEY]
    assert list(keys(change(TEAM, b'{"status":{"limits":{}}}'))) == [KEY]
    await controlled.limit(**{OBJECTS_ANNOTATION: "5"})
    await controlled.controller.reconcile(KEY)
    assert list(keys(change(TEAM, None))) == [KEY]
    gone = Key(Name("gone"), "", "cluster")
    assert await controlled.controller.reconcile(gone) == 0
