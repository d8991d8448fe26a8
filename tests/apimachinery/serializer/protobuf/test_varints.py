"""Numbers and lengths in protobuf."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.serializer.protobuf.varints import length_of, varint

# The examples of https://protobuf.dev/programming-guides/encoding/, and the ends of each length.
WRITTEN = {
    0: "00",
    1: "01",
    127: "7f",
    128: "8001",
    150: "9601",
    16_383: "ff7f",
    16_384: "808001",
    -1: "ff" * 9 + "01",
    -2: "fe" + "ff" * 8 + "01",
}


def read(encoded: bytes) -> int:
    """The number, without a sign."""
    return sum((byte & 127) << (7 * position) for position, byte in enumerate(encoded))


@pytest.mark.parametrize(("number", "encoded"), WRITTEN.items())
def test_numbers_have_seven_bits_in_a_byte(number: int, encoded: str) -> None:
    """The lowest bits come first; negative numbers take ten bytes."""
    assert varint(number).hex() == encoded


@given(st.integers(-(2**63), 2**64 - 1))
def test_every_number_of_64_bits_reads_back(number: int) -> None:
    """Only the last byte has its highest bit clear."""
    encoded = varint(number)
    assert read(encoded) == number % 2**64
    assert [byte >> 7 for byte in encoded] == [1] * (len(encoded) - 1) + [0]


@pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 20_000])
def test_the_length_of_content_stands_before_it(size: int) -> None:
    """It is a varint of any number of bytes."""
    assert read(length_of(b"x" * size)) == size
