"""Which function of the program that embeds the server has failed, or holds up the event loop.

Exceptions and stacks say it by their frames, so that functions need no wrapper, whatever part of the server calls them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator
from types import FrameType, TracebackType
from typing import Final

_LOOP: Final = frozenset({"asyncio.base_events", "asyncio.events", "asyncio.runners"})
"""What calls the callbacks of an event loop. Frames beyond belong to the program as a whole."""
_FRAMEWORKS: Final = frozenset({"anyio", "fastapi", "starlette", "uvicorn", "uvloop"})
"""What stands between the server and functions of a program."""
_OWN: Final = __name__.partition(".")[0]


def failed_function(error: BaseException) -> str:
    """The function of the program in which an exception was raised, as `module.qualified_name`; empty where there is none."""
    frame = _function_in(_frames_of(error.__traceback__), through_server=True)
    return "" if frame is None else name_of(frame)


def running_function(innermost: FrameType | None) -> FrameType | None:
    """The function of the program that a thread is in, called by the server; None where the server itself is at work."""
    return _function_in(_frames_outwards(innermost), through_server=False)


def name_of(frame: FrameType) -> str:
    """`module.qualified_name`."""
    return f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_qualname}"


def passes(error: BaseException) -> bool:
    """Whether an exception has to go on: the cancellation of this task, the end of a generator, or an interrupt from outside.

    Functions of a program may raise such exceptions, too. Those are failures like all others: they must neither end the process nor
    look like a cancellation.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return not failed_function(error)
    if isinstance(error, GeneratorExit):
        return not (_in_task() and failed_function(error))
    return False


def _in_task() -> bool:
    """Whether a task runs. A coroutine that is closed after the end of its loop is not run by one."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


def _function_in(frames: Iterable[FrameType], *, through_server: bool) -> FrameType | None:
    """The outermost function of the program behind the innermost one.

    Args:
        frames: from the innermost one outwards.
        through_server: whether the program may have called the server in turn.
    """
    found: FrameType | None = None
    for frame in frames:
        module = frame.f_globals.get("__name__") or ""
        package = module.partition(".")[0]
        if module in _LOOP:
            break
        if package == _OWN:
            if found is not None or not through_server:
                break
        elif package not in _FRAMEWORKS and package not in sys.stdlib_module_names:
            found = frame
    return found


def _frames_of(trace: TracebackType | None) -> list[FrameType]:
    frames = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    return frames[::-1]


def _frames_outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
