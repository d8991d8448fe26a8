"""What kube-apiserver answers to services that get addresses and node ports, recorded and compared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from tests.server.handlers.answers import recorded, step_differences
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A server with the ranges of the recorded one."""
    ranges = ("10.0.0.0/24", "fd00:10::/112")
    settings = options(tmp_path, builtin_kinds=("services",), service_cluster_ip_range=ranges, service_node_port_range="30000-30009")
    async with (
        ControlPlane(settings) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        yield Api(client, control_plane)


async def test_services_get_what_those_of_kube_apiserver_get(api: Api) -> None:
    """Families, policies, requested values and refusals (recorded from kube-apiserver 1.37.2 with two ranges)."""
    found: list[str] = []
    for scenario in recorded("services"):
        found += await step_differences(api, scenario)
    assert found == []
