"""Numbers and lengths as protobuf writes them."""

from __future__ import annotations

from typing import Final

ONE: Final = tuple(bytes([number]) for number in range(256))
"""Single bytes; below 128 also the varints of these numbers."""


def varint(number: int) -> bytes:
    """Encode a number; negative ones as if of 64 bits."""
    if 0 <= number < 128:
        return ONE[number]
    if 0 <= number < 16384:
        return ONE[number & 127 | 128] + ONE[number >> 7]
    number &= 0xFFFFFFFFFFFFFFFF
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def length_of(content: bytes) -> bytes:
    """What stands before content."""
    length = len(content)
    return ONE[length] if length < 128 else varint(length)
