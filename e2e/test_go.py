"""The Go clients, unmodified: each test of the module `e2e/go`, in a process of its own, against a server that runs here.

A Go test's comment says what it shows of which client (`Compatibility: CLIENT, WHAT`), the feature gate of client-go with and without
which it is run (`Feature: NAME`), and the options of the server that it needs, if any (`Server: OPTIONS`).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from e2e.conftest import ServerProcess
from e2e.goprograms import MODULES, built
from e2e.informer import configmap
from e2e.programs import running
from tests.ports import reserve_port

# One worker builds all Go programs, one after the other, while the others test. As the largest group it begins first.
pytestmark = pytest.mark.xdist_group("go")

TEST_SECONDS: Final = 300
LEAST_HISTORY: Final = 100
"""The fewest revisions that a server can be told to keep."""
_TEST: Final = re.compile(r"((?://[^\n]*\n)*)func (Test\w+)\(t \*testing\.T\)")
_MODULES: Final = {
    "client-go": "k8s.io/client-go",
    "controller-runtime": "sigs.k8s.io/controller-runtime",
    "multicluster-runtime": "sigs.k8s.io/multicluster-runtime",
}
# A gate that needs another.
_WITH: Final = {"ClientsPreferCBOR": ("ClientsAllowCBOR",)}


class GoTest(NamedTuple):
    """One run of a Go test."""

    name: str
    gates: tuple[str, ...]
    """`NAME=VALUE` for client-go's feature gates."""
    server: tuple[str, ...] = ()
    """Options of the server that the test needs; without any it shares one."""


def _version(module: str) -> str:
    found = re.search(rf"^\s+{re.escape(module)} v(\S+)", (MODULES / "go.mod").read_text(), re.MULTILINE)
    assert found is not None, module
    return found[1]


def _runs() -> Iterator[object]:
    for file in sorted(MODULES.glob("*_test.go")):
        for comment, name in _TEST.findall(file.read_text()):
            marks = [
                pytest.mark.compatibility(client, _version(_MODULES[client]), exercised)
                for client, exercised in re.findall(r"^// Compatibility: ([\w-]+), (.+)$", comment, re.MULTILINE)
            ]
            gate = re.search(r"^// Feature: (\w+)$", comment, re.MULTILINE)
            options = re.search(r"^// Server: (.+)$", comment, re.MULTILINE)
            if gate is None:
                yield pytest.param(GoTest(name, (), tuple(options[1].split()) if options else ()), id=name, marks=marks)
                continue
            for value in ("true", "false"):
                gates = tuple(f"{one}={value}" for one in (gate[1], *_WITH.get(gate[1], ())))
                yield pytest.param(GoTest(name, gates), id=f"{name}-{gates[0]}", marks=marks)


@pytest.fixture(scope="session")
def go_tests() -> Path:
    """The Go tests as a program."""
    return built(MODULES, "test", "-c", ".")


@pytest.fixture
def forgetful(new_server: Callable[..., ServerProcess]) -> ServerProcess:
    """A server that has forgotten its first versions: it looks for what to forget when it starts."""
    server = new_server("--event-history-count", str(LEAST_HISTORY)).start()
    for number in range(LEAST_HISTORY + 10):
        answer = server.request("POST", "/clusters/past/api/v1/namespaces/default/configmaps", configmap(f"map-{number}", {}))
        assert answer.code == 201, answer.body
    server.stop(signal.SIGTERM)
    return server.start()


@pytest.fixture
def proxy(server: ServerProcess, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A caching proxy in front of the server: where it is, for the Go tests."""
    port = reserve_port()
    command = [sys.executable, "-m", "kcp_py", "proxy", "--kubeconfig", str(server.kubeconfig), "--listen", f"127.0.0.1:{port}"]
    with running(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        assert f"127.0.0.1:{port}" in process.stdout.readline()
        authority = str(tmp_path / ".kcp-proxy/pki/ca.crt")
        yield {"E2E_PROXY_URL": f"https://127.0.0.1:{port}", "E2E_PROXY_CA": authority, "E2E_PROXY_TOKEN": server.token}


def test_go_format() -> None:
    """The Go code is formatted as all Go code is."""
    gofmt = shutil.which("gofmt")
    if gofmt is None:
        pytest.skip("no gofmt in PATH")
    listed = subprocess.run([gofmt, "-l", str(MODULES)], capture_output=True, text=True, timeout=60, check=True)
    assert listed.stdout == ""


def test_go_is_not_compiled_unless_asked_for(tmp_path: Path) -> None:
    """Without a built program and without KCP_PY_TEST_GO the Go tests skip with a message that says how to run them; `go` is not called."""
    called = tmp_path / "called"
    program = tmp_path / "bin" / "go"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch '{called}'\nexit 1\n")
    program.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "KCP_PY_TEST_GO"))}
    environment |= {"PATH": f"{program.parent}:{environment['PATH']}", "KCP_PY_TEST_GO_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", f"{Path(__file__)}::test_go"]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert completed.returncode == 0, completed.stdout
    assert " skipped" in completed.stdout
    assert " passed" not in completed.stdout
    assert "make test GO=1" in completed.stdout
    assert not called.exists()


@pytest.mark.parametrize("run", list(_runs()))
def test_go(go_tests: Path, run: GoTest, request: pytest.FixtureRequest) -> None:
    """The description of the test in Go."""
    if run.server:
        server: ServerProcess = request.getfixturevalue("new_server")(*run.server).start()
    else:
        server = request.getfixturevalue("server")
    environment = {
        **os.environ,
        "KUBECONFIG": str(server.kubeconfig),
        "E2E_PYTHON": sys.executable,
        **dict(f"KUBE_FEATURE_{gate}".split("=") for gate in run.gates),
    }
    if "E2E_FORGETFUL_KUBECONFIG" in _needs(run.name):
        environment["E2E_FORGETFUL_KUBECONFIG"] = str(request.getfixturevalue("forgetful").kubeconfig)
    if "proxied(" in _needs(run.name):
        environment |= request.getfixturevalue("proxy")
    completed = subprocess.run(
        [str(go_tests), "-test.run", f"^{run.name}$", "-test.v", f"-test.timeout={TEST_SECONDS}s"],
        capture_output=True,
        text=True,
        timeout=TEST_SECONDS + 30,
        check=False,
        env=environment,
    )
    assert completed.returncode == 0, f"{completed.stdout[-8000:]}\n{completed.stderr[-8000:]}"
    assert f"--- PASS: {run.name} " in completed.stdout, completed.stdout
    assert "--- SKIP" not in completed.stdout, completed.stdout


def _needs(name: str) -> str:
    """The text of a test's function."""
    for file in MODULES.glob("*_test.go"):
        text = file.read_text()
        if (start := text.find(f"func {name}(")) >= 0:
            return text[start : text.index("\n}\n", start)]
    raise LookupError(name)
