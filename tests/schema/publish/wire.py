"""Reads the fields of any protobuf message, for tests of written bytes."""

from __future__ import annotations

import struct
from typing import Any


def read(raw: bytes) -> dict[int, list[Any]]:
    """The fields of a message: number -> values, which are numbers or bytes."""
    found: dict[int, list[Any]] = {}
    pos = 0

    def number() -> int:
        nonlocal pos
        value = shift = 0
        while True:
            byte = raw[pos]
            pos += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while pos < len(raw):
        tag = number()
        value: int | float | bytes
        match tag & 7:
            case 0:
                value = number()
            case 1:
                value = struct.unpack_from("<d", raw, pos)[0]
                pos += 8
            case 2:
                length = number()
                assert pos + length <= len(raw)
                value = raw[pos : pos + length]
                pos += length
            case other:
                raise AssertionError(other)
        found.setdefault(tag >> 3, []).append(value)
    return found


def only(message: bytes, *path: int) -> Any:
    """The value at a path of field numbers, each of which occurs once."""
    value: Any = message
    for number in path:
        (value,) = read(value)[number]
    return value


def named(message: bytes, number: int = 1) -> dict[str, bytes]:
    """The elements of a field, each a message of name and value."""
    return {only(element, 1).decode(): only(element, 2) for element in read(message).get(number, ())}
