"""Supervised programs of `tests.cli.workers.supervised`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TIMEOUT = 60

Run = Callable[[str], tuple[int, list[str]]]


@pytest.fixture(params=["local", "template"])
def forking(request: pytest.FixtureRequest) -> str:
    """Where processes come from: `LocalForks` or `TemplateForks`."""
    if request.param == "template" and sys.platform != "linux":
        pytest.skip("processes are adopted on Linux alone")
    return str(request.param)


@pytest.fixture
def program(tmp_path: Path, forking: str) -> Callable[[str], list[str]]:
    """The command of a scenario."""
    return lambda scenario: [sys.executable, "-m", "tests.cli.workers.supervised", scenario, str(tmp_path), forking]


@pytest.fixture
def run(program: Callable[[str], list[str]]) -> Run:
    """Runs a scenario to its end: its exit code, and what its processes have said."""

    def run(scenario: str) -> tuple[int, list[str]]:
        ended = subprocess.run(program(scenario), stdout=subprocess.PIPE, text=True, timeout=TIMEOUT, check=False)
        return ended.returncode, ended.stdout.splitlines()

    return run
