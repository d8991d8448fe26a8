"""What kube-apiserver answers to writes of the kinds that are installed as CRDs, recorded and compared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.controllers.names import DISRUPTION, PROTECTED_BY
from kcp_py.controlplane import ControlPlane
from tests.server.handlers.answers import differences, recorded
from tests.server.handlers.conftest import Api, options
from tests.server.handlers.upstreamkinds import installed

pytestmark = pytest.mark.anyio

_OFF = {DISRUPTION, *PROTECTED_BY.values()}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A server without the plugin that the recorded one ran without, and without controllers that change what cases write."""
    settings = options(tmp_path, disable_admission_plugins=("ServiceAccount",), controllers=("*", *(f"-{name}" for name in sorted(_OFF))))
    async with ControlPlane(settings) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


_FILES = ("workloads", "machinery", "pods", "statuses", "networks", "persistentvolumes", "policies", "storage")


@pytest.mark.parametrize("group", [group for file in _FILES for group in recorded(file)], ids=lambda group: group["kind"])
async def test_writes_are_answered_as_by_kube_apiserver(api: Api, group: dict[str, Any]) -> None:
    """Code, reason, message and causes of valid and invalid objects of each kind (recorded from kube-apiserver 1.37.2)."""
    await installed(api, group["kind"])
    assert await differences(api, group) == []
