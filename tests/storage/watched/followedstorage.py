"""A store in memory that another server writes to, with a watch that tests delay and break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from kcp_py.storage.contract import KeyValue, Storage, StorageError, WatchBatch
from kcp_py.storage.memory import MemoryStorage


class FollowedStorage(MemoryStorage):
    """Writes of the test are those of another server: they do not pass the `WatchedStorage` around it."""

    def __init__(self) -> None:
        super().__init__()
        self.flowing = asyncio.Event()
        """While it is clear, watches deliver nothing."""
        self.flowing.set()
        self.answering = asyncio.Event()
        """While it is clear, the revision is not answered."""
        self.answering.set()
        self.error: StorageError | None = None
        """What watches raise instead of their next batch."""
        self.watches: list[str] = []
        """The prefixes of the watches that began."""
        self.reads: list[str] = []
        """The keys that were read."""
        self.indexes = 0
        """How often the revision was asked for."""
        self.progress_requests = 0
        self.lost_revisions = 0
        """How many revisions the store has lost, as a restored one."""

    async def revision(self) -> int:
        self.indexes += 1
        await self.answering.wait()
        return await super().revision() - self.lost_revisions

    async def read(self, key: str) -> tuple[KeyValue | None, int]:
        self.reads.append(key)
        return await super().get(key), await super().revision()

    async def get(self, key: str) -> KeyValue | None:
        return (await self.read(key))[0]

    async def request_progress(self) -> None:
        self.progress_requests += 1

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        self.watches.append(prefix)
        async with aclosing(super().watch(prefix, start_revision=start_revision)) as batches:
            async for batch in batches:
                await self.flowing.wait()
                if self.error is not None:
                    error, self.error = self.error, None
                    raise error
                yield batch


async def followed(storage: Storage, prefix: str) -> None:
    """Wait until the watch of a watched store follows the store."""
    async with aclosing(storage.watch(prefix, start_revision=await storage.revision() + 1)) as batches:
        await anext(batches)
