"""`Resumption`: has a process continue the work that the last one could not finish, before all objects are read (docs/adr/0045)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.client.unfinished import UnfinishedWork, WorkRecord
from kcp_py.controllers.runtime.controller import Controller, ControllerSource
from kcp_py.controllers.runtime.loop import queue_change
from kcp_py.controllers.runtime.queue import Key, WorkQueue

LOOK_SECONDS: Final = 5.0
"""Between two looks at whether a record is due."""
LOOKS: Final = 12
"""After so many looks a record is due: once a minute."""
LOOKS_WHILE_READING: Final = 2
"""After so many looks a record is due while existing objects are read: servers that are restarted often come to an end, too."""
REVISIONS: Final = 20_000
"""After so many writes a record is due, so that the next start reads no more of the history."""
MOST_KEYS: Final = 1_000
"""Keys of one controller in a record."""
MOST_BYTES: Final = 512 << 10
"""The texts of all keys in a record."""


class Resumed(NamedTuple):
    """A controller whose work is continued."""

    controller: Controller
    queue: WorkQueue


class Resumption:
    """Continues unfinished work, and then keeps a record of it.

    Controllers that look at their objects from time to time (`ControllerSource.gathered`) are left out: a restart interrupts nothing.
    """

    def __init__(
        self,
        record: WorkRecord,
        resumed: Sequence[Resumed],
        *,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        """Prepare.

        Args:
            record: of the store.
            resumed: the controllers of this process.
            sleep: for tests.
        """
        self._record = record
        self._resumed = {one.controller.name: one for one in resumed if not any(source.gathered for source in one.controller.sources)}
        self._sleep = sleep
        self._saved = 0
        """The latest record covers all writes up to this revision."""
        self._positions: Mapping[str, str] = {}
        """Of the latest record."""

    async def run(self) -> None:
        """Continue, and keep the record until cancelled.

        Raises:
            StatusError: the store cannot be read; call again.
        """
        await self.resume()
        looks = 0
        while True:
            await self._sleep(LOOK_SECONDS)
            looks += 1
            revision = self._record.revision
            due = LOOKS_WHILE_READING if self._record.positions or self._positions else LOOKS
            if revision is not None and (looks >= due or revision - self._saved >= REVISIONS):
                looks = 0
                await self.save(revision)

    async def resume(self) -> None:
        """Queue what the record says, and what changed since it was written.

        Raises:
            StatusError: the store cannot be read.
        """
        work = await self._record.load()
        after = 0
        if work is not None:
            after = self._saved = work.revision
            for name, keys in work.keys.items():
                if (one := self._resumed.get(name)) is not None:
                    for key in keys:
                        one.queue.add(key)
        sources: dict[GroupResource, list[tuple[Resumed, ControllerSource]]] = {}
        for one in self._resumed.values():
            for source in one.controller.sources:
                sources.setdefault(source.resource.group_resource, []).append((one, source))
        async with aclosing(self._record.changes(after, sources)) as changes:
            async for change in changes:
                for one, source in sources[change.resource]:
                    queue_change(one.controller, source, change, queue=one.queue)

    async def save(self, revision: int) -> None:
        """Write the record, if an object has changed since the last one, or more objects have been read.

        Args:
            revision: `WorkRecord.revision` of this moment.
        """
        positions = dict(self._record.positions)
        if self._record.changed <= self._saved and positions == self._positions:
            return
        keys = self._unfinished()
        try:
            written = await self._record.save(UnfinishedWork(revision, keys, positions))
        except StatusError:
            return  # the store may be full: the next look tries again
        self._saved = written if written == revision + 1 else revision
        self._positions = positions

    def _unfinished(self) -> Mapping[str, Sequence[Key]]:
        """What waits, of the controllers with the least first, so that one with very much does not push out others."""
        found = {name: one.queue.unfinished(MOST_KEYS) for name, one in self._resumed.items()}
        room = MOST_BYTES
        kept: dict[str, list[Key]] = {}
        for name, keys in sorted(found.items(), key=lambda item: len(item[1])):
            for key in keys:
                room -= sum(len(part.encode()) for part in key)
                if room < 0:
                    return kept
                kept.setdefault(name, []).append(key)
        return kept
