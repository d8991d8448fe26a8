"""Checksums of pages: SQLite's own checksum VFS (`cksumvfs`, https://sqlite.org/cksumvfs.html), which comes with apsw.

The last eight bytes of each page of the database file hold a checksum of the others. It is set when a page is written into the file, and
compared each time that a page is read from it, so that it covers rows, indexes, free lists and the file's header alike: a key that is
damaged in an index is not missed as one that does not exist. Pages in the write-ahead log have checksums of another form, which SQLite
compares when it recovers the log (see `log`).
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
"""Bytes at the end of each page; the VFS computes checksums in files with this number only."""
_VFS: Final = "cksmvfs"
_MASK: Final = 0xFFFFFFFF
_PAIR: Final = struct.Struct("<2I")
LONGEST: Final = (1 << 16) - 8
"""Bytes over which `continues` can judge a checksum."""
_CHUNK: Final = 256
"""Pages read at once."""


def connect(path: str, *, flags: int = apsw.SQLITE_OPEN_READWRITE) -> apsw.Connection:
    """A connection that sets and compares checksums in a file that has them.

    Raises:
        DatabaseFileError: this installation of apsw lacks the VFS.
        apsw.Error: SQLite cannot open the file.
    """
    _register()
    return apsw.Connection(path, flags=flags, vfs=_VFS)


@cache
def _register() -> None:
    """Make the VFS known, and leave the default one alone: a program around this one may use apsw, too."""
    default = apsw.vfs_names()[0]
    if _VFS in apsw.vfs_names():
        return
    connection = apsw.Connection(":memory:")
    try:
        # Packages of distributions leave it out.
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

    The file may be in use: a page may be found that is being written just now.
    """
    for number, page in pages(path):
        if not page_is_sound(page):
            yield number


def pages(path: str, *, first: int = 1) -> Iterator[tuple[int, bytes]]:
    """The whole pages of a file with their numbers, from the page `first` on."""
    # Not opened as a plain file: closing that would drop the locks that SQLite has on it in this process.
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
    """Whether a page of the database file has its checksum at its end."""
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
    """Whether a checksum that goes on from another one is right, as those of the write-ahead log do.

    See https://sqlite.org/fileformat.html#checksum_algorithm.

    Args:
        previous: the checksum before, as two little-endian words.
        data: what it goes on over; a multiple of eight bytes, `LONGEST` at most.
        found: the checksum behind.
    """
    # Every eight bytes (x, y) make `a += x + b; b += y + a`. That is linear: what `previous` contributes can be taken away from `found`,
    # and zeros before the data contribute nothing. So the function for pages, which is fast, can judge.
    aa, ab, ba, bb = _steps(len(data) // 8)
    a, b = _PAIR.unpack(previous)
    c, d = _PAIR.unpack(found)
    alone = _PAIR.pack((c - a * aa - b * ab) & _MASK, (d - a * ba - b * bb) & _MASK)
    size = max(512, 1 << (len(data) + 7).bit_length())  # of a page: the function judges nothing else
    return page_is_sound(b"".join((bytes(size - len(data) - 8), data, alone)))


@cache
def _steps(count: int) -> tuple[int, int, int, int]:
    """What the two halves of a checksum become in so many steps over zeros, as a matrix."""
    aa, ab, ba, bb = 1, 0, 0, 1
    for _ in range(count):
        aa, ab, ba, bb = (aa + ba) & _MASK, (ab + bb) & _MASK, (aa + 2 * ba) & _MASK, (ab + 2 * bb) & _MASK
    return aa, ab, ba, bb
