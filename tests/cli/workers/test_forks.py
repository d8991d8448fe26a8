"""Processes come from a template that ends."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from kcp_py.cli.workers.program import CHANGED
from tests.cli.workers.conftest import TIMEOUT, Run


@pytest.mark.parametrize("forking", ["template"], indirect=True)
def test_the_template_ends_when_all_serve(run: Run) -> None:
    """It ends once all processes run, which the supervisor adopts; a process that is started again comes from another template."""
    code, said = run("a_template_ends")
    assert (code, said[:4]) == (0, ["owner 1", "worker-1 1", "ended worker-1", "worker-1 2"])
    assert sorted(said[4:]) == ["ended owner", "ended worker-1"]


@pytest.mark.parametrize("forking", ["template"], indirect=True)
def test_a_template_that_is_killed_is_logged(program: Callable[[str], list[str]]) -> None:
    """A server whose first process cannot be forked, as for lack of memory, does not end without a word."""
    ended = subprocess.run(program("the_template_is_killed"), capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (ended.returncode, ended.stdout) == (1, "ended owner\n")
    (line,) = map(json.loads, ended.stderr.splitlines())
    assert (line["event"], line["process"], line["signal"]) == ("process_ended", "owner", "SIGKILL")


@pytest.mark.parametrize("forking", ["template"], indirect=True)
def test_processes_of_another_program_are_not_added(program: Callable[[str], list[str]]) -> None:
    """After an upgrade a process that has ended is not started again with other modules than the others; these go on."""
    ended = subprocess.run(program("the_program_changes"), capture_output=True, text=True, timeout=TIMEOUT, check=False)
    said = ended.stdout.splitlines()
    assert (ended.returncode, said[:3]) == (0, ["owner 1", "worker-1 1", "ended worker-1"])
    assert sorted(said[3:]) == ["ended owner", "ended worker-1"]
    assert f"error: {CHANGED}\n" in ended.stderr


@pytest.mark.parametrize("forking", ["template"], indirect=True)
def test_a_template_that_hangs_is_killed_by_a_second_signal(run: Run) -> None:
    """A server whose start hangs ends at the second signal, as one that serves."""
    assert run("the_template_hangs") == (1, ["ended owner"])
