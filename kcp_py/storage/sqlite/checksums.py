"""Checksums of pages: SQLite's own checksum VFS (`cksumvfs`, https://sqlite.org/cksumvfs.html), which comes with apsw.

The last eight bytes of each page of the database file contain a checksum of the other bytes. The checksum is set when a page is written
into the file, and verified whenever the page is read. It covers rows, indexes, free lists and the header of the file, so a key that is
damaged in an index is not reported as absent. Pages in the write-ahead log have checksums of another form, which SQLite verifies when it
recovers the log (see `log`).
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Final

import apsw

from kcp_py.storage.sqlite.errors import DatabaseFileError

PAGE_SIZE: Final = 4096
RESERVED: Final = 8
"""Bytes at the end of each page. The VFS computes checksums only in files with this number."""
_VFS: Final = "cksmvfs"
_MASK: Final = 0xFFFFFFFF
_PAIR: Final = struct.Struct("<2I")
LONGEST: Final = (1 << 16) - 8
"""The maximum number of bytes for which `continues` can verify a checksum."""
_CHUNK: Final = 256
"""The number of pages per read."""


def connect(path: str, *, flags: int = apsw.SQLITE_OPEN_READWRITE) -> apsw.Connection:
    """A connection that sets and verifies checksums in a file that has them.

    Raises:
        DatabaseFileError: this installation of apsw lacks the VFS.
        apsw.Error: SQLite cannot open the file.
    """
    _register()
    return apsw.Connection(path, flags=flags, vfs=_VFS)


@cache
def _register() -> None:
    """Register the VFS without making it the default, because an embedding program may use apsw, too."""
    default = apsw.vfs_names()[0]
    if _VFS in apsw.vfs_names():
        return
    connection = apsw.Connection(":memory:")
    try:
        # Packages of Linux distributions omit the VFS.
        importlib.import_module("apsw.sqlite_extra").load(connection, "cksumvfs")
    except Exception as error:
        raise DatabaseFileError(
            "the sqlite store needs apsw with SQLite's checksum VFS: install apsw from its wheel (pip install --only-binary apsw apsw)"
        ) from error
    finally:
        connection.close()
    apsw.set_default_vfs(default)


def damaged_pages(path: str) -> Iterator[int]:
    """The numbers (from 1 on) of the pages in a database file whose checksum is wrong, in order. A page of zeros passes.

    If the file is in use, a page that is being written may be reported.
    """
    for number, page in pages(path):
        if not page_is_sound(page):
            yield number


def pages(path: str, *, first: int = 1) -> Iterator[tuple[int, bytes]]:
    """The whole pages of a file with their numbers, from the page `first` on."""
    # The file is not opened directly, because closing it would drop the locks of SQLite in this process.
    file = apsw.VFSFile("unix", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        size = file.xFileSize()
        number = first
        while (left := size // PAGE_SIZE - number + 1) > 0:
            chunk = file.xRead(min(left, _CHUNK) * PAGE_SIZE, (number - 1) * PAGE_SIZE)
            for offset in range(0, len(chunk) // PAGE_SIZE * PAGE_SIZE, PAGE_SIZE):
                yield number, chunk[offset : offset + PAGE_SIZE]
                number += 1
            if len(chunk) < PAGE_SIZE:
                return
    finally:
        with suppress(apsw.Error):
            file.xClose()


def page_is_sound(page: bytes) -> bool:
    """Whether the checksum at the end of a page of the database file is right."""
    return _verifier()(page)


@cache
def _verifier() -> Callable[[bytes], bool]:
    _register()
    connection = apsw.Connection(":memory:")

    def verify(page: bytes) -> bool:
        ((sound,),) = connection.execute("SELECT verify_checksum(?)", (page,))
        return bool(sound)

    return verify


def continues(previous: bytes, data: bytes, found: bytes) -> bool:
    """Whether a chained checksum is right, as in the write-ahead log.

    See https://sqlite.org/fileformat.html#checksum_algorithm.

    Args:
        previous: the preceding checksum, as two little-endian words.
        data: the bytes that it covers, a multiple of eight, at most `LONGEST`.
        found: the stored checksum.
    """
    # Every eight bytes (x, y) mean `a += x + b; b += y + a`. This is linear: the part of `previous` can be subtracted from `found`,
    # and zeros before the data have no effect. Therefore the fast function for pages can verify the checksum.
    aa, ab, ba, bb = _steps(len(data) // 8)
    a, b = _PAIR.unpack(previous)
    c, d = _PAIR.unpack(found)
    alone = _PAIR.pack((c - a * aa - b * ab) & _MASK, (d - a * ba - b * bb) & _MASK)
    size = max(512, 1 << (len(data) + 7).bit_length())  # the size of a page, as the function requires
    return page_is_sound(b"".join((bytes(size - len(data) - 8), data, alone)))


@cache
def _steps(count: int) -> tuple[int, int, int, int]:
    """The matrix by which the two halves of a checksum change in a number of steps over zeros."""
    aa, ab, ba, bb = 1, 0, 0, 1
    for _ in range(count):
        aa, ab, ba, bb = (aa + ba) & _MASK, (ab + bb) & _MASK, (aa + 2 * ba) & _MASK, (ab + 2 * bb) & _MASK
    return aa, ab, ba, bb
