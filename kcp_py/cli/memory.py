"""`Trimmer`: gives memory back to the system after a burst of large requests.

The C library keeps freed memory for the next use. After a burst this is a multiple of the server's need at other times.
"""

from __future__ import annotations

import ctypes
import gc
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache, partial
from pathlib import Path
from typing import Final

from kcp_py.aio.offload import submit

GROWTH_BYTES: Final = 8 * 1024 * 1024
GROWTH: Final = 0.15
"""How much larger the process must be, in bytes and as a part of it."""
IDLE_GROWTH_BYTES: Final = 1024 * 1024
"""How much larger a process must be that is idle."""
IDLE: Final = 0.05
"""The part of a core up to which a process is idle."""
ATTEMPTS: Final = 4
"""Releases after which memory that is not freed counts as needed, while the process is busy."""
INTERVAL: Final = 10.0
"""Seconds between two looks at the size of the process."""

_TRIM_THRESHOLD: Final = -1
"""`M_TRIM_THRESHOLD` of `mallopt(3)`."""
_LARGEST_TRIM_THRESHOLD: Final = 64 * 1024 * 1024
_CUT_BYTES: Final = 100_000
"""Freeing less than 64 KiB cuts nothing."""
_STATM: Final = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not tell."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def release_memory() -> Future[None] | None:
    """Return free memory to the system.

    Cycles are looked for among young objects only: requests and connections leave none behind, and a look at all objects would hold the
    event loop for about 0.1 s for each million of them.

    Returns:
        Done when the thread for heavy work has cut its heap, too; None with another C library.
    """
    gc.collect(1)
    library = _library()
    if library is None:
        return None
    library.malloc_trim(0)
    return submit(partial(_cut_heap, library))


def _cut_heap(library: ctypes.CDLL) -> None:
    """Return the free end of this thread's heap, which `malloc_trim` leaves.

    It is cut when a thread frees memory next to it and it is larger than a threshold, which grows to 64 MB by itself. Set by hand, it does
    not, so it is put there.
    """
    if "MALLOC_TRIM_THRESHOLD_" in os.environ or "malloc.trim_threshold" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    library.mallopt(_TRIM_THRESHOLD, 0)
    library.free(library.malloc(_CUT_BYTES))
    library.mallopt(_TRIM_THRESHOLD, _LARGEST_TRIM_THRESHOLD)


@cache
def _library() -> ctypes.CDLL | None:
    """The C library, where it is GNU's. Looked up once: each look-up leaves a cycle."""
    try:
        library = ctypes.CDLL(None)
        library.malloc_trim.argtypes = library.malloc.argtypes = (ctypes.c_size_t,)
        library.malloc.restype = ctypes.c_void_p
        library.free.argtypes = (ctypes.c_void_p,)
        library.mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    except (AttributeError, OSError):
        return None
    return library


class Trimmer:
    """Releases memory when the process has grown since it did so the last time."""

    def __init__(
        self,
        *,
        resident: Callable[[], int] = resident_bytes,
        release: Callable[[], object] = release_memory,
        used: Callable[[], float] = time.process_time,
    ) -> None:
        """Begin with the present size.

        Args:
            resident: bytes of memory.
            release: releases free memory.
            used: seconds of processor time so far.
        """
        self._resident = resident
        self._release = release
        self._used = used
        self._least = self._left = self._floor = resident()
        self._seconds = used()
        self._was_idle = False
        self._attempts = 0
        # Looks that pass before the next attempt.
        self._rest = 0

    def look(self) -> bool:
        """Release memory if there may be some to release; whether it did. To be called in each `INTERVAL`, in a thread.

        What a release leaves may be in use by what goes on at that time. So more attempts follow, ever later, before it counts as needed.
        What a release leaves when the process has been idle for two looks counts as needed at once, and none before counts.
        """
        size, seconds = self._resident(), self._used()
        is_idle = seconds - self._seconds <= IDLE * INTERVAL
        self._seconds = seconds
        was_idle, self._was_idle = self._was_idle, is_idle
        self._floor = min(self._floor, size)
        if is_idle and size > self._floor + IDLE_GROWTH_BYTES:
            self._release()
            if was_idle:
                self._floor = self._least = self._left = self._resident()
                self._attempts = self._rest = 0
            return True
        if size <= _with_growth(self._least):
            self._least = min(self._least, size)
            self._left = self._least
            self._attempts = self._rest = 0
            return False
        if size > _with_growth(self._left):
            self._attempts = self._rest = 0
        if self._rest:
            self._rest -= 1
            return False
        self._release()
        self._left = self._resident()
        self._rest = 1 << self._attempts
        self._attempts += 1
        if self._attempts == ATTEMPTS:
            self._least = self._left
            self._attempts = self._rest = 0
        return True


def _with_growth(size: int) -> int:
    return size + max(GROWTH_BYTES, int(size * GROWTH))
