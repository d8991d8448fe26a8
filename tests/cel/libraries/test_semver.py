"""Semantic versions in expressions: upstream's unit tests, and messages of the library that it uses."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from kcp_py.cel.errors import CompileError, EvaluationError
from kcp_py.cel.libraries.semver import SEMVER

if TYPE_CHECKING:
    from collections.abc import Callable

    Evaluate = Callable[..., Any]

VALUES = {
    "isSemver('1.2.3-beta.1+build.1')": True,
    "isSemver('')": False,
    "isSemver('v1.0.0')": False,
    "isSemver(' 1.0.0')": False,
    "isSemver('1. 0.0')": False,
    "isSemver('1.0.0 ')": False,
    "isSemver('01.01.01')": False,
    "isSemver('1')": False,
    "isSemver('1.1')": False,
    "isSemver('200K')": False,
    "isSemver('1.0.0-')": False,
    "isSemver('1.0.0+')": False,
    "isSemver('1.0.0-01')": False,
    "isSemver('1.0.0-0a.b-c')": True,
    "isSemver('', true)": False,
    "isSemver(' 1.0.0', true)": False,
    "isSemver('1. 0.0', true)": False,
    "isSemver('1.0.0 ', true)": False,
    "isSemver('v1.0.0', true)": True,
    "isSemver('01.01.01', true)": True,
    "isSemver('1', true)": True,
    "isSemver('1.1', true)": True,
    "isSemver('1.1-rc', true)": False,
    "isSemver('v1.0.0', false)": False,
    "isSemver('1.0.00-rc', true)": True,
    "semver('v01.01', true) == semver('1.1.0')": True,
    "semver('1.2.3') == semver('1.2.3')": True,
    "semver('1.2.3+a') == semver('1.2.3+b')": True,
    "semver('1.2.3') == semver('1.0.0')": False,
    "dyn(semver('1.2.3')) == dyn('1.2.3')": False,
    "semver('1.0.0').isLessThan(semver('1.2.3'))": True,
    "semver('1.0.0').isLessThan(semver('1.0.0'))": False,
    "semver('1.2.3').isGreaterThan(semver('1.0.0'))": True,
    "semver('1.0.0').isGreaterThan(semver('1.0.0'))": False,
    "semver('1.2.3').compareTo(semver('1.2.3'))": 0,
    "semver('1.0.0').compareTo(semver('1.2.3'))": -1,
    "semver('1.2.3').compareTo(semver('1.0.0'))": 1,
    "semver('1.10.0').compareTo(semver('1.9.0'))": 1,
    "semver('1.2.3').major()": 1,
    "semver('1.2.3').minor()": 2,
    "semver('1.2.3-rc.1').patch()": 3,
    "semver('18446744073709551615.0.0').major()": -1,
    "semver(dyn('1.2.3')).isLessThan(dyn(semver('2.0.0')))": True,
}


@pytest.mark.parametrize(("text", "wanted"), VALUES.items())
def test_values(evaluate: Evaluate, text: str, wanted: object) -> None:
    """Versions are read and compared as upstream's."""
    assert evaluate(text, SEMVER) == wanted


def test_order(evaluate: Evaluate) -> None:
    """The order is semver.org's: pre-releases come first, numbers before words, more identifiers after fewer."""
    order = [
        *("1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11"),
        *("1.0.0-rc.1", "1.0.0", "1.0.1", "1.1.0", "2.0.0"),
    ]
    for before, after in itertools.pairwise(order):
        assert evaluate("semver(x).compareTo(semver(y))", SEMVER, x=before, y=after) == -1


ERRORS = {
    "semver('')": "Version string empty",
    "semver('v1.0')": "No Major.Minor.Patch elements found",
    "semver('v1.0.0')": 'Invalid character(s) found in major number "v1"',
    "semver('01.0.0')": 'Major number must not contain leading zeroes "01"',
    "semver('1.x.0')": 'Invalid character(s) found in minor number "x"',
    "semver('1.00.0')": 'Minor number must not contain leading zeroes "00"',
    "semver('1.0.x')": 'Invalid character(s) found in patch number "x"',
    "semver('1.0.01')": 'Patch number must not contain leading zeroes "01"',
    "semver('1.0.0-a..b')": "Prerelease is empty",
    "semver('1.0.0-01')": 'Numeric PreRelease version must not contain leading zeroes "01"',
    "semver('1.0.0-a_b')": 'Invalid character(s) found in prerelease "a_b"',
    "semver('1.0.0+')": "Build meta data is empty",
    "semver('1.0.0+a_b')": 'Invalid character(s) found in build meta data "a_b"',
    "semver('.0.0')": 'strconv.ParseUint: parsing "": invalid syntax',
    "semver('18446744073709551616.0.0')": 'strconv.ParseUint: parsing "18446744073709551616": value out of range',
    "semver('1.0-rc', true)": "short version cannot contain PreRelease/Build meta data",
    "semver(dyn(1))": "no such overload",
}


@pytest.mark.parametrize(("text", "message"), ERRORS.items())
def test_errors(evaluate: Evaluate, text: str, message: str) -> None:
    """A text that is not a version is an error in the library's words."""
    with pytest.raises(EvaluationError) as raised:
        evaluate(text, SEMVER)
    assert str(raised.value) == message


def test_types(evaluate: Evaluate) -> None:
    """A list is not a text."""
    with pytest.raises(CompileError, match="found no matching overload for 'isSemver' applied to"):
        evaluate("isSemver([1, 2, 3])", SEMVER)
