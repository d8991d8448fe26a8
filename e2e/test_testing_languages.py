"""Tests in Go, Node and Java with the test server: the module `sdk/go/kcptest`, and the programs of `docs/testing/other-languages.md`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from e2e.goprograms import built

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "testing" / "other-languages.md"
SECONDS: Final = 300
ENVIRONMENT: Final = {**os.environ, "KCP_PY": f"{sys.executable} -m kcp_py"}
_BLOCK: Final = re.compile(r"`(\w+(?:\.test)?\.(?:mjs|java))`[^`]*?```(?:js|java)\n(.*?)```", re.DOTALL)
# In the place of JUnit, with the JDK alone: the annotations and the assertion that the test uses, and a program that calls it.
_JUNIT: Final = {
    "org/junit/jupiter/api/AfterAll.java": "package org.junit.jupiter.api; public @interface AfterAll {}",
    "org/junit/jupiter/api/BeforeAll.java": "package org.junit.jupiter.api; public @interface BeforeAll {}",
    "org/junit/jupiter/api/Test.java": "package org.junit.jupiter.api; public @interface Test {}",
    "org/junit/jupiter/api/Assertions.java": "package org.junit.jupiter.api; public class Assertions { public static void assertEquals"
    '(int a, int b) { if (a != b) throw new AssertionError(a + " is not " + b); } }',
    "Run.java": "public class Run { public static void main(String[] a) throws Exception { WidgetsTest.start(); "
    "new WidgetsTest().eachTestHasAClusterOfItsOwn(); WidgetsTest.stop(); } }",
}


def write_programs(directory: Path, suffix: str) -> None:
    """The programs of the page in one language."""
    found = {name: text for name, text in _BLOCK.findall(PAGE.read_text()) if name.endswith(suffix)}
    assert len(found) == 2, found.keys()
    for name, text in found.items():
        (directory / name).write_text(text)


def run(command: list[str], directory: Path) -> str:
    """The output of a program that succeeds."""
    completed = subprocess.run(command, cwd=directory, env=ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert completed.returncode == 0, f"{completed.stdout}\n{completed.stderr}"
    return completed.stdout


def test_node(tmp_path: Path) -> None:
    """The test of the page passes, and the server ends with it."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node in PATH")
    write_programs(tmp_path, ".mjs")
    assert "# pass 1" in run([node, "--test", "--test-reporter=tap"], tmp_path)


def test_java(tmp_path: Path) -> None:
    """The programs of the page compile and do what they say. A stand-in has the place of JUnit."""
    javac, java = shutil.which("javac"), shutil.which("java")
    if javac is None or java is None:
        pytest.skip("no JDK in PATH")
    write_programs(tmp_path, ".java")
    for name, text in _JUNIT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    run([javac, "Run.java"], tmp_path)
    run([java, "Run"], tmp_path)


@pytest.mark.xdist_group("go")
def test_go() -> None:
    """The tests of the module: clusters, the wildcard, kubeconfigs, servers of their own, starts that fail, faults, time."""
    program = built(ROOT / "sdk" / "go" / "kcptest", "test", "-c", ".")
    output = run([str(program), "-test.v", f"-test.timeout={SECONDS}s"], program.parent)
    assert output.count("\n--- PASS: ") == 7
    assert "--- SKIP" not in output
