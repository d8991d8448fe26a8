"""Writers of the values that are not in JSON what they are on the wire, such as times. Their readers are in `messages`, with its sources.

A writer turns a JSON value into a message without its length; None is the zero value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.apimachinery.quantity import canonical
from kcp_py.apimachinery.serializer.protobuf.errors import Misfit, found
from kcp_py.apimachinery.serializer.protobuf.varints import length_of, varint
from kcp_py.bootstrap.wire import META

Write = Callable[[Any], bytes]
"""A JSON value to a field with its tag, or to a message without its length."""
WriterOf = Callable[[str], Write]
"""The writer of another message, which may still be being made."""

API_RESOURCE: Final = "io.k8s.apimachinery.pkg.api.resource."
RUNTIME: Final = "io.k8s.apimachinery.pkg.runtime."
INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
APIEXTENSIONS: Final = tuple(f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}." for version in ("v1", "v1beta1"))

_LONG: Final = 64
"""Characters up to which texts are remembered with their encoded form."""
_INT32: Final = 1 << 31
_SECOND: Final = len("2026-01-01T00:00:00")
_NO_TIME: Final = -62135596800
"""Unix seconds of the start of the year 1, which Go takes for no time."""


@lru_cache(maxsize=2048)
def _time_of(text: str, digits: int) -> bytes:
    fraction = 0
    if digits and text[_SECOND : _SECOND + 1] in {".", ","}:
        end = _SECOND + 1
        while text[end : end + 1].isdecimal():
            end += 1
        # Exact: as a float, the seconds of distant years leave no room for microseconds.
        fraction = int(text[_SECOND + 1 : end][:digits].ljust(9, "0"))
        parse_time(text)
        text = text[:_SECOND] + text[end:]
    seconds = int(parse_time(text) // 1)
    if seconds == _NO_TIME and not fraction:
        return b""
    return b"\x08" + varint(seconds) + b"\x10" + varint(fraction)


def _moment(value: Any, digits: int) -> bytes:
    if value is None:
        return b""
    if not isinstance(value, str):
        raise Misfit(f"expected a time, found {found(value)}")
    if len(value) > _LONG:
        raise Misfit("not a time")
    try:
        return _time_of(value, digits)
    except ValueError as error:
        raise Misfit(str(error)) from None


def _time(value: Any) -> bytes:
    return _moment(value, 0)


def _micro_time(value: Any) -> bytes:
    return _moment(value, 6)


@lru_cache(maxsize=2048)
def _quantity_of(text: str) -> bytes:
    raw = canonical(text).encode()
    return b"\x0a" + length_of(raw) + raw


def _quantity(value: Any) -> bytes:
    if value is None:
        return _quantity_of("0")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Misfit(f"expected a quantity, found {found(value)}")
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    try:
        return _quantity_of(text) if len(text) <= _LONG else _quantity_of.__wrapped__(text)
    except ValueError as error:
        raise Misfit(str(error)) from None


def _int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\x00\x1a" + _text(value)
    if value is None:
        value = 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise Misfit(f"expected an integer or a string, found {found(value)}")
    if not -_INT32 <= value < _INT32:
        raise Misfit(f"{value} is out of range")
    return b"\x08\x00\x10" + varint(value) + b"\x1a\x00"


def _json(value: Any) -> bytes:
    if value is None:
        return b""
    try:
        raw = orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise Misfit(f"not JSON: {error}") from None
    return b"\x0a" + length_of(raw) + raw


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise Misfit(f"expected a string, found {found(value)}")
    raw = value.encode()
    return length_of(raw) + raw


def _framed(tag: bytes, body: bytes) -> bytes:
    return tag + length_of(body) + body


def _texts(tag: bytes, value: Any) -> bytes:
    if not isinstance(value, list):
        raise Misfit(f"expected an array, found {found(value)}")
    return b"".join(tag + (b"\0" if item is None else _text(item)) for item in value)


def _schema_or_bool(write: Write) -> Write:
    def put(value: Any) -> bytes:
        if isinstance(value, dict):
            return b"\x08\x01" + _framed(b"\x12", write(value))
        if value is None or isinstance(value, bool):
            return b"\x08\x01" if value else b"\x08\x00"
        raise Misfit(f"expected a boolean or a schema, found {found(value)}")

    return put


def _schema_or_list(write: Write) -> Write:
    def put(value: Any) -> bytes:
        if isinstance(value, dict):
            return _framed(b"\x0a", write(value))
        if isinstance(value, list):
            return b"".join(_framed(b"\x12", write(item)) for item in value)
        # Anything else is read as nothing.
        return b""

    return put


def _schema_or_strings(write: Write) -> Write:
    def put(value: Any) -> bytes:
        if isinstance(value, dict):
            return _framed(b"\x0a", write(value))
        return _texts(b"\x12", value) if isinstance(value, list) else b""

    return put


def _plain(write: Write) -> Callable[[WriterOf], Write]:
    return lambda _: write


def _of_schema(make: Callable[[Write], Write], name: str) -> Callable[[WriterOf], Write]:
    def made(writer_of: WriterOf) -> Write:
        def write(value: Any) -> bytes:
            # Schemas contain what may be a schema, so at first the writer is not there.
            return writer_of(name)(value)

        return make(write)

    return made


OWN_VALUES: Final[Mapping[str, Callable[[WriterOf], Write]]] = {
    META + "Time": _plain(_time),
    META + "MicroTime": _plain(_micro_time),
    META + "FieldsV1": _plain(_json),
    RUNTIME + "RawExtension": _plain(_json),
    API_RESOURCE + "Quantity": _plain(_quantity),
    INT_OR_STRING: _plain(_int_or_string),
    **{
        package + name: own
        for package in APIEXTENSIONS
        for name, own in {
            "JSON": _plain(_json),
            "JSONSchemaPropsOrBool": _of_schema(_schema_or_bool, package + "JSONSchemaProps"),
            "JSONSchemaPropsOrArray": _of_schema(_schema_or_list, package + "JSONSchemaProps"),
            "JSONSchemaPropsOrStringArray": _of_schema(_schema_or_strings, package + "JSONSchemaProps"),
        }.items()
    },
}
"""Message -> what makes its writer."""
