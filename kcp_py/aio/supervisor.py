"""`Supervisor`: background tasks that never die unseen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self

FIRST_DELAY_SECONDS: Final = 0.1
LONGEST_DELAY_SECONDS: Final = 30.0

Sleep = Callable[[float], Awaitable[Any]]
Report = Callable[[str, BaseException, float], None]
"""Name of the task, what ended it, seconds until it is started again."""


class Supervisor:
    """Runs tasks for as long as its `async with` lasts; a task that fails is reported and started again, ever more slowly.

    A task that returns has done its work and is not started again.
    """

    def __init__(self, report: Report, *, sleep: Sleep = asyncio.sleep) -> None:
        """Make a supervisor.

        Args:
            report: called with every failure.
            sleep: for tests.
        """
        self._report = report
        self._sleep = sleep
        self._tasks: set[asyncio.Task[None]] = set()

    def nested(self) -> Supervisor:
        """Another supervisor, which reports and sleeps as this one does."""
        return Supervisor(self._report, sleep=self._sleep)

    def start(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run `run` in a task of its own, again and again until it returns."""
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
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported and the task goes on
                self._report(name, error, delay)
            else:
                return
            await self._sleep(delay)
            delay = min(delay * 2, LONGEST_DELAY_SECONDS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Cancel every task and wait until the last one has ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
