"""Checks a database by its first page and its size, before SQLite opens it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from kcp_py.storage.sqlite.checksums import PAGE_SIZE, RESERVED, page_is_sound, pages
from kcp_py.storage.sqlite.errors import CorruptDatabaseError, IncompatibleDatabaseError
from kcp_py.storage.sqlite.log import Log
from kcp_py.storage.sqlite.schema import APPLICATION_ID, CHECKED_FORMAT, FORMAT

WHAT_TO_DO: Final = "kcp-py doctor says what is damaged; kcp-py restore puts a backup in its place"


class Advice(NamedTuple):
    """The advice in an error about a file."""

    empty: str
    damaged: str


STORE: Final = Advice("put the file back or run kcp-py restore; to begin with an empty store, remove it", WHAT_TO_DO)
BACKUP: Final = Advice("use another backup", "use another backup; kcp-py doctor --storage-path FILE says what is damaged in this one")

_MAGIC: Final = b"SQLite format 3\x00"
_HEADER: Final = 100


def check_header(path: str, *, in_use: bool = False, advice: Advice = STORE) -> int:
    """The format of a database (https://sqlite.org/fileformat.html#the_database_header).

    Args:
        path: the file.
        in_use: connections may be open to it.
        advice: the advice in errors.

    Raises:
        OSError: it cannot be read.
        CorruptDatabaseError: it is empty or damaged.
        IncompatibleDatabaseError: it belongs to another program or a newer version.
    """
    page = _beginning(path, in_use=in_use)
    if not page:
        raise CorruptDatabaseError(f"{path} is empty: {advice.empty}")
    if page[:16] != _MAGIC or len(page) < _HEADER:
        raise IncompatibleDatabaseError(f"{path} is not a database")
    reserved = page[20]
    version = int.from_bytes(page[60:64], "big")
    if int.from_bytes(page[68:72], "big") != APPLICATION_ID:
        raise IncompatibleDatabaseError(f"{path} is a database of another program")
    if version > FORMAT:
        raise IncompatibleDatabaseError(f"{path} was written by a newer version (format {version}; this version reads up to {FORMAT})")
    if reserved != (RESERVED if version >= CHECKED_FORMAT else 0) or page[16:18] != PAGE_SIZE.to_bytes(2, "big"):
        raise CorruptDatabaseError(f"{path} is damaged: its header contradicts itself; {advice.damaged}")
    # A page that is being written into the file during a power failure is in the log, too.
    if reserved and not page_is_sound(page) and not _has_log(path):
        raise CorruptDatabaseError(f"{path} is damaged: the checksum of its first page is wrong; {advice.damaged}")
    return version


def check_size(path: str, log: Log, *, in_use: bool = False, advice: Advice = STORE) -> None:
    """Whether the file has all pages.

    Args:
        path: the file.
        log: its write-ahead log.
        in_use: connections may be open to it.
        advice: the advice in errors.

    Raises:
        CorruptDatabaseError: it was cut short.
    """
    wanted = log.size or int.from_bytes(_beginning(path, in_use=in_use)[28:32], "big")
    size = Path(path).stat().st_size
    there = size // PAGE_SIZE
    if wanted > there and not log.pages.issuperset(range(there + 1, wanted + 1)):
        raise CorruptDatabaseError(f"{path} is damaged: it has {size} bytes, and should have {wanted * PAGE_SIZE}; {advice.damaged}")


def _beginning(path: str, *, in_use: bool) -> bytes:
    """The first page of a file, or its available part."""
    if in_use:
        return next(iter(pages(path)), (1, b""))[1]
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, PAGE_SIZE, 0)
    finally:
        os.close(descriptor)


def _has_log(path: str) -> bool:
    try:
        return Path(f"{path}-wal").stat().st_size > 0
    except FileNotFoundError:
        return False
