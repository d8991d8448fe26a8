"""Calls of functions of a program: coroutine functions, plain functions, and plain functions in threads."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import Any, Final, TypeVar

from kcp_py.apimachinery.errors import StatusError, too_many_requests
from kcp_py.logicalcluster import ClusterSelection

T = TypeVar("T")

THREADS: Final = 32
PER_CLUSTER: Final = 8
"""Calls of one logical cluster that run or wait at a time. Functions that hang in one cluster leave threads to the others."""


def name_of(function: Callable[..., Any]) -> str:
    """`module.qualified_name`, for messages."""
    inner = function.func if isinstance(function, partial) else function
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return f"{getattr(inner, '__module__', None) or type(inner).__module__}.{name}"


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Whether calls give coroutines; for objects with `__call__`, too."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


class Threads:
    """A bounded number of threads for functions that block."""

    def __init__(self, threads: int = THREADS, per_cluster: int = PER_CLUSTER) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="kcp-py-function")
        self._per_cluster = per_cluster
        self._running: Counter[ClusterSelection] = Counter()

    async def call(self, cluster: ClusterSelection, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in a thread, in the context of the task.

        A cancelled caller does not wait: the function goes on, and keeps the place of its cluster.

        Raises:
            StatusError: 429, the functions of the cluster have all of its places.
        """
        if self._running[cluster] >= self._per_cluster:
            raise _busy(function)
        loop = asyncio.get_running_loop()
        self._running[cluster] += 1
        running = loop.run_in_executor(self._executor, copy_context().run, outcome_of, partial(function, *arguments))
        running.add_done_callback(partial(self._leave, cluster))
        result, error = await asyncio.shield(running)
        if error is not None:
            raise error
        found: T = result
        return found

    def _leave(self, cluster: ClusterSelection, _: object) -> None:
        self._running[cluster] -= 1
        if self._running[cluster] <= 0:
            del self._running[cluster]


def outcome_of(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """The result or the exception. Futures cannot have every exception: some end the event loop, others the wait."""
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001 - raised again on the event loop
        return None, error


def _busy(function: Callable[..., Any]) -> StatusError:
    return too_many_requests(f"{name_of(function)} is busy with other requests of the logical cluster", 1)


@cache
def threads() -> Threads:
    """Those of the process, made when a function first needs one."""
    return Threads()


def check_parameters(function: Callable[..., Any], *arguments: str) -> None:
    """Check that a function can be called with arguments by position, when it is added and not at the first request.

    Args:
        function: functions of C without a signature pass.
        arguments: their names, for the message.

    Raises:
        TypeError: it is not a function, or has other parameters.
    """
    if not callable(function):
        raise TypeError(f"{function!r} is not a function")
    try:
        signature = inspect.signature(function)
    except ValueError:
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise TypeError(f"{name_of(function)}{signature} is called with ({', '.join(arguments)}): {error}") from None


def caller(function: Callable[..., Any], *, thread: bool) -> Callable[..., Any]:
    """How a function is called: with the logical cluster of the request first, then with its own arguments.

    Args:
        function: a coroutine function or a plain one.
        thread: whether a plain function runs in a thread, because it blocks.

    Returns:
        A function that returns the result or something to wait for.

    Raises:
        TypeError: it is not a function, or a coroutine function that shall run in a thread.
    """
    if not callable(function):
        raise TypeError(f"{function!r} is not a function")
    if not thread:
        return lambda _cluster, *arguments, **named: function(*arguments, **named)
    if is_coroutine_function(function):
        raise TypeError(f"{name_of(function)} is a coroutine function: it runs on the event loop, and not in a thread")

    def call(cluster: ClusterSelection, *arguments: Any, **named: Any) -> Awaitable[Any]:
        return threads().call(cluster, partial(function, **named) if named else function, *arguments)

    return call


def wrong_result(function: Callable[..., Any], result: object, expected: str) -> TypeError:
    """The error for a result of the wrong type. Its text has no value."""
    return TypeError(f"{name_of(function)} returned {type(result).__name__} instead of {expected}")
