"""What several processes start on, and errors of the start."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import TIMEOUT, Session, configmap
from e2e.pair import PATH

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2

NewServer = Callable[..., ServerProcess]


def test_one_process_keeps_its_data_for_several(new_server: NewServer) -> None:
    """The number of processes may change from start to start."""
    server = new_server().start()
    assert server.request("POST", PATH, configmap("one", {})).code == 201
    server.stop()
    several = new_server("--workers", "2", root=server.root).start()
    with ExitStack() as stack:
        for _ in range(4):
            assert stack.enter_context(Session(several)).request("GET", f"{PATH}/one")[0] == 200
    assert several.stop() == 0
    assert new_server(root=server.root).start().request("GET", f"{PATH}/one").code == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--storage", "memory"), "error: --workers: more than one needs --storage sqlite, which is memory\n"),
        (
            ("--storage", "etcd", "--etcd-servers", "http://127.0.0.1:1"),
            "error: --workers: more than one needs --storage sqlite, which is etcd; start several servers on one etcd instead\n",
        ),
        (("--app", "module:object"), None),
    ],
    ids=["memory", "etcd", "a program"],
)
def test_what_cannot_be_shared_is_refused(tmp_path: Path, arguments: tuple[str, ...], message: str | None) -> None:
    """A store in memory and the control plane of a program have one process; nothing is started."""
    (tmp_path / "module.py").write_text("from kcp_py import ControlPlane, Options\nobject = ControlPlane(Options())\n")
    command = [sys.executable, "-m", "kcp_py", "start", "--root-directory", str(tmp_path / "root"), "--workers", "2", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (message or "error: --workers: more than one process cannot serve the control plane of a program (--app)\n")
    assert not (tmp_path / "root").exists()


def test_a_store_that_cannot_be_opened_ends_the_start(tmp_path: Path) -> None:
    """The owner's error is the one line of the start, and no process is left."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "kcp.db").write_bytes(b"no database" * 1000)
    command = [sys.executable, "-m", "kcp_py", "start", "--root-directory", str(root), "--secure-port", "0", "--workers", "3"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    (error,) = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert error.startswith("error: ")
    assert "kcp.db" in error


def _without_rights_of_root() -> None:
    """Let the permissions of files hold for root, too."""
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="root has rights that can be given up on Linux alone")
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("mode", [0o400, 0o000], ids=["read only", "unreadable"])
def test_a_store_that_cannot_be_written_ends_the_start(new_server: NewServer, workers: str, mode: int) -> None:
    """The start ends with one line that names the file, whatever the number of processes, and the file is as before."""
    server = new_server().start()
    server.stop()
    database = server.root / "kcp.db"
    content = database.read_bytes()
    database.chmod(mode)
    command = [sys.executable, "-m", "kcp_py", "start", "--root-directory", str(server.root), "--secure-port", "0", "--workers", workers]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, preexec_fn=_without_rights_of_root)
    assert (ended.returncode, ended.stdout) == (1, "")
    errors = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert errors == [f"error: cannot open {database}: Permission denied"]
    database.chmod(0o600)
    assert database.read_bytes() == content
