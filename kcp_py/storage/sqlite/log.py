"""Checks the write-ahead log before SQLite opens it (https://sqlite.org/fileformat.html#the_write_ahead_log).

SQLite reads the log up to the first wrong checksum and silently drops the rest. This is correct if a power failure interrupted the last
transaction, and loses acknowledged writes if a bit in the middle is wrong. The two cases can be distinguished: each commit is synced before
the next begins, so a complete later commit proves that everything before it was on the disk.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from kcp_py.storage.sqlite.checksums import LONGEST, PAGE_SIZE, continues

_HEADER: Final = struct.Struct(">6I")
_HEADER_SIZE: Final = 32
_FRAME: Final = struct.Struct(">4I")
_FRAME_HEADER_SIZE: Final = 24
_FRAME_SIZE: Final = _FRAME_HEADER_SIZE + PAGE_SIZE
_LITTLE_ENDIAN: Final = 0x377F0682
_BIG_ENDIAN: Final = 0x377F0683
_TOGETHER: Final = LONGEST // (8 + PAGE_SIZE)
"""The number of frames that are verified together."""
_STARTS: Final = range(0, _TOGETHER * _FRAME_SIZE, _FRAME_SIZE)
"""Where these frames begin."""
_LOOKS: Final = 3
_BLOCK: Final = 1 << 20


class Log(NamedTuple):
    """The content of a write-ahead log."""

    pages: frozenset[int]
    """The pages in its committed part."""
    size: int
    """The number of pages of the database with the log; 0 without a commit."""
    damage: str
    """A certain error that loses acknowledged writes; empty for none."""
    doubt: str
    """Possible damage, or the end of a write that was never acknowledged; empty for none."""


_EMPTY: Final = Log(frozenset(), 0, "", "")


class _Frame(NamedTuple):
    page: int
    committed_size: int
    """The number of pages of the database after the commit that this frame ends; 0 for other frames."""
    salt: bytes
    checksum: bytes
    data: bytes
    """The bytes that the checksum covers."""


def read_log(path: str) -> Log:
    """The log of a database that is not in use, or a snapshot of it.

    Args:
        path: the path of the database. Without a log the result is empty.

    Raises:
        OSError: the log exists and cannot be read.
    """
    try:
        with Path(f"{path}-wal").open("rb") as file:
            header = file.read(_HEADER_SIZE)
            if len(header) < _HEADER_SIZE or not any(header):
                return _EMPTY  # nothing was ever synced
            magic, _, page_size, _, _, _ = _HEADER.unpack_from(header)
            order = {_LITTLE_ENDIAN: False, _BIG_ENDIAN: True}.get(magic)
            if order is None or page_size != PAGE_SIZE or not _follows(bytes(8), header[:24], header[24:], swapped=order):
                return _EMPTY._replace(damage="the header of the write-ahead log is damaged, and with it all that is in the log")
            return _read(_frames(iter(lambda: file.read(_FRAME_SIZE), b"")), header[16:24], header[24:], swapped=order)
    except FileNotFoundError:
        return _EMPTY


def settle_log(path: str) -> None:
    """Rewrite the log of a database that is not in use, unchanged, and sync it.

    The system may consider bytes clean that the last process could not sync, and never write them. A power failure would then change the
    log.

    Raises:
        OSError: it cannot be read or written.
    """
    try:
        descriptor = os.open(f"{path}-wal", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        position = 0
        while block := os.pread(descriptor, _BLOCK, position):
            position += os.pwrite(descriptor, block, position)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Mark(NamedTuple):
    """The position up to which a log was verified."""

    salt: bytes
    frames: int
    checksum: bytes
    """The checksum of the last of them."""


class LogCheck:
    """Verifies the log of a running database, each time the new frames."""

    def __init__(self, path: str) -> None:
        """Create a check without reading the log.

        Args:
            path: the path of the database.
        """
        self._path = path
        self._mark = _Mark(b"", 0, b"")

    def damage(self, frames: int | None = None) -> str:
        """A certain error; empty for none. Takes about 2 us for each frame.

        Args:
            frames: how many frames the log had before this call. Frames behind them are from before the log was restarted, or belong to
                later commits, and are not read one by one. None for all of the file.

        Raises:
            OSError: the log exists and cannot be read.
        """
        found = self._look(frames)
        for _ in range(_LOOKS):
            # A frame that is being written may look wrong before later frames, but only once.
            if not found or (again := self._look(frames)) == found:
                break
            found = again
        return found

    def _look(self, frames: int | None) -> str:
        """Verify many frames together, and one by one if that fails, which happens at the end of the log."""
        try:
            with Path(f"{self._path}-wal").open("rb", buffering=0) as file:
                header = file.read(_HEADER_SIZE)
                if len(header) < _HEADER_SIZE or int.from_bytes(header[:4], "big") != _LITTLE_ENDIAN:
                    return read_log(self._path).damage
                mark = self._mark
                if mark.salt != header[16:24]:
                    mark = _Mark(header[16:24], 0, header[24:])
                file.seek(_HEADER_SIZE + mark.frames * _FRAME_SIZE)
                while len(block := file.read(_TOGETHER * _FRAME_SIZE)) == _TOGETHER * _FRAME_SIZE:
                    view = memoryview(block)
                    parts = [part for at in _STARTS for part in (view[at : at + 8], view[at + _FRAME_HEADER_SIZE : at + _FRAME_SIZE])]
                    last = block[_STARTS[-1] + 16 : _STARTS[-1] + 24]
                    if any(block[at + 8 : at + 16] != mark.salt for at in _STARTS) or not _follows(
                        mark.checksum, b"".join(parts), last, swapped=False
                    ):
                        break
                    mark = _Mark(mark.salt, mark.frames + _TOGETHER, last)
                self._mark = mark
                file.seek(_HEADER_SIZE + mark.frames * _FRAME_SIZE)
                rest = _frames(iter(lambda: file.read(_FRAME_SIZE), b""))
                if frames is not None:
                    rest = islice(rest, max(0, frames - mark.frames))
                return _read(rest, mark.salt, mark.checksum, swapped=False, number=mark.frames).damage
        except FileNotFoundError:
            return ""


def _read(frames: Iterator[_Frame], salt: bytes, checksum: bytes, *, swapped: bool, number: int = 0) -> Log:
    pages: set[int] = set()
    pending: set[int] = set()
    size = 0
    committed_behind = proved = False
    wrong = 0
    for frame in frames:
        number += 1
        if not wrong:
            if frame.page and frame.salt == salt and _follows(checksum, frame.data, frame.checksum, swapped=swapped):
                checksum = frame.checksum
                pending.add(frame.page)
                if frame.committed_size:
                    pages |= pending
                    pending.clear()
                    size = frame.committed_size
                continue
            if frame.salt == salt or frame.salt[:4] == salt[:4] or frame.salt[4:] == salt[4:]:
                wrong = number
                committed_behind = bool(frame.committed_size)
                continue
            # Usually a frame from before the log was restarted.
            wrong = -number
        elif frame.salt == salt:
            wrong = abs(wrong)
            if committed_behind:
                proved = True
                break
            committed_behind = bool(frame.committed_size)
    if proved:
        text = f"the write-ahead log is damaged at its frame {wrong}: acknowledged writes from there on are lost"
        return Log(frozenset(pages), size, text, "")
    doubt = f"the last transaction in the write-ahead log is not whole (frame {wrong}), as a power failure leaves it, or a disk that fails"
    return Log(frozenset(pages), size, "", doubt if wrong > 0 else "")


def _frames(blocks: Iterator[bytes]) -> Iterator[_Frame]:
    for block in blocks:
        if len(block) < _FRAME_SIZE:
            return
        page, committed_size, _, _ = _FRAME.unpack_from(block)
        yield _Frame(page, committed_size, block[8:16], block[16:24], block[:8] + block[_FRAME_HEADER_SIZE:])


def _follows(previous: bytes, data: bytes, found: bytes, *, swapped: bool) -> bool:
    """Whether a checksum is right. Checksums in the log are big-endian. The log defines the byte order of the data."""
    if swapped:
        data = _reversed_words(data)
    return continues(_reversed_words(previous), data, _reversed_words(found))


def _reversed_words(data: bytes) -> bytes:
    count = len(data) // 4
    return struct.pack(f"<{count}I", *struct.unpack(f">{count}I", data))
