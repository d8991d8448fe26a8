"""A clock that is set forward, alone and as the clock of a control plane."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py import (
    Clock,
    ComputedResource,
    Controller,
    ControllerContext,
    ControllerSource,
    GroupVersionResource,
    Key,
    Later,
    Name,
    SnapshotStorage,
    errors,
)
from kcp_py.testing import FakeClock, LocalServer, control_plane
from kcp_py.testing.settling import settle
from tests.eventloop import until_idle

pytestmark = pytest.mark.anyio

EVENTS = GroupVersionResource("", "v1", "events")
MAPS = GroupVersionResource("", "v1", "configmaps")
ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
REVIEWS = GroupVersionResource("authentication.k8s.io", "v1", "tokenreviews")
START = datetime(2030, 1, 1, tzinfo=UTC)


async def test_a_frozen_clock_stands_still() -> None:
    """Time passes by `advance` alone, as far as it says."""
    clock = FakeClock(START, frozen=True)
    assert clock.now == START
    await clock.advance(90)
    await clock.advance(timedelta(hours=1))
    assert clock.now == START + timedelta(seconds=3690)
    await clock.advance_to(datetime(2030, 6, 1, tzinfo=UTC))
    assert clock.now == datetime(2030, 6, 1, tzinfo=UTC)


async def test_what_is_due_runs_in_order_at_its_time() -> None:
    """Code that waits again on the way is woken again; cancelled timers do not run."""
    clock = FakeClock(START, frozen=True)
    seen: list[tuple[str, float]] = []

    async def every(name: str, seconds: float) -> None:
        while True:
            await clock.sleep(seconds)
            seen.append((name, (clock.now - START).total_seconds()))

    tasks = [asyncio.ensure_future(every("a", 10)), asyncio.ensure_future(every("b", 15))]
    clock.call_later(12, lambda: seen.append(("never", 0))).cancel()
    await until_idle()
    await clock.advance(31)
    assert seen == [("a", 10), ("b", 15), ("a", 20), ("b", 30), ("a", 30)]
    for task in tasks:
        task.cancel()


async def test_what_no_work_depends_on_is_no_stop() -> None:
    """It runs at the next stop, or at the end; a running clock calls it at its time."""
    clock = FakeClock(frozen=True)
    began = clock.monotonic()
    seen: list[tuple[str, float]] = []
    clock.call_when_past(10, lambda: seen.append(("past", clock.monotonic() - began)))
    clock.call_when_past(20, lambda: seen.append(("cancelled", 0.0))).cancel()
    clock.call_later(30, lambda: seen.append(("due", clock.monotonic() - began)))
    clock.call_when_past(50, lambda: seen.append(("past", clock.monotonic() - began)))
    await clock.advance(100)
    assert seen == [("past", 30.0), ("due", 30.0), ("past", 100.0)]
    for running in (FakeClock(), Clock()):
        called = asyncio.Event()
        running.call_when_past(0.01, called.set)
        async with asyncio.timeout(30):
            await called.wait()


async def test_a_running_clock_wakes_sleepers_by_itself() -> None:
    """Short waits end without `advance`."""
    clock = FakeClock()
    async with asyncio.timeout(30):
        await clock.sleep(0.01)
        await clock.sleep(0)


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan")])
async def test_a_clock_goes_forward_only(seconds: float) -> None:
    """Other times are refused."""
    clock = FakeClock()
    with pytest.raises(ValueError, match="forward"):
        await clock.advance(seconds)


async def test_a_clock_ends_with_the_year_9999() -> None:
    """No timestamp can say more; the clock stays where it was."""
    clock = FakeClock(START, frozen=True)
    with pytest.raises(ValueError, match="year 9999"):
        await clock.advance(1e12)
    assert clock.now == START
    await clock.advance_to(datetime(9999, 12, 30, tzinfo=UTC))
    assert clock.now.year == 9999


def test_a_time_of_day_needs_a_zone() -> None:
    """A naive datetime would mean another time on each machine."""
    with pytest.raises(ValueError, match="zone"):
        FakeClock(datetime(2030, 1, 1))  # noqa: DTZ001 - the subject of the test


async def test_objects_are_created_at_the_time_of_the_clock() -> None:
    """`creationTimestamp` follows it."""
    clock = FakeClock(START)
    async with control_plane(parts={"clock": clock}, controllers=()) as server:
        cluster = await server.new_cluster()
        made = await server.client.create(cluster.name, MAPS, {"metadata": {"name": "a", "namespace": "default"}})
        assert made["metadata"]["creationTimestamp"].startswith("2030-01-01T00:0")
        await clock.advance(timedelta(days=365))
        made = await server.client.create(cluster.name, MAPS, {"metadata": {"name": "b", "namespace": "default"}})
        assert made["metadata"]["creationTimestamp"].startswith("2031-01-01T00:0")


async def test_events_go_after_their_time() -> None:
    """The controller looks when the clock says so."""
    clock = FakeClock(START)
    async with control_plane(parts={"clock": clock}, controllers=("event-ttl-controller",), event_ttl=3600.0) as server:
        cluster = await server.new_cluster()
        event = {"metadata": {"name": "e", "namespace": "default"}, "involvedObject": {"namespace": "default"}, "type": "Normal"}
        made = await server.client.create(cluster.name, EVENTS, event)
        assert made["metadata"]["creationTimestamp"].startswith("2030")
        found: Any = [made]
        async with asyncio.timeout(60):
            while found:
                await clock.advance(1800)
                found = (await server.client.list(cluster.name, EVENTS, "default")).items


async def test_tokens_end_with_the_clock() -> None:
    """A token of a service account is refused after its hour."""
    clock = FakeClock()
    async with control_plane(parts={"clock": clock}, controllers=()) as server:
        cluster = await server.new_cluster()
        account = {"metadata": {"name": "robot", "namespace": "default"}}
        await server.client.create(cluster.name, ACCOUNTS, account)
        request = {"metadata": {"namespace": "default"}, "spec": {"expirationSeconds": 3600}}
        token = (await server.client.create(cluster.name, ACCOUNTS, request, name="robot", subresource="token"))["status"]["token"]

        async def accepted() -> bool:
            review = await server.client.create(cluster.name, REVIEWS, {"spec": {"token": token}})
            return bool(review["status"].get("authenticated"))

        assert await accepted()
        await clock.advance(3500)
        assert await accepted()
        await clock.advance(200)
        assert not await accepted()


async def test_each_call_of_a_controller_ends_before_time_goes_on() -> None:
    """One that asks to be called again every 30 seconds is called ten times in five minutes, at its times."""
    clock = FakeClock(START, frozen=True)
    seen: list[float] = []

    class Counter(Controller):
        """Writes the time of its calls into the object."""

        name = "counter"
        per_cluster = 1
        sources = (ControllerSource(MAPS),)

        def __init__(self, context: ControllerContext) -> None:
            self._client = context.client

        async def reconcile(self, key: Key) -> Later | int:
            """Write, then wait."""
            if key.name != "count":
                return 0
            seen.append((clock.now - START).total_seconds())
            for number in range(3):
                patch = {"data": {f"time-{number}": str(seen[-1])}}
                await self._client.patch(key.cluster, MAPS, key.namespace, key.name, document=patch)
            return Later(30)

    async with control_plane(parts={"clock": clock, "controllers": [Counter]}, controllers=("counter",)) as server:
        cluster = await server.new_cluster()
        await server.client.create(cluster.name, MAPS, {"metadata": {"name": "count", "namespace": "default"}})
        await clock.settle()
        assert set(seen) == {0.0}
        await clock.advance(300, settle=True)
        assert sorted(set(seen)) == [30.0 * number for number in range(11)]
        found = await server.client.get(cluster.name, MAPS, "default", "count")
        assert found["data"]["time-2"] == "300.0"
    await clock.settle()


async def test_what_never_ends_is_named() -> None:
    """A controller that does not return is the reason of the error."""
    release = asyncio.Event()

    class Stuck(Controller):
        """Waits."""

        name = "stuck"
        per_cluster = 1
        sources = (ControllerSource(MAPS),)

        def __init__(self, _: ControllerContext) -> None:
            pass

        async def reconcile(self, _: Key) -> int:
            """Wait."""
            await release.wait()
            return 0

    async with control_plane(parts={"controllers": [Stuck]}, controllers=("stuck",)) as server:
        await server.settle()
        cluster = await server.new_cluster()
        await server.client.create(cluster.name, MAPS, {"metadata": {"name": "a", "namespace": "default"}})
        await server.control_plane.backend.fanout.reached(await server.control_plane.backend.access.storage.revision())
        with pytest.raises(TimeoutError, match="stuck"):
            await settle(server.control_plane, timeout=0.05)
        release.set()
        await server.settle()


async def test_events_go_at_their_time() -> None:
    """Nothing has to be waited for, and nothing goes before."""
    clock = FakeClock(START, frozen=True)
    async with control_plane(parts={"clock": clock}, controllers=("event-ttl-controller",), event_ttl=3600.0) as server:
        cluster = await server.new_cluster()
        event = {"metadata": {"name": "e", "namespace": "default"}, "involvedObject": {"namespace": "default"}, "type": "Normal"}
        await server.client.create(cluster.name, EVENTS, event)
        await clock.advance(3500, settle=True)
        assert len((await server.client.list(cluster.name, EVENTS, "default")).items) == 1
        await clock.advance(600, settle=True)
        assert (await server.client.list(cluster.name, EVENTS, "default")).items == []


async def test_rates_of_events_refill_with_the_clock(tmp_path: Path) -> None:
    """A bucket that is empty has a token again after a second of the clock, and none before."""
    configuration = tmp_path / "admission.yaml"
    configuration.write_text(
        "{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration, plugins: [{name: EventRateLimit, configuration: "
        "{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: Server, qps: 1, burst: 1}]}}]}"
    )
    clock = FakeClock(frozen=True)
    settings: dict[str, Any] = {"enable_admission_plugins": ("EventRateLimit",), "admission_control_config_file": configuration}
    async with control_plane(parts={"clock": clock}, controllers=(), **settings) as server:
        cluster = await server.new_cluster()
        event = {"metadata": {"generateName": "e-", "namespace": "default"}, "involvedObject": {"namespace": "default"}, "type": "Normal"}
        await server.client.create(cluster.name, EVENTS, event)
        with pytest.raises(errors.StatusError, match="limit reached on type Server"):
            await server.client.create(cluster.name, EVENTS, event)
        await clock.advance(1)
        await server.client.create(cluster.name, EVENTS, event)


@asynccontextmanager
async def over_http(server: LocalServer, cluster: Name, token: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a cluster."""
    url = await server.serve()
    assert server.access.authority is not None
    context = ssl.create_default_context(cadata=server.access.authority.decode())
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(verify=context, base_url=f"{url}/clusters/{cluster}", headers=headers) as client:
        yield client


