"""Completion in shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kcp_py.cli.root import COMMANDS
from tests.cli.conftest import SERVER, running_server

PROGRAMS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The kubeconfig of a server with the clusters root-a and root-b."""
    with running_server(tmp_path_factory, str(SERVER)) as kubeconfig:
        for name in ("root-a", "root-b"):
            command = [sys.executable, "-m", "kcp_py", "cluster", "create", name, "--kubeconfig", str(kubeconfig)]
            subprocess.run(command, check=True, capture_output=True)
        yield kubeconfig


def completed(*words: str, kubeconfig: Path | None = None) -> list[str]:
    """What bash offers for the last word, by the script that `kcp-py completion bash` prints, in a shell that loads it."""
    program = (
        '. <(kcp-py completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()\n'
        "compopt() { echo files; }\n"
        '_kcp_py_completion kcp-py; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environ = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "KUBECONFIG": str(kubeconfig or "/nonexistent"), "HOME": "/nonexistent"}
    shell = subprocess.run(["bash", "-c", program, "bash", "kcp-py", *words], capture_output=True, text=True, check=True, env=environ)
    assert shell.stderr == ""
    return shell.stdout.split("\n")[:-1]


def test_commands():
    """Commands, subcommands and flags are completed."""
    assert completed("") == list(COMMANDS)
    assert completed("c") == ["controllers", "cluster", "completion"]
    assert completed("cluster", "ku") == ["kubeconfig"]
    assert completed("start", "--storage-p") == ["--storage-path"]


def test_values_of_settings():
    """Settings that take one of a few words, kinds and files are completed; other texts are not."""
    assert completed("start", "--storage", "") == ["sqlite", "memory", "etcd"]
    assert completed("start", "--anonymous-auth", "f") == ["false"]
    assert completed("start", "--builtin-kinds", "deploy") == ["deployments.apps"]
    assert completed("doctor", "--root-directory", "") == ["files", ""]
    assert completed("start", "--secure-port", "") == [""]
    assert completed("builtin", "install", "cronj") == ["cronjobs.batch"]
    assert completed("completion", "") == ["bash", "zsh", "fish"]


def test_names_of_clusters(running):
    """They come from the server of the kubeconfig; where none answers, nothing is completed and nothing is printed."""
    assert completed("cluster", "delete", "root-", kubeconfig=running) == ["root-a", "root-b"]
    assert completed("builtin", "list", "--cluster", "root-b", kubeconfig=running) == ["root-b"]
    assert completed("cluster", "delete", "--kubeconfig", str(running), "root-a") == ["root-a"]
    assert completed("cluster", "list", "--context", "s", kubeconfig=running) == ["system:admin", "shard-base"]
    assert completed("cluster", "delete", "root-") == [""]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell):
    """Each shell accepts its script, where the shell is there."""
    script = subprocess.run([sys.executable, "-m", "kcp_py", "completion", shell], capture_output=True, text=True, check=True).stdout
    assert f"_KCP_PY_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
