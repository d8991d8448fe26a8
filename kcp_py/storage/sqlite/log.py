"""Looks at the write-ahead log before SQLite does (https://sqlite.org/fileformat.html#the_write_ahead_log).

SQLite takes the log as far as its checksums hold, and forgets the rest without a word: right where a power failure cut the last transaction
short, and a silent loss of acknowledged writes where a bit in the middle is wrong. The difference can be told: each commit is synced
before the next begins, so what follows a whole commit is proof that everything before it was on the disk.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
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
"""Frames that are judged at once."""
_LOOKS: Final = 3
_BLOCK: Final = 1 << 20


class Log(NamedTuple):
    """What a write-ahead log holds."""

    pages: frozenset[int]
    """The pages that its committed part holds."""
    size: int
    """How many pages the database has with it; 0 where nothing is committed."""
    damage: str
    """What is certainly wrong with it: acknowledged writes are lost. Empty for nothing."""
    doubt: str
    """What may be damage, or the end of a write that was never acknowledged. Empty for nothing."""


_EMPTY: Final = Log(frozenset(), 0, "", "")


class _Frame(NamedTuple):
    page: int
    committed_size: int
    """How many pages the database has after the commit that this frame ends; 0 for other frames."""
    salt: bytes
    checksum: bytes
    data: bytes
    """What the checksum is about."""


def read_log(path: str) -> Log:
    """The log of a database that is not in use, or a moment's view of it.

    Args:
        path: the database's. Where it has no log, that is empty.

    Raises:
        OSError: the log is there and cannot be read.
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
    """Write the log of a database that is not in use once more, as it is, and sync it.

    What the last process could not sync the system may call clean, and never write: the log would be another one when the power fails.

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
    """How far a log was found to be sound."""

    salt: bytes
    frames: int
    checksum: bytes
    """Of the last of them."""


class LogCheck:
    """Looks at the log of a database that a server runs on, each time at what is new in it."""

    def __init__(self, path: str) -> None:
        """Nothing is read yet.

        Args:
            path: the database's.
        """
        self._path = path
        self._mark = _Mark(b"", 0, b"")

    def damage(self) -> str:
        """What is certainly wrong; empty for nothing. Takes about 4 us for each frame.

        Raises:
            OSError: the log is there and cannot be read.
        """
        found = self._look()
        for _ in range(_LOOKS):
            # A frame that was being written may look wrong before those behind it; it does so once.
            if not found or (again := self._look()) == found:
                break
            found = again
        return found

    def _look(self) -> str:
        """Judge many frames at once, and one after the other where that fails, which is at the end of what is written."""
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
                    frames = [block[at : at + _FRAME_SIZE] for at in range(0, len(block), _FRAME_SIZE)]
                    data = b"".join([part for frame in frames for part in (frame[:8], frame[_FRAME_HEADER_SIZE:])])
                    last = frames[-1][16:24]
                    if any(frame[8:16] != mark.salt for frame in frames) or not _follows(mark.checksum, data, last, swapped=False):
                        break
                    mark = _Mark(mark.salt, mark.frames + _TOGETHER, last)
                self._mark = mark
                file.seek(_HEADER_SIZE + mark.frames * _FRAME_SIZE)
                rest = _frames(iter(lambda: file.read(_FRAME_SIZE), b""))
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
            # A frame of what the log held before it began anew, as a rule.
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
    """Whether a checksum is right. Those in the log are big-endian numbers; what they are about is read in the order that the log says."""
    if swapped:
        data = _reversed_words(data)
    return continues(_reversed_words(previous), data, _reversed_words(found))


def _reversed_words(data: bytes) -> bytes:
    count = len(data) // 4
    return struct.pack(f"<{count}I", *struct.unpack(f">{count}I", data))
