"""A server that starts again shows over all clusters what the last one knew, without reading the keys of all CRDs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from kcp_py.registry.catalog.crdindex import RECORD
from kcp_py.registry.catalog.crdrecord import LOOK_SECONDS
from kcp_py.registry.records import Records
from kcp_py.storage.contract import RangeResult
from kcp_py.storage.sqlite import SQLiteStorage
from kcp_py.testing.clock import FakeClock
from tests.server.handlers.conftest import Api, make_crd, options
from tests.server.handlers.widgets import CRDS, gone, install

pytestmark = pytest.mark.anyio

ALL = "/clusters/*/apis/example.com/v1"
PREFIX = "/registry/apiextensions.k8s.io/customresourcedefinitions/"


class Watched(SQLiteStorage):
    """Counts reads of the keys of the CRDs of all clusters."""

    reads = 0

    async def range(self, prefix: str, **more: Any) -> RangeResult:
        self.reads += prefix == PREFIX and more.get("keys_only", False)
        return await super().range(prefix, **more)


async def names(api: Api) -> set[str]:
    """The resources over all clusters."""
    answer = await api("GET", ALL)
    return {one["name"] for one in answer.json()["resources"]} if answer.status_code == 200 else set()


async def test_discovery_after_the_next_start(tmp_path: Path) -> None:
    """CRDs that were created and deleted since the record was written count, and those of a server without requests over all clusters."""
    for start in range(4):
        storage, clock = Watched(tmp_path / "kcp.db"), FakeClock()
        control_plane = ControlPlane(options(tmp_path), storage=storage, clock=clock)
        async with (
            control_plane,
            httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
        ):
            api = Api(client, control_plane)
            if start == 0:
                await install(api, make_crd("gadgets"), "a")
                await install(api, make_crd("widgets"), "b")
                assert await names(api) >= {"gadgets", "widgets"}
                async with asyncio.timeout(10):
                    while await Records(storage, "/registry").load(RECORD) is None:
                        await clock.advance(LOOK_SECONDS)
                        await asyncio.sleep(0)
            elif start == 1:
                await install(api, make_crd("gears"), "a")
                await api.ok("DELETE", f"/clusters/a{CRDS}/gadgets.example.com")
                await gone(api, f"/clusters/a{CRDS}/gadgets.example.com")
            else:
                assert await names(api) & {"gadgets", "widgets", "gears"} == {"widgets", "gears"}
                assert storage.reads == 0
