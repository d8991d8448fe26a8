"""Programs whose processes are supervised, one for each scenario: `python -m tests.cli.workers.supervised SCENARIO FOLDER FORKING`.

Each process writes its name, and what the scenario says, to the standard output. The processes drive the scenario themselves.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from kcp_py.cli.workers.child import ALIVE, ANNOUNCE, ASK, ATTACH, ENDING, OWNER, READY, Process, adopt_orphans
from kcp_py.cli.workers.forks import Forks, LocalForks, Template, TemplateForks
from kcp_py.cli.workers.running import run_workers
from kcp_py.cli.workers.sharing import Sharing
from kcp_py.cli.workers.supervisor import ProcessSupervisor
from kcp_py.options import Options
from kcp_py.telemetry.plainlog import PlainLog

GRACE = 0.2


def say(text: str) -> None:
    """Write a line at once, whole."""
    os.write(1, f"{text}\n".encode())


def wait() -> NoReturn:
    """Go on until a signal."""
    while True:
        signal.pause()


def stop_all() -> None:
    """What an operator does."""
    os.kill(os.getppid(), signal.SIGTERM)


def lives(process: Process) -> int:
    """How often a process of this name has begun, with this time."""
    path = Path(sys.argv[2]) / process.name
    with path.open("a") as file:
        file.write("x")
    return path.stat().st_size


def a_worker_ends(process: Process, channel: socket.socket, _: socket.socket | None) -> int:
    """The worker fails once; its second life ends the server."""
    life = lives(process)
    say(f"{process.name} {life}")
    channel.send(READY)
    if process.name != OWNER:
        if life == 1:
            return 3
        stop_all()
    wait()


def the_owner_cannot_start(process: Process, _: socket.socket, __: socket.socket | None) -> int:
    """The owner ends before it serves."""
    say(process.name)
    return 7


def a_child_ends_late(_: Process, __: socket.socket, ___: socket.socket | None) -> int:
    """The owner ends before it serves; a child that is not the owner ends after it."""
    return 7


def the_owner_ends(process: Process, channel: socket.socket, _: socket.socket | None) -> int:
    """The owner is killed when all serve; when all serve again, the server is ended."""
    life = lives(process)
    say(f"{process.name} {life}")
    channel.send(READY)
    if process.name == OWNER:
        if life == 1:
            assert channel.recv(1) == ATTACH
            assert channel.recv(1) == ANNOUNCE
            os.kill(os.getpid(), signal.SIGKILL)
    elif life == 2:
        stop_all()
    wait()


def the_owner_says_that_it_ends(process: Process, channel: socket.socket, _: socket.socket | None) -> int:
    """The worker ignores SIGTERM when the owner announces its end; the owner waits for it."""
    life = lives(process)
    if process.name != OWNER:
        signal.signal(signal.SIGTERM, signal.SIG_IGN if life == 1 else signal.SIG_DFL)
        channel.send(READY)
        if life == 2:
            say("again")
            stop_all()
        wait()
    channel.send(READY)
    if life == 1:
        # It ends in order already.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        descriptors = socket.recv_fds(channel, 1, 1)[1]
        assert channel.recv(1) == ANNOUNCE
        channel.send(ENDING)
        # Its end of the connection closes when the worker is gone.
        assert socket.socket(fileno=descriptors[0]).recv(1) == b""
        say("the worker is gone")
        return 0
    wait()


def a_store(process: Process, channel: socket.socket, store: socket.socket | None) -> int:
    """The worker and the owner talk over the connection of the store."""
    channel.send(READY)
    if store is not None:
        store.send(b"question")
        say(store.recv(10).decode())
        stop_all()
        wait()
    message, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    assert message == ATTACH
    with socket.socket(fileno=descriptors[0]) as connected:
        say(f"{process.name} {connected.recv(10).decode()}")
        connected.send(b"answer")
        wait()


def a_second_signal(process: Process, channel: socket.socket, _: socket.socket | None) -> int:
    """No process obeys SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    channel.send(READY)
    if process.name != OWNER:
        stop_all()
        # The listening socket is closed when the first signal was seen.
        while channel.send(READY) and Path(sys.argv[2], "listening").exists():
            time.sleep(0.01)
        stop_all()
    wait()


