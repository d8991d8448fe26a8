"""A thread that runs SQLite's long calls (commits, checkpoints) for an event loop, and is not starved by it.

A thread that comes back from a C call must take the interpreter lock, which a busy event loop gives away only for moments too short for a
sleeping thread to wake up in: under load a commit of 0.2 ms was seen to take a second to be reported. So the loop makes room on purpose: it
waits until the thread has taken a job (about 30 us), and looks after a job that is late every two milliseconds by blocking for a tenth of
one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

_LONGEST_START: Final = 0.001
_LATE: Final = 0.002
_ROOM: Final = 0.0001


class Worker:
    """Runs one job after the other in a thread of its own."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], _T]) -> asyncio.Future[_T]:
        """Run `call` in the thread; the future carries its result or its exception."""
        job = _Job(call, asyncio.get_running_loop())
        self._jobs.put(job)
        job.started.acquire(timeout=_LONGEST_START)
        job.loop.call_later(_LATE, job.make_room)
        return job.future

    def stop(self) -> None:
        """Let the thread end after the jobs it has been given, and wait for that."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            del job  # a thread that waits keeps nothing alive


class _Job:
    __slots__ = ("_call", "_finished", "future", "loop", "started")

    def __init__(self, call: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.started = threading.Lock()
        self.started.acquire()
        self._finished = threading.Lock()
        self._finished.acquire()

    def run(self) -> None:
        self.started.release()
        try:
            result = self._call()
        except BaseException as error:  # noqa: BLE001 - carried to whoever awaits the future
            self._report(self._fail, error)
        else:
            self._report(self._succeed, result)
        self._finished.release()

    def _report(self, callback: Callable[[Any], None], outcome: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(callback, outcome)
        except RuntimeError:
            if not self.loop.is_closed():
                raise

    def _succeed(self, result: Any) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def _fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def make_room(self) -> None:
        if not self.future.done() and not self._finished.acquire(timeout=_ROOM):
            self.loop.call_later(_LATE, self.make_room)
