"""`SharedRevisions`: two revisions of the store, and whether its disk is full, in memory that all its processes map.

A cache that follows the events of the store is right as long as no later write can be read. The events arrive a moment after the write can
be read in the file, so a cache asks here whether there may be writes that it does not know yet. This costs no system call.
"""

from __future__ import annotations

import mmap
from typing import Final

BYTES: Final = 24
"""Of this memory."""
_BEGUN: Final = 0
_ACKNOWLEDGED: Final = 1
_FULL: Final = 2


class SharedRevisions:
    """Written by the owner of the store alone. A number is one aligned machine word, which is written and read as a whole."""

    def __init__(self, memory: mmap.mmap | None = None) -> None:
        """Use memory of at least `BYTES` that is mapped with `MAP_SHARED`; None for memory that processes forked from now on share."""
        self._words = memoryview(memory if memory is not None else mmap.mmap(-1, BYTES)).cast("Q")

    @property
    def begun(self) -> int:
        """No later revision can be read in the file. It is set before a commit begins, and may be one that fails."""
        return self._words[_BEGUN]

    @property
    def acknowledged(self) -> int:
        """No later revision was acknowledged. It is set before the first acknowledgement."""
        return self._words[_ACKNOWLEDGED]

    @property
    def full(self) -> bool:
        """Whether the disk has room for deletions alone."""
        return bool(self._words[_FULL])

    def committing(self, revision: int) -> None:
        """Record that a commit up to a revision begins."""
        self._words[_BEGUN] = revision

    def committed(self, revision: int) -> None:
        """Record that a commit has ended, before it is acknowledged."""
        self._words[_ACKNOWLEDGED] = revision

    def reset(self, revision: int) -> None:
        """Record the revision of a store that was just opened."""
        self._words[_BEGUN] = self._words[_ACKNOWLEDGED] = revision

    def room_changed(self, full: bool) -> None:  # noqa: FBT001 - the one argument of a callback
        """Record whether the disk has room for deletions alone."""
        self._words[_FULL] = full