def the_supervisor_is_killed(process: Process, channel: socket.socket, _: socket.socket | None) -> int:
    """Processes hang, and cannot see that the supervisor has gone."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    say(process.name)
    channel.send(READY)
    wait()


def an_owner_hangs(process: Process, channel: socket.socket, _: socket.socket | None) -> int:
    """The owner answers a question, and later ones no more; when all serve again the server is ended."""
    life = lives(process)
    say(f"{process.name} {life}")
    channel.send(READY)
    while True:
        message = channel.recv(1)
        if message == ASK and (process.name != OWNER or life == 2 or lives(Process("questions", 0)) == 1):
            channel.send(ALIVE)
        elif message == ANNOUNCE and life == 1:
            say("announced")
        if process.name != OWNER and life == 2:
            stop_all()
            wait()


def a_worker_hangs_at_its_start(process: Process, channel: socket.socket, _: socket.socket | None) -> int:
    """The worker answers a question before it serves, and then no more; when it has begun again the server is ended."""
    life = lives(process)
    say(f"{process.name} {life}")
    if process.name == OWNER:
        channel.send(READY)
    elif life == 2:
        stop_all()
    while True:
        if channel.recv(1) == ASK and (process.name == OWNER or lives(Process("questions", 0)) == 1):
            channel.send(ALIVE)


def the_owner_hangs_at_its_start(process: Process, _: socket.socket, __: socket.socket | None) -> int:
    """The owner does not serve, and answers no question."""
    say(process.name)
    wait()


def a_template_ends(process: Process, channel: socket.socket, _: socket.socket | None) -> int:
    """The process that forks the others has ended once all serve; one that ends later comes from another one."""
    life = lives(process)
    say(f"{process.name} {life}")
    channel.send(READY)
    if process.name != OWNER:
        if life == 1:
            while lives(Process("templates", 0)) and not Path(sys.argv[2], "template ended 1").exists():
                time.sleep(0.01)
            return 3
        while not Path(sys.argv[2], "template ended 2").exists():
            time.sleep(0.01)
        stop_all()
    wait()


def the_program_changes(process: Process, channel: socket.socket, _: socket.socket | None) -> int:
    """The program is changed, and the worker ends: it cannot begin again."""
    say(f"{process.name} {lives(process)}")
    channel.send(READY)
    if process.name != OWNER:
        while not Path(sys.argv[2], "template ended 1").exists():
            time.sleep(0.01)
        Path(sys.argv[2], "program").write_text("changed")
        return 3
    wait()


def the_template_hangs(_: Process, __: socket.socket, ___: socket.socket | None) -> int:
    """The template of the owner does not end at a signal."""
    raise AssertionError("no process is forked")


def the_template_is_killed(_: Process, __: socket.socket, ___: socket.socket | None) -> int:
    """The template of the owner is killed before it forks."""
    raise AssertionError("no process is forked")


class _Listener(socket.socket):
    """Tells when it is closed."""

    def close(self) -> None:
        Path(sys.argv[2], "listening").unlink(missing_ok=True)
        super().close()


class _LateForks(LocalForks):
    """A child ends, and signals that, when everything else has ended."""

    def release(self) -> None:
        os.kill(os.getpid(), signal.SIGCHLD)


class _Forks(TemplateForks):
    """Tells when the template has ended, and has the listener that tells when it is closed."""

    number = 0

    def ended(self) -> None:
        super().ended()
        self.number += 1
        Path(sys.argv[2], f"template ended {self.number}").touch()
        if self.number > 1 and Path(sys.argv[2], "program").exists():
            os.kill(os.getpid(), signal.SIGTERM)

    def close(self) -> None:
        Path(sys.argv[2], "listening").unlink(missing_ok=True)
        super().close()


def supervised(start: Callable[[Process, socket.socket, socket.socket | None], int], forking: str) -> int:
    """Two processes of a scenario."""
    Path(sys.argv[2], "listening").touch()

    def prepare(template: Template) -> int:
        if start is the_template_is_killed:
            os.kill(os.getpid(), signal.SIGKILL)
        if start is the_template_hangs:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for number in (signal.SIGTERM, signal.SIGINT):
                os.kill(os.getppid(), number)
            wait()
        with socket.socket() as listener:
            if template.listener is None:
                template.hold(listener, listener.fileno())
            return template.serve(start)

    forks: Forks = (_LateForks if start is a_child_ends_late else LocalForks)(start, _Listener())
    if forking == "template":
        assert adopt_orphans()
        forks = _Forks(prepare, Sharing(2), program=lambda: bytes(Path(sys.argv[2], "program").exists()))
    timeout = 1.0 if start in {an_owner_hangs, a_worker_hangs_at_its_start, the_owner_hangs_at_its_start} else 0.0
    supervisor = ProcessSupervisor(
        forks, 2, GRACE, ended=lambda process: say(f"ended {process.name}"), log=PlainLog("error", "json"), timeout=timeout
    )
    return supervisor.run()


def running() -> int:
    """Processes as those of a server, which see each other's counts."""
    options = Options(root_directory=Path(sys.argv[2]), workers=3, shutdown_grace_period=GRACE)
    with socket.socket() as listener:

        def serve(part: object) -> int:
            from kcp_py.cli.workers.part import Part

            assert isinstance(part, Part)
            channel = part._channel
            part.counts.set(1, 1 if part.is_owner else 10)
            channel.send(READY)
            if part.is_owner:
                while channel.recv(1) != ANNOUNCE:
                    pass
                say(f"{part.name} sees {part.counts.total(1)}")
                stop_all()
            wait()

        return run_workers(options, listener, serve)


SCENARIOS = {
    one.__name__: one
    for one in (
        a_worker_ends,
        the_owner_cannot_start,
        a_child_ends_late,
        the_owner_ends,
        the_owner_says_that_it_ends,
        a_store,
        a_second_signal,
        the_supervisor_is_killed,
        an_owner_hangs,
        a_worker_hangs_at_its_start,
        the_owner_hangs_at_its_start,
        a_template_ends,
        the_program_changes,
        the_template_hangs,
        the_template_is_killed,
    )
}

if __name__ == "__main__":
    if sys.argv[1] == "running":
        sys.exit(running())
    sys.exit(supervised(SCENARIOS[sys.argv[1]], sys.argv[3]))
