"""CRDs of the resources of programs, as files and on standard output."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from kcp_py.cli.root import run

SAMPLES = Path(__file__).parents[2] / "config/samples"
PROGRAM = '''
"""A program with two resources."""
from kcp_py import ControlPlane, Options, StoredResource

SCHEMA = {"type": "object", "properties": {"size": {"type": "integer"}}}
boats = StoredResource(group="fleet.example.com", version="v1", resource="boats", kind="Boat", schema=SCHEMA)
again = boats
harbours = [StoredResource(group="fleet.example.com", version="v1", resource="harbours", kind="Harbour", schema=SCHEMA, namespaced=False)]
control_plane = ControlPlane(Options(storage="memory"), apis=[boats])
wrong = None
nothing = 5

def broken():
    raise RuntimeError("no such luck")

def twice():
    return [boats, StoredResource(group="fleet.example.com", version="v2", resource="boats", kind="Boat", schema=SCHEMA)]

def invalid():
    return StoredResource(group="fleet.example.com", version="v1", resource="Boats", kind="Boat", schema=SCHEMA)
'''


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The name of a module in the current directory. Each test has another one, because modules are imported once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"program_{os.urandom(4).hex()}"
    (tmp_path / f"{name}.py").write_text(PROGRAM, "utf-8")
    return name


def test_all_resources_of_a_module(program, capsys):
    """Each once, in the order of the program."""
    assert run(["generate", "crds", program]) == 0
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [crd["metadata"]["name"] for crd in found] == ["boats.fleet.example.com", "harbours.fleet.example.com"]
    assert found[1]["spec"]["scope"] == "Cluster"
    assert found[0]["spec"]["names"] == {"kind": "Boat", "listKind": "BoatList", "plural": "boats", "singular": "boat"}


@pytest.mark.parametrize("target", ["boats", "control_plane", "harbours"])
def test_one_object_of_a_module(program, capsys, target):
    """A resource, a control plane and a list count."""
    assert run(["generate", "crds", f"{program}:{target}"]) == 0
    assert len(list(yaml.safe_load_all(capsys.readouterr().out))) == 1


def test_files(capsys, tmp_path):
    """Each CRD becomes a file with the name that controller-gen gives it; functions and paths of modules count, too."""
    assert run(["generate", "crds", f"{SAMPLES / 'own_api_group.py'}:install", "-o", str(tmp_path / "config/crd")]) == 0
    file = tmp_path / "config/crd/fleet.example.com_ships.yaml"
    assert capsys.readouterr().out == f"{file}\n"
    text = file.read_text("utf-8")
    assert text.startswith("---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: ships.fleet")
    version = yaml.safe_load(text)["spec"]["versions"][0]
    assert version["subresources"] == {"status": {}, "scale": {"specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.crew"}}


def test_a_file_with_the_name_of_a_module_of_python(tmp_path, capsys):
    """`types.py` is the file, not the module of the standard library."""
    (tmp_path / "types.py").write_text(PROGRAM, "utf-8")
    assert run(["generate", "crds", f"{tmp_path / 'types.py'}:boats"]) == 0
    assert "boats.fleet.example.com" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{}:nothing", "has no resources"),
        ("{}:missing", "has no object missing"),
        ("{}:broken", "the function fails: RuntimeError: no such luck"),
        ("{}:twice", "boats.fleet.example.com is defined twice"),
        ("{}:invalid", "Boats.fleet.example.com: spec.names.plural"),
        ("no_such_module", "no_such_module: no such module"),
        ("no/such.py", "no/such.py: no such file"),
        (":x", "expected MODULE"),
    ],
)
def test_faults_are_one_line(program, capsys, target, message):
    """The exit code is 1."""
    assert run(["generate", "crds", target.format(program)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_a_module_that_fails(tmp_path, capsys):
    """The error of the module is in the message."""
    (tmp_path / "failing_program.py").write_text("1 / 0", "utf-8")
    assert run(["generate", "crds", str(tmp_path / "failing_program.py")]) == 1
    assert "cannot be imported: ZeroDivisionError: division by zero" in capsys.readouterr().err


def test_a_directory_that_cannot_be_written(program, capsys, tmp_path):
    """The error names the file."""
    (tmp_path / "out").write_text("", "utf-8")
    assert run(["generate", "crds", program, "-o", str(tmp_path / "out/crd")]) == 1
    assert "cannot be written" in capsys.readouterr().err
