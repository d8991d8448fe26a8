"""Which policies a write is shown to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from kcp_py.storage.contract import Compare, Operation, RangeResult
from kcp_py.storage.memory import MemoryStorage
from tests.admission.policy.making import CONFIG_MAPS, binding, config_map, configure, policy, refused
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

Step = Callable[[], Awaitable[None]]


class Storage(MemoryStorage):
    """A store that records ranges, and in which something happens before a config map is written."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[str] = []
        self.before_write: Step | None = None

    async def range(self, prefix: str, **more: Any) -> RangeResult:
        self.ranges.append(prefix)
        return await super().range(prefix, **more)

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        step = self.before_write
        if step is not None and any("/configmaps/" in operation.key for operation in operations):
            self.before_write = None
            await step()
        return await super().transact(compares, operations)


@pytest.fixture
def storage() -> Storage:
    return Storage()


@pytest.fixture
async def api(storage: Storage, tmp_path: Path) -> AsyncIterator[Api]:
    async with ControlPlane(options(tmp_path, controllers=("definitions",)), storage=storage) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


async def test_the_first_object_of_a_cluster_reads_no_policies(api: Api, storage: Storage) -> None:
    """A cluster that a write creates has no policies. The next write reads them."""
    storage.ranges.clear()
    await api.ok("POST", CONFIG_MAPS, config_map("x"))
    assert not [prefix for prefix in storage.ranges if "admissionpolic" in prefix]
    await api.ok("POST", CONFIG_MAPS, config_map("y"))
    assert [prefix for prefix in storage.ranges if "admissionpolic" in prefix]


async def test_policies_of_a_cluster_that_another_write_creates_meanwhile(api: Api, storage: Storage) -> None:
    """The first object of a cluster is shown to policies that are stored before it."""

    async def configured() -> None:
        await configure(api, policy("p", "false"), binding())

    storage.before_write = configured
    assert await refused(api, config_map()) == "'p' with binding 'b' denied request: failed expression: false"
    assert storage.before_write is None
