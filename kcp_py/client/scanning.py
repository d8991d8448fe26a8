"""`ScanProgress`: reads of the whole store that a later process continues."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from kcp_py.aio.cooperative import Throttle
from kcp_py.client.history import read_history
from kcp_py.client.records import StoreRecords
from kcp_py.client.tap import ObjectChange, ObjectFilter
from kcp_py.logicalcluster import Name
from kcp_py.registry.store.access import translate
from kcp_py.storage.contract import CompactedError, FutureRevisionError, KeyValue, Storage, StorageError
from kcp_py.storage.keys import resource_of, route_of
from kcp_py.storage.paging import read_pages
from kcp_py.watchcache import Fanout

_PAGE: Final = 200
"""Objects that are read at once."""


class Checkpoint(NamedTuple):
    """What a reader of the whole store has dealt with."""

    revision: int
    """All changes up to this one, but for those in `clusters`."""
    clusters: Collection[Name]
    """Clusters in which work remains."""
    position: str | None
    """The key from which on stored objects have not been read; None: all have been read."""


class ScannedPage(NamedTuple):
    """A part of the store."""

    objects: Sequence[ObjectChange]
    """Those of the page that the filter shows."""
    position: str
    """The key after the page."""


class ScanProgress:
    """The store of this process, for readers that keep a `Checkpoint` in it (see `StoreRecords`)."""

    def __init__(self, storage: Storage, fanout: Fanout, root: str, *, throttle: Throttle) -> None:
        """Prepare.

        Args:
            storage: the store.
            fanout: its changes.
            root: the prefix of its keys.
            throttle: passed before each read.
        """
        self._records = StoreRecords(storage, root)
        self._storage = storage
        self._fanout = fanout
        self._root = root
        self._throttle = throttle
        self.scans = 0
        """How many `scan`s are under way."""

    @property
    def revision(self) -> int:
        """Observers have been called with all changes up to this revision."""
        return self._fanout.revision

    async def load(self, name: str) -> Checkpoint | None:
        """The checkpoint of a reader; None where there is none for this store.

        Raises:
            StatusError: the store cannot be read.
        """
        return _parse(await self._records.load(name))

    async def save(self, name: str, checkpoint: Checkpoint) -> int:
        """Keep the checkpoint of a reader.

        Returns:
            The revision of the write; 0 where another process has written meanwhile.

        Raises:
            StatusError: the store cannot be read or written.
        """
        return await self._records.save(name, {**checkpoint._asdict(), "clusters": sorted(checkpoint.clusters)})

    async def changed_clusters(self, after: int, *, concerned: ObjectFilter, most: int) -> Collection[Name] | None:
        """The clusters of the changes between a revision and `revision`.

        Args:
            after: the last revision that is left out.
            concerned: which changes count.
            most: how many clusters may be found.

        Returns:
            None where the changes are not known any more, or where more clusters were found.

        Raises:
            StatusError: the store cannot be read.
        """
        until = self.revision
        found: set[Name] = set()
        if after >= until:
            # A store that is older than its checkpoint is not the one that it was written to.
            return found if after == until else None
        changes = read_history(self._storage, self._root, after, until=until, throttle=self._throttle)
        try:
            async with aclosing(changes):
                async for batch in changes:
                    found.update(one.cluster for one in batch if concerned.shows(one.resource, one.value, one.previous))
                    if len(found) > most:
                        return None
        except (CompactedError, FutureRevisionError):
            return None
        except StorageError as error:
            raise translate(error) from error
        return found

    async def scan(self, start: str, *, concerned: ObjectFilter) -> AsyncGenerator[ScannedPage, None]:
        """The objects of all clusters, in the order of their keys.

        When it ends, observers have been called with every change up to the revision that was read.

        Args:
            start: where to begin: empty, or a position.
            concerned: which objects are shown.

        Raises:
            StatusError: the store cannot be read.
        """
        revision = 0
        self.scans += 1
        try:
            await self._throttle.take()
            async for page in read_pages(self._storage, f"{self._root}/", limit=_PAGE, start=start):
                revision = page.revision
                last = max((*(item.key for item in page.items[-1:]), *page.damaged), default=start)
                yield ScannedPage([*self._shown(page.items, concerned)], last + "\x00")
                await self._throttle.take()
        except StorageError as error:
            raise translate(error) from error
        finally:
            self.scans -= 1
        await self._fanout.reached(revision)

    def _shown(self, items: Sequence[KeyValue], concerned: ObjectFilter) -> Sequence[ObjectChange]:
        shown = []
        for item in items:
            if not concerned.matches(item.value) or (route := route_of(item.key, self._root)) is None:
                continue
            resource = resource_of(route.prefix, self._root)
            if resource not in concerned.ignored:
                shown.append(ObjectChange(Name(route.cluster), resource, route.namespace, route.name, item.value, None))
        return shown


def _parse(value: Mapping[str, Any] | None) -> Checkpoint | None:
    """A stored checkpoint; None where another program has stored something else."""
    match value:
        case {"revision": int(revision), "clusters": [*clusters], "position": str() | None as position}:
            if all(isinstance(cluster, str) for cluster in clusters):
                return Checkpoint(revision, [Name(cluster) for cluster in clusters], position)
    return None
