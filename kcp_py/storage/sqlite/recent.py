"""`RecentWrites`: which keys were written lately.

A read at an earlier revision has to undo the writes since. The history has no index of its keys, so all later writes are searched for those
of the read. Most keys that are read so were not written since: their values then are their current ones.

A directory is the part of a key up to its last slash.
"""

from __future__ import annotations

from typing import Final

_MOST_KEYS: Final = 8_192
"""Keys and directories of one generation. There are two, which take about 200 bytes a key."""


class RecentWrites:
    """The last revision of each recently written key. Only one process writes the file, and it records every write before its commit."""

    __slots__ = ("_later", "_latest", "_most_keys", "_outer", "_previous", "_previous_outer", "_since")

    def __init__(self, revision: int, *, most_keys: int = _MOST_KEYS) -> None:
        """Begin.

        Args:
            revision: of the store. Writes up to it are not known.
            most_keys: the number of keys at which older writes are forgotten.
        """
        self._most_keys = most_keys
        self._latest: dict[str, int] = {}
        """Key or directory -> its last revision."""
        self._outer: set[str] = set()
        """What directories lie in: writes below them are recorded for the inner directories only."""
        self._previous: dict[str, int] = {}
        self._previous_outer: set[str] = set()
        self._since = revision
        """All writes after this revision are in the two generations."""
        self._later = revision
        """All writes after this revision are in the latest one."""

    def reset(self, revision: int) -> None:
        """Forget everything. Writes up to a revision are not known."""
        self._latest, self._previous = {}, {}
        self._outer, self._previous_outer = set(), set()
        self._since = self._later = revision

    def misses(self, revision: int) -> bool:  # noqa: ARG002 - for subclasses
        """Whether writes up to a committed revision may not have been recorded."""
        return False

    def writing(self, key: str, revision: int) -> None:
        """Record that a key is going to be written at a revision, unless the write fails."""
        latest = self._latest
        directory = key[: key.rfind("/") + 1]
        if directory not in latest:
            self._begin(directory)
        latest[directory] = latest[key] = revision
        if len(latest) >= self._most_keys:
            self._previous, self._latest = latest, {}
            self._previous_outer, self._outer = self._outer, set()
            self._since, self._later = self._later, revision

    def _begin(self, directory: str) -> None:
        end = directory.find("/") + 1
        while 0 < end < len(directory):
            self._outer.add(directory[:end])
            end = directory.find("/", end) + 1

    def may_be_newer(self, key: str, revision: int) -> bool:
        """Whether a key may have been written after a revision, or any key that begins with this one if it ends with a slash."""
        return (
            revision < self._since
            or self._latest.get(key, 0) > revision
            or self._previous.get(key, 0) > revision
            or key in self._outer
            or key in self._previous_outer
        )
