"""Every block of code in the documents, tried against a server: see `e2e.documents`."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from inspect import CO_COROUTINE
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest
import yaml

from e2e.conftest import COMMAND_SECONDS, ServerProcess
from e2e.documents import ROOT, Block, blocks_of, pages
from kcp_py.options.loading import load_options

CONFIGURATIONS = re.compile(r"(apiserver\.config\.k8s\.io|config\.kcp-py\.io|\w+\.admission\.k8s\.io)/")
ANY_LINES = "…"

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def documented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of the page, because pages use the same clusters, with the kinds that they use."""
    server = ServerProcess(tmp_path_factory.mktemp("documented") / ".kcp", "--builtin-kinds", "all", "--storage", "memory")
    yield server.start()
    server.stop()


class Shell:
    """A folder with a checkout's samples, where commands use a logical cluster of the page."""

    def __init__(self, server: ServerProcess, cluster: str, folder: Path, kubectl: str) -> None:
        shutil.copytree(ROOT / "config", folder / "config")
        (folder / ".kcp").symlink_to(server.root)
        kubeconfig = yaml.safe_load(server.kubeconfig.read_text("utf-8"))
        for entry in kubeconfig["clusters"]:
            entry["cluster"]["server"] = f"https://127.0.0.1:{server.port}/clusters/{cluster}"
        self.kubeconfig = folder / "page.kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(kubeconfig), "utf-8")
        self.folder = folder
        self._port = server.port
        path = os.pathsep.join([str(Path(kubectl).parent), str(Path(sys.executable).parent), os.environ["PATH"]])
        self._environment = {**os.environ, "PATH": path, "HOME": str(folder), "KUBECONFIG": str(self.kubeconfig)}

    def run(self, commands: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run commands; their two outputs are one."""
        return subprocess.run(
            ["bash", "-c", re.sub(r"\b(127\.0\.0\.1|localhost):6443\b", rf"\1:{self._port}", commands)],
            cwd=self.folder,
            env=self._environment,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )


class Trial:
    """Tries the blocks of one page, which share a shell and the names of Python."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.place = ""
        # A module, because annotations of classes are looked up in theirs.
        self._module = ModuleType("page")
        self._names = vars(self._module)

    async def run(self, block: Block) -> None:
        """Try one block by its language."""
        if block.setup:
            done = self.shell.run(f"set -e\n{block.setup}")
            assert done.returncode == 0, f"{self.place}: the setup fails: {done.stdout}"
        exec(block.names, self._names)
        await TRIALS[block.language](self, block)

    async def commands(self, block: Block) -> None:
        """The commands succeed, and print the text below them."""
        done = self.shell.run(f"set -e\n{block.code}")
        assert done.returncode == 0, f"{self.place}: {done.stdout}"
        if block.printed is not None:
            assert plain(done.stdout) == plain(block.printed), self.place

    async def session(self, block: Block) -> None:
        """Each command prints the lines below it, or succeeds where there are none."""
        for command, text in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block.code, re.MULTILINE):
            done = self.shell.run(command)
            pattern = "\n".join(r"(?:.*\n)*.*" if line == ANY_LINES else re.escape(line) for line in plain(text))
            matches = re.fullmatch(pattern, "\n".join(plain(done.stdout))) if pattern else done.returncode == 0
            assert matches, f"{self.place}: $ {command}\n{done.stdout}"

    async def python(self, block: Block) -> None:
        """The code runs, in the folder of the page."""
        compiled = compile(block.code, self.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.shell.folder)
            patch.setitem(sys.modules, "page", self._module)
            patch.setenv("KUBECONFIG", str(self.shell.kubeconfig))
            result = eval(compiled, self._names)
            if compiled.co_flags & CO_COROUTINE:
                await result

    async def yaml(self, block: Block) -> None:
        """A server accepts objects, and the program its own configuration. Of the rest only the syntax is checked."""
        for document in yaml.safe_load_all(block.code):
            if isinstance(document, dict) and document.get("kind") == "ServerConfiguration":
                file = self.shell.folder / "server.yaml"
                file.write_text(block.code, "utf-8")
                load_options(flags={}, environ={}, config_file=str(file))
            if isinstance(document, dict) and "kind" in document and not CONFIGURATIONS.match(document["apiVersion"]):
                done = self.shell.run("kubectl apply --dry-run=server -f -", yaml.safe_dump(document))
                assert done.returncode == 0, f"{self.place}: {done.stdout}"

    async def json(self, block: Block) -> None:
        """The syntax is correct, of the whole or of each line."""
        try:
            json.loads(block.code)
        except json.JSONDecodeError:
            for line in block.code.splitlines():
                json.loads(line)

    async def toml(self, block: Block) -> None:
        """The syntax is correct."""
        tomllib.loads(block.code)


TRIALS: Final = {
    "sh": Trial.commands,
    "console": Trial.session,
    "python": Trial.python,
    "yaml": Trial.yaml,
    "json": Trial.json,
    "toml": Trial.toml,
}


@pytest.mark.parametrize("page", pages())
async def test_page(page: str, documented: ServerProcess, kubectl_binary: str, tmp_path: Path):
    """The blocks of a page work in their order."""
    cluster = re.sub(r"[^a-z0-9]+", "-", page.removesuffix(".md").lower()).strip("-")
    trial = Trial(Shell(documented, cluster, tmp_path, kubectl_binary))
    for block in blocks_of(ROOT / page):
        if not block.excused:
            trial.place = f"{page}:{block.line}"
            await trial.run(block)


def plain(output: str) -> list[str]:
    """Lines without what differs from run to run: ages, times, ports, and how wide columns are."""
    output = re.sub(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z?", "TIME", output)
    output = re.sub(r"\b[0-9]+(?:s|m|m[0-9]+s)\b", "AGE", output)
    output = re.sub(r"\b(127\.0\.0\.1|localhost):[0-9]+", r"\1:PORT", output)
    return [" ".join(line.split()) for line in output.splitlines() if line.strip()]
