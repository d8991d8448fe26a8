"""Build the source distribution and the wheel, and run a server from the wheel in a fresh environment.

Checked: the source distribution holds every file of the repository; the wheel, which is built from it, holds every file of the package; the
wheel installs with the versions of constraints.txt and nothing of the tests; a server that is started from it, away from the checkout,
serves two logical clusters over its own command line and over HTTP, keeps their objects over a restart, and each command ends with
the exit code that it documents.

python hack/smoke_wheel.py [--python python3.13] [--keep dist]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
GENERATED: Final = {"PKG-INFO"}
"""Files that the build adds to the source distribution."""
SECONDS: Final = 60
"""Longer than any command takes."""
OBJECTS: Final = "/clusters/{}/api/v1/namespaces/default/configmaps"


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--python", default=sys.executable, help="the Python that the wheel is installed for (default: this one)")
    arguments.add_argument("--keep", type=Path, metavar="FOLDER", help="where both files are left")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="wheel-") as folder:
        work = Path(folder)
        source, wheel = build(work)
        check_contents(source, wheel)
        Server(work, install(work, wheel, given.python)).tour()
        if given.keep:
            given.keep.mkdir(parents=True, exist_ok=True)
            for file in (source, wheel):
                shutil.copy(file, given.keep)
        print(f"{source.name} and {wheel.name} are complete; a server runs from the wheel")


def build(work: Path) -> tuple[Path, Path]:
    """The source distribution of the checkout, and the wheel that is built from it and not from the checkout."""
    _run([sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(work)], cwd=ROOT)
    source = next(work.glob("*.tar.gz"))
    with tarfile.open(source) as archive:
        archive.extractall(work / "source", filter="data")
    unpacked = next((work / "source").iterdir())
    _run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(work)], cwd=unpacked)
    return source, next(work.glob("*.whl"))


def check_contents(source: Path, wheel: Path) -> None:
    """Compare both with the files of the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = {name for name in listed.split("\0") if name and (ROOT / name).exists()}
    with tarfile.open(source) as archive:
        in_source = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as packed:
        in_wheel = set(packed.namelist())
    package = {name for name in tracked if name.startswith("kcp_py/")}
    information = {name.rpartition("/")[2] for name in in_wheel if ".dist-info/" in name}
    _expect("the source distribution", missing=tracked - in_source, foreign=in_source - tracked - GENERATED)
    _expect("the wheel", missing=package - in_wheel, foreign={name for name in in_wheel - package if ".dist-info/" not in name})
    _expect("the metadata of the wheel", missing={"METADATA", "LICENSE", "entry_points.txt"} - information, foreign=set())


def _expect(what: str, *, missing: set[str], foreign: set[str]) -> None:
    if missing:
        sys.exit(f"{what} lacks {', '.join(sorted(missing))}")
    if foreign:
        sys.exit(f"{what} holds files that are not committed: {', '.join(sorted(foreign))}")


def install(work: Path, wheel: Path, python: str) -> Path:
    """The folder of commands of a new environment with the wheel and what it requires."""
    environment = work / "environment"
    _run([python, "-m", "venv", str(environment)])
    constraints = str(ROOT / "constraints.txt")
    pip = [str(environment / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "install", "--no-compile", "--constraint", constraints, str(wheel)])
    _run([*pip, "check"])
    return environment / "bin"


