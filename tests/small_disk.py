"""A file system of a few megabytes, for tests of a full disk. Mounting one takes the rights of root."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount a disk on a folder, which is made; skip the test where that is not permitted."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the room that a disk has, by a file that is returned; remove it to give the room back."""
    path = folder / "ballast"
    with path.open("ab") as file, contextlib.suppress(OSError):
        while status := os.statvfs(folder).f_bavail:
            file.write(bytes(status * 4096))
            file.flush()
    return path
