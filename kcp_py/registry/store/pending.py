"""`PendingWrites`: the keys that a server is writing.

A store shows a commit to readers before its writer gets the answer. A value that is read of a key meanwhile must not be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class PendingWrites:
    """Keys of writes that have begun and not finished. Several writes of one key may be under way."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def begin(self, keys: Iterable[str]) -> None:
        """See `WriteObserver.writing`."""
        self._counts.update(keys)

    def end(self, keys: Iterable[str]) -> None:
        """See `WriteObserver.written`."""
        for key in keys:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]

    def __contains__(self, key: str) -> bool:
        return key in self._counts

    def keys(self) -> list[str]:
        """All of them, each once."""
        return list(self._counts)
