"""What the package exports is there, documented, and loaded when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kcp_py

NAMES = [name for name in kcp_py.__all__ if not name.startswith("_")]


def test_the_names_are_those_of_the_public_api() -> None:
    """Whoever adds or removes one changes what users rely on, and this test."""
    assert NAMES == [
        "AdmissionPlugin",
        "Attributes",
        "ComputedResource",
        "ControlPlane",
        "ObjectEvent",
        "Options",
        "ReadRequest",
        "RestStorage",
        "UserInfo",
        "WriteRequest",
        "builtin_definitions",
        "errors",
    ]
    assert dir(kcp_py) == sorted(kcp_py.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_documented(name: str) -> None:
    """By its own docstring."""
    assert (getattr(kcp_py, name).__doc__ or "").strip()


def test_what_is_not_exported_is_not_there() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="module 'kcp_py' has no attribute 'Controlplane'"):
        _ = kcp_py.Controlplane


def test_the_package_loads_nothing_by_itself() -> None:
    """A program that asks for the version alone starts at once."""
    code = "import sys, kcp_py; print(sorted(name for name in sys.modules if name.startswith('kcp_py.')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['kcp_py._version']"
