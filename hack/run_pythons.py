"""Run the tests that need no processes of their own on every other Python of this machine, and measure coverage on the newest.

Each Python from 3.11 has an environment of its own in .cache/pythons, which is made again when pyproject.toml or constraints.txt change.
The Python that runs this script is left out: `make test` runs everything on it. The tests that are left out here start servers, commands,
etcd or type checkers, or compare with the corpus; docs/development.md has the reason.

Coverage is counted with sys.monitoring, which Python has since 3.12 and which costs next to nothing. Where no other Python is that new,
nothing is measured, and `make coverage` remains.

python hack/run_pythons.py [--prepare] [--only 3.13] [-- PYTEST_ARGUMENTS]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
ENVIRONMENTS: Final = ROOT / ".cache" / "pythons"
MINORS: Final = range(11, 16)
MONITORING: Final = (3, 12)
"""The first version with sys.monitoring."""
EXTRAS: Final = "etcd,explain,test,coverage"

LEFT_OUT: Final = (
    "tests/benchmarks",
    "tests/cli",
    "tests/controlplane/test_corpus.py",
    "tests/fuzz",
    "tests/hack",
    "tests/schema/test_corpus.py",
    "tests/serving",
    "tests/storage/etcd",
    "tests/storage/sqlite",
    "tests/typing",
)
"""Tests that take most of the time: they start processes, read the corpus, or check types."""
NOT_MEASURED: Final = ("kcp_py/__main__.py", "kcp_py/cli/*", "kcp_py/serving/*", "kcp_py/storage/etcd/*", "kcp_py/storage/sqlite/*")
"""What the tests that are left out test."""
FLOOR: Final = 95
"""Percent of the lines of all other modules that these tests run at least."""


class Python(NamedTuple):
    """An interpreter."""

    version: tuple[int, int]
    path: str

    @property
    def name(self) -> str:
        return "{}.{}".format(*self.version)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--prepare", action="store_true", help="make the environments, and run nothing")
    arguments.add_argument("--only", metavar="VERSION", help="one of them, such as 3.13")
    arguments.add_argument("--workers", default="2", help="processes of pytest (default: 2)")
    arguments.add_argument("pytest", nargs="*", help="further arguments of pytest, behind --")
    given = arguments.parse_args()
    pythons = [python for python in find() if python.version != sys.version_info[:2] and given.only in {None, python.name}]
    missing = [f"3.{minor}" for minor in MINORS if (3, minor) not in {python.version for python in pythons} | {sys.version_info[:2]}]
    supported = supported_versions()
    ready = [(python, environment) for python in pythons if (environment := prepare(python, required=python.name in supported))]
    if given.prepare:
        return
    if not ready:
        print("no other Python is here")
    newest = max((python for python, _ in ready if python.version >= MONITORING), default=None)
    for python, environment in ready:
        run(python, environment, ["-n", given.workers, *given.pytest], measured=python == newest)
    print(f"left out: {', '.join(LEFT_OUT)}; not on this machine: {', '.join(missing) or 'none'}", flush=True)


def find(search_path: str | None = None) -> list[Python]:
    """The interpreters that run, oldest first.

    Args:
        search_path: folders instead of those of PATH.
    """
    found = []
    for minor in MINORS:
        version = (3, minor)
        if path := next((path for path in _candidates(minor, search_path) if _runs(path, version)), None):
            found.append(Python(version, path))
    return found


def _candidates(minor: int, search_path: str | None) -> Iterator[str]:
    command = f"python3.{minor}"
    if path := shutil.which(command, path=search_path):
        yield path
    if pyenv := shutil.which("pyenv", path=search_path):
        # What pyenv puts into PATH only runs where the version is selected.
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False).stdout.strip()
        yield from sorted(map(str, Path(root).glob(f"versions/3.{minor}.*/bin/{command}")), reverse=True)


def _runs(path: str, version: tuple[int, int]) -> bool:
    code = "import ensurepip, sys, venv; print(*sys.version_info[:2])"
    try:
        asked = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return asked.stdout.split() == [str(part) for part in version]


def supported_versions() -> frozenset[str]:
    """The versions that the metadata of the package names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in project["classifiers"])
    return frozenset(match[1] for match in found if match)


def prepare(python: Python, *, required: bool) -> Path | None:
    """The commands of its environment, made where it is not there or not up to date.

    Args:
        python: the interpreter.
        required: whether an environment that cannot be made is a failure. Dependencies of a newer Python may be missing.
    """
    environment = ENVIRONMENTS / python.name
    stamp = environment / ".installed"
    wanted = _state(python)
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return environment / "bin"
    shutil.rmtree(environment, ignore_errors=True)
    command = [python.path, "-m", "venv", str(environment)]
    pip = [str(environment / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    for step in (command, [*pip, "--no-compile", "--constraint", "constraints.txt", "--editable", f".[{EXTRAS}]"]):
        done = subprocess.run(step, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = f"Python {python.name}: no environment: {done.stderr.strip() or done.stdout.strip()}"
            if required:
                sys.exit(reason)
            print(f"left out: {reason}", flush=True)
            return None
    stamp.write_text(wanted, "utf-8")
    return environment / "bin"


def _state(python: Python) -> str:
    digest = hashlib.sha256(f"{python.path}\0{EXTRAS}".encode())
    for name in ("pyproject.toml", "constraints.txt"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def run(python: Python, commands: Path, further: Sequence[str], *, measured: bool) -> None:
    """Run the tests; end with their exit code where they fail, or where the coverage is below the floor."""
    interpreter = str(commands / "python")
    ignored = [f"--ignore={path}" for path in LEFT_OUT]
    tests = ["-m", "pytest", "-q", "--dist", "loadgroup", "-p", "no:cacheprovider", *ignored, *further, "tests"]
    data = ENVIRONMENTS / python.name / "coverage"
    environment = {**os.environ, "COVERAGE_CORE": "sysmon", "COVERAGE_FILE": str(data / "data")}
    environment["PATH"] = f"{commands}{os.pathsep}{environment['PATH']}"
    print(f"Python {python.name}{', with coverage' if measured else ''}", flush=True)
    if not measured:
        _check([interpreter, *tests], environment)
        return
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    coverage = [interpreter, "-m", "coverage"]
    _check([*coverage, "run", *tests], environment)
    _check([*coverage, "combine", "--quiet"], environment)
    _check([*coverage, "report", "--skip-covered", f"--omit={','.join(NOT_MEASURED)}", f"--fail-under={FLOOR}"], environment)


def _check(command: list[str], environment: dict[str, str]) -> None:
    if code := subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        sys.exit(code)


if __name__ == "__main__":
    main()
