"""`separate_allocation`: heavy work takes its small objects from the C library, which returns free memory page by page.

The interpreter keeps objects of up to 512 bytes in arenas of a megabyte, and returns an arena only when it is empty. Heavy work fills
hundreds of arenas with objects that end with it. But what other tasks allocate in the meantime and keep, such as events for watches, lies
in between, and one object of 64 bytes keeps a whole arena. The C library has a heap for each thread, and returns every free page of it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

_RAW: Final = 0
_DOMAINS: Final = (1, 2)
"""`PYMEM_DOMAIN_MEM` and `PYMEM_DOMAIN_OBJ`: memory that is allocated with the interpreter's lock held."""


class _Allocator(ctypes.Structure):
    """`PyMemAllocatorEx` (https://docs.python.org/3/c-api/memory.html#customize-memory-allocators)."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


class _Allocators:
    """The usual allocators, and those that differ from them in where new objects come from.

    The functions that resize and free are the usual ones. They hand on what is not in an arena of theirs, since objects of more than 512
    bytes always come from the C library. So an object can be resized and freed whichever allocator is set, and a thread that allocates
    while the allocators are exchanged does no harm.
    """

    def __init__(self) -> None:
        raw = _current(_RAW)
        self._usual = {domain: _current(domain) for domain in _DOMAINS}
        self._separate = {
            domain: _Allocator(None, raw.malloc, raw.calloc, usual.realloc, usual.free) for domain, usual in self._usual.items()
        }
        self.are_known = not any(allocator.context for allocator in (raw, *self._usual.values()))
        """Whether nothing that traces or checks allocations is in between."""

    def separate(self) -> None:
        self._exchange(self._usual, self._separate)

    def restore(self) -> None:
        self._exchange(self._separate, self._usual)

    @staticmethod
    def _exchange(before: dict[int, _Allocator], behind: dict[int, _Allocator]) -> None:
        for domain in _DOMAINS:
            # A tracer may have been started. It would miss what is allocated without it.
            if bytes(_current(domain)) == bytes(before[domain]):
                ctypes.pythonapi.PyMem_SetAllocator(domain, ctypes.byref(behind[domain]))


@contextmanager
def separate_allocation() -> Iterator[None]:
    """Within it, new small objects of all threads come from the C library. Not to be nested, and for one thread at a time.

    It is of no effect where the interpreter's allocators are not the usual ones. What `sys.getallocatedblocks` counts is too small later:
    it is told that these objects are freed, but not that they were made.
    """
    allocators = _allocators()
    if allocators is None:
        yield
        return
    allocators.separate()
    try:
        yield
    finally:
        allocators.restore()


@cache
def _allocators() -> _Allocators | None:
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    if os.environ.get("PYTHONMALLOC", "default") not in {"", "default", "pymalloc"}:
        return None
    allocators = _Allocators()
    return allocators if allocators.are_known else None


def _current(domain: int) -> _Allocator:
    allocator = _Allocator()
    ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(allocator))
    return allocator
