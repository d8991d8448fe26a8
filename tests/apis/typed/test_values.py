"""Single values of typed objects are decoded as Go decodes them."""

from __future__ import annotations

import pytest

from kcp_py.apis.typed.values import (
    BAD_QUANTITY,
    SELF_DECODING,
    ZERO,
    MismatchError,
    any_value,
    boolean,
    floating,
    integer,
    raw_bytes,
    string,
)

INT32 = integer("int32", -(2**31), 2**31 - 1)
TIME, MICRO_TIME = SELF_DECODING["Time"], SELF_DECODING["MicroTime"]
QUANTITY, INT_OR_STRING = SELF_DECODING["Quantity"], SELF_DECODING["IntOrString"]


@pytest.mark.parametrize(
    ("decoder", "given", "decoded"),
    [
        pytest.param(any_value, {}, {}, id="an empty object of any type"),
        pytest.param(string("string"), "a", "a", id="string"),
        pytest.param(string("string"), "", ZERO, id="empty string"),
        pytest.param(boolean("bool"), True, True, id="boolean"),
        pytest.param(boolean("bool"), False, ZERO, id="false"),
        pytest.param(INT32, -(2**31), -(2**31), id="the least integer"),
        pytest.param(INT32, 0, ZERO, id="zero"),
        pytest.param(floating("float64"), 1.5, 1.5, id="float"),
        pytest.param(floating("float64"), 0.0, ZERO, id="zero as a float"),
        pytest.param(raw_bytes, "Y\nQ==", "YQ==", id="base64"),
        pytest.param(raw_bytes, [97, None], "YQA=", id="a list of numbers"),
        pytest.param(raw_bytes, [], ZERO, id="no bytes"),
        pytest.param(TIME, "2026-01-01T01:00:00.5+01:00", "2026-01-01T00:00:00Z", id="time"),
        pytest.param(TIME, "0001-01-01T00:00:00Z", ZERO, id="zero time"),
        pytest.param(MICRO_TIME, "2026-01-01T01:00:00.500000+01:00", "2026-01-01T00:00:00.500000Z", id="time with microseconds"),
        pytest.param(QUANTITY, "1000m", "1", id="quantity"),
        pytest.param(INT_OR_STRING, "", "", id="an empty string where an integer may be"),
        pytest.param(INT_OR_STRING, 0, ZERO, id="zero where a string may be"),
    ],
)
def test_a_value_of_its_type_is_decoded(decoder, given, decoded):
    """A decoded value has its canonical form; the zero value of its type is reported as such."""
    found = decoder(given)
    assert found is ZERO if decoded is ZERO else found == decoded


@pytest.mark.parametrize(
    ("decoder", "given", "problem"),
    [
        pytest.param(string("v1.DNSPolicy"), 1, "json: cannot unmarshal number into Go struct field . of type v1.DNSPolicy", id="string"),
        pytest.param(boolean("bool"), "true", "json: cannot unmarshal string into Go struct field . of type bool", id="boolean"),
        pytest.param(INT32, 2**31, "json: cannot unmarshal number 2147483648 into Go struct field . of type int32", id="out of range"),
        pytest.param(INT32, True, "json: cannot unmarshal bool into Go struct field . of type int32", id="a boolean for an integer"),
        pytest.param(floating("float64"), [], "json: cannot unmarshal array into Go struct field . of type float64", id="float"),
        pytest.param(raw_bytes, {}, "json: cannot unmarshal object into Go struct field . of type []uint8", id="bytes"),
        pytest.param(raw_bytes, [256], "json: cannot unmarshal number 256 into Go struct field . of type uint8", id="too large for a byte"),
        pytest.param(TIME, 1, "json: cannot unmarshal number into Go struct field . of type string", id="time"),
        pytest.param(QUANTITY, True, BAD_QUANTITY, id="quantity"),
        pytest.param(QUANTITY, "", BAD_QUANTITY, id="empty quantity"),
        pytest.param(QUANTITY, "1 Gi", BAD_QUANTITY, id="malformed quantity"),
        pytest.param(INT_OR_STRING, [], "json: cannot unmarshal array into Go struct field . of type int32", id="int or string"),
    ],
)
def test_a_value_of_another_type_is_refused(decoder, given, problem):
    """The message names the JSON type of the value and the Go type of its field."""
    with pytest.raises(MismatchError) as raised:
        decoder(given)
    assert str(raised.value) == problem
