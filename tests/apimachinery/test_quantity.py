"""Quantities read, compare and print as upstream's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.quantity import FORMAT_PROBLEM, SUFFIX_PROBLEM, canonical, parse_quantity, parse_quantity_text

CANONICAL = {
    "0": "0",
    "0Mi": "0",
    "1": "1",
    "+1": "1",
    "-1": "-1",
    "1000": "1k",
    "1500": "1500",
    "1500000": "1500k",
    "1000m": "1",
    "100m": "100m",
    "0.5": "500m",
    ".5": "500m",
    "1.": "1",
    "001.50": "1500m",
    "1.5Gi": "1536Mi",
    "0.5Ki": "512",
    "0.5Mi": "512Ki",
    "1024": "1024",
    "1024Mi": "1Gi",
    "1Ei": "1Ei",
    "2E": "2E",
    "1e3": "1e3",
    "12e6": "12e6",
    "1500e-3": "1500e-3",
    "1E3": "1e3",
    "1e0": "1",
    "10u": "10u",
    "1n": "1n",
    "0.1n": "1n",
    "-0.1n": "-1n",
    "1.0000000001": "1000000001n",
    "100Ei": "9223372036854775807",
    "1e100": "10e99",
    "12E": "12E",
    "10000E": "10000E",
    "0.000000000001Ki": "2n",
    "1e-100": "1e-9",
}


@pytest.mark.parametrize(("text", "wanted"), CANONICAL.items())
def test_canonical_form(text, wanted):
    """The stored form has the largest suffix without a fraction, in the family in which it was written."""
    assert canonical(text) == wanted


@pytest.mark.parametrize(("value", "wanted"), [(1, "1"), (0.5, "500m"), (2000, "2k"), (-3, "-3")])
def test_numbers(value, wanted):
    """JSON numbers are quantities too."""
    assert canonical(value) == wanted


@pytest.mark.parametrize("text", ["", "-", ".", "a", "1 Gi", "1Gi2x", "--1", "1.2.3", "0x1", "\u0661"])
def test_malformed(text):
    """What does not look like a quantity is refused with the pattern."""
    with pytest.raises(ValueError, match="quantities must match") as raised:
        parse_quantity(text)
    assert str(raised.value) == FORMAT_PROBLEM


@pytest.mark.parametrize("text", ["1K", "1mi", "1Gii", "1ee", "1e", "1kk", "1e99999999999999999999"])
def test_unknown_suffix(text):
    """What looks like a quantity but has no known suffix is refused with another text."""
    with pytest.raises(ValueError, match="suffix") as raised:
        parse_quantity(text)
    assert str(raised.value) == SUFFIX_PROBLEM


@pytest.mark.parametrize(
    "text", ["9" * 1_000_000, "0." + "0" * 1_000_000 + "1", "1e999999999999999999", "1e-999999999999999999", "9" * 5000 + "Ei"]
)
def test_hostile_sizes_cost_nothing(text):
    """Neither digits nor exponents make big numbers: values stop at 2^63-1, at 10^400 and at one billionth."""
    assert parse_quantity(text).nano in {(2**63 - 1) * 10**9, 10**409, 1}


@given(st.from_regex(r"[+-]?[0-9]{1,15}(\.[0-9]{1,9})?(n|u|m|k|M|G|Ki|Mi|Gi|e-?[0-9])?", fullmatch=True))
def test_canonical_is_stable_and_keeps_the_value(text):
    """Printing a quantity and reading it again changes nothing."""
    first = parse_quantity(text)
    again = parse_quantity(str(first))
    assert again.nano == first.nano
    assert str(again) == str(first)


def test_rounding():
    """Integers and thousandths are rounded up."""
    assert (parse_quantity("1500m").value, parse_quantity("1").value, parse_quantity("1u").milli) == (2, 1, 1)


SUMS = {
    ("50k", "20"): ("50020", "50020"),
    ("50k", "20m"): ("50000020m", None),
    ("0", "1Gi"): ("1Gi", 2**30),
    ("1Gi", "0"): ("1Gi", 2**30),
    ("1Ki", "24"): ("1048", 1048),
    ("1.5Gi", "1"): ("1610612737", None),
    ("900000000000000000E", "900000000000000000E"): ("1800000000000000000E", None),
    ("-1k", "1"): ("-999", -999),
}


@pytest.mark.parametrize(("terms", "wanted"), SUMS.items())
def test_sums_and_differences(terms, wanted):
    """A sum has the format of its first term unless that is zero, and stays exact where 64 bits do not hold it."""
    one, other = map(parse_quantity, terms)
    total = one.plus(other)
    assert (str(total), total.int64) == (wanted[0], int(wanted[1]) if wanted[1] is not None else None)
    assert total.minus(other).nano == one.nano


INT64 = {
    "50k": 50000,
    "1Ki": 1024,
    "-7": -7,
    "0": 0,
    "1.25k": 1250,
    "1000m": None,
    "1.0": None,
    "1.5Gi": None,
    "9223372036854775807": None,
    "100E": None,
    "9" * 37 + "G": None,
}


@pytest.mark.parametrize(("text", "wanted"), INT64.items())
def test_int64(text, wanted):
    """Only what upstream keeps in 64 bits without a fraction is an integer to it, whatever its value."""
    assert parse_quantity(text).int64 == wanted


HUGE = [("1e333", math.inf), ("-1e333", -math.inf), ("1" + "0" * 400, math.inf), ("-1" + "0" * 400, -math.inf)]


@pytest.mark.parametrize(
    ("text", "wanted"), [("50.703k", 50703.0), ("1.5Gi", 1.5 * 2**30), ("100m", 0.1), ("2e3", 2000.0), ("0", 0.0), *HUGE]
)
def test_approximate(text, wanted):
    """The float is the nearest one."""
    assert parse_quantity(text).approximate == wanted


def test_text_has_nothing_around_it():
    """JSON strings are trimmed, texts are not."""
    assert parse_quantity(" 1 ").nano == 10**9
    with pytest.raises(ValueError, match="quantities must match"):
        parse_quantity_text(" 1")
