"""`main`: the warm process of `envtest-assets --shared`: it has imported and used the server once, and forks for each test environment.

Each environment is a process of its own: it has its own flags, authorities, keys and processor, and nothing of another one. The program
that envtest has started stays, as envtest's child: over its connection it hands over its command line, its streams and its listening
socket, passes SIGTERM on, and gets the exit code. A client of the socket starts programs as this user, so the socket is in a directory of
this user alone.

A fork shares memory until it writes to it, and each page costs a copy then. So one process, the spare, is forked ahead of the next
environment and has done what environments do; where there is none, as when several start at once, the environment is forked itself.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import gc
import marshal
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

IDLE_SECONDS: Final = 300.0
"""The process ends so long after the last environment has asked for a start."""
PAUSE_SECONDS: Final = 0.25
"""How long nothing has asked for a start before a spare is made: an environment that starts needs the processor more."""
STOP: Final = b"T"
"""What the program sends to stop its server."""
LENGTH: Final = struct.Struct("!I")
MAX_BYTES: Final = 16 * 1024 * 1024
"""Of a command line with its environment."""
_DESCRIPTORS: Final = 4
_BACKLOG: Final = 512
_READY: Final = b"R"


def main(path: str) -> int:
    """Serve the socket until nothing has asked for a start for a time.

    Args:
        path: of the socket, in a directory for this user alone.
    """
    with contextlib.ExitStack() as stack:
        lock = _locked(path)
        if lock is None:
            return 0
        stack.callback(os.close, lock)
        prepare()
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(path)
        Path(path).chmod(0o600)
        listener.listen(_BACKLOG)
        # No child is waited for: programs get the exit codes over their connections.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        _Forks(listener, lock).run()
        for file in (path, f"{path}.lock"):
            with contextlib.suppress(FileNotFoundError):
                Path(file).unlink()
        with contextlib.suppress(OSError):
            Path(path).parent.rmdir()
    return 0


def _locked(path: str) -> int | None:
    """The descriptor of the locked file of the socket; None where another process has it."""
    file = Path(f"{path}.lock")
    while True:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            # A warm process that ends has just removed the directory.
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The one that had the lock may have removed the file since: a lock of it keeps no other process out.
            if file.stat().st_ino == os.fstat(lock).st_ino:
                return lock
        except BlockingIOError:
            os.close(lock)
            return None
        except FileNotFoundError:
            pass
        os.close(lock)


def prepare() -> None:
    """Import the server and use a control plane once, so that what all have in common is made before the first fork."""
    import kcp_py.authn.serviceaccount.keys  # each server reads a key of its test
    import kcp_py.cli.envtest.apiserver  # noqa: F401 - for the processes that follow
    from kcp_py.cli.envtest.rehearsal import CALLS, rehearse
    from kcp_py.telemetry.logs import configure_logging

    configure_logging("error", "json")
    # Without it environments start more slowly, and their own start says why.
    with contextlib.suppress(Exception):
        rehearse(CALLS)
    gc.collect()
    gc.freeze()


class _Forks:
    """The environments of one listening socket, and the spare."""

    def __init__(self, listener: socket.socket, lock: int) -> None:
        self._listener = listener
        self._lock = lock
        self._spare: socket.socket | None = None
        self._is_ready = False

    def run(self) -> None:
        """Return when nothing has asked for a start for a time."""
        used_at = time.monotonic()
        self._make_spare()
        while (unused := time.monotonic() - used_at) < IDLE_SECONDS:
            waiting = [self._listener, *([self._spare] if self._spare is not None and not self._is_ready else [])]
            readable = select.select(waiting, [], [], (PAUSE_SECONDS if self._spare is None else IDLE_SECONDS) - unused)[0]
            if self._spare in readable:
                self._read_spare()
            if self._listener in readable:
                used_at = time.monotonic()
                self._start(self._listener.accept()[0])
            elif not readable and self._spare is None:
                self._make_spare()
        self._drop_spare()

    def _start(self, connection: socket.socket) -> None:
        """Let the spare or a new process be the server of the program at the other end."""
        with connection:
            if self._spare is not None and self._is_ready:
                try:
                    socket.send_fds(self._spare, [_READY], [connection.fileno()])
                except OSError:
                    # It has been killed.
                    self._drop_spare()
                else:
                    self._drop_spare()
                    return
            if os.fork() == 0:
                self._leave()
                _be_server(connection)

    def _make_spare(self) -> None:
        self._spare, other = socket.socketpair()
        self._is_ready = False
        if os.fork() == 0:
            self._leave()
            _be_spare(other)
        other.close()

    def _read_spare(self) -> None:
        assert self._spare is not None
        self._is_ready = self._spare.recv(1) == _READY
        if not self._is_ready:
            self._drop_spare()

    def _drop_spare(self) -> None:
        if self._spare is not None:
            self._spare.close()
            self._spare = None

    def _leave(self) -> None:
        """Close what belongs to the warm process, in a new one."""
        self._listener.close()
        os.close(self._lock)
        self._drop_spare()


def _be_spare(channel: socket.socket) -> None:
    """Do what environments do, then be the next one. Does not return; ends with the warm process."""
    try:
        from kcp_py.cli.envtest.rehearsal import HEALTH, rehearse

        with contextlib.suppress(Exception):
            rehearse(HEALTH)
        # The start makes many objects that live as long as the process: the collector would only look at them.
        gc.disable()
        channel.sendall(_READY)
        received, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        channel.close()
        if received and descriptors:
            _be_server(socket.socket(fileno=descriptors[0]))
    finally:
        os._exit(0)


def _be_server(connection: socket.socket) -> None:
    """Be the server of the program at the other end, and end with it. Does not return."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        arguments, environment, directory, descriptors = receive(connection)
        for number, descriptor in enumerate(descriptors[:3]):
            os.dup2(descriptor, number)
            os.close(descriptor)
        listener = socket.socket(fileno=descriptors[3]) if len(descriptors) > 3 else None
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(environment)
        from kcp_py.cli.envtest.apiserver import run

        code = run(arguments, environment, listener, control=connection.fileno())
        connection.sendall(bytes((code,)))
    except BaseException as error:  # noqa: BLE001 - the process is a copy, which must not go on as the warm one
        sys.stderr.write(f"Error: {type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


def receive(connection: socket.socket) -> tuple[Sequence[str], Mapping[str, str], str, Sequence[int]]:
    """The command line, the environment, the directory and the descriptors of a program.

    Raises:
        ValueError: the program has sent something else, or has gone.
    """
    numbers = array.array("i")
    head, ancillary, _, _ = connection.recvmsg(LENGTH.size, socket.CMSG_SPACE(_DESCRIPTORS * numbers.itemsize))
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    size = LENGTH.unpack(head)[0] if len(head) == LENGTH.size else MAX_BYTES + 1
    if size > MAX_BYTES:
        raise ValueError("no command line")
    body = b""
    while len(body) < size:
        part = connection.recv(size - len(body))
        if not part:
            raise ValueError("the program has gone")
        body += part
    arguments, environment, directory = marshal.loads(body)  # noqa: S302 - from a process of this user
    return arguments, environment, directory, list(numbers)
