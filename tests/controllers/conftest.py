"""A registry in memory with every controller running."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kcp_py.controllers import start_controllers
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import Registry, open_registry


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with open_registry(MemoryStorage()) as opened:
        start_controllers(opened.supervisor, opened.client, opened.tap)
        yield opened
