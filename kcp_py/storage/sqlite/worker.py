"""A thread that runs long calls of SQLite (commits, checkpoints) for an event loop without being starved by it.

A thread that returns from a C call must take the interpreter lock. A busy event loop releases the lock only for moments that are too short
for a sleeping thread to wake up: under load the result of a commit of 0.2 ms was delayed by a second. Therefore the event loop waits until
the thread has taken a job (about 30 us), and blocks for a tenth of a millisecond every two milliseconds while a job is late.
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
    """Runs jobs one after the other in a separate thread."""

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
        """End the thread after its pending jobs, and wait for its end."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            del job  # a waiting thread must not keep objects alive


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
        except BaseException as error:  # noqa: BLE001 - passed to the caller through the future
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
