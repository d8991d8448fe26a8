"""Which Pythons are found, and what runs on them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hack import run_pythons
from hack.run_pythons import ALL, MINORS, PART, ROOT, Python, find, supported_versions

HERE = Python((sys.version_info.major, sys.version_info.minor), sys.executable)
OTHERS = [minor for minor in MINORS if minor != sys.version_info.minor]


def interpreter(folder: Path, minor: int, version: str) -> Path:
    """A command that answers with a version, as an interpreter does when it is asked for its own."""
    command = folder / f"python3.{minor}"
    command.write_text(f"#!/bin/sh\necho {version}\n")
    command.chmod(0o755)
    return command


def test_pythons_are_found_in_their_order(tmp_path: Path) -> None:
    """Those in PATH that run and are what their name says; the present one always, without a look at PATH."""
    wrong, right = OTHERS[:2]
    interpreter(tmp_path, wrong, "3 6")
    found = interpreter(tmp_path, right, f"3 {right}")
    (tmp_path / f"python3.{OTHERS[2]}").write_text("not a program")
    assert find(str(tmp_path)) == sorted([HERE, Python((3, right), str(found))])


def test_a_version_of_pyenv_that_is_not_selected_is_found(tmp_path: Path) -> None:
    """What pyenv puts into PATH fails then; the interpreter itself is used."""
    minor = OTHERS[0]
    versions = tmp_path / "root" / "versions" / f"3.{minor}.1" / "bin"
    versions.mkdir(parents=True)
    found = interpreter(versions, minor, f"3 {minor}")
    for name, text in ((f"python3.{minor}", "exit 127"), ("pyenv", f"echo {tmp_path / 'root'}")):
        command = tmp_path / name
        command.write_text(f"#!/bin/sh\n{text}\n")
        command.chmod(0o755)
    assert Python((3, minor), str(found)) in find(str(tmp_path))


def test_supported_versions_are_those_of_the_metadata() -> None:
    """The oldest one is that of `requires-python`."""
    assert min(supported_versions()) == "3.11"


@pytest.mark.parametrize("path", [*PART, ALL[0]])
def test_what_runs_exists(path: str) -> None:
    """A folder that was moved would be left out without a word, and one that is ignored would run."""
    path = path.removeprefix("--ignore=")
    assert any((ROOT / path).rglob("test_*.py")) or (ROOT / path).is_file()


@pytest.mark.parametrize(("others", "printed", "ran"), [([99], PART, [99]), ([], (), [0]), ([-1, 99], (), [-1, 99])])
def test_a_part_runs_once(others: list[int], printed: tuple[str, ...], ran: list[int], monkeypatch, capsys) -> None:
    """The part for the oldest Python runs where --print-part has named it, and nowhere else; without other Pythons all tests run here.

    The versions are relative: 0 is the present one.
    """
    found = sorted([HERE, *(Python((3, sys.version_info.minor + other), f"/python{other}") for other in others)])
    seen: list[int] = []
    monkeypatch.setattr(run_pythons, "find", lambda: found)
    monkeypatch.setattr(run_pythons, "prepare", lambda python, **_: Path(python.path).parent)
    monkeypatch.setattr(run_pythons, "run", lambda python, *_, **__: seen.append(python.version[1] - sys.version_info.minor))
    for arguments in (["--print-part"], ["--ends", "--elsewhere"]):
        monkeypatch.setattr(sys, "argv", ["run_pythons.py", *arguments])
        run_pythons.main()
    assert capsys.readouterr().out.split() == list(printed)
    assert seen == ran


@pytest.mark.parametrize(("others", "compiled"), [([1, 2], [2]), ([-1, 1], [1]), ([], []), ([-1], [])])
def test_tests_are_compiled_with_the_environment_of_the_newest(others: list[int], compiled: list[int], monkeypatch) -> None:
    """Nothing runs then, and nothing is compiled where the newest Python is that of the script, which may have no pytest yet."""
    found = sorted([HERE, *(Python((3, sys.version_info.minor + other), f"/python{other}/bin/python") for other in others)])
    seen: list[Path] = []
    monkeypatch.setattr(run_pythons, "find", lambda: found)
    monkeypatch.setattr(run_pythons, "prepare", lambda python, **_: Path(python.path).parent)
    monkeypatch.setattr(run_pythons, "compile_tests", seen.append)
    monkeypatch.setattr(run_pythons, "run", lambda *_, **__: pytest.fail("tests ran"))
    monkeypatch.setattr(sys, "argv", ["run_pythons.py", "--prepare"])
    run_pythons.main()
    assert seen == [Path(f"/python{other}/bin") for other in compiled]


def test_tests_that_cannot_be_collected_end_the_run(tmp_path: Path) -> None:
    """The error has the output of pytest."""
    command = tmp_path / "python"
    command.write_text('#!/bin/sh\necho "no module $3"\nexit 2\n')
    command.chmod(0o755)
    with pytest.raises(SystemExit, match="no module --collect-only"):
        run_pythons.compile_tests(tmp_path)
