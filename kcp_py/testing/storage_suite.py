"""The conformance suite of storage drivers.

The test of a driver subclasses `StorageSuite` and provides stores::

    class TestMyStorage(StorageSuite):
        @pytest.fixture
        async def storage(self):
            async with MyStorage(...) as storage:  # entered, empty; at any revision
                yield storage

The tests run on anyio's pytest plugin with asyncio. The state machine in `kcp_py.testing.storage_machine` tests more combinations;
a failure of this suite names the violated rule.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "kcp_py.testing.storage_compactions",
    "kcp_py.testing.storage_reads",
    "kcp_py.testing.storage_watches",
    "kcp_py.testing.storage_writes",
)

from kcp_py.testing.storage_compactions import CompactionTests  # noqa: E402 - assertions are rewritten at import
from kcp_py.testing.storage_reads import ReadTests  # noqa: E402
from kcp_py.testing.storage_watches import WatchTests  # noqa: E402
from kcp_py.testing.storage_writes import WriteTests  # noqa: E402

__all__ = ["StorageSuite"]


@pytest.mark.anyio
class StorageSuite(ReadTests, WriteTests, WatchTests, CompactionTests):
    """The guarantees of `kcp_py.storage.contract`, verb by verb."""
