"""`fingerprint`: tells the program of a process from the one that an upgrade has put in its place.

A process that begins after an upgrade would import the new modules, and share a store with processes that run the old ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import kcp_py

CHANGED: Final = "the program was changed while the server runs, and no process can be added: start the server again"


def fingerprint(package: os.PathLike[str] | None = None) -> bytes:
    """A digest of the names, sizes and times of modules: 16 bytes, which differ after an upgrade.

    Args:
        package: the folder of the modules; that of this program by default.
    """
    import hashlib
    from pathlib import Path

    digest = hashlib.blake2b(digest_size=16)
    for name, size, changed in sorted(_modules(os.fspath(package or Path(kcp_py.__file__).parent))):
        digest.update(f"{name}\0{size}\0{changed}\0".encode(errors="surrogateescape"))
    return digest.digest()


def _modules(folder: str) -> Iterator[tuple[str, int, int]]:
    for at, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(at, name)  # noqa: PTH118 - many times faster
                try:
                    found = os.stat(path)  # noqa: PTH116 - as above
                except OSError:
                    continue  # it is being replaced
                yield path, found.st_size, found.st_mtime_ns
