"""`ObjectCount`: how many objects of a resource are stored, in all clusters."""

from __future__ import annotations

from kcp_py.storage.contract import Storage
from kcp_py.watchcache.event import ObjectEvent
from kcp_py.watchcache.fanout import Fanout


class ObjectCount:
    """Counts once, and updates the number with each event, because repeated counts of many objects would block the event loop."""

    def __init__(self, storage: Storage, fanout: Fanout, prefix: str) -> None:
        """Listen to the events of the resource with a prefix. `load` counts."""
        self._storage = storage
        self._prefix = prefix
        self.value: int | None = None
        """The number after the last distributed event; None while it is unknown."""
        self._counted_at = 0
        self._changes: list[tuple[int, int]] | None = None
        """Revisions and differences during a count."""
        fanout.listen(prefix, self._changed)
        fanout.listen_gaps(self._forget)

    async def load(self) -> None:
        """Count unless the number is known.

        Raises:
            StorageError: the store cannot be read; call again.
        """
        if self.value is not None:
            return
        changes = self._changes = []
        page = await self._storage.range(self._prefix, limit=1, count=True, keys_only=True)
        if self._changes is changes:
            self._changes = None
            self._counted_at = page.revision
            self.value = page.total + sum(difference for at, difference in changes if at > page.revision)

    def _changed(self, event: ObjectEvent) -> None:
        difference = -1 if event.value is None else int(event.previous is None)
        if self._changes is not None:
            self._changes.append((event.mod_revision, difference))
        elif self.value is not None and event.mod_revision > self._counted_at:
            self.value += difference

    def _forget(self) -> None:
        self.value = self._changes = None
