"""`run_aside`: work that would hold the event loop up, in a thread of its own, fair between those who ask for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache, partial
from threading import Lock
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from kcp_py.aio.allocation import separate_allocation

P = ParamSpec("P")
T = TypeVar("T")

SHARE: Final[ContextVar[str]] = ContextVar("share", default="")
"""On whose behalf the current task works; whoever begins to work for somebody sets it."""


class _Piece(NamedTuple):
    call: Callable[[], Any]
    outcome: Future[list[Any]]
    """A list with the result, which the caller takes out: neither the thread nor the future holds the result any longer than the caller."""


async def run_aside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in the one thread that there is for such work.

    The thread goes round the shares, one piece of each: who has asked for a thousand pieces delays another by one. Within a share, the
    order is that of asking.

    There is one thread because of the interpreter's lock: it is handed round every five milliseconds, and the loop has to wait for its turn
    behind each busy thread.

    Args:
        work: pure computation; it goes on to its end when the caller is cancelled after it has begun.
        args: of `work`.
        kwargs: of `work`.
    """
    call: Callable[[], Any] = partial(work, *args, **kwargs)
    outcome: Future[list[T]] = Future()
    with _lock:
        _waiting.setdefault(SHARE.get(), deque()).append(_Piece(call, outcome))
    _thread().submit(_run_next)
    return (await asyncio.wrap_future(outcome)).pop()


def call_aside(function: Callable[[], None]) -> Future[None]:
    """Call a function in the same thread after what waits now, on behalf of the process itself. For any thread."""
    return _thread().submit(function)


_lock: Final = Lock()
_waiting: Final[dict[str, deque[_Piece]]] = {}
"""By share; the first is the next one to be served. One `_run_next` is on its way for each piece."""


def _run_next() -> None:
    with _lock:
        share = next(iter(_waiting))
        pieces = _waiting.pop(share)
        call, outcome = pieces.popleft()
        if pieces:
            _waiting[share] = pieces
    if not outcome.set_running_or_notify_cancel():
        return
    try:
        with separate_allocation():
            result = [call()]
    except BaseException as error:  # noqa: BLE001 - it is the caller's
        outcome.set_exception(error)
    else:
        # The caller goes on while this thread may wait for its turn of the interpreter: the arguments must be free by then.
        del call
        outcome.set_result(result)


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="aside")
