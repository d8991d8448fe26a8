"""What kube-apiserver answers to writes of the kinds that every cluster serves, recorded and compared."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.handlers.answers import differences, recorded
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("group", recorded("builtin") + recorded("configuration"), ids=lambda group: group["kind"])
async def test_writes_are_answered_as_by_kube_apiserver(api: Api, group: dict[str, Any]) -> None:
    """Code, reason, message and causes of valid and invalid objects of each built-in kind (recorded from kube-apiserver 1.37.2)."""
    assert await differences(api, group) == []
