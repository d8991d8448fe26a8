"""`offload`: computation that would block the event loop runs in one thread, in turns between the owners of the work."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache, partial
from threading import Lock
from types import MappingProxyType
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from kcp_py.aio.allocation import separate_allocation

P = ParamSpec("P")
T = TypeVar("T")

OFFLOAD_OWNER: Final[ContextVar[str]] = ContextVar("offload_owner", default="")
"""The owner of the work of the current task. Owners take turns in the thread."""


class Inline:
    """The largest amounts of work that run on the event loop, which takes one to five milliseconds. Larger work is offloaded.

    Sizes are in bytes of the encoded form. The values are measured on one core of a small virtual machine.
    """

    PARSE: Final[Mapping[str, int]] = MappingProxyType({"json": 64 * 1024, "yaml": 8 * 1024, "protobuf": 32 * 1024})
    """Parse a document, by its format."""
    ENCODE: Final[Mapping[str, int]] = MappingProxyType({"json": 512 * 1024, "yaml": 8 * 1024, "protobuf": 128 * 1024})
    """Encode a document, by its format. The size is that of its JSON."""
    TRANSFORM: Final = 64 * 1024
    """Copy, compare, fill or validate a parsed document."""
    COMPILE: Final = 64 * 1024
    """Compile a schema."""
    DESCRIBE: Final[Mapping[str, int]] = MappingProxyType({"json": 128 * 1024, "protobuf": 4 * 1024})
    """Publish a schema, by the format of the result."""
    PATTERN_STEPS: Final = 100_000
    """Match regular expressions, in steps of the worst case."""
    EXPRESSION_COST: Final = 20_000
    """Evaluate expressions, in units of their cost limits."""
    EXPRESSIONS: Final = 10
    """Evaluate expressions for the first time, which generates their code: the number of them."""


class _Piece(NamedTuple):
    call: Callable[[], Any]
    outcome: Future[list[Any]]
    """A list with the result. The caller takes the result out, so neither the thread nor the future keeps it alive."""


async def offload(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in the thread for heavy work.

    The thread serves owners in turn, one piece of work each, so an owner with a thousand pieces delays another owner by one piece. Pieces
    of one owner run in the order of the calls.

    There is only one thread because of the interpreter lock: it changes hands every five milliseconds, and the event loop would wait
    behind each busy thread.

    Args:
        work: pure computation. If the caller is cancelled after the work began, the work still runs to its end.
        args: of `work`.
        kwargs: of `work`.
    """
    call: Callable[[], Any] = partial(work, *args, **kwargs)
    outcome: Future[list[T]] = Future()
    with _lock:
        _waiting.setdefault(OFFLOAD_OWNER.get(), deque()).append(_Piece(call, outcome))
    _thread().submit(_run_next)
    return (await asyncio.wrap_future(outcome)).pop()


def submit(function: Callable[[], None]) -> Future[None]:
    """Call a function in the same thread, after the work that waits now, without an owner. Can be called from any thread."""
    return _thread().submit(function)


_lock: Final = Lock()
_waiting: Final[dict[str, deque[_Piece]]] = {}
"""Waiting work by owner, the next owner first. The thread has one pending call of `_run_next` for each piece."""


def _run_next() -> None:
    with _lock:
        owner = next(iter(_waiting))
        pieces = _waiting.pop(owner)
        call, outcome = pieces.popleft()
        if pieces:
            _waiting[owner] = pieces
    if not outcome.set_running_or_notify_cancel():
        return
    try:
        with separate_allocation():
            result = [call()]
    except BaseException as error:  # noqa: BLE001 - the caller receives it
        outcome.set_exception(error)
    else:
        # The caller may continue while this thread waits for the interpreter lock. The arguments must be free by then.
        del call
        outcome.set_result(result)


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="offload")


# The copy of a process has none of its threads.
os.register_at_fork(after_in_child=_thread.cache_clear)
