"""Calls of functions in threads: bounded for each logical cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from kcp_py import ControlPlane, Options
from kcp_py.apimachinery.errors import StatusError
from kcp_py.library.functions import Threads, check_parameters, name_of
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


def none() -> None:
    """Takes nothing."""


def one(first: object) -> None:
    """Takes one."""


def one_or_more(first: object, *others: object, **named: object) -> None:
    """Takes one at least."""


@pytest.mark.parametrize(("function", "arguments"), [(one, 1), (one_or_more, 1), (one_or_more, 3), (print, 2), (dict.get, 2), (max, 2)])
def test_functions_that_can_be_called_are_taken(function: Callable[..., object], arguments: int) -> None:
    """Optional and further parameters may be there; functions of C without a signature pass."""
    check_parameters(function, *"abc"[:arguments])


def two(first: object, second: object) -> None:
    """Takes two."""


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (none, r"test_functions\.none\(\).* is called with \(attributes\): too many positional arguments"),
        (two, r"is called with \(attributes\): missing a required argument: 'second'"),
        (3, "3 is not a function"),
    ],
)
def test_other_parameters_are_refused_with_the_arguments(function: Any, problem: str) -> None:
    """The message has the name of the function, and what it is called with."""
    with pytest.raises(TypeError, match=problem):
        check_parameters(function, "attributes")


def test_control_planes_refuse_functions_that_fail_at_each_request() -> None:
    """At the line that adds them."""
    control_plane = ControlPlane(Options(storage="memory"))
    adding: tuple[tuple[Any, str], ...] = (
        (control_plane.mutating("configmaps"), "attributes"),
        (control_plane.validating("configmaps"), "attributes"),
        (control_plane.authenticator, "credentials"),
        (control_plane.authorizer, "user, cluster, info"),
        (control_plane.subresource("configmaps", "a"), "request, obj, body"),
        (control_plane.subresource("configmaps", "b", verb="get"), "request, obj"),
        (control_plane.subresource("configmaps", "c", verb="connect"), "connection"),
    )
    for add, arguments in adding:
        with pytest.raises(TypeError, match=rf"none\(\).* is called with \({arguments}\)"):
            add(none)
