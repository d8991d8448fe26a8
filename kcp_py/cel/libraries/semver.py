"""Semantic versions (apiserver `pkg/cel/library/semverlib.go`; texts, messages and order of github.com/blang/semver)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from kcp_py.cel.conversions import uint_of_text
from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.types import BOOL, INT, STRING, Type, opaque
from kcp_py.cel.values import INT_MAX
from kcp_py.golang.quoting import go_quote

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SEMVER", "Semver"]

_TYPE: Final = opaque("kubernetes.Semver")
_DIGITS: Final = frozenset("0123456789")
_ALPHANUMERIC: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789")
_PARTS: Final = 3


@dataclass(frozen=True, slots=True, order=True)
class Semver:
    """A version. Build metadata counts for nothing, so it is not kept.

    Attributes:
        numbers: major, minor, patch.
        prerelease: such that tuples compare as versions do: (1,) where there is none, else 0 and for each identifier
            (0, number, "") or (1, 0, text).
    """

    cel_type: ClassVar[Type] = _TYPE

    numbers: tuple[int, ...]
    prerelease: tuple[int | tuple[int, int, str], ...]


def _uint(text: str) -> int:
    """The value of digits, with the errors of Go's `strconv.ParseUint`, which upstream hands on."""
    if not text:
        raise EvaluationError('strconv.ParseUint: parsing "": invalid syntax')
    try:
        return int(uint_of_text(text))
    except EvaluationError as error:
        raise EvaluationError(f"strconv.ParseUint: parsing {go_quote(text)}: value out of range") from error


def _number(text: str, name: str) -> int:
    """One of the three numbers."""
    if not _DIGITS.issuperset(text):
        raise EvaluationError(f"Invalid character(s) found in {name} number {go_quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f"{name.capitalize()} number must not contain leading zeroes {go_quote(text)}")
    return _uint(text)


def _identifier(text: str) -> tuple[int, int, str]:
    """One identifier of a pre-release."""
    if not text:
        raise EvaluationError("Prerelease is empty")
    if _DIGITS.issuperset(text):
        if len(text) > 1 and text[0] == "0":
            raise EvaluationError(f"Numeric PreRelease version must not contain leading zeroes {go_quote(text)}")
        return (0, _uint(text), "")
    if not _ALPHANUMERIC.issuperset(text):
        raise EvaluationError(f"Invalid character(s) found in prerelease {go_quote(text)}")
    return (1, 0, text)


def _parse(text: str) -> Semver:
    """A version as it has to be written."""
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != _PARTS:
        raise EvaluationError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "major"), _number(parts[1], "minor")
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    numbers = (major, minor, _number(patch, "patch"))
    identifiers = tuple(map(_identifier, prerelease.split("."))) if dash else ()
    for part in build.split(".") if plus else ():
        if not part:
            raise EvaluationError("Build meta data is empty")
        if not _ALPHANUMERIC.issuperset(part):
            raise EvaluationError(f"Invalid character(s) found in build meta data {go_quote(part)}")
    return Semver(numbers, (0, *identifiers) if dash else (1,))


def _normalized(text: str) -> str:
    """The normalized text of a version: no leading `v`, no leading zeros, all three numbers."""
    parts = text.removeprefix("v").split(".", 2)
    for place, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[place] = stripped if stripped[:1] in _DIGITS and stripped else f"0{stripped}"
    if len(parts) < _PARTS:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise EvaluationError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (_PARTS - len(parts))
    return ".".join(parts)


def _semver(text: str, normalize: bool = False) -> Semver:  # noqa: FBT001, FBT002 -- CEL has no keywords
    """Read a version."""
    return _parse(_normalized(text) if normalize else text)


def _is_semver(text: str, normalize: bool = False) -> bool:  # noqa: FBT001, FBT002
    """Whether it can be read."""
    try:
        _semver(text, normalize)
    except EvaluationError:
        return False
    return True


def _part(place: int) -> Callable[[Semver], int]:
    """One number, of 64 bits with a sign as all of CEL's ints."""

    def read(version: Semver) -> int:
        number = version.numbers[place]
        return number if number <= INT_MAX else number - 2**64

    return read


def _member(name: str, id_: str, result: Type, run: Callable[..., object], *others: Type) -> Function:
    """A function on a version."""
    return Function(name, (Overload(id_, (_TYPE, *others), result, member=True, implementation=run),))


SEMVER: Final = Library(
    "kubernetes.Semver",
    functions=(
        Function(
            "semver",
            (
                Overload("string_to_semver", (STRING,), _TYPE, implementation=_semver),
                Overload("string_bool_to_semver", (STRING, BOOL), _TYPE, implementation=_semver),
            ),
        ),
        Function(
            "isSemver",
            (
                Overload("is_semver_string", (STRING,), BOOL, implementation=_is_semver),
                Overload("is_semver_string_bool", (STRING, BOOL), BOOL, implementation=_is_semver),
            ),
        ),
        _member("isGreaterThan", "semver_is_greater_than", BOOL, lambda one, other: one > other, _TYPE),
        _member("isLessThan", "semver_is_less_than", BOOL, lambda one, other: one < other, _TYPE),
        _member("compareTo", "semver_compare_to", INT, lambda one, other: (one > other) - (one < other), _TYPE),
        _member("major", "semver_major", INT, _part(0)),
        _member("minor", "semver_minor", INT, _part(1)),
        _member("patch", "semver_patch", INT, _part(2)),
    ),
    matches={"kubernetes.Semver": Semver},
)
