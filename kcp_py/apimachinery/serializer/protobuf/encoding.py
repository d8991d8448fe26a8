"""`encode`: from the dict that a JSON body decodes to, to the message that Go writes of the same object.

Go's generated encoders write fields by number and maps by key. Values other than pointers, lists and maps are written even when they are
zero or absent. Members that a message does not have are dropped, as Go's structs drop them. Null is the zero value.

Each message is compiled once into a row of byte strings: the bytes that each field has when its member is absent. Encoding an object fills
in the members that are present.

Source: the `Marshal` methods that gogo/protobuf generated for k8s.io/api and apimachinery.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from kcp_py.apimachinery.serializer.protobuf.errors import Misfit, ProtobufError, found
from kcp_py.apimachinery.serializer.protobuf.values import OWN_VALUES, Write
from kcp_py.apimachinery.serializer.protobuf.varints import ONE, length_of, varint
from kcp_py.bootstrap.wire import Fields, message_fields

_KEY: Final = b"\x0a"
_VALUE: Final = 2


def encode(name: str, value: Mapping[str, Any]) -> bytes:
    """Encode an object as a message.

    Args:
        name: of the message, such as `io.k8s.api.core.v1.ConfigMap`.
        value: its JSON; `apiVersion` and `kind` are not part of a message.

    Raises:
        ProtobufError: a value that does not fit its field; the text begins with the path of the value.
        KeyError: there is no such message.
    """
    write = _writer(name)
    try:
        return write(value)
    except Misfit as misfit:
        raise ProtobufError(str(misfit)) from None
    except UnicodeEncodeError:
        raise ProtobufError("a string that is not Unicode") from None
    except RecursionError:
        raise ProtobufError("exceeded max depth") from None


_ready: Final[dict[str, Write]] = {}
"""Writers that are complete, to be shared: no thread sees one that is being made."""


@cache
def _writer(name: str) -> Write:
    known = _ready.copy()
    write = _message(name, known)
    _ready.update(known)
    return write


def _message(name: str, known: dict[str, Write]) -> Write:
    """What writes a message.

    Args:
        name: of the table.
        known: those that are being made, for messages that contain themselves.
    """
    if (write := known.get(name)) is not None:
        return write
    if (own := OWN_VALUES.get(name)) is not None:
        write = known[name] = own(lambda other: _message(other, known))
        return write
    rows = message_fields(name)
    if _is_list(rows):
        write = known[name] = _or_nothing(_field(1, rows["1"][1], known))
        return write
    return _compile(rows, known, name)


def _is_list(rows: Fields) -> bool:
    """Whether a message is a list in JSON."""
    return "1" in rows and rows["1"][2] == "items"


def _or_nothing(put: Write) -> Write:
    return lambda value: b"" if value is None else put(value)


def _compile(rows: Fields, known: dict[str, Write], name: str) -> Write:
    absent: list[bytes] = []
    fields: dict[str, tuple[int, Write]] = {}
    inlined: list[tuple[int, Write]] = []
    get, join = fields.get, b"".join

    def write(value: Any) -> bytes:
        if not isinstance(value, dict):
            if value is None:
                return join(absent)
            raise Misfit(f"expected an object, found {found(value)}")
        slots = absent.copy()
        member = ""
        try:
            for member, item in value.items():
                if item is not None and (field := get(member)) is not None:
                    slot, put = field
                    slots[slot] = put(item)
        except Misfit as misfit:
            raise misfit.within(f".{member}") from None
        for slot, put in inlined:
            slots[slot] = put(value)
        return join(slots)

    # Before the fields are made, so that they find it.
    known[name] = write
    for number in sorted(rows, key=int):
        member, kind, rule = rows[number]
        put = _field(int(number), kind, known)
        if rule == "inline":
            inlined.append((len(absent), put))
        else:
            fields[member] = len(absent), put
        nothing = (
            rule in {"pointer", "null"} or kind == "bytes" or kind[:2] in {"[]", "{}"} or ("." in kind and _is_list(message_fields(kind)))
        )
        absent.append(b"" if nothing else put(None))
    return write


def _field(number: int, kind: str, known: dict[str, Write]) -> Write:
    """What writes a field with its tag; of None it writes the zero value."""
    if kind.startswith("[]"):
        return _list(_field(number, kind[2:], known))
    if kind == "{}string":
        return _string_map(varint(number << 3 | 2))
    if kind.startswith("{}"):
        return _map(varint(number << 3 | 2), _field(_VALUE, kind[2:], known))
    if (scalar := _SCALARS.get(kind)) is not None:
        wire_type, make = scalar
        return make(varint(number << 3 | wire_type))
    return _nested(varint(number << 3 | 2), _message(kind, known))


def _nested(tag: bytes, write: Write) -> Write:
    def put(value: Any) -> bytes:
        body = write(value)
        length = len(body)
        return tag + (ONE[length] if length < 128 else varint(length)) + body

    return put


def _list(put: Write) -> Write:
    def put_all(value: Any) -> bytes:
        if not isinstance(value, list):
            raise Misfit(f"expected an array, found {found(value)}")
        parts: list[bytes] = []
        try:
            for item in value:
                parts.append(put(item))  # noqa: PERF401  # how far it came is part of the path
        except Misfit as misfit:
            raise misfit.within(f"[{len(parts)}]") from None
        return b"".join(parts)

    return put_all


def _map(tag: bytes, put: Write) -> Write:
    def put_all(value: Any) -> bytes:
        if not isinstance(value, dict):
            raise Misfit(f"expected an object, found {found(value)}")
        parts: list[bytes] = []
        key = ""
        try:
            for key in sorted(value):
                raw = key.encode()
                entry = _KEY + length_of(raw) + raw + put(value[key])
                parts.append(tag + length_of(entry) + entry)
        except Misfit as misfit:
            raise misfit.within(f"[{key}]") from None
        return b"".join(parts)

    return put_all


def _string_map(tag: bytes) -> Write:
    # Labels, annotations and the content of config maps: worth writing out.
    def put_all(value: Any) -> bytes:
        if not isinstance(value, dict):
            raise Misfit(f"expected an object, found {found(value)}")
        parts: list[bytes] = []
        for key in sorted(value):
            text = value[key]
            if not isinstance(text, str):
                if text is not None:
                    raise Misfit(f"expected a string, found {found(text)}").within(f"[{key}]")
                text = ""
            name, raw = key.encode(), text.encode()
            width, length = len(name), len(raw)
            if width + length < 124:
                parts += (tag, ONE[width + length + 4], _KEY, ONE[width], name, b"\x12", ONE[length], raw)
            else:
                # Texts may be long: they are copied once, into the whole.
                before, between = _KEY + varint(width), b"\x12" + varint(length)
                parts += (tag, varint(len(before) + width + len(between) + length), before, name, between, raw)
        return b"".join(parts)

    return put_all


def _string(tag: bytes) -> Write:
    def put(value: Any) -> bytes:
        if not isinstance(value, str):
            if value is not None:
                raise Misfit(f"expected a string, found {found(value)}")
            value = ""
        raw: bytes = value.encode()
        length = len(raw)
        return tag + (ONE[length] if length < 128 else varint(length)) + raw

    return put


def _bytes(tag: bytes) -> Write:
    def put(value: Any) -> bytes:
        if value is None:
            return b""
        if not isinstance(value, str):
            raise Misfit(f"expected base64, found {found(value)}")
        try:
            raw = binascii.a2b_base64(value, strict_mode=True) if value else b""
        except ValueError:
            raise Misfit("illegal base64 data") from None
        return tag + length_of(raw) + raw

    return put


def _bool(tag: bytes) -> Write:
    no, yes = tag + b"\0", tag + b"\1"

    def put(value: Any) -> bytes:
        if value is True:
            return yes
        if value is False or value is None:
            return no
        raise Misfit(f"expected a boolean, found {found(value)}")

    return put


def _int(limit: int) -> Callable[[bytes], Write]:
    def make(tag: bytes) -> Write:
        def put(value: Any) -> bytes:
            if value.__class__ is not int:
                value = _whole(value)
            if not -limit <= value < limit:
                raise Misfit(f"{value} is out of range")
            return tag + varint(value)

        return put

    return make


def _whole(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise Misfit(f"expected an integer, found {found(value)}")


def _double(tag: bytes) -> Write:
    def put(value: Any) -> bytes:
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise Misfit(f"expected a number, found {found(value)}")
        return tag + struct.pack("<d", value or 0)

    return put


_SCALARS: Final[Mapping[str, tuple[int, Callable[[bytes], Write]]]] = {
    "bool": (0, _bool),
    "bytes": (2, _bytes),
    "double": (1, _double),
    "int32": (0, _int(1 << 31)),
    "int64": (0, _int(1 << 63)),
    "string": (2, _string),
}
