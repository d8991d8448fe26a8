"""The README's tour, run as it stands: every `sh` block, each with the output that the README shows below it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.conftest import COMMAND_SECONDS, ServerProcess

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
AGE = re.compile(r"\b[0-9]+(?:s|m|m[0-9]+s)\b")
TIME = re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z")
DOCUMENTS = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))]
OWN_COMMAND = re.compile(r"\bkcp-py ((?:[a-z]+ ?){1,2})((?:[^\n`|>]*)?)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
CLUSTER_COMMANDS = (
    "annotate",
    "create",
    "delete",
    "describe",
    "get",
    "grant",
    "kubeconfig",
    "label",
    "list",
    "members",
    "revoke",
    "undelete",
)
COMMANDS = {
    "start": (),
    "doctor": (),
    "version": (),
    "completion": (),
    "validate": (),
    "cluster": CLUSTER_COMMANDS,
}


def plain(output: str) -> list[str]:
    """Lines without what differs from run to run: ages, times, and how wide columns are."""
    return [" ".join(TIME.sub("TIME", AGE.sub("AGE", line)).split()) for line in output.splitlines() if line.strip()]


@pytest.mark.slow
def test_tour(new_server: Callable[..., ServerProcess], kubectl_binary: str, tmp_path: Path):
    """The tour of the README produces the documented output in a shell."""
    server = new_server(root=tmp_path / ".kcp").start()
    shutil.copytree(ROOT / "config", tmp_path / "config")
    blocks = BLOCK.findall(README)
    assert len(blocks) >= 6
    mark = "--- end of block ---"
    script = f"\necho '{mark}'\n".join(commands for commands, _ in blocks).replace("127.0.0.1:6443", f"127.0.0.1:{server.port}")
    path = os.pathsep.join([str(Path(kubectl_binary).parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    completed = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    printed = completed.stdout.split(f"{mark}\n")
    assert [plain(part) for part in printed] == [plain(expected) for _, expected in blocks]
    kubeconfigs = list(tmp_path.glob("*.kubeconfig"))
    assert kubeconfigs
    assert [path.name for path in kubeconfigs if path.stat().st_mode & 0o077] == []


@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".gitignore").exists(), reason="not a checkout, or no git")
def test_tour_leaves_nothing_for_git(tmp_path: Path):
    """Git ignores every file and directory that the tour makes, so that no key is committed by mistake."""
    made = re.findall(r"(?:--root-directory|--data-dir|mkdir|cluster kubeconfig [^\n]+ -o) (\S+)", README)
    assert {".etcd", ".kcp-1", ".kcp-2", "team-a.kubeconfig"} <= set(made)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    checked = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin"],
        input="".join(f"{name}\n" if "." in name[1:] else f"{name}/\n" for name in [".kcp", *made]),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    ignored = {name.rstrip("/") for name in checked.stdout.split()}
    assert ignored == {".kcp", *made}, checked.stderr


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_exist(document: str):
    """Every command of the program that a document names exists, with every flag that is given to it."""
    text = (ROOT / document).read_text("utf-8")
    named: dict[tuple[str, ...], set[str]] = {}
    for words, rest in OWN_COMMAND.findall(text):
        first, *more = words.split()
        if first not in COMMANDS:
            continue
        command = (first, more[0]) if more and more[0] in COMMANDS[first] else (first,)
        named.setdefault(command, set()).update(FLAG.findall(rest))
    for command, flags in named.items():
        shown = subprocess.run([sys.executable, "-m", "kcp_py", *command, "--help"], capture_output=True, text=True, check=True).stdout
        missing = {flag for flag in flags if re.search(rf"{flag}\b", shown) is None}
        assert not missing, f"kcp-py {' '.join(command)} has no {missing}"
