"""`PrivateDirectory`: a directory of one test server, which is gone when the server is."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
from pathlib import Path


class PrivateDirectory:
    """A directory for one process, created on first use and removed with `remove` or at the end of the process.

    A process that was forked from this one leaves it alone.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.gettempdir()) / f"kcp-py-test-{os.getpid()}-{secrets.token_hex(8)}"
        self._owner = os.getpid()
        self._made = False

    def make(self) -> Path:
        """Create the directory with mode 0700, unless it has been created.

        Raises:
            OSError: it cannot be created.
        """
        if not self._made:
            self.path.mkdir(mode=0o700)
            self._made = True
            atexit.register(self.remove)
        return self.path

    def remove(self) -> None:
        """Remove the directory with all files in it."""
        if self._made and os.getpid() == self._owner:
            shutil.rmtree(self.path, ignore_errors=True)
            self._made = False
            atexit.unregister(self.remove)
