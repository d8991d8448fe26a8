"""What kube-apiserver answers to writes of the kinds that are installed as CRDs, recorded and compared."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.handlers.answers import differences, recorded
from tests.server.handlers.conftest import Api
from tests.server.handlers.upstreamkinds import installed

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("group", recorded("workloads"), ids=lambda group: group["kind"])
async def test_writes_are_answered_as_by_kube_apiserver(api: Api, group: dict[str, Any]) -> None:
    """Code, reason, message and causes of valid and invalid objects of each kind (recorded from kube-apiserver 1.37.2)."""
    await installed(api, group["kind"])
    assert await differences(api, group) == []
