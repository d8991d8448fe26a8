"""`ProcessSupervisor`: the process that was started. It forks the processes that serve, and starts them again when they end.

It has one thread and no event loop, and has imported the whole server: each fork begins with the same memory, which is shared as long as
it is not written to. It owns the listening socket, so that connections that wait for acceptance survive the end of any process.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import click
import structlog

from kcp_py.cli.workers.parent import ANNOUNCE, ATTACH, ENDING, READY, become_child

OWNER: Final = "owner"
SHORTEST_DELAY: Final = 0.1
"""Seconds before a process that has ended is started again. They double with each further end ..."""
LONGEST_DELAY: Final = 30.0
SETTLED_SECONDS: Final = 30.0
"""... until one has served so long."""
RESTART_GRACE: Final = 5.0
"""Seconds that the requests of other processes have to finish after the owner has ended."""
STOP_MARGIN: Final = 10.0
"""Seconds beyond the grace period after which processes that still run are killed."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.cli")


class Process(NamedTuple):
    """One of the processes, over all its lives."""

    name: str
    number: int
    """From 0 on, which is the owner."""


Start = Callable[[Process, socket.socket, socket.socket | None], int]
"""Runs a process with its channel, and for all but the owner with its end of a connection to the owner. Returns the exit code."""


class _Child:
    """One life of a process."""

    __slots__ = ("channel", "is_ready", "is_told", "kill_at", "pid", "process", "ready_at")

    def __init__(self, process: Process, pid: int, channel: socket.socket) -> None:
        self.process = process
        self.pid = pid
        self.channel = channel
        self.is_ready = False
        self.ready_at = 0.0
        self.is_told = False
        """Whether it was told to end."""
        self.kill_at = math.inf
        """When it is killed."""

    def end(self, seconds: float) -> None:
        """Let it end in order, and have it killed after some seconds."""
        if not self.is_told:
            self.is_told = True
            os.kill(self.pid, signal.SIGTERM)
        self.kill_at = min(self.kill_at, time.monotonic() + seconds)

    def kill(self) -> None:
        """End it at once."""
        self.kill_at = math.inf
        os.kill(self.pid, signal.SIGKILL)


@dataclass(slots=True)
class _Restart:
    """When a process that does not run is started."""

    delay: float = SHORTEST_DELAY
    due: float = math.inf

    def again(self) -> None:
        """Start it after the delay, and wait for longer the next time."""
        self.due = time.monotonic() + self.delay
        self.delay = min(self.delay * 2, LONGEST_DELAY)


