"""Reconcile functions in a process of their own: election, stop, hung and cut work."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kcp_py.client.clusterclient import ClusterClient
from kcp_py.client.keys import Key
from kcp_py.controllers.runtime.election import LEASES
from kcp_py.controlplane import ControlPlane
from kcp_py.library.reconciling import Controllers, run_controllers
from kcp_py.logicalcluster import ROOT
from kcp_py.testing.client_objects import CONFIG_MAPS, OTHER, TEAM, config_map
from tests.client.served import options_of

pytestmark = pytest.mark.anyio

LEASE = Key(ROOT, "default", "fleet")


class Work:
    """A function whose calls are held until they are let go."""

    def __init__(self, *, timeout: float = 300.0) -> None:
        self.controllers = Controllers()
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.go, self.cancelled = asyncio.Event(), asyncio.Event()
        self.ended: list[str] = []

        @self.controllers.reconcile(CONFIG_MAPS, timeout=timeout)
        async def work(obj: dict[str, Any], name: str, client: ClusterClient) -> None:
            assert (client.cluster, obj["metadata"]["name"]) == (TEAM, name)
            self.begun.put_nowait(name)
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            self.ended.append(name)


async def test_a_stop_lets_calls_end_and_begins_none(tmp_path: Path) -> None:
    """Work that was begun is done, the lease is given back, and objects that come later are left to others."""
    work, stop = Work(), asyncio.Event()
    async with ControlPlane(options_of(tmp_path)) as control_plane, asyncio.timeout(60):
        client = control_plane.client
        running = asyncio.create_task(run_controllers(client, work.controllers, cluster=TEAM, lease=LEASE, stop=stop))
        await client.create(OTHER, CONFIG_MAPS, config_map("other"))
        await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        assert await work.begun.get() == "one"
        held = await client.get(ROOT, LEASES, "default", "fleet")
        assert held["spec"]["holderIdentity"]
        stop.set()
        await asyncio.sleep(0)
        await client.create(TEAM, CONFIG_MAPS, config_map("two"))
        work.go.set()
        await running
        assert work.ended == ["one"]
        assert work.begun.empty()
        assert (await client.get(ROOT, LEASES, "default", "fleet"))["spec"]["holderIdentity"] == ""


async def test_a_stop_does_not_wait_for_ever(tmp_path: Path) -> None:
    """Calls that do not end are cancelled."""
    work, stop = Work(), asyncio.Event()
    async with ControlPlane(options_of(tmp_path)) as control_plane, asyncio.timeout(60):
        client = control_plane.client
        running = asyncio.create_task(run_controllers(client, work.controllers, stop=stop, grace=0.01))
        await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        await work.begun.get()
        stop.set()
        await running
        assert work.ended == []


async def test_one_of_several_processes_works(tmp_path: Path) -> None:
    """The second begins when the first has stopped."""
    first, second, stop = Work(), Work(), asyncio.Event()
    async with ControlPlane(options_of(tmp_path)) as control_plane, asyncio.timeout(60):
        client = control_plane.client
        leading = asyncio.create_task(run_controllers(client, first.controllers, lease=LEASE, stop=stop))
        await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        await first.begun.get()
        waiting = asyncio.create_task(run_controllers(client, second.controllers, lease=LEASE))
        first.go.set()
        stop.set()
        await leading
        assert await second.begun.get() == "one"
        waiting.cancel()
        await asyncio.wait((waiting,))


async def test_a_leader_that_has_lost_its_lease_ends_its_work(tmp_path: Path) -> None:
    """Calls are cancelled: the next leader does them anew."""
    work = Work()
    async with ControlPlane(options_of(tmp_path)) as control_plane, asyncio.timeout(60):
        client = control_plane.client
        running = asyncio.create_task(run_controllers(client, work.controllers, lease=LEASE))
        await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        await work.begun.get()
        await client.patch(ROOT, LEASES, "default", "fleet", document={"spec": {"holderIdentity": "another"}})
        await work.cancelled.wait()
        assert work.ended == []
        running.cancel()
        await asyncio.wait((running,))


async def test_a_call_that_hangs_is_ended(tmp_path: Path) -> None:
    """And counts as failed: it comes again."""
    work = Work(timeout=0.01)
    async with ControlPlane(options_of(tmp_path)) as control_plane, asyncio.timeout(60):
        running = asyncio.create_task(run_controllers(control_plane.client, work.controllers))
        await control_plane.client.create(TEAM, CONFIG_MAPS, config_map("one"))
        assert [await work.begun.get() for _ in range(3)] == ["one"] * 3
        work.go.set()
        while not work.ended:
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait((running,))


async def test_without_functions_nothing_is_run(tmp_path: Path) -> None:
    """That is a mistake."""
    async with ControlPlane(options_of(tmp_path)) as control_plane:
        with pytest.raises(ValueError, match="no reconcile functions"):
            await run_controllers(control_plane.client, Controllers())
