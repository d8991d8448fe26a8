"""The Go clients, unmodified: each test of the module `e2e/go`, in a process of its own, against a server that runs here.

A Go test's comment says what it shows of which client (`Compatibility: CLIENT, WHAT`), and the feature gate of client-go with and without
which it is run (`Feature: NAME`).
"""

from __future__ import annotations

import fcntl
import hashlib
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
from e2e.informer import configmap

BUILD_SECONDS: Final = 900
"""A first build compiles client-go and controller-runtime, on a busy machine."""
DOWNLOAD_SECONDS: Final = 300
TEST_SECONDS: Final = 300
LEAST_HISTORY: Final = 100
"""The fewest revisions that a server can be told to keep."""
MODULE: Final = Path(__file__).parent / "go"
CACHE: Final = Path(__file__).resolve().parents[1] / ".cache" / "e2e-go"
"""Where the program is kept; `KCP_PY_TEST_GO_CACHE` names another folder."""

_TEST: Final = re.compile(r"((?://[^\n]*\n)*)func (Test\w+)\(t \*testing\.T\)")
_MODULES: Final = {"client-go": "k8s.io/client-go", "controller-runtime": "sigs.k8s.io/controller-runtime"}
# A gate that needs another.
_WITH: Final = {"ClientsPreferCBOR": ("ClientsAllowCBOR",)}


class GoTest(NamedTuple):
    """One run of a Go test."""

    name: str
    gates: tuple[str, ...]
    """`NAME=VALUE` for client-go's feature gates."""


def _version(module: str) -> str:
    found = re.search(rf"^\s+{re.escape(module)} v(\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert found is not None, module
    return found[1]


def _runs() -> Iterator[object]:
    for file in sorted(MODULE.glob("*_test.go")):
        for comment, name in _TEST.findall(file.read_text()):
            marks = [
                pytest.mark.compatibility(client, _version(_MODULES[client]), exercised)
                for client, exercised in re.findall(r"^// Compatibility: ([\w-]+), (.+)$", comment, re.MULTILINE)
            ]
            gate = re.search(r"^// Feature: (\w+)$", comment, re.MULTILINE)
            if gate is None:
                yield pytest.param(GoTest(name, ()), id=name, marks=marks)
                continue
            for value in ("true", "false"):
                gates = tuple(f"{one}={value}" for one in (gate[1], *_WITH.get(gate[1], ())))
                yield pytest.param(GoTest(name, gates), id=f"{name}-{gates[0]}", marks=marks)


def _sources_digest() -> str:
    """A digest of all files of the module: a program that was built from other sources has another name."""
    digest = hashlib.sha256()
    for file in sorted(MODULE.iterdir()):
        digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@pytest.fixture(scope="session")
def go_tests() -> Path:
    """The Go tests as a program. It is built only on request, because the first build compiles all of client-go, and kept in `CACHE`."""
    cache = Path(os.environ.get("KCP_PY_TEST_GO_CACHE") or CACHE)
    binary = cache / f"{_sources_digest()}.test"
    if binary.exists():
        return binary
    if os.environ.get("KCP_PY_TEST_GO", "") in {"", "0"}:
        pytest.skip("the Go tests are not built: `make test GO=1` or `make e2e-go` builds and runs them")
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go toolchain in PATH")
    try:
        download = subprocess.run(
            [go, "mod", "download"], cwd=MODULE, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"the Go modules do not come within {DOWNLOAD_SECONDS} seconds")
    if download.returncode:
        pytest.skip(f"the Go modules cannot be had: {download.stderr.strip()[-200:]}")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        # Workers of one run share the program: the first one builds it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            for outdated in cache.glob("*.test"):
                outdated.unlink()
            unfinished = cache / "building"
            # Symbols would only make it larger.
            command = [go, "test", "-c", "-buildvcs=false", "-ldflags=-s -w", "-o", str(unfinished), "."]
            built = subprocess.run(command, cwd=MODULE, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
            assert built.returncode == 0, built.stderr
            unfinished.rename(binary)
    return binary


@pytest.fixture
def forgetful(new_server: Callable[..., ServerProcess]) -> ServerProcess:
    """A server that has forgotten its first versions: it looks for what to forget when it starts."""
    server = new_server("--event-history-count", str(LEAST_HISTORY)).start()
    for number in range(LEAST_HISTORY + 10):
        answer = server.request("POST", "/clusters/past/api/v1/namespaces/default/configmaps", configmap(f"map-{number}", {}))
        assert answer.code == 201, answer.body
    server.stop(signal.SIGTERM)
    return server.start()


def test_go_format() -> None:
    """The Go code is formatted as all Go code is."""
    gofmt = shutil.which("gofmt")
    if gofmt is None:
        pytest.skip("no gofmt in PATH")
    listed = subprocess.run([gofmt, "-l", str(MODULE)], capture_output=True, text=True, timeout=60, check=True)
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
def test_go(go_tests: Path, server: ServerProcess, run: GoTest, request: pytest.FixtureRequest) -> None:
    """The description of the test in Go."""
    environment = {
        **os.environ,
        "KUBECONFIG": str(server.kubeconfig),
        "E2E_PYTHON": sys.executable,
        **dict(f"KUBE_FEATURE_{gate}".split("=") for gate in run.gates),
    }
    if "E2E_FORGETFUL_KUBECONFIG" in _needs(run.name):
        environment["E2E_FORGETFUL_KUBECONFIG"] = str(request.getfixturevalue("forgetful").kubeconfig)
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
    for file in MODULE.glob("*_test.go"):
        text = file.read_text()
        if (start := text.find(f"func {name}(")) >= 0:
            return text[start : text.index("\n}\n", start)]
    raise LookupError(name)
