"""`separate_allocation`: heavy work allocates its small objects from the C library, which returns free memory page by page.

The interpreter keeps objects of up to 512 bytes in arenas of a megabyte, and returns an arena only when it is empty. Heavy work fills
hundreds of arenas with temporary objects. Objects that other tasks allocate and keep in the meantime, such as events for watches, lie
between them, and one object of 64 bytes keeps a whole arena. The C library has a heap for each thread, and returns every free page of it.
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
    """The usual allocators, and allocators that differ only in the source of new objects.

    The functions that resize and free are the usual ones. They pass objects outside of their arenas to the C library, because objects of
    more than 512 bytes always come from there. An object can therefore be resized and freed with either allocator, and threads may allocate
    while the allocators are exchanged.
    """

    def __init__(self) -> None:
        raw = _current(_RAW)
        self._usual = {domain: _current(domain) for domain in _DOMAINS}
        self._separate = {
            domain: _Allocator(None, raw.malloc, raw.calloc, usual.realloc, usual.free) for domain, usual in self._usual.items()
        }
        self.are_known = not any(allocator.context for allocator in (raw, *self._usual.values()))
        """Whether no tracer or checker of allocations is installed."""

    def separate(self) -> None:
        self._exchange(self._usual, self._separate)

    def restore(self) -> None:
        self._exchange(self._separate, self._usual)

    @staticmethod
    def _exchange(before: dict[int, _Allocator], behind: dict[int, _Allocator]) -> None:
        for domain in _DOMAINS:
            # A tracer that was started in the meantime must not be replaced: it would miss allocations.
            if bytes(_current(domain)) == bytes(before[domain]):
                ctypes.pythonapi.PyMem_SetAllocator(domain, ctypes.byref(behind[domain]))


@contextmanager
def separate_allocation() -> Iterator[None]:
    """Within this context, new small objects of all threads come from the C library. Use it in one thread at a time, and do not nest it.

    It has no effect if the allocators of the interpreter are not the usual ones. Afterwards `sys.getallocatedblocks` is too small, because
    it counts the release of these objects but not their allocation.
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
