"""`WorkRecord`: the unfinished work of controllers, which the next process continues at once (docs/adr/0045).

Reading all objects of a large store takes minutes. The record has the keys that wait, and the history of the store has the changes
since. The record is an addition: all objects are read nevertheless, so nothing depends on it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from kcp_py.aio.cooperative import Throttle, TimeSlice
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.client.following import Followers
from kcp_py.client.history import read_history
from kcp_py.client.keys import Key
from kcp_py.client.records import StoreRecords
from kcp_py.client.tap import ObjectChange
from kcp_py.logicalcluster import parse_name
from kcp_py.registry.store.access import translate
from kcp_py.storage.contract import CompactedError, FutureRevisionError, Storage, StorageError
from kcp_py.storage.keys import ResourceKeys

_NAME: Final = "unfinished-work"
MOST_CHANGES: Final = 50_000
"""Changes that are handled after a start. A record is younger than that; without one, there may be hundreds of thousands of them, and
controllers that look at all their objects at once take the processor from requests."""


class UnfinishedWork(NamedTuple):
    """What controllers had not finished."""

    revision: int
    """All changes up to this one had been dealt with, or their keys are below."""
    keys: Mapping[str, Sequence[Key]]
    """Controller -> what waits for it."""
    positions: Mapping[str, str]
    """Prefix of keys -> the key from which on existing objects had not been read."""


class WorkRecord:
    """The record of the controllers of a store."""

    def __init__(self, storage: Storage, root: str, followers: Followers, *, keys_of: Callable[[GroupResource], ResourceKeys]) -> None:
        """Prepare.

        Args:
            storage: the store.
            root: the prefix of its keys.
            followers: the readers of changes of this process.
            keys_of: the keys of a resource.
        """
        self._storage = storage
        self._root = root
        self._followers = followers
        self._keys_of = keys_of
        self._records = StoreRecords(storage, root)

    @property
    def revision(self) -> int | None:
        """The controllers know all changes up to this revision; None while they have missed some."""
        return self._followers.revision

    @property
    def changed(self) -> int:
        """The revision of the last change of an object; 0 for none since the start."""
        return self._followers.fanout.object_revision

    @property
    def positions(self) -> Mapping[str, str]:
        """How far the reads of existing objects have come, as in `UnfinishedWork`."""
        return self._followers.positions

    async def load(self) -> UnfinishedWork | None:
        """The record that the last process has left; None where there is none for this store.

        Reads of existing objects that begin afterwards continue where the last ones were, and end with the objects before that position.

        Raises:
            StatusError: the store cannot be read.
        """
        work = _parse(await self._records.load(_NAME))
        if work is not None:
            self._followers.starts = work.positions
        return work

    async def save(self, work: UnfinishedWork) -> int:
        """Replace the record.

        Returns:
            The revision of the write; 0 where another process has written meanwhile.

        Raises:
            StatusError: the store cannot be read or written.
        """
        keys = {name: [[*key] for key in found] for name, found in work.keys.items()}
        return await self._records.save(_NAME, {"revision": work.revision, "keys": keys, "positions": dict(work.positions)})

    async def changes(
        self, after: int, resources: Collection[GroupResource], *, most: int = MOST_CHANGES
    ) -> AsyncGenerator[ObjectChange, None]:
        """The changes of resources from a revision until now, as far as the history reaches back.

        Args:
            after: the last revision that is left out.
            resources: whose changes.
            most: of the last so many revisions, so many changes.

        Raises:
            StatusError: the store cannot be read.
        """
        prefixes = {self._keys_of(resource).prefix for resource in resources}
        until = self._followers.fanout.revision
        after = max(after, until - most)
        turns = TimeSlice()
        try:
            while after < until:
                changes = read_history(
                    self._storage, self._root, after, until=until, throttle=Throttle(), wanted=lambda route: route.prefix in prefixes
                )
                try:
                    async with aclosing(changes):
                        async for batch in changes:
                            for change in batch:
                                if not most:
                                    return
                                most -= 1
                                yield change
                                await turns.yield_if_due()
                    after = until
                except CompactedError as error:
                    after = max(after + 1, error.compact_revision)
        except FutureRevisionError:
            return
        except StorageError as error:
            raise translate(error) from error


def _parse(value: Mapping[str, Any] | None) -> UnfinishedWork | None:
    """A record; None where another program has stored something else."""
    match value:
        case {"revision": int(revision), "keys": dict(keys), "positions": dict(positions)}:
            try:
                found = {name: [_key(parts) for parts in lists] for name, lists in keys.items()}
                return UnfinishedWork(revision, found, {prefix: _text(position) for prefix, position in positions.items()})
            except (TypeError, ValueError):
                return None
    return None


def _key(parts: Any) -> Key:
    cluster, namespace, name = parts
    return Key(parse_name(_text(cluster)), _text(namespace), _text(name))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
