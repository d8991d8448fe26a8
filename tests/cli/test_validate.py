"""The command `kcp-py validate`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kcp_py.cli.root import run
from kcp_py.cli.validate import print_faults
from kcp_py.cli.validation import Fault

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "config" / "samples"
TEAM_A, TEAM_B = (str(SAMPLES / f"team-{team}-crd.yaml") for team in "ab")
HANDLED = 'Database in version "v1" cannot be handled as a Database'
DATABASE = str(SAMPLES / "team-a-database.yaml")


def test_exit_codes(capsys, tmp_path):
    """0 where all is valid, 1 where an object is not, 2 where a file cannot be read."""
    assert run(["validate", "--crds", TEAM_A, DATABASE]) == 0
    assert run(["validate", "--crds", TEAM_B, DATABASE]) == 1
    captured = capsys.readouterr()
    assert captured.err == "2 objects, 0 errors, 0 warnings\n2 objects, 2 errors, 0 warnings\n"
    assert captured.out.splitlines() == [
        f'{DATABASE}:5: error: Database "orders": spec.engine: Required value',
        f'{DATABASE}:6: error: Database "orders": {HANDLED}: strict decoding error: unknown field "spec.size"',
    ]
    for arguments in ([str(tmp_path / "absent.yaml")], [str(tmp_path)], ["--crds", str(tmp_path / "absent"), DATABASE]):
        assert run(["validate", *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith(f"error: {tmp_path}")
        assert captured.err.count("\n") == 1


def test_json(capsys):
    """An array of all faults with file and line."""
    assert run(["validate", "-o", "json", "--crds", TEAM_B, DATABASE]) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert first == {
        "file": DATABASE,
        "line": 5,
        "kind": "Database",
        "name": "orders",
        "severity": "error",
        "field": "spec.engine",
        "message": "Required value",
    }
    assert second["line"] == 6
    assert run(["validate", "-o", "json", "--crds", TEAM_A, DATABASE]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_github(capsys):
    """Each fault is a workflow command; what would end one is escaped."""
    print_faults([Fault("a,b:c.yaml", 3, "", "", "warning", "spec", "100%\nmore")], "github")
    assert capsys.readouterr().out == "::warning file=a%2Cb%3Ac.yaml,line=3::spec: 100%25%0Amore\n"


def test_standard_input():
    """A dash reads standard input, as behind `helm template`."""
    command = [sys.executable, "-m", "kcp_py", "validate", "-"]
    done = subprocess.run(
        command, input="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A_}\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout.startswith('<stdin>:3: error: ConfigMap "A_": metadata.name: Invalid value: "A_"')


@pytest.mark.parametrize("arguments", [[], ["-o", "xml", DATABASE]], ids=["nothing", "unknown form"])
def test_wrong_arguments(arguments, capsys):
    """One line and exit code 2."""
    assert run(["validate", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_hooks_for_pre_commit():
    """The hook that the repository offers runs a command that exists, with flags that it has."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *arguments = str(hook["entry"]).split()
    assert program == "kcp-py"
    done = subprocess.run([sys.executable, "-m", "kcp_py", *arguments, str(SAMPLES)], capture_output=True, text=True, check=False)
    assert done.returncode == 1  # the samples of two teams contradict each other
    assert "Database" in done.stdout
