"""Run the unit tests on the newest Python of this machine, with coverage, and a part of them on every other one from 3.11.

Each Python but the one that runs this script has an environment of its own in .cache/pythons, which is made again when pyproject.toml
or constraints.txt change. Coverage is counted with sys.monitoring, which Python has since 3.12 and which costs next to nothing. Where the
newest Python is older, all tests run and nothing is measured; `make coverage` measures there, in about twice the time.

The part for the oldest Python can run with other tests: --print-part names it, and --elsewhere leaves it out.

python hack/run_pythons.py [--prepare] [--ends] [--only 3.13] [--print-part | --elsewhere] [-- PYTEST_ARGUMENTS]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
ENVIRONMENTS: Final = ROOT / ".cache" / "pythons"
MINORS: Final = range(11, 16)
MONITORING: Final = (3, 12)
"""The first version with sys.monitoring."""
WORKERS: Final = "4"
"""For two cores, because tests wait for disks and processes a part of their time."""
FLOOR: Final = 95
"""Percent of the lines that the tests run at least, a little less than they do."""
EXTRAS: Final = "coverage,etcd,explain,test"

ALL: Final = ("tests", "--ignore=tests/typing")
"""What runs on the newest Python. The types are checked where mypy is."""
PART: Final = (
    "tests/aio",
    "tests/apimachinery",
    "tests/authn",
    "tests/client",
    "tests/contrib",
    "tests/controllers",
    "tests/controlplane/test_controlplane.py",
    "tests/egress",
    "tests/golang",
    "tests/kubeconfig",
    "tests/options",
    "tests/request",
    "tests/server/filters",
    "tests/server/pages",
    "tests/storage/memory",
    "tests/telemetry",
    "tests/tenancy",
    "tests/watchcache",
)
"""What runs on the others: what depends on asyncio, on Python's parsers and on the platform.

The rules about kinds, admission and roles work on plain values, which no version of Python reads in another way."""


class Python(NamedTuple):
    """An interpreter."""

    version: tuple[int, int]
    path: str

    @property
    def name(self) -> str:
        return "{}.{}".format(*self.version)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--prepare", action="store_true", help="make the environments, compile the tests, and run nothing")
    arguments.add_argument("--print-part", action="store_true", help="print what the oldest runs, if it is the Python of this script")
    arguments.add_argument("--elsewhere", action="store_true", help="leave out what --print-part prints")
    arguments.add_argument("--only", metavar="VERSION", help="one of them, such as 3.13")
    arguments.add_argument("--ends", action="store_true", help="the oldest and the newest of them")
    arguments.add_argument("pytest", nargs="*", help="further arguments of pytest, behind --")
    given = arguments.parse_args()
    supported = supported_versions()
    found = find()
    here = found[0].path == sys.executable and len(found) > 1
    if given.print_part:
        print(" ".join(PART) if here else "")
        return
    if given.ends:
        found = [python for python in found if python in {found[0], found[-1]}]
    ready = {python: commands for python in found if (commands := prepare(python, required=python.name in supported))}
    newest = max(ready)
    if given.prepare:
        # This script may run before there is pytest for its own Python.
        if newest.path != sys.executable:
            compile_tests(ready[newest])
        return
    for python, commands in ready.items():
        if given.only in {None, python.name} and not (given.elsewhere and here and python == found[0]):
            run(python, commands, given.pytest, whole=python == newest)
    missing = {f"3.{minor}" for minor in MINORS} - {python.name for python in ready}
    if given.ends:
        return
    print(f"not on this machine: {', '.join(sorted(missing)) or 'none'}", flush=True)


def find(search_path: str | None = None) -> list[Python]:
    """The interpreters that run, oldest first; that of this script is one of them.

    Args:
        search_path: folders instead of those of PATH.
    """
    found = []
    for minor in MINORS:
        version = (3, minor)
        if version == sys.version_info[:2]:
            found.append(Python(version, sys.executable))
        elif path := next((path for path in _candidates(minor, search_path) if _runs(path, version)), None):
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
    if python.path == sys.executable:
        return Path(python.path).parent
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


def compile_tests(commands: Path) -> None:
    """Collect all tests once, so that pytest keeps them compiled: each of the processes of a run that find nothing compiles all of them.

    Args:
        commands: of the environment.
    """
    command = [str(commands / "python"), "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", *ALL]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the tests cannot be collected: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def run(python: Python, commands: Path, further: Sequence[str], *, whole: bool) -> None:
    """Run tests; end with the exit code of pytest where they fail, or where the coverage is below the floor.

    Args:
        python: the interpreter.
        commands: of its environment.
        further: arguments of pytest.
        whole: whether all tests run, and are measured where that is cheap.
    """
    command = [str(commands / "python"), "-m", "pytest", "-n", WORKERS, "--dist", "loadgroup", "-p", "no:cacheprovider"]
    measured = whole and python.version >= MONITORING
    if measured:
        command += ["--cov", "--cov-report=", f"--cov-fail-under={FLOOR}"]
    environment = {**os.environ, "COVERAGE_CORE": "sysmon", "COVERAGE_FILE": str(ENVIRONMENTS / "coverage" / "data")}
    environment["PATH"] = f"{commands}{os.pathsep}{environment['PATH']}"
    if not whole:
        # pytest rewrites the assertions of each module for each Python, to show the values of one that fails; all tests show them.
        command.append("--assert=plain")
    what = "all unit tests" if whole else "a part of the unit tests"
    print(f"Python {python.name}: {what}{', with coverage' if measured else ''}", flush=True)
    (ENVIRONMENTS / "coverage").mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    done = subprocess.run([*command, *further, *(ALL if whole else PART)], cwd=ROOT, env=environment, check=False)
    print(f"Python {python.name}: {time.monotonic() - start:.0f} s", flush=True)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
