"""Leases."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.storage.contract import StorageError
from kcp_py.storage.etcd import EtcdOptions, EtcdStorage
from kcp_py.storage.etcd.lease import Lease

pytestmark = pytest.mark.anyio


async def test_first_beat_is_immediate_and_the_end_frees_the_keys(storage, prefix):
    """A lease is renewed at once, holds its keys while it is open, and takes them along when it is closed."""
    async with storage.lease(600) as lease:
        revision = await lease.put(prefix + "a", b"1")
        found = await storage.get(prefix + "a")
        assert (found.value, found.mod_revision) == (b"1", revision)
        while not lease.beats:
            await asyncio.sleep(0.005)
        assert not lease.lost.is_set()
    assert await storage.get(prefix + "a") is None


async def test_loss_is_reported(etcd, prefix):
    """A lease that somebody revoked is reported as lost at the next beat, and nothing can be put under it any more."""
    next_beat = asyncio.Event()

    async def sleep(_seconds: float) -> None:
        await next_beat.wait()

    async with EtcdStorage(EtcdOptions((etcd.url,)), sleep=sleep) as storage, storage.lease(600) as lease:
        etcd.control("lease", "revoke", f"{lease.id:x}")
        assert not lease.lost.is_set()
        next_beat.set()
        await lease.lost.wait()
        with pytest.raises(StorageError, match="lease not found"):
            await lease.put(prefix + "a", b"1")


async def test_unreachable_for_a_lifetime_is_lost(own_etcd, open_storage):
    """A lease whose beats are not answered for its time to live is lost, whatever etcd knows; before that it is not."""
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += max(seconds, 5)
        await asyncio.sleep(0)

    storage = await open_storage(own_etcd.url, connect_timeout=0.05)
    async with Lease(storage._connections, 60, sleep=sleep, clock=lambda: now) as lease:
        while lease.beats < 3:
            await asyncio.sleep(0.005)
        own_etcd.stop()
        stopped = now
        await lease.lost.wait()
        # The last answered beat went out at most one pause of 20 seconds before.
        assert stopped + 40 <= now <= stopped + 70
