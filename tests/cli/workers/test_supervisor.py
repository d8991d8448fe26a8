"""Processes are started again when they end, and end together."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from tests.cli.workers.conftest import TIMEOUT, Run


def test_a_worker_is_started_again(run: Run) -> None:
    """A worker that has ended begins again, the owner stays, and a signal ends both with the exit code 0."""
    code, said = run("a_worker_ends")
    assert (code, said[:4]) == (0, ["owner 1", "worker-1 1", "ended worker-1", "worker-1 2"])
    assert sorted(said[4:]) == ["ended owner", "ended worker-1"]


def test_an_owner_that_cannot_start_ends_the_server(run: Run) -> None:
    """Its exit code is that of the server, and no worker begins."""
    assert run("the_owner_cannot_start") == (7, ["owner", "ended owner"])


def test_a_child_that_ends_last_is_not_an_error(program: Callable[[str], list[str]]) -> None:
    """Its signal comes when the supervisor waits for none; nothing is written about it."""
    ended = subprocess.run(program("a_child_ends_late"), capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (ended.returncode, ended.stdout) == (7, "ended owner\n")
    (line,) = ended.stderr.splitlines()
    assert '"process_ended"' in line


def test_all_are_started_again_after_the_owner(run: Run) -> None:
    """The workers of a killed owner end before the next owner begins."""
    code, said = run("the_owner_ends")
    assert (code, said[:2]) == (0, ["owner 1", "worker-1 1"])
    assert sorted(said[2:4]) == ["ended owner", "ended worker-1"]
    assert said[4:6] == ["owner 2", "worker-1 2"]
    assert sorted(said[6:]) == ["ended owner", "ended worker-1"]


def test_a_late_worker_of_an_owner_that_ends_is_killed(run: Run) -> None:
    """An owner that ends in order tells first; a worker that does not end in time is killed, and both begin again."""
    code, said = run("the_owner_says_that_it_ends")
    assert code == 0
    assert said.index("ended worker-1") < said.index("again")
    assert said.index("the worker is gone") < said.index("ended owner") < said.index("again")


def test_a_worker_is_connected_with_the_owner(run: Run) -> None:
    """The owner gets the other end of the worker's connection."""
    code, said = run("a_store")
    assert code == 0
    assert sorted(said[:2]) == ["answer", "owner question"]


def test_a_second_signal_kills(run: Run) -> None:
    """Processes that do not end at the first signal are killed at the second one, and the exit code is 1."""
    code, said = run("a_second_signal")
    assert (code, sorted(said)) == (1, ["ended owner", "ended worker-1"])


def test_an_owner_that_hangs_is_killed(run: Run) -> None:
    """A process that does not answer for too long ends, as if by itself."""
    code, said = run("an_owner_hangs")
    assert (code, [one for one in said[:3] if one != "announced"]) == (0, ["owner 1", "worker-1 1"])
    assert sorted(said[3:5]) == ["ended owner", "ended worker-1"]
    assert said[5:7] == ["owner 2", "worker-1 2"]


def test_a_worker_that_hangs_at_its_start_is_killed(run: Run) -> None:
    """A process is asked before it serves, too, and begins again when it does not answer."""
    code, said = run("a_worker_hangs_at_its_start")
    assert (code, said[:4]) == (0, ["owner 1", "worker-1 1", "ended worker-1", "worker-1 2"])


def test_an_owner_that_hangs_at_its_start_ends_the_server(run: Run) -> None:
    """As one that ends before it serves: there is nothing to go on with."""
    assert run("the_owner_hangs_at_its_start") == (1, ["owner", "ended owner"])


def test_processes_end_with_the_supervisor(program: Callable[[str], list[str]]) -> None:
    """When the supervisor is killed the kernel ends the others, also those that do not answer."""
    with subprocess.Popen(program("the_supervisor_is_killed"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        names: list[str] = []
        for line in process.stdout:
            names.append(line.strip())
            if len(names) == 2:
                break
        process.kill()
        assert process.wait(TIMEOUT) == -9
        # The pipe ends when no process has it.
        assert process.stdout.read() == ""
    assert names == ["owner", "worker-1"]
