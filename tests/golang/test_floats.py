"""Numbers as Go prints them."""

from __future__ import annotations

import math

import pytest

from kcp_py.golang.floats import format_float, format_number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (123456.0, "123456"),
        (1e6, "1e+06"),
        (1.25e22, "1.25e+22"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
    ],
)
def test_doubles_have_the_fewest_digits(value, text):
    """The exponent comes below 1e-4 and from 1e+06."""
    assert format_float(value) == format_number(value) == text


@pytest.mark.parametrize(("value", "yaml", "number"), [(math.inf, ".inf", "+Inf"), (-math.inf, "-.inf", "-Inf"), (math.nan, ".nan", "NaN")])
def test_infinities_and_nan(value, yaml, number):
    """YAML has words of its own for the values that are not finite."""
    assert (format_float(value), format_number(value)) == (yaml, number)


def test_integers_have_no_exponent():
    """Integers are printed in full."""
    assert format_number(2**63) == "9223372036854775808"


def test_single_precision_is_rounded_first():
    """A number of 32 bits has the fewest digits that give the same 32 bits, and is infinite beyond them."""
    assert format_float(0.1, 32) == "0.1"
    assert format_float(16777217.0, 32) == "1.6777216e+07"
    assert format_float(1e39, 32) == ".inf"
