"""A program that was changed is told from the one before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kcp_py.cli.workers.program import fingerprint


@pytest.mark.parametrize("change", ["size", "time", "new", "gone"])
def test_changes_of_modules_are_seen(change: str, tmp_path: Path) -> None:
    """A module that was replaced, added or removed makes a difference; compiled modules make none."""
    (tmp_path / "part").mkdir()
    module = tmp_path / "part" / "module.py"
    module.write_text("pass")
    os.utime(module, ns=(1, 1))
    before = fingerprint(tmp_path)
    (tmp_path / "part" / "module.pyc").write_bytes(b"compiled")
    assert fingerprint(tmp_path) == before
    if change == "size":
        module.write_text("pass\n")
        os.utime(module, ns=(1, 1))
    elif change == "time":
        os.utime(module, ns=(1, 2))
    elif change == "new":
        (tmp_path / "other.py").touch()
    else:
        module.unlink()
    assert fingerprint(tmp_path) != before


def test_the_program_is_this_package() -> None:
    """Without a folder, the modules are those of this package, and nothing else changes them."""
    assert fingerprint() == fingerprint() != fingerprint(Path(__file__).parent)
