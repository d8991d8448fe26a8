"""`run_aside`: work that would hold the event loop up, in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def run_aside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in the one thread that there is for such work, after whatever others have asked for.

    There is one because of the interpreter's lock: it is handed round every five milliseconds, and the loop has to wait for its turn behind
    each busy thread.

    Args:
        work: pure computation; it goes on to its end when the caller is cancelled after it has begun.
        args: of `work`.
        kwargs: of `work`.
    """
    call: Callable[[], Any] = partial(work, *args, **kwargs)
    result: T = await asyncio.get_running_loop().run_in_executor(_thread(), call)
    return result


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="aside")
