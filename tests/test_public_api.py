"""What the package exports is there, documented, and loaded when it is used."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import get_origin

import pytest

import kcp_py

ROOT = Path(__file__).resolve().parents[1]
NAMES = [name for name in kcp_py.__all__ if not name.startswith("_")]
LIBRARY = (ROOT / "docs/library.md").read_text("utf-8")
REFERENCE = re.findall(r"^\| `(\w+)` \| (.+) \|$", LIBRARY[LIBRARY.index("## Names") :], re.MULTILINE)


def test_the_names_are_those_of_the_documentation() -> None:
    """Each exported name has a row in docs/library.md, in the order of the alphabet, and no other name has one."""
    assert [name for name, _ in REFERENCE] == sorted(NAMES, key=str.lower)
    assert sorted(kcp_py._HOMES) == sorted(set(NAMES) - {"builtin_definitions", "errors", "fielderrors"})
    assert dir(kcp_py) == sorted(kcp_py.__all__)


@pytest.mark.parametrize("parameter", [name for name in inspect.signature(kcp_py.ControlPlane).parameters if name != "options"])
def test_each_parameter_of_a_control_plane_is_documented(parameter: str) -> None:
    """In the table of docs/library.md, and in the docstring."""
    assert re.search(rf"^\| `{parameter}` \| .+ \|$", LIBRARY, re.MULTILINE)
    assert re.search(rf"^ +{parameter}: .+", kcp_py.ControlPlane.__init__.__doc__ or "", re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_each_name_has_a_docstring(name: str) -> None:
    """Aliases of types have none of their own: their row in docs/library.md says what they are."""
    value = getattr(kcp_py, name)
    assert (value.__doc__ or "").strip() or get_origin(value) is not None


def test_the_embedded_server_is_short() -> None:
    """A server with a resource and a rule of its own has 50 lines at most."""
    assert len((ROOT / "config/samples/embedded_server.py").read_text("utf-8").splitlines()) <= 50


def test_what_is_not_exported_is_not_there() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="module 'kcp_py' has no attribute 'Controlplane'"):
        _ = kcp_py.Controlplane


def test_the_package_loads_nothing_by_itself() -> None:
    """A program that asks for the version alone starts at once."""
    code = "import sys, kcp_py; print(sorted(name for name in sys.modules if name.startswith('kcp_py.')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['kcp_py._version']"
