"""`JournaledStorage`: the in-memory store with a file of its transactions, from which the next process goes on."""

from __future__ import annotations

import asyncio
import binascii
import errno
import fcntl
import marshal
import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Self

from kcp_py.storage.contract import Delete, NoSpaceError, Operation, Put, StorageError, UnavailableError
from kcp_py.storage.memory.driver import MemoryStorage

LOCK_SECONDS: Final = 15.0
"""How long a store waits for the process that has its file, and which may be ending."""
_MAGIC: Final = b"kcp-py journal 1\n"
_HEAD: Final = struct.Struct("!II")
"""Before each record: its length in bytes, and its checksum (CRC-32)."""
_MARSHAL_VERSION: Final = 2
"""Its bytes do not depend on the version of Python."""
_LOOK_SECONDS: Final = 0.01


class JournaledStorage(MemoryStorage):
    """A `MemoryStorage` whose content and history are there again after an end of the process, also after SIGKILL.

    Transactions are in the file before they are visible, but nothing waits for the disk: an end of the machine may lose them. The file
    grows until it is removed. It is for tests.
    """

    def __init__(self, path: Path, *, lock_seconds: float = LOCK_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare.

        Args:
            path: the file, which is made where it is missing; its directory exists.
            lock_seconds: how long to wait for another process that has the file.
            clock: seconds.
        """
        super().__init__()
        self._path = path
        self._lock_seconds = lock_seconds
        self._clock = clock
        self._descriptor = -1
        self._end = 0

    async def __aenter__(self) -> Self:
        """Open the file and carry out its transactions.

        Raises:
            UnavailableError: another process has the file.
            StorageError: it is not a journal.
            OSError: it cannot be opened.
        """
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            await self._lock()
            self._forget()
            self._replay()
        except BaseException:
            self._close()
            raise
        return await super().__aenter__()

    async def __aexit__(self, *exc_info: object) -> None:
        await super().__aexit__(*exc_info)
        self._close()

    async def compact(self, revision: int) -> None:
        """`Storage.compact`."""
        await super().compact(revision)
        self._append((revision,))

    def _record(self, operations: Sequence[Operation]) -> None:
        self._append([(one.key, bytes(one.value) if isinstance(one, Put) else None) for one in operations])

    def _append(self, record: tuple[int] | list[tuple[str, bytes | None]]) -> None:
        body = marshal.dumps(record, _MARSHAL_VERSION)
        self._write(_HEAD.pack(len(body), binascii.crc32(body)) + body)

    def _write(self, content: bytes) -> None:
        try:
            written = os.write(self._descriptor, content)
            while written < len(content):
                written += os.write(self._descriptor, content[written:])
        except OSError as error:
            os.ftruncate(self._descriptor, self._end)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoSpaceError(f"{self._path}: {error.strerror}") from None
            raise UnavailableError(f"{self._path}: {error.strerror}") from error
        self._end += len(content)

    async def _lock(self) -> None:
        deadline = self._clock() + self._lock_seconds
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._clock() >= deadline:
                    raise UnavailableError(f"{self._path}: another process has the store") from None
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                return

    def _replay(self) -> None:
        with open(self._descriptor, "rb", closefd=False) as file:
            if not file.read(1):
                self._end = 0
                self._write(_MAGIC)
                return
            file.seek(0)
            if file.read(len(_MAGIC)) != _MAGIC:
                raise StorageError(f"{self._path} is not a journal of this version: remove it")
            self._end = len(_MAGIC)
            for body in _bodies(file):
                self._repeat(marshal.loads(body))  # noqa: S302 - a file of this user, with a checksum
                self._end += _HEAD.size + len(body)
        # The process may have been killed within its last record, whose transaction was not visible.
        os.ftruncate(self._descriptor, self._end)

    def _repeat(self, record: object) -> None:
        if isinstance(record, tuple):
            self._drop_history(record[0])
        elif isinstance(record, list):
            self._apply([Delete(key) if value is None else Put(key, value) for key, value in record])

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _bodies(file: BinaryIO) -> Iterator[bytes]:
    """The records, up to the first that is incomplete."""
    while len(head := file.read(_HEAD.size)) == _HEAD.size:
        size, checksum = _HEAD.unpack(head)
        body = file.read(size)
        if len(body) < size or binascii.crc32(body) != checksum:
            return
        yield body
