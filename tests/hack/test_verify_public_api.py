"""The public interface does not change unannounced."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from hack.update_public_api import PACKAGES, SNAPSHOT, _lines, render

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ship:
    """A dataclass."""

    home: str
    crew: int = 50
    ports: list[str] = field(default_factory=list)

    def sail(self, *names: str, fast: bool = False) -> None:
        """Nothing."""

    @property
    def size(self) -> int:
        """Nothing."""
        return 0

    def _private(self) -> None:
        """Nothing."""


class Port(NamedTuple):
    """A named tuple."""

    name: str
    depth: float | None = None


class Harbour(Protocol):
    """A protocol."""

    async def land(self, ship: Ship) -> Sequence[Port]: ...


def build(make: Callable[[], Awaitable[Ship]], /, size: int = 1, *, name: str = "") -> Ship:
    raise ValueError(make, size, name)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the texts of annotations differ between Pythons: needs Python 3.11")
def test_the_public_interface_is_the_documented_one() -> None:
    """A change of a name, a signature, a field or a default is announced in CHANGELOG.md, and written by a command."""
    found = subprocess.run([sys.executable, str(ROOT / "hack/verify_public_api.py")], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert SNAPSHOT.read_text("utf-8").startswith("kcp_py.")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Ship, ["x dataclass"]),
        (Port, ["x named tuple(tuple)"]),
        (Harbour, ["x protocol"]),
        (build, ["x(make: Callable[[], Awaitable[Ship]], size: int = 1, *, name: str = '') -> Ship"]),
        ("text", ["x: str"]),
    ],
)
def test_what_a_line_has(value: object, expected: list[str]) -> None:
    """The kind of a class, and the whole signature of a function. Members of classes of others are not promised."""
    assert list(_lines("x", value)) == expected


def test_members_have_their_annotations_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields in their order, then methods and properties by name. Private ones are left out."""
    monkeypatch.setattr(Ship, "__module__", "kcp_py.fleet")
    monkeypatch.setattr(Harbour, "__module__", "kcp_py.fleet")
    assert list(_lines("x", Ship)) == [
        "x dataclass",
        "x.home: str",
        "x.crew: int = 50",
        "x.ports: list[str] = …",
        "x.sail(*names: str, fast: bool = False) -> None",
        "x.size: int",
    ]
    assert list(_lines("x", Harbour)) == ["x protocol", "x.land(ship: Ship) -> Sequence[Port] [async]"]


def test_every_public_name_has_a_line() -> None:
    """Of both packages."""
    lines = render().splitlines()
    for package in PACKAGES:
        for name in __import__(package, fromlist=["__all__"]).__all__:
            assert any(line.startswith((f"{package}.{name} ", f"{package}.{name}(", f"{package}.{name}:")) for line in lines)
