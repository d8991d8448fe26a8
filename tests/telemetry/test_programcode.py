"""The function of the program in an exception or a stack, and which exceptions go on."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from kcp_py.library.functions import caller
from kcp_py.telemetry.programcode import failed_function, name_of, passes, running_function

pytestmark = pytest.mark.anyio


def fails(error: BaseException) -> None:
    helper(error)


def helper(error: BaseException) -> None:
    raise error


def endless() -> int:
    return endless() + 1


def calls_server_wrongly() -> None:
    caller(fails, thread="text", unknown=1)  # type: ignore[arg-type, call-arg]


def raised(function: Any, *arguments: Any) -> BaseException:
    try:
        # As the server calls a function.
        caller(function, thread=False)(None, *arguments)
    except BaseException as error:  # noqa: BLE001 - the subject of the test
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (fails, (ValueError("secret"),), "fails"),
        (fails, (SystemExit(1),), "fails"),
        (endless, (), "endless"),
        (calls_server_wrongly, (), "calls_server_wrongly"),
        (sorted, ([1, "a"],), ""),
    ],
)
def test_an_exception_names_the_function_that_the_server_called(function: Any, arguments: tuple[Any, ...], name: str) -> None:
    """And not the helper of it that raised the exception. A built-in function has no frame: pytest's own one is beyond the server."""
    found = failed_function(raised(function, *arguments))
    assert found == (f"{__name__}.{name}" if name else f"{__name__}.raised")


def test_an_exception_of_the_server_names_none() -> None:
    """It is a fault of the server."""
    error = ValueError()
    assert failed_function(error) == ""


async def test_the_stack_names_the_function_that_runs() -> None:
    """The outermost one that the server called, and no part of the server itself."""
    found: list[Any] = []

    def look() -> None:
        found.append(running_function(sys._getframe()))

    def runs() -> None:
        look()

    caller(runs, thread=False)(None)
    assert name_of(found[0]).endswith("runs")
    del found[:]


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(3), GeneratorExit(), RecursionError(), MemoryError()]
)
async def test_exceptions_that_a_function_raises_stay_with_it(error: BaseException) -> None:
    """They are failures, and neither end the process nor look like a cancellation."""
    assert not passes(raised(fails, error))


async def test_cancellations_and_interrupts_from_outside_go_on() -> None:
    """A task that is cancelled ends; a signal has no frame of the program."""
    assert passes(KeyboardInterrupt())
    assert passes(GeneratorExit())
    seen: list[bool] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            seen.append(passes(error))
            raise

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert (seen, task.cancelled()) == ([True], True)


def test_a_coroutine_closed_after_its_loop_goes_on() -> None:
    """The end of a generator outside of any task comes from the interpreter, also where a function of the program waits."""
    error = raised(fails, GeneratorExit())
    assert passes(error)
