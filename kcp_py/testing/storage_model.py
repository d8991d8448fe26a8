"""The behaviour of a store in its simplest form.

Every revision is kept as a complete state, and all results are derived from these states. The code is written to be obviously correct,
not fast, and shares no code with the drivers.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcp_py.storage.contract import (
    CompactedError,
    Compare,
    ConflictError,
    Event,
    FutureRevisionError,
    KeyValue,
    Operation,
    Put,
    RangeResult,
)


class StorageModel:
    """The contract of `kcp_py.storage.contract`, executable: the same calls, answers and errors, without `async`."""

    def __init__(self, base: int = 0) -> None:
        """An empty store.

        Args:
            base: the first revision; above 0 if the driver's store was used before.
        """
        self._base = base
        self._states: list[dict[str, KeyValue]] = [{}]
        """The state after revision `base`, `base` + 1, ..."""
        self._orders: list[list[str]] = [[]]
        """The keys that each revision changed, in the order of its operations."""
        self.compact_revision = 0

    @property
    def revision(self) -> int:
        """`Storage.revision`."""
        return self._base + len(self._states) - 1

    @property
    def oldest(self) -> int:
        """The oldest revision that can be read."""
        return max(self._base, self.compact_revision)

    def state(self, revision: int) -> dict[str, KeyValue]:
        """All keys after a revision."""
        return self._states[revision - self._base]

    def get(self, key: str) -> KeyValue | None:
        """`Storage.get`."""
        return self._states[-1].get(key)

    def get_at(self, key: str, revision: int) -> KeyValue | None:
        """`read_at`."""
        self.range(key, revision=revision, limit=1)  # for its errors
        return self.state(revision).get(key)

    def range(
        self,
        prefix: str,
        *,
        start: str = "",
        limit: int = 0,
        revision: int = 0,
        count: bool = False,
        keys_only: bool = False,
    ) -> RangeResult:
        """`Storage.range`."""
        if revision > self.revision:
            raise FutureRevisionError(revision, self.revision)
        if revision and revision < self.compact_revision:
            raise CompactedError(revision, self.compact_revision)
        state = self.state(revision or self.revision)
        matching = [state[key] for key in sorted(state) if key.startswith(prefix) and key >= start]
        items = matching[:limit] if limit else matching
        return RangeResult(
            items=[item._replace(value=b"") for item in items] if keys_only else items,
            revision=revision or self.revision,
            more=len(items) < len(matching),
            total=len(matching) if count else -1,
        )

    def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        """`Storage.transact`."""
        before = self._states[-1]
        for compare in compares:
            current = before.get(compare.key)
            mod_revision, create_revision = (current.mod_revision, current.create_revision) if current else (0, 0)
            if compare.mod_revision not in {None, mod_revision} or compare.create_revision not in {None, create_revision}:
                raise ConflictError(compare.key, current)
        after = dict(before)
        order = []
        revision = self.revision + 1
        for operation in operations:
            if isinstance(operation, Put):
                created = before[operation.key].create_revision if operation.key in before else revision
                after[operation.key] = KeyValue(operation.key, operation.value, revision, created)
                order.append(operation.key)
            elif operation.key in before:
                del after[operation.key]
                order.append(operation.key)
        if order:
            self._states.append(after)
            self._orders.append(order)
        return self.revision

    def events(self, prefix: str, start_revision: int) -> list[Event]:
        """The events of a watch up to the current revision."""
        if start_revision <= self.compact_revision:
            raise CompactedError(start_revision, self.compact_revision)
        events = []
        for revision in range(max(start_revision, self._base + 1), self.revision + 1):
            before, after = self.state(revision - 1), self.state(revision)
            keys = [key for key in self._orders[revision - self._base] if key.startswith(prefix)]
            events += [_event(key, before.get(key), after.get(key), revision) for key in keys]
        return events

    def compact(self, revision: int) -> None:
        """`Storage.compact`."""
        if revision > self.revision:
            raise FutureRevisionError(revision, self.revision)
        if revision <= self.compact_revision:
            raise CompactedError(revision, self.compact_revision)
        self.compact_revision = revision


def _event(key: str, before: KeyValue | None, after: KeyValue | None, revision: int) -> Event:
    if after is not None:
        return Event(key, after.value, revision, after.create_revision, before)
    assert before is not None
    return Event(key, None, revision, before.create_revision, before)