class Server:
    """A server from the installed wheel, with a root directory of its own."""

    def __init__(self, work: Path, commands: Path) -> None:
        self._root = work / "root"
        self._commands = commands
        self._elsewhere = work / "elsewhere"
        self._elsewhere.mkdir()
        self._process: subprocess.Popen[str] | None = None
        self._url = ""
        # Neither the checkout nor settings of the user reach the commands.
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KCP_PY_"))}

    def tour(self) -> None:
        """Start, write, restart, read, stop."""
        home = self._command("python", "-c", "import kcp_py; print(kcp_py.__file__, kcp_py.__version__)").split()
        version = re.findall(r'"(.+)"', (ROOT / "kcp_py" / "_version.py").read_text("utf-8"))[-1]
        assert Path(home[0]).is_relative_to(self._commands.parent), f"the package is imported from {home[0]}"
        assert home[1] == version, f"the version is {home[1]}, not {version}"
        assert (Path(home[0]).parent / "py.typed").exists(), "type checkers do not see the types of the package: py.typed is missing"
        assert version in self._command("kcp-py", "version")
        try:
            self._start()
            self._write()
            self._stop()
            self._start()
            assert self._request("GET", f"{OBJECTS.format('team-a')}/motd")["data"] == {"text": "hello"}
            self._kcp_py("cluster", "delete", "team-a", "--yes", *self._kubeconfig)
            self._request("GET", f"{OBJECTS.format('team-a')}/motd", code=404)
        finally:
            self._stop()
        self._kcp_py("doctor", "--root-directory", str(self._root), "--secure-port", "0")
        self._kcp_py("cluster", "list", *self._kubeconfig, code=1)

    def _write(self) -> None:
        """Two logical clusters, an object and a definition by the command line, an object over HTTP."""
        self._kcp_py("cluster", "create", "team-a", *self._kubeconfig)
        self._kcp_py("cluster", "create", "team-a", *self._kubeconfig, code=1)
        self._kcp_py("cluster", "create", *self._kubeconfig, code=2)
        self._kcp_py("builtin", "install", "--create", "--cluster", "team-b", "deployments.apps", *self._kubeconfig)
        assert {"team-a", "team-b"} <= set(self._kcp_py("cluster", "list", "-o", "name", *self._kubeconfig).replace("/", " ").split())
        self._request("POST", OBJECTS.format("team-a"), {"metadata": {"name": "motd"}, "data": {"text": "hello"}}, code=201)
        self._request("GET", f"{OBJECTS.format('team-b')}/motd", code=404)
        assert self._request("GET", "/clusters/team-b/apis/apps/v1/deployments")["items"] == []
        self._request("GET", "/clusters/team-a/apis/apps/v1/deployments", code=404)

    @property
    def _kubeconfig(self) -> tuple[str, str]:
        return "--kubeconfig", str(self._root / "admin.kubeconfig")

    def _command(self, name: str, *arguments: str, code: int = 0) -> str:
        command = [str(self._commands / name), *arguments]
        return _run(command, cwd=self._elsewhere, environment=self._environment, code=code)

    def _kcp_py(self, *arguments: str, code: int = 0) -> str:
        return self._command("kcp-py", *arguments, code=code)

    def _start(self) -> None:
        command = [str(self._commands / "kcp-py"), "start", "--root-directory", str(self._root), "--secure-port", "0"]
        log = self._root.with_suffix(".log")
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=self._elsewhere, env=self._environment
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := re.search(r"https://[^ ]*:\d+", line):
                self._url = found[0]
            if "Ctrl-C" in line:
                return
        sys.exit(f"the server did not start (exit code {self._process.wait()}):\n{log.read_text()}")

    def _stop(self) -> None:
        """End the server as a service manager does; its exit code is 0."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert code == 0, f"the server ended with exit code {code}:\n{self._root.with_suffix('.log').read_text()}"

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, code: int = 200) -> dict[str, Any]:
        token = (self._root / "admin-tokens.csv").read_text().partition(",")[0]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data=data, method=method, headers=headers)
        context = ssl.create_default_context(cafile=str(self._root / "pki" / "ca.crt"))
        try:
            with urllib.request.urlopen(request, context=context, timeout=SECONDS) as response:
                status, answer = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, answer = error.code, error.read()
        assert status == code, f"{method} {path}: {status} instead of {code}: {answer.decode()}"
        # Paths that no resource has are answered with text.
        found: dict[str, Any] = json.loads(answer) if answer.startswith(b"{") else {}
        return found


def _run(command: list[str], *, cwd: Path | None = None, environment: Mapping[str, str] | None = None, code: int = 0) -> str:
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=5 * SECONDS, check=False)
    if done.returncode != code:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode} instead of {code}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
