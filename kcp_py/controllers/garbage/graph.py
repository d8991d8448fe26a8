"""`Graph`: who depends on whom in one logical cluster."""

from __future__ import annotations

from collections import deque

from kcp_py.controllers.garbage.ownership import FOREGROUND, Facts

_LONGEST_WALK = 1_000
"""Objects that are looked at in search of a cycle."""


class Graph:
    """The dependents of every owner, and the objects that wait for theirs.

    It holds nothing of objects without owners. Changes may be told twice, and those before the graph was filled as well: the last one
    decides. Items are texts, see `Item.text`.
    """

    def __init__(self) -> None:
        self.ready = False
        """Whether all that the cluster holds has been put in."""
        self.used = True
        """Whether anything came by since this was last set to False."""
        self.told: list[tuple[str, Facts | None, Facts | None]] = []
        """Changes that came before the graph was ready: item, before, after."""
        self.due: deque[str] = deque()
        """Items that have to be looked at, in their turn."""
        self.edges = 0
        self._dependents: dict[str, dict[str, bool]] = {}
        self._blocking: dict[str, int] = {}
        self._awaiting: dict[str, Facts] = {}
        self._foreground: dict[str, str] = {}

    def clear(self) -> None:
        """Remove all objects, to begin anew."""
        for part in (self._dependents, self._blocking, self._awaiting, self._foreground):
            part.clear()
        self.edges = 0

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost if the graph were thrown away and filled again when it is needed."""
        return self.ready and not self.due

    @property
    def empty(self) -> bool:
        """Whether no object has an owner and none waits: a removal has no consequences."""
        return not (self._dependents or self._awaiting)

    def dependents(self, uid: str) -> dict[str, bool]:
        """The dependents of an owner, and whether they block its deletion."""
        return self._dependents.get(uid) or {}

    def blocking(self, uid: str) -> bool:
        """Whether any dependent blocks an owner's deletion."""
        return uid in self._blocking

    def awaiting(self, item: str) -> Facts | None:
        """The facts of an item that waits for its dependents."""
        return self._awaiting.get(item)

    def all_awaiting(self) -> list[str]:
        return list(self._awaiting)

    def put(self, item: str, before: Facts | None, after: Facts) -> list[str]:
        """Note an object.

        Returns:
            Owners whose deletion nothing blocks any more.
        """
        unblocked: list[str] = []
        if before is not None and before.owners != after.owners:
            unblocked = self._release(item, before)
        for owner in after.owners:
            dependents = self._dependents.setdefault(owner.uid, {})
            was = dependents.get(item)
            if was is None:
                self.edges += 1
            if owner.blocks is not bool(was):
                self._count(owner.uid, 1 if owner.blocks else -1)
            dependents[item] = owner.blocks
        self._note_state(item, after)
        return [waiting for waiting in unblocked if (facts := self._awaiting.get(waiting)) is not None and not self.blocking(facts.uid)]

    def remove(self, item: str, facts: Facts) -> list[str]:
        """Note that an object is gone; the answer is that of `put`."""
        unblocked = self._release(item, facts)
        awaited = self._awaiting.get(item)
        if awaited is not None and awaited.uid == facts.uid:
            del self._awaiting[item]
            self._foreground.pop(facts.uid, None)
        return unblocked

    def is_in_cycle(self, item: str) -> bool:
        """Whether an item that waits for its dependents waits, through others that wait, for itself."""
        seen: set[str] = set()
        ahead = [item]
        while ahead and len(seen) < _LONGEST_WALK:
            facts = self._awaiting.get(ahead.pop())
            if facts is None or facts.awaits != FOREGROUND:
                continue
            for dependent, blocks in self.dependents(facts.uid).items():
                if blocks and dependent == item:
                    return True
                if blocks and dependent not in seen:
                    seen.add(dependent)
                    ahead.append(dependent)
                    if len(seen) >= _LONGEST_WALK:
                        break
        return False

    def _note_state(self, item: str, facts: Facts) -> None:
        before = self._awaiting.pop(item, None)
        if before is not None:
            self._foreground.pop(before.uid, None)
        if facts.awaits:
            self._awaiting[item] = facts
            if facts.awaits == FOREGROUND:
                self._foreground[facts.uid] = item

    def _release(self, item: str, facts: Facts) -> list[str]:
        """Take an item from its owners."""
        unblocked = []
        for owner in facts.owners:
            dependents = self._dependents.get(owner.uid)
            if dependents is None or (blocked := dependents.pop(item, None)) is None:
                continue
            self.edges -= 1
            if not dependents:
                del self._dependents[owner.uid]
            if blocked:
                self._count(owner.uid, -1)
                if owner.uid not in self._blocking and (waiting := self._foreground.get(owner.uid)) is not None:
                    unblocked.append(waiting)
        return unblocked

    def _count(self, uid: str, change: int) -> None:
        count = self._blocking.get(uid, 0) + change
        if count:
            self._blocking[uid] = count
        else:
            self._blocking.pop(uid, None)
