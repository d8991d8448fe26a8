"""`Supervisor`: background tasks whose failures are reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self

FIRST_DELAY_SECONDS: Final = 0.1
LONGEST_DELAY_SECONDS: Final = 30.0

Sleep = Callable[[float], Awaitable[Any]]
Report = Callable[[str, BaseException, float], None]
"""Name of the task, the error that ended it, seconds until the task is restarted."""


class Supervisor:
    """Runs tasks while its `async with` is open. A task that fails is reported and restarted with increasing delays.

    A task that returns is finished and not restarted.
    """

    def __init__(self, report: Report, *, sleep: Sleep = asyncio.sleep) -> None:
        """Create a supervisor.

        Args:
            report: called for each failure.
            sleep: waits between restarts; replaced in tests.
        """
        self._report = report
        self._sleep = sleep
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends = False

    def nested(self) -> Supervisor:
        """A new supervisor with the same `report` and `sleep`."""
        return Supervisor(self._report, sleep=self._sleep)

    def start(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run `run` in a task of its own, and restart it until it returns."""
        task = asyncio.create_task(self._keep_running(name, run), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def running(self) -> frozenset[str]:
        """The names of the tasks that have not returned."""
        return frozenset(task.get_name() for task in self._tasks)

    async def _keep_running(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        delay = FIRST_DELAY_SECONDS
        while True:
            try:
                await run()
            except Exception as error:
                if self._ends:
                    # A failure at the moment of the cancellation has taken its place, as in `asyncio.TaskGroup` of Python 3.11 and 3.12.
                    raise asyncio.CancelledError from error
                self._report(name, error, delay)
            else:
                return
            await self._sleep(delay)
            delay = min(delay * 2, LONGEST_DELAY_SECONDS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Cancel all tasks and wait for their end."""
        self._ends = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