async def test_limits_of_requests_refill_with_the_clock() -> None:
    """A cluster that has made its requests may make further ones after a second of the clock."""
    clock = FakeClock(frozen=True)
    limits: dict[str, Any] = {"logical_cluster_request_limit": 2, "logical_cluster_request_burst": 2}
    async with control_plane(parts={"clock": clock}, controllers=(), **limits) as server:
        cluster = await server.new_cluster()
        async with over_http(server, cluster.name, server.add_user("ann")) as client:
            codes = [(await client.get("/api")).status_code for _ in range(3)]
            assert codes == [200, 200, 429]
            await clock.advance(1)
            codes = [(await client.get("/api")).status_code for _ in range(3)]
            assert codes == [200, 200, 429]


async def test_watches_end_at_their_time_by_the_clock() -> None:
    """A watch of ten minutes goes on after nine of them and ends after another one, with a last bookmark."""
    clock = FakeClock(frozen=True)
    async with control_plane(parts={"clock": clock}, controllers=()) as server:
        cluster = await server.new_cluster()
        await server.serve()
        query = {"watch": "true", "timeoutSeconds": "600", "allowWatchBookmarks": "true", "fieldSelector": "metadata.name=late"}
        async with (
            over_http(server, cluster.name, server.access.token) as client,
            asyncio.timeout(60),
            client.stream("GET", "/api/v1/configmaps", params=query) as response,
        ):
            assert response.status_code == 200
            lines = response.aiter_lines()
            await clock.advance(540)
            await server.client.create(cluster.name, MAPS, {"metadata": {"name": "late", "namespace": "default"}})
            assert json.loads(await anext(lines))["type"] == "ADDED"
            await clock.advance(60)
            assert [json.loads(line)["type"] async for line in lines] == ["BOOKMARK"]


async def test_watches_of_computed_resources_end_at_their_time_by_the_clock() -> None:
    """They end as watches of stored objects do."""

    class Prices(SnapshotStorage):
        """None."""

        async def items(self, cluster: Name) -> Sequence[dict[str, Any]]:
            del cluster
            return []

    clock = FakeClock(frozen=True)
    prices = ComputedResource(group="example.com", version="v1", resource="prices", kind="Price", namespaced=False, rest=Prices())
    async with control_plane(parts={"clock": clock, "apis": [prices]}, controllers=()) as server:
        cluster = await server.new_cluster()
        await server.serve()
        query = {"watch": "true", "timeoutSeconds": "600"}
        async with (
            over_http(server, cluster.name, server.access.token) as client,
            asyncio.timeout(60),
            client.stream("GET", "/apis/example.com/v1/prices", params=query) as response,
        ):
            assert response.status_code == 200
            await clock.advance(601)
            assert await response.aread() == b""
