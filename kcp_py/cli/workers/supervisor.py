"""`ProcessSupervisor`: the process that was started. It has the processes forked that serve, and starts them again when they end.

It has one thread and no event loop, and imports little. It has the listening socket, so that connections that wait for acceptance survive
the end of any process.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from kcp_py.cli.workers.child import ALIVE, ANNOUNCE, ASK, ATTACH, ENDING, READY, Process, process_of
from kcp_py.cli.workers.forks import Forks
from kcp_py.cli.workers.liveness import Liveness, core_wait, interval_of
from kcp_py.cli.workers.signals import signals_written_to
from kcp_py.telemetry.plainlog import PlainLog

SHORTEST_DELAY: Final = 0.1
"""Seconds before a process that has ended is started again. They double with each further end ..."""
LONGEST_DELAY: Final = 30.0
SETTLED_SECONDS: Final = 30.0
"""... until one has served so long."""
RESTART_GRACE: Final = 5.0
"""Seconds that the requests of other processes have to finish after the owner has ended."""
STOP_MARGIN: Final = 10.0
"""Seconds beyond the grace period after which processes that still run are killed."""


class _Child:
    """One life of a process."""

    __slots__ = ("channel", "is_ready", "is_told", "kill_at", "liveness", "pid", "process", "ready_at")

    def __init__(self, process: Process, channel: socket.socket) -> None:
        self.process = process
        self.pid = 0
        """0 until it is known."""
        self.channel = channel
        self.liveness: Liveness | None = None
        """Once its id is known, unless it is told to end."""
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
            self.liveness = None
            if self.pid:
                os.kill(self.pid, signal.SIGTERM)
        self.kill_at = min(self.kill_at, time.monotonic() + seconds)

    def kill(self) -> None:
        """End it at once."""
        if self.pid:
            self.kill_at = math.inf
            os.kill(self.pid, signal.SIGKILL)
        else:
            self.kill_at = 0.0

    def born(self, pid: int) -> None:
        """Record its id, and send the signals that it has missed."""
        self.pid = pid
        if self.kill_at == 0.0:
            self.kill()
        elif self.is_told:
            os.kill(pid, signal.SIGTERM)


class _Restart:
    """When a process that does not run is started."""

    __slots__ = ("delay", "due")

    def __init__(self) -> None:
        self.delay = SHORTEST_DELAY
        self.due = math.inf

    def again(self) -> None:
        """Start it after the delay, and wait for longer the next time."""
        self.due = time.monotonic() + self.delay
        self.delay = min(self.delay * 2, LONGEST_DELAY)


class ProcessSupervisor:
    """Runs an owner and workers until a signal, and ends with the last of them."""

    def __init__(
        self, forks: Forks, processes: int, grace: float, *, ended: Callable[[Process], object], log: PlainLog, timeout: float = 0.0
    ) -> None:
        """Start nothing yet.

        Args:
            forks: forks processes, and has the listening socket, which is closed at the end.
            processes: their number, with the owner.
            grace: seconds that requests in flight have to finish.
            ended: called when a process has ended.
            log: for events.
            timeout: seconds after which a process that does not answer is killed; 0 for never.
        """
        self._forks = forks
        self._grace = grace
        self._told_ended = ended
        self._log = log
        self._timeout = timeout
        self._interval = interval_of(timeout) if timeout else math.inf
        self._look_at = math.inf
        """When processes are asked whether they run."""
        self._processes = [process_of(number) for number in range(processes)]
        self._owner = self._processes[0]
        self._own: tuple[socket.socket, ...] = ()
        self._unborn: deque[_Child] = deque()
        """Processes that were asked for, whose ids are not known, in order."""
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
        self._own = (woken, waking)
        # A child that ends late signals that until the end.
        with woken, waking, signals_written_to(waking):
            try:
                while self._code is None or self._children:
                    self._start_due()
                    self._wait(woken)
                    self._reap()
                    self._kill_late()
                    self._look()
            finally:
                self._forks.release()
        return self._code

    # Starts

    def _start_due(self) -> None:
        now = time.monotonic()
        for process, restart in self._restarts.items():
            if restart.due <= now and self._code is None:
                restart.due = math.inf
                self._fork(process)

    def _fork(self, process: Process) -> None:
        near, far = socket.socketpair()
        store = None if process is self._owner else socket.socketpair()
        others = (near, *self._sockets(), *(store[:1] if store else ()))
        pid = self._forks.fork(process, (far, store[1] if store else None), others)
        far.close()
        child = self._children[process] = _Child(process, near)
        if store is not None:
            self._tell_owner(ATTACH, store[0])
            for one in store:
                one.close()
        if pid is None:
            self._unborn.append(child)
        else:
            self._born(child, pid)

    def _sockets(self) -> tuple[socket.socket, ...]:
        """The sockets that no other process may have."""
        # The process at the other end of a channel would not see the supervisor's end close.
        return (*self._own, *(child.channel for child in self._children.values()))

    def _born(self, child: _Child, pid: int) -> None:
        child.born(pid)
        self._log.info("process_started", process=child.process.name, child_pid=pid)
        if self._timeout and not child.is_told:
            child.liveness = Liveness(self._interval, partial(core_wait, pid))
            self._look_at = min(self._look_at, time.monotonic() + self._interval)

    def _receive_forked(self) -> None:
        """Take up what has been forked. The template ends when it has nothing more to do."""
        for pid in self._forks.received():
            child = self._unborn.popleft()
            if pid:
                self._born(child, pid)
            else:
                self._end_unborn(child, 1, has_said=False)
        if not self._unborn and (self._code is not None or (len(self._children) == len(self._processes) and not self._is_ending_all)):
            self._forks.release()

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
                    selector.register(child.channel, selectors.EVENT_READ, partial(self._receive, child))
            if self._forks.channel is not None:
                selector.register(self._forks.channel, selectors.EVENT_READ, self._receive_forked)
            due = min((child.kill_at for child in self._children.values() if child.pid), default=math.inf)
            if self._code is None:
                due = min(due, self._look_at, *(restart.due for restart in self._restarts.values()))
            for key, _ in selector.select(None if due == math.inf else max(0.0, due - time.monotonic())):
                if key.data is None:
                    for number in woken.recv(4096):
                        self._signalled(signal.Signals(number))
                else:
                    key.data()

    def _signalled(self, number: signal.Signals) -> None:
        if number == signal.SIGCHLD:
            return
        if self._is_stopping:
            self._log.warning("server_killed", signal=number.name)
            self._code = 1
            for child in self._children.values():
                child.kill()
            if self._forks.pid is not None:
                os.kill(self._forks.pid, signal.SIGKILL)
            return
        self._is_stopping = True
        self._log.info("server_stopping", signal=number.name, grace_seconds=self._grace)
        self._finish(0)

    def _receive(self, child: _Child) -> None:
        try:
            message = child.channel.recv(1)
        except OSError:
            message = b""
        if message == READY:
            self._ready(child)
        elif message == ALIVE:
            if child.liveness is not None:
                child.liveness.answered()
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
        self._forks.close()
        if self._forks.pid is not None and not self._forks.has_begun:
            # It may be about to wait for something else than this process.
            os.kill(self._forks.pid, signal.SIGTERM)
        for child in self._children.values():
            child.end(self._grace + STOP_MARGIN)

    def _end_all(self) -> None:
        """End the workers of an owner that has ended or ends: the next owner begins alone."""
        self._is_ending_all = True
        # It imports the server while the processes end.
        self._forks.begin(self._sockets())
        for process, restart in self._restarts.items():
            restart.due = math.inf
            if process in self._children:
                self._children[process].end(
                    self._grace + STOP_MARGIN if process is self._owner else min(self._grace, RESTART_GRACE),
                )

    def _kill_late(self) -> None:
        now = time.monotonic()
        for child in self._children.values():
            if child.pid and child.kill_at <= now:
                self._log.warning("process_killed", process=child.process.name, child_pid=child.pid)
                child.kill()

    def _look(self) -> None:
        """Ask processes whether they run, and kill those that have not answered for too long."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + self._interval
        for child in self._children.values():
            liveness = child.liveness
            if liveness is None:
                continue
            if liveness.look(now):
                with contextlib.suppress(OSError):
                    child.channel.send(ASK)
            elif liveness.silence >= self._timeout:
                self._log.error("process_unresponsive", process=child.process.name, child_pid=child.pid, seconds=round(liveness.silence, 1))
                child.liveness = None
                child.kill()

    def _reap(self) -> None:
        while ended := self._next_ended():
            pid, status = ended
            code = os.waitstatus_to_exitcode(status)
            if pid == self._forks.pid:
                self._receive_forked()
                self._forks.ended()
                while self._unborn:
                    self._end_unborn(self._unborn.popleft(), code, has_said=code > 0)
                continue
            child = next((child for child in self._children.values() if child.pid == pid), None)
            # Others were left behind by a process that has ended.
            if child is not None:
                self._remove(child)
                self._ended(child, code)
        if self._is_ending_all and not self._children and self._code is None:
            self._is_ending_all = False
            self._restarts[self._owner].again()

    def _next_ended(self) -> tuple[int, int] | None:
        """The id and the status of a child that has ended."""
        # A process whose id is not known yet may be among those that have ended.
        pids = [-1] if not self._unborn else [child.pid for child in self._children.values() if child.pid]
        if self._unborn and self._forks.pid is not None:
            pids.append(self._forks.pid)
        for one in pids:
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(one, os.WNOHANG)
                if pid:
                    return pid, status
        return None

    def _remove(self, child: _Child) -> None:
        del self._children[child.process]
        child.channel.close()
        self._told_ended(child.process)

    def _end_unborn(self, child: _Child, code: int, *, has_said: bool) -> None:
        """End a process that could not be forked, which is logged unless the template has said why: one that is killed has not."""
        child.is_told = has_said
        self._remove(child)
        self._ended(child, code)

    def _ended(self, child: _Child, code: int) -> None:
        process = child.process
        if self._code is not None:
            if process is self._owner and code > 0 and self._code == 0:
                self._code = code
            return
        if not child.is_told:
            self._log.error("process_ended", process=process.name, child_pid=child.pid, **_told(code))
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


def _told(code: int) -> dict[str, str | int]:
    return {"signal": signal.Signals(-code).name} if code < 0 else {"exit_code": code}
