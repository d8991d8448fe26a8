"""A suite of envtest, unmodified, with the programs that `kcp-py envtest-assets` writes.

`KCP_REAL_ASSETS` names a directory with the real kube-apiserver, etcd and kubectl: the suite then runs with them, too, and
both times are printed.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from e2e.goprograms import MODULES, built

pytestmark = pytest.mark.xdist_group("go")

SUITE_SECONDS: Final = 300
TESTS: Final = (
    "TestAdmissionWebhooks",
    "TestConversionWebhook",
    "TestServerSideApply",
    "TestAddUser",
    "TestTwoManagers",
    "TestNoControllers",
)


@pytest.fixture(scope="module")
def suite() -> Path:
    """The suite as a program."""
    return built(MODULES / "envtest", "test", "-c", ".")


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("assets"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Programs with a warm process, which ends with the tests."""
    directory = written(tmp_path_factory.mktemp("shared"), "--shared")
    yield directory
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{directory}/.warm".encode() in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


def written(directory: Path, *flags: str) -> Path:
    command = [sys.executable, "-m", "kcp_py", "envtest-assets", str(directory), *flags]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert completed.stdout == f"export KUBEBUILDER_ASSETS={directory}\n"
    return directory


def run(suite: Path, assets: Path) -> tuple[str, float]:
    """The output of the suite, and its seconds."""
    began = time.monotonic()
    completed = subprocess.run(
        [str(suite), "-test.v", f"-test.timeout={SUITE_SECONDS}s"],
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS + 30,
        check=False,
        env={**os.environ, "KUBEBUILDER_ASSETS": str(assets)},
    )
    assert completed.returncode == 0, f"{completed.stdout[-8000:]}\n{completed.stderr[-8000:]}"
    return completed.stdout, time.monotonic() - began


def test_a_suite_of_envtest_runs_unmodified(suite: Path, assets: Path, shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Definitions, webhooks of each kind, server-side apply, users, leases, managers, namespaces; the times are printed.

    The warm process is started by the first environment with it, whose time is that of this start.
    """
    real = os.environ.get("KCP_REAL_ASSETS")
    runs = [("kcp-py", assets), ("first shared", shared), ("shared", shared), *([("real", Path(real))] if real else [])]
    for name, directory in runs:
        output, seconds = run(suite, directory)
        for test in TESTS:
            assert f"--- PASS: {test} " in output
        times = re.search(r"environment: start \d+ ms, stop \d+ ms", output)
        assert times is not None, output
        with capsys.disabled():
            print(f"\nenvtest suite with {name} assets: {seconds:.2f} s ({times[0]})")
