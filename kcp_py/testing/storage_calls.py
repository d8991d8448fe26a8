"""Short forms of frequent calls of the suite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from kcp_py.storage.contract import Compare, Delete, Event, Put, Storage, WatchBatch

TIMEOUT: Final = 30.0
"""Seconds after which an expected event counts as missing."""


async def create(storage: Storage, key: str, value: bytes = b"x") -> int:
    """Put a key that must not exist yet."""
    return await storage.transact([Compare(key, mod_revision=0)], [Put(key, value)])


async def put(storage: Storage, key: str, value: bytes = b"x") -> int:
    """Put a key, with or without a current value."""
    return await storage.transact([], [Put(key, value)])


async def delete(storage: Storage, key: str) -> int:
    """Delete a key."""
    return await storage.transact([], [Delete(key)])


async def events_between(storage: Storage, prefix: str, start_revision: int, until: int) -> list[Event]:
    """The events of a new watch up to a revision."""
    async with aclosing(storage.watch(prefix, start_revision=start_revision)) as batches:
        return await events_until(batches, until)


async def events_until(batches: AsyncGenerator[WatchBatch, None], until: int) -> list[Event]:
    """The events of a watch up to a revision. Checks that batches arrive in order and do not split revisions."""
    events: list[Event] = []
    position = 0
    async with asyncio.timeout(TIMEOUT):
        async for batch in batches:
            revisions = [event.mod_revision for event in batch.events]
            assert revisions == sorted(revisions), "events of a batch are in revision order"
            assert all(position < revision <= batch.revision for revision in revisions), "a batch holds what its revision says"
            assert batch.revision >= position, "a watch never goes back"
            position = batch.revision
            events += batch.events
            if position >= until:
                break
    return events
