"""`Watchdog`: reports functions of a program that hold up the event loop, while they do so."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

import structlog

from kcp_py.telemetry.gauges import Gauges
from kcp_py.telemetry.programcode import name_of, running_function

HELD_SECONDS: Final = 0.05
"""How long the event loop may be held before the stack is looked at."""
_CONFIRMED_SECONDS: Final = 0.01
_REPORTED_AGAIN: Final = 10.0
"""A function that is still running is reported again after so many times as long."""
_AWAKE_TURNS: Final = 40
"""Without requests for so many turns, the thread sleeps."""
_MOST_FUNCTIONS: Final = 100
_OTHERS: Final = "others"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.server")

Wait = Callable[[float], bool]


class Watchdog:
    """A thread that asks the event loop for a sign of life while requests come, and sleeps while none come.

    A loop that gives none is held. If the same call of a function of the program is on its stack twice in a row, the function is reported.

    Attributes:
        holds: how often each function was reported.
    """

    def __init__(self, wait: Wait | None = None) -> None:
        """Prepare; `start` does the rest.

        Args:
            wait: waits for seconds, and returns whether the thread has to end; for tests.
        """
        self.holds: Counter[str] = Counter()
        self._closing = threading.Event()
        self._wait = wait or self._closing.wait
        self._wanted = threading.Event()
        self._asleep = True
        self._active = False
        self._answered = threading.Event()
        self._thread: threading.Thread | None = None

    def describe(self, gauges: Gauges) -> None:
        """Add the family."""
        gauges.add(
            "kcp_event_loop_holds",
            "How often a function of the program held up the event loop for more than 50 milliseconds, as far as it was seen.",
            lambda: {(name,): float(count) for name, count in self.holds.copy().items()},
            kind="counter",
            labels=("function",),
        )

    def start(self) -> None:
        """Watch the running event loop, whose thread this is."""
        loop, ident = asyncio.get_running_loop(), threading.get_ident()
        self._thread = threading.Thread(target=self._run, args=(loop, ident), name="kcp-py-watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def wake(self) -> None:
        """Take note, on the event loop, that functions of the program may run now."""
        self._active = True
        if self._asleep:
            self._asleep = False
            self._wanted.set()

    def _run(self, loop: asyncio.AbstractEventLoop, ident: int) -> None:
        while not self._closing.is_set():
            self._wanted.wait()
            self._wanted.clear()
            quiet = 0
            while quiet < _AWAKE_TURNS and not self._closing.is_set():
                quiet = 0 if self._active else quiet + 1
                self._active = False
                try:
                    self.look(loop, ident)
                except RuntimeError:  # the loop is closed
                    return
            self._asleep = True
            if self._active:
                self._wanted.set()

    def look(self, loop: asyncio.AbstractEventLoop, ident: int) -> None:
        """One turn: wait for a sign of life, and report what prevents it.

        Args:
            loop: the event loop.
            ident: of its thread.

        Raises:
            RuntimeError: the event loop is closed.
        """
        self._answered.clear()
        loop.call_soon_threadsafe(self._answered.set)
        if self._wait(HELD_SECONDS) or self._answered.is_set():
            return
        held, report_at = HELD_SECONDS, 0.0
        suspect = running_function(sys._current_frames().get(ident))  # noqa: SLF001 - the only way to see the stack of a thread
        while not self._answered.is_set():
            if self._wait(max(_CONFIRMED_SECONDS, held / 4)):
                return
            held += max(_CONFIRMED_SECONDS, held / 4)
            found = running_function(sys._current_frames().get(ident))  # noqa: SLF001 - as above
            if self._answered.is_set() or found is None or found is not suspect:
                suspect, report_at = found, 0.0
                continue
            if held >= report_at:
                self._report(name_of(found), held, first=report_at == 0)
                report_at = held * _REPORTED_AGAIN
        # Frames keep what they refer to alive.
        del suspect

    def _report(self, function: str, held: float, *, first: bool) -> None:
        if first:
            self.holds[function if function in self.holds or len(self.holds) < _MOST_FUNCTIONS else _OTHERS] += 1
        _log.warning("event_loop_held", function=function, seconds=round(held, 3))
