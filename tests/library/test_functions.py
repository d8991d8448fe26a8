"""Calls of functions in threads: bounded for each logical cluster."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from functools import partial

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.library.functions import Threads, name_of
from kcp_py.logicalcluster import parse_name

pytestmark = pytest.mark.anyio

TEAM, OTHER = parse_name("team-a"), parse_name("team-b")


async def test_functions_that_hang_in_one_cluster_leave_threads_to_the_others() -> None:
    """The next call of that cluster is refused with 429, and has a place again when one of them ends."""
    threads = Threads(threads=3, per_cluster=2)
    go = threading.Event()
    hanging = [asyncio.create_task(threads.call(TEAM, go.wait)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(StatusError, match="is busy with other requests of the logical cluster") as refused:
        await threads.call(TEAM, threading.get_ident)
    assert refused.value.code == 429
    assert await threads.call(OTHER, threading.get_ident) != threading.get_ident()
    go.set()
    assert await asyncio.gather(*hanging) == [True, True]
    assert await threads.call(TEAM, sum, [1, 2]) == 3


async def test_a_cancelled_caller_does_not_wait_and_its_function_keeps_the_place() -> None:
    """A client that goes away and comes back cannot take more threads than its cluster has."""
    threads = Threads(threads=2, per_cluster=1)
    go = threading.Event()
    caller = asyncio.create_task(threads.call(TEAM, go.wait))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    with pytest.raises(StatusError):
        await threads.call(TEAM, threading.get_ident)
    go.set()


async def test_a_function_has_the_context_of_the_task() -> None:
    """As in `asyncio.to_thread`."""
    variable: ContextVar[str] = ContextVar("variable", default="")
    variable.set("here")
    assert await Threads(1).call(TEAM, variable.get) == "here"


def test_names() -> None:
    """Of functions, of parts of functions, and of objects that can be called."""

    class Callable:
        def __call__(self) -> None:
            """Nothing."""

    assert name_of(parse_name) == "kcp_py.logicalcluster.name.parse_name"
    assert name_of(partial(parse_name, "a")) == "kcp_py.logicalcluster.name.parse_name"
    assert name_of(Callable()).endswith("test_names.<locals>.Callable")
