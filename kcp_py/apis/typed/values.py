"""Decoders of the values in typed objects: strings, numbers, bytes, and the types that decode themselves.

Source: sigs.k8s.io/json `internal/golang/encoding/json`, k8s.io/apimachinery (`Time`, `MicroTime`, `Quantity`, `IntOrString`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

from kcp_py.apimachinery.meta.timestamps import normalize_micro_time, normalize_time
from kcp_py.apimachinery.quantity import canonical
from kcp_py.golang.base64 import canonical_base64
from kcp_py.golang.types import json_type

BAD_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
ZERO: Final = object()
"""What a decoder returns for a value that is the zero value of its type."""
LIMITS: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1), "uint8": (0, 2**8 - 1)}
"""The lowest and the highest value of Go's integers."""
_YEAR_ONE: Final = "0001-01-01T00:00:00"
"""Go's zero time, which is encoded as null."""

Decoder = Callable[[Any], Any]
"""From a value that is not null to the decoded one, or `ZERO`. Changes objects and lists in place. Raises `MismatchError`."""


class MismatchError(Exception):
    """A value that does not fit its field."""

    def __init__(self, given: str, wanted: str, detail: str = "") -> None:
        """Note a problem.

        Args:
            given: what the decoder calls the value.
            wanted: the Go type of the field.
            detail: the whole message of a type that decodes itself.
        """
        super().__init__(given, wanted)
        self.given = given
        self.wanted = wanted
        self.detail = detail
        self.struct = ""
        self.path: list[str] = []

    def __str__(self) -> str:
        return self.detail or (
            f"json: cannot unmarshal {self.given} into Go struct field {self.struct}.{'.'.join(self.path)} of type {self.wanted}"
        )


def any_value(value: Any) -> Any:
    """Decode a value of any type: it stays as it is."""
    return value


def string(go: str) -> Decoder:
    """The decoder of a string of the Go type `go`."""

    def decode(value: Any) -> Any:
        if type(value) is str:
            return value or ZERO
        raise MismatchError(json_type(value), go)

    return decode


def boolean(go: str) -> Decoder:
    """The decoder of a boolean of the Go type `go`."""

    def decode(value: Any) -> Any:
        if type(value) is bool:
            return value or ZERO
        raise MismatchError(json_type(value), go)

    return decode


def integer(go: str, lowest: int, highest: int) -> Decoder:
    """The decoder of an integer of the Go type `go`."""

    def decode(value: Any) -> Any:
        if type(value) is int and lowest <= value <= highest:
            return value or ZERO
        kind = json_type(value)
        raise MismatchError(f"number {value}" if kind == "number" else kind, go)

    return decode


def floating(go: str) -> Decoder:
    """The decoder of a floating-point number of the Go type `go`."""

    def decode(value: Any) -> Any:
        if type(value) in {int, float}:
            return value or ZERO
        raise MismatchError(json_type(value), go)

    return decode


def raw_bytes(value: Any) -> Any:
    """Decode bytes: base64, or a list of numbers."""
    if type(value) is str:
        try:
            return canonical_base64(value) or ZERO
        except ValueError as error:
            raise MismatchError("", "", str(error)) from None
    if type(value) is list:
        decode = integer("uint8", 0, 255)
        return base64.b64encode(bytes(0 if (byte := decode(member or 0)) is ZERO else byte for member in value)).decode() or ZERO
    raise MismatchError(json_type(value), "[]uint8")


def _time(value: Any) -> Any:
    return _timestamp(value, normalize_time)


def _micro_time(value: Any) -> Any:
    return _timestamp(value, normalize_micro_time)


def _timestamp(value: Any, read: Callable[[str], str]) -> Any:
    if type(value) is not str:
        raise MismatchError(json_type(value), "string")
    try:
        found = read(value)
    except ValueError as error:
        raise MismatchError("", "", str(error)) from None
    return ZERO if found.startswith(_YEAR_ONE) else found


def _quantity(value: Any) -> Any:
    if type(value) in {bool, list, dict}:
        raise MismatchError("", "", BAD_QUANTITY)
    try:
        return canonical(value)
    except (TypeError, ValueError):
        raise MismatchError("", "", BAD_QUANTITY) from None


def _int_or_string(value: Any) -> Any:
    if type(value) is str:
        return value
    lowest, highest = LIMITS["int32"]
    if type(value) is int and lowest <= value <= highest:
        return value or ZERO
    kind = json_type(value)
    raise MismatchError(f"number {value}" if kind == "number" else kind, "int32")


SELF_DECODING: Final[Mapping[str, Decoder]] = {
    "IntOrString": _int_or_string,
    "MicroTime": _micro_time,
    "Quantity": _quantity,
    "Time": _time,
}
"""Types that decode themselves. Those that take any JSON are not in it."""
