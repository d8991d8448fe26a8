"""The in-memory driver against the conformance suite and the model."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import settings

from kcp_py.storage.contract import Storage
from kcp_py.storage.memory import MemoryStorage
from kcp_py.testing.storage_machine import storage_machine
from kcp_py.testing.storage_suite import StorageSuite


class TestMemoryStorage(StorageSuite):
    """The suite."""

    @pytest.fixture
    async def storage(self) -> AsyncIterator[Storage]:
        async with MemoryStorage() as storage:
            yield storage


TestMachine = storage_machine(MemoryStorage).TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
