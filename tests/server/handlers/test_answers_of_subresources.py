"""What kube-apiserver answers to evictions, bindings, parts of pods and connections, recorded and compared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from tests.server.handlers.answers import recorded, step_differences
from tests.server.handlers.conftest import Api, options
from tests.server.handlers.upstreamkinds import installed

pytestmark = pytest.mark.anyio


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A server without what the recorded one ran without: a plugin, and the controller that writes the status of budgets."""
    settings = options(tmp_path, disable_admission_plugins=("ServiceAccount",), controllers=("*", "-disruption-controller"))
    async with ControlPlane(settings) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


async def test_subresources_answer_as_those_of_kube_apiserver(api: Api) -> None:
    """Code, reason, message, causes and the changed objects (recorded from kube-apiserver 1.37.2)."""
    await installed(api, "pods", "services", "nodes", "endpoints", "poddisruptionbudgets.policy")
    found: list[Any] = []
    for scenario in recorded("subresources"):
        found += await step_differences(api, scenario)
    assert found == []
