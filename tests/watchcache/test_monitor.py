"""What the monitor logs and measures of a store that comes and goes."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from kcp_py.storage.contract import CompactedError, Put, UnavailableError
from kcp_py.storage.memory import MemoryStorage
from kcp_py.telemetry.gauges import Gauges
from kcp_py.watchcache import Fanout, Monitor

pytestmark = pytest.mark.anyio

PREFIX = "/registry/core.kcp.io/logicalclusters/"


class Interrupted(MemoryStorage):
    """A store that can be away."""

    away = False

    async def check(self) -> None:
        if self.away:
            raise UnavailableError("no member can be reached")
        await super().check()


class Setting:
    """A monitor on a clock of its own."""

    def __init__(self, storage, **options) -> None:
        self.now = 1000.0
        self.storage = storage
        self.fanout = Fanout(storage, "/registry")
        self.monitor = Monitor(storage, self.fanout, PREFIX, clock=lambda: self.now, **options)
        self.gauges = Gauges()
        self.monitor.describe(self.gauges)

    def value(self, name):
        return next((family.samples[0].value for family in self.gauges.collect() if family.name == name), None)


async def test_an_outage_is_logged_once():
    """The first failed look and the first successful one after it are logged, with the time between them; the gauges say the same."""
    async with Interrupted() as storage:
        setting = Setting(storage)
        with capture_logs() as logs:
            for away in (False, True, True, False, False):
                storage.away = away
                setting.now += 2
                await setting.monitor.look()
                assert setting.value("kcp_storage_up") == (0 if away else 1)
        assert logs == [
            {"event": "storage_unavailable", "log_level": "error", "error": "no member can be reached"},
            {"event": "storage_recovered", "log_level": "info", "seconds": 4.0},
        ]


async def test_feed_lag():
    """The lag is the time since the store was seen to be ahead of the feed, and 0 once the feed is there."""
    async with MemoryStorage() as storage:
        setting = Setting(storage)
        await setting.monitor.look()
        assert setting.value("kcp_feed_lag_seconds") == 0
        revision = await storage.transact([], [Put("/registry/a", b"1")])
        setting.now += 2
        await setting.monitor.look()
        setting.now += 3
        await setting.monitor.look()
        assert setting.value("kcp_feed_lag_seconds") == 3
        assert (setting.value("kcp_storage_revision"), setting.value("kcp_feed_revision")) == (revision, 0)
        setting.fanout.revision = revision
        assert setting.value("kcp_feed_lag_seconds") == 0


async def test_lag_of_an_outage():
    """While the store does not answer, what it holds is unknown: the lag grows."""
    async with Interrupted() as storage:
        setting = Setting(storage)
        storage.away = True
        with capture_logs():
            await setting.monitor.look()
        setting.now += 7
        assert setting.value("kcp_feed_lag_seconds") == 7


async def test_sizes_of_files(tmp_path):
    """A store in a file is measured with its write-ahead log; a missing file has no value."""
    file = tmp_path / "kcp.db"
    async with MemoryStorage() as storage:
        setting = Setting(storage, database_file=file)
        assert setting.value("apiserver_storage_size_bytes") is None
        file.write_bytes(b"x" * 10)
        (tmp_path / "kcp.db-wal").write_bytes(b"x" * 5)
        assert (setting.value("apiserver_storage_size_bytes"), setting.value("kcp_storage_wal_bytes")) == (10, 5)


async def test_clusters_are_counted():
    """Logical clusters are counted in the store, and the store is asked for its size."""

    async def size():
        return 99

    async with MemoryStorage() as storage:
        for name in ("a", "b"):
            await storage.transact([], [Put(f"{PREFIX}{name}", b"1")])
        setting = Setting(storage, size_of=size)
        assert setting.value("kcp_logical_clusters") is None
        await setting.monitor.look()
        assert (setting.value("kcp_logical_clusters"), setting.value("apiserver_storage_size_bytes")) == (2, 99)


async def test_a_compacted_count_is_no_outage():
    """Where history is compacted while clusters are counted, the store is up, and the next look counts again."""

    class Compacting(MemoryStorage):
        compacted = True

        async def range(self, prefix, **more):
            if self.compacted:
                raise CompactedError(1, 2)
            return await super().range(prefix, **more)

    async with Compacting() as storage:
        setting = Setting(storage)
        with capture_logs() as logs:
            await setting.monitor.look()
        assert (logs, setting.value("kcp_storage_up"), setting.value("kcp_logical_clusters")) == ([], 1, None)
        storage.compacted = False
        await setting.monitor.look()
        assert setting.value("kcp_logical_clusters") == 0
