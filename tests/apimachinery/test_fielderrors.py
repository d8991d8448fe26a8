"""Field errors and how they print values."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery import fielderrors
from kcp_py.apimachinery.fielderrors import NO_VALUE, Printed, aggregate, go_value, invalid
from kcp_py.golang.quoting import go_quote


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (5, "5"),
        (2**64, "18446744073709551616"),
        (1.0, "1"),
        (1.5, "1.5"),
        (1000000.0, "1e+06"),
        ("a", '"a"'),
        ('a"\\\n\x00é\u200b', '"a\\"\\\\\\n\\x00é\\u200b"'),
        ({"b": [1], "a": None}, '{"a":null,"b":[1]}'),
        ([1.0, -0.5, 1e20, 1e-6, "<"], '[1,-0.5,100000000000000000000,0.000001,"\\u003c"]'),
        ({"b": {"c": 1e21}, "a": -1.25e-9}, '{"a":-1.25e-9,"b":{"c":1e+21}}'),
    ],
)
def test_values_print_as_in_go(value, text):
    """Strings quoted, scalars plain, the rest as JSON."""
    assert go_value(value) == text


@pytest.mark.parametrize(
    ("error", "reason", "text"),
    [
        (fielderrors.required("f"), "FieldValueRequired", "f: Required value"),
        (fielderrors.required("f", "d"), "FieldValueRequired", "f: Required value: d"),
        (fielderrors.invalid("f", 1, "d"), "FieldValueInvalid", "f: Invalid value: 1: d"),
        (fielderrors.type_invalid("f", "x", "d"), "FieldValueTypeInvalid", 'f: Invalid value: "x": d'),
        (
            fielderrors.not_supported("f", "x", ["a", "b"]),
            "FieldValueNotSupported",
            'f: Unsupported value: "x": supported values: "a", "b"',
        ),
        (fielderrors.forbidden("f", "d"), "FieldValueForbidden", "f: Forbidden: d"),
        (fielderrors.duplicate("f", {"a": 1}), "FieldValueDuplicate", 'f: Duplicate value: {"a":1}'),
        (fielderrors.not_found("f", "x"), "FieldValueNotFound", 'f: Not found: "x"'),
        (fielderrors.too_long("f", 5), "FieldValueTooLong", "f: Too long: may not be more than 5 bytes"),
        (fielderrors.too_many("f", 3, 1), "FieldValueTooMany", "f: Too many: 3: must have at most 1 item"),
        (fielderrors.internal("f", "d"), "InternalError", "f: Internal error: d"),
    ],
)
def test_texts(error, reason, text):
    """Each kind of error has upstream's reason and text."""
    assert (error.reason, str(error)) == (reason, text)


def test_aggregates_drop_repetitions():
    """One message alone, several in brackets, none twice."""
    one, two = fielderrors.required("a"), fielderrors.required("b")
    assert aggregate([one, one]) == "a: Required value"
    assert aggregate([one, two, one]) == "[a: Required value, b: Required value]"


@given(st.text())
def test_any_text_is_quoted_on_one_line(text):
    """Quoted text has no control characters."""
    assert go_quote(text).isprintable()


@pytest.mark.parametrize("value", ["x" * 1_000_000, {"a": "x" * 1_000_000}, ["x" * 1000] * 1000])
def test_messages_do_not_show_all_of_a_large_value(value):
    """A body of megabytes with a mistake on every level does not make an answer of gigabytes."""
    text = invalid("spec", value, "wrong").text
    assert len(text) < 70_000
    assert text.endswith("...: wrong")


def test_the_parts_of_an_error_are_kept_apart():
    """Later code asks for the value and the detail, and changes the field; the text is made of them."""
    error = fielderrors.type_invalid("a", "null", "must be a number", expected="integer,number")
    assert (error.value, error.detail, error.expected) == ("null", "must be a number", "integer,number")
    assert str(replace(error, field="b.a")) == 'b.a: Invalid value: "null": must be a number'


def test_values_can_be_absent_or_printed_already():
    """Null is a value; without a value there is none in the text, and Go's structs are printed by other code."""
    assert invalid("a", NO_VALUE, "is wrong").text == "Invalid value: is wrong"
    assert invalid("a", None, "is wrong").text == "Invalid value: null: is wrong"
    assert invalid("a", Printed("{B:1}"), "is wrong").text == "Invalid value: {B:1}: is wrong"
