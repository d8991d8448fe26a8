"""`LocalForks` and `TemplateForks`: where the processes of a server come from.

A process begins as a fork of one that has imported the server, so that all share this memory as long as they do not write to it. They write
to half of it. The process that was forked would keep its own copy of this half for nothing, so with `TemplateForks` it ends once all
processes run: the supervisor, which imports little, adopts them.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from kcp_py.cli.workers.child import Process, become_child, flush_output, process_of, run_child
from kcp_py.cli.workers.program import CHANGED, fingerprint
from kcp_py.cli.workers.sharing import Sharing

Start = Callable[[Process, socket.socket, socket.socket | None], int]
"""Runs a process with its channel, and for all but the owner with its end of a connection to the owner. Returns the exit code."""

_REQUEST: Final = struct.Struct("<I?")
"""To the template, with the sockets of a process: its number, and whether it has a connection to the owner."""
_PREPARED: Final = b"P"
"""From the template; from the first one with the fingerprint of the program, the listening socket and the lock of the root directory."""
_PID: Final = struct.Struct("<cQ")
_FORKED: Final = b"F"
"""From the template: the id of the process that was asked for; 0 if it cannot be forked."""
_LONGEST: Final = 64


class Forks(Protocol):
    """Forks processes for the supervisor."""

    @property
    def channel(self) -> socket.socket | None:
        """To be read with `received` when it is readable; None without a template."""
        ...

    @property
    def pid(self) -> int | None:
        """The template, which is a child of the supervisor; None without one."""
        ...

    @property
    def has_begun(self) -> bool:
        """Whether processes may have been forked that were not `received` yet."""
        ...

    def begin(self, others: Iterable[socket.socket]) -> None:
        """Start a template, so that it is there when processes are asked for.

        Args:
            others: as those of `fork`.
        """

    def fork(self, process: Process, sockets: tuple[socket.socket, socket.socket | None], others: Iterable[socket.socket]) -> int | None:
        """Fork a process.

        Args:
            process: what to start.
            sockets: those of `Start`.
            others: sockets of the supervisor, which no other process may have.

        Returns:
            Its id; None where it comes later.
        """
        ...

    def received(self) -> list[int]:
        """The ids of processes that were forked, in the order of their requests; 0 for one that could not be forked."""
        ...

    def ended(self) -> None:
        """The template has ended."""

    def release(self) -> None:
        """End the template when it has forked all processes."""

    def close(self) -> None:
        """Close the listening socket."""


class LocalForks:
    """Forks of the supervisor itself, which has imported the server."""

    channel: socket.socket | None = None
    pid: int | None = None
    has_begun = True

    def __init__(self, start: Start, listener: socket.socket) -> None:
        """Fork nothing yet.

        Args:
            start: runs a process.
            listener: the listening socket.
        """
        self._start = start
        self._listener = listener

    def begin(self, others: Iterable[socket.socket]) -> None:
        """`Forks.begin`."""

    def fork(self, process: Process, sockets: tuple[socket.socket, socket.socket | None], others: Iterable[socket.socket]) -> int | None:
        """`Forks.fork`."""
        return _fork(lambda _: self._start(process, *sockets), unused=others)

    def received(self) -> list[int]:
        """`Forks.received`."""
        return []

    def ended(self) -> None:
        """`Forks.ended`."""

    def release(self) -> None:
        """`Forks.release`."""

    def close(self) -> None:
        """`Forks.close`."""
        self._listener.close()


class TemplateForks:
    """Forks of a process that is started when one is asked for, and ends when all are there."""

    def __init__(self, prepare: Callable[[Template], int], sharing: Sharing, *, program: Callable[[], bytes] = fingerprint) -> None:
        """Start nothing yet.

        Args:
            prepare: runs the template: imports the server, and calls `Template.hold` and `Template.serve`. Returns the exit code.
            sharing: memory that all processes use.
            program: the fingerprint of the program as it is now.
        """
        self._prepare = prepare
        self._sharing = sharing
        self._program = program
        self._begun_with = b""
        self._listener: socket.socket | None = None
        self._lock: int | None = None
        self.channel: socket.socket | None = None
        self.pid: int | None = None
        self.has_begun = False

    def begin(self, others: Iterable[socket.socket]) -> None:
        """`Forks.begin`."""
        if self.channel is None:
            self._begin(others)

    def fork(self, process: Process, sockets: tuple[socket.socket, socket.socket | None], others: Iterable[socket.socket]) -> int | None:
        """`Forks.fork`."""
        self.begin(others)
        assert self.channel is not None
        channel, store = sockets
        descriptors = [channel.fileno()] if store is None else [channel.fileno(), store.fileno()]
        # It may have just ended.
        with contextlib.suppress(OSError):
            socket.send_fds(self.channel, [_REQUEST.pack(process.number, store is not None)], descriptors)
        return None

    @property
    def has_listened(self) -> bool:
        """Whether a template was prepared: the port was free, and the settings are right."""
        return self._listener is not None

    def received(self) -> list[int]:
        """`Forks.received`."""
        pids: list[int] = []
        while self.channel is not None:
            try:
                message, descriptors, _, _ = socket.recv_fds(self.channel, _LONGEST, 2)
            except BlockingIOError:
                break
            except OSError:
                message, descriptors = b"", []
            if message.startswith(_PREPARED):
                self.has_begun = True
                if descriptors:
                    self._begun_with = message[len(_PREPARED) :]
                    self._listener, self._lock = socket.socket(fileno=descriptors[0]), descriptors[1]
            elif message:
                pids.append(_PID.unpack(message)[1])
            else:
                self.release()
        return pids

    def ended(self) -> None:
        """`Forks.ended`."""
        self.release()
        self.pid = None
        self.has_begun = False

    def release(self) -> None:
        """`Forks.release`."""
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    def close(self) -> None:
        """`Forks.close`."""
        if self._listener is not None:
            self._listener.close()

    def _begin(self, others: Iterable[socket.socket]) -> None:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The first collection of the template would write to all objects, and so copy them.
        gc.collect()
        gc.freeze()

        def run(supervisor: int) -> int:
            template = Template(far, supervisor, self._sharing, listener=self._listener, program=self._program, begun_with=self._begun_with)
            template.check()
            return self._prepare(template)

        pid = _fork(run, unused=(near, *others))
        far.close()
        near.setblocking(False)
        self.channel, self.pid, self.has_begun = near, pid, False


class Template:
    """The side of the process that is forked."""

    def __init__(
        self,
        channel: socket.socket,
        supervisor: int,
        sharing: Sharing,
        *,
        listener: socket.socket | None,
        program: Callable[[], bytes],
        begun_with: bytes,
    ) -> None:
        """A process that was just forked.

        Args:
            channel: to the supervisor.
            supervisor: the id of its process.
            sharing: memory that all processes use.
            listener: the listening socket, which the supervisor has with the lock of the root directory; None for the first template.
            program: the fingerprint of the program as it is now.
            begun_with: that of the first template.
        """
        self.sharing = sharing
        self.listener = listener
        self._channel = channel
        self._supervisor = supervisor
        self._program = program
        self._begun_with = begun_with

    def check(self) -> None:
        """Check that this process imports, or has imported, the program that the other processes run.

        Raises:
            CommandError: it was changed since.
        """
        from kcp_py.cli.exits import CommandError

        if self.listener is not None and self._program() != self._begun_with:
            raise CommandError(CHANGED)

    def hold(self, listener: socket.socket, lock: int) -> None:
        """Give the supervisor the listening socket and the locked file, which live as long as it."""
        socket.send_fds(self._channel, [_PREPARED + self._program()], [listener.fileno(), lock])

    def serve(self, start: Start) -> int:
        """Fork the processes that the supervisor asks for, until it needs no more. Returns the exit code.

        Args:
            start: runs a process.

        Raises:
            CommandError: as `check`.
        """
        self.check()
        if self.listener is not None:
            self._channel.send(_PREPARED)
        while True:
            message, descriptors, _, _ = socket.recv_fds(self._channel, _LONGEST, 2)
            if not message:
                return 0
            number, has_store = _REQUEST.unpack(message)
            sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
            try:
                pid = self._fork(start, process_of(number), sockets[0], sockets[1] if has_store else None)
            except OSError:
                pid = 0
            _close_all(sockets)
            self._channel.send(_PID.pack(_FORKED, pid))

    def _fork(self, start: Start, process: Process, channel: socket.socket, store: socket.socket | None) -> int:
        """Fork a process whose parent has ended, so that the supervisor is its parent. Returns its id; 0 if there is none."""
        read, write = os.pipe()
        adopted, adopt = os.pipe()
        flush_output()
        try:
            between = os.fork()
            if between == 0:
                self._fork_orphan(lambda: start(process, channel, store), write, adopted, unused=(read, adopt))
            os.close(write)
            write = -1
            os.waitpid(between, 0)
            written = os.read(read, 8)
            return int.from_bytes(written, "little")
        finally:
            for descriptor in (read, write, adopted, adopt):
                if descriptor >= 0:
                    os.close(descriptor)

    def _fork_orphan(self, run: Callable[[], int], write: int, adopted: int, *, unused: Iterable[int]) -> None:
        """Fork within the process that ends. Does not return."""
        try:
            for descriptor in unused:
                os.close(descriptor)
            pid = os.fork()
            if pid:
                os.write(write, pid.to_bytes(8, "little"))
                os._exit(0)
        except OSError:
            os._exit(1)

        def run_adopted() -> int:
            os.close(write)
            # Ends when the parent was waited for. Before, the supervisor is not the parent.
            os.read(adopted, 1)
            os.close(adopted)
            become_child(self._supervisor)
            self._channel.close()
            return run()

        run_child(run_adopted)


def _fork(run: Callable[[int], int], *, unused: Iterable[socket.socket]) -> int:
    """Fork a child of this process. Returns its id.

    Args:
        run: runs the child, with the id of this process. Returns the exit code.
        unused: sockets of this process, which the child does not have.
    """
    flush_output()
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:

        def run_prepared() -> int:
            become_child(supervisor)
            _close_all(unused)
            return run(supervisor)

        run_child(run_prepared)
    return pid


def _close_all(sockets: Iterable[socket.socket]) -> None:
    for one in sockets:
        one.close()
