"""`SettledFile`: says when a file that another program may be writing has stayed the same for a while."""

from __future__ import annotations

from pathlib import Path


class SettledFile:
    """Compares the looks at one file. A program that writes in place can leave half of a document that is valid by itself."""

    def __init__(self, path: Path) -> None:
        """Prepare. Links are followed at each look."""
        self._path = path
        self._seen: tuple[int, ...] | None = ()

    def look(self) -> bool:
        """Whether the file is the one of the last look, and was not written since. It blocks for the time of a system call.

        A file that cannot be looked at is the same as at the last look if that had failed, too.
        """
        try:
            status = self._path.stat()
        except OSError:
            found = None
        else:
            found = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        settled, self._seen = found == self._seen, found
        return settled