class ProcessSupervisor:
    """Runs an owner and workers until a signal, and ends with the last of them."""

    def __init__(self, listener: socket.socket, processes: int, grace: float, start: Start, *, ended: Callable[[Process], object]) -> None:
        """Start nothing yet.

        Args:
            listener: the listening socket, which is closed at the end.
            processes: their number, with the owner.
            grace: seconds that requests in flight have to finish.
            start: runs a process.
            ended: called when a process has ended.
        """
        self._listener = listener
        self._grace = grace
        self._start = start
        self._told_ended = ended
        self._processes = [Process(OWNER if number == 0 else f"worker-{number}", number) for number in range(processes)]
        self._owner = self._processes[0]
        self._children: dict[Process, _Child] = {}
        self._restarts = {process: _Restart() for process in self._processes}
        self._restarts[self._owner].due = 0.0
        self._has_served = False
        self._is_announced = False
        self._is_ending_all = False
        """The owner has ended: all others end, then all are started again."""
        self._is_stopping = False
        self._code: int | None = None
        """The exit code, once all processes have to end for good."""

    def run(self) -> int:
        """Run until all processes have ended after a signal, or the owner cannot start. Returns the exit code."""
        woken, waking = socket.socketpair()
        woken.setblocking(False)
        waking.setblocking(False)
        before = signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
        handled = [signal.SIGTERM, signal.SIGINT, signal.SIGCHLD]
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
            handled.append(signal.SIGHUP)
        handlers = {number: signal.signal(number, _wake) for number in handled}
        try:
            with woken, waking:
                while self._code is None or self._children:
                    self._start_due(woken, waking)
                    self._wait(woken)
                    self._reap()
                    self._kill_late()
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return self._code

    # Starts

    def _start_due(self, *own: socket.socket) -> None:
        now = time.monotonic()
        for process, restart in self._restarts.items():
            if restart.due <= now and self._code is None:
                restart.due = math.inf
                self._fork(process, own)

    def _fork(self, process: Process, own: Iterable[socket.socket]) -> None:
        near, far = socket.socketpair()
        store = None if process is self._owner else socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            # As long as another process has the supervisor's end of a channel, the process at the other end does not see it close.
            others = (near, *own, *(child.channel for child in self._children.values()), *(store[:1] if store else ()))

            def run() -> int:
                become_child(supervisor)
                for one in others:
                    one.close()
                return self._start(process, far, store[1] if store else None)

            _run_child(run)
        far.close()
        self._children[process] = _Child(process, pid, near)
        _log.info("process_started", process=process.name, child_pid=pid)
        if store is not None:
            self._tell_owner(ATTACH, store[0])
            for one in store:
                one.close()

    def _tell_owner(self, message: bytes, *sockets: socket.socket) -> None:
        owner = self._children.get(self._owner)
        # It may have just ended.
        with contextlib.suppress(OSError):
            if owner is not None:
                socket.send_fds(owner.channel, [message], [one.fileno() for one in sockets])

    # Signals and messages

    def _wait(self, woken: socket.socket) -> None:
        """Wait for a signal, a message of a process, or the moment at which something is due."""
        with selectors.DefaultSelector() as selector:
            selector.register(woken, selectors.EVENT_READ)
            for child in self._children.values():
                if child.channel.fileno() >= 0:
                    selector.register(child.channel, selectors.EVENT_READ, child)
            due = min(child.kill_at for child in self._children.values()) if self._children else math.inf
            if self._code is None:
                due = min(due, *(restart.due for restart in self._restarts.values()))
            for key, _ in selector.select(None if due == math.inf else max(0.0, due - time.monotonic())):
                if key.data is None:
                    for number in woken.recv(4096):
                        self._signalled(signal.Signals(number))
                else:
                    self._receive(key.data)

    def _signalled(self, number: signal.Signals) -> None:
        if number == signal.SIGCHLD:
            return
        if self._is_stopping:
            _log.warning("server_killed", signal=number.name)
            self._code = 1
            for child in self._children.values():
                child.kill()
            return
        self._is_stopping = True
        _log.info("server_stopping", signal=number.name, grace_seconds=self._grace)
        self._finish(0)

    def _receive(self, child: _Child) -> None:
        try:
            message = child.channel.recv(1)
        except OSError:
            message = b""
        if message == READY:
            self._ready(child)
        elif message == ENDING and child.process is self._owner and self._code is None:
            self._end_all()
        elif not message:
            # Its end follows.
            child.channel.close()

    def _ready(self, child: _Child) -> None:
        child.is_ready, child.ready_at = True, time.monotonic()
        if self._code is not None or self._is_ending_all:
            return
        if child.process is self._owner:
            self._has_served = True
            for process in self._processes[1:]:
                self._restarts[process].due = 0.0
        if not self._is_announced and sum(one.is_ready for one in self._children.values()) == len(self._processes):
            self._is_announced = True
            self._tell_owner(ANNOUNCE)

    # Ends

    def _finish(self, code: int) -> None:
        """End all processes for good, with an exit code."""
        self._code = code
        # Otherwise clients would wait in its queue.
        self._listener.close()
        for child in self._children.values():
            child.end(self._grace + STOP_MARGIN)

    def _end_all(self) -> None:
        """End the workers of an owner that has ended or ends: the next owner begins alone."""
        self._is_ending_all = True
        for process, restart in self._restarts.items():
            restart.due = math.inf
            if process in self._children:
                self._children[process].end(
                    self._grace + STOP_MARGIN if process is self._owner else min(self._grace, RESTART_GRACE),
                )

    def _kill_late(self) -> None:
        now = time.monotonic()
        for child in self._children.values():
            if child.kill_at <= now:
                _log.warning("process_killed", process=child.process.name, child_pid=child.pid)
                child.kill()

    def _reap(self) -> None:
        for child in list(self._children.values()):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                del self._children[child.process]
                child.channel.close()
                self._told_ended(child.process)
                self._ended(child, os.waitstatus_to_exitcode(status))
        if self._is_ending_all and not self._children and self._code is None:
            self._is_ending_all = False
            self._restarts[self._owner].again()

    def _ended(self, child: _Child, code: int) -> None:
        process = child.process
        if self._code is not None:
            if process is self._owner and code > 0 and self._code == 0:
                self._code = code
            return
        if not child.is_told:
            _log.error("process_ended", process=process.name, child_pid=child.pid, **_told(code))
        restart = self._restarts[process]
        if child.is_ready and time.monotonic() - child.ready_at > SETTLED_SECONDS:
            restart.delay = SHORTEST_DELAY
        if process is not self._owner:
            if not self._is_ending_all:
                restart.again()
        elif not self._has_served or (code > 0 and not child.is_ready):
            # It has said why, and would say it again.
            self._finish(code if code > 0 else 1)
        else:
            self._end_all()


def _run_child(run: Callable[[], int]) -> None:
    """Run a process that was just forked. Does not return."""
    code = 1
    try:
        code = run()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except BaseException:  # noqa: BLE001 - the process is a copy, which must not go on as the supervisor
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _wake(_number: int, _frame: object) -> None:
    """Do nothing: signals are read from the descriptor that wakes the supervisor."""


def _told(code: int) -> dict[str, str | int]:
    return {"signal": signal.Signals(-code).name} if code < 0 else {"exit_code": code}
