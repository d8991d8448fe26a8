"""Messages as the decoder reads them: the tables, made ready once for each message and shared.

A few types are not in JSON what they are on the wire, such as times. Their fields are given here, with the function that turns the wire
value into the JSON value.

Source: apimachinery `pkg/apis/meta/v1` `time_proto.go`, `micro_time_proto.go`, `pkg/api/resource/quantity_proto.go`, `pkg/runtime`
`extension.go`; apiextensions `pkg/apis/apiextensions/v1/marshal.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.meta.timestamps import format_micro_time, format_time
from kcp_py.apimachinery.quantity import parse_quantity_text
from kcp_py.apimachinery.serializer.json.codec import MAX_DEPTH, decode_json, too_deep
from kcp_py.apimachinery.serializer.protobuf.errors import ProtobufError
from kcp_py.apimachinery.serializer.protobuf.values import API_RESOURCE, APIEXTENSIONS, INT_OR_STRING, RUNTIME
from kcp_py.bootstrap.wire import META, message_fields

_ZERO_TIME: Final = -62135596800
"""Unix seconds of the start of the year 1, which is null in JSON."""
_LAST_SECOND: Final = 253402300799
_MICRO: Final = 1_000_000


_OBJECT_WEIGHT: Final = 4


class Op(IntEnum):
    """How a field's value is read; up to `DOUBLE` without a length before it."""

    INT = 0
    INT32 = 1
    BOOL = 2
    DOUBLE = 3
    STRING = 4
    BYTES = 5
    RAW = 6
    """Bytes that stay bytes."""
    MESSAGE = 7


class Shape(IntEnum):
    """How often a field occurs, and how it is read. The common cases have numbers of their own."""

    STRING = 0
    """Once, text."""
    NUMBER = 1
    """Once, without a length before it."""
    OBJECT = 2
    """Once, an object in JSON."""
    ONE = 3
    """Once, anything else."""
    LIST = 4
    MAP = 5
    STRINGS = 6
    """A map of texts."""
    INLINE = 7
    """Once, and its members are the containing object's in JSON."""


class Field(NamedTuple):
    """One field of a message."""

    shape: int
    op: int
    name: str
    """The name of the member in JSON."""
    omit: bool
    """Whether the zero value is left out, though it was read."""
    message: Message | None


class Message:
    """A message, ready to be read.

    Attributes:
        name: of the table.
        fields: by tag, which is number and wire type in one.
        numbers: field number to JSON name.
        scalars: the values of JSON fields that are written when they are zero.
        nested: fields whose zero value is that of a message.
        convert: makes the JSON value of the fields that were read; None for a JSON object. Gets the levels of nesting that are left.
        small: whether it is a short text or number in JSON, and often the same.
        weight: of an empty message: what a dict costs, and a sixteenth of the bytes of its JSON.
    """

    __slots__ = ("convert", "fields", "name", "nested", "numbers", "scalars", "small", "weight")

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: dict[int, Field] = {}
        self.numbers: dict[int, str] = {}
        self.scalars: dict[str, Any] = {}
        self.nested: list[tuple[str, Message]] = []
        self.convert: Convert | None = None
        self.small = name in _SMALL
        self.weight = 1

    def zero(self) -> Any:
        """The JSON value of an empty message."""
        value = self.scalars.copy()
        for name, message in self.nested:
            value[name] = message.zero()
        return value if self.convert is None else self.convert(value, 0)


Convert = Callable[[dict[str, Any], int], Any]

_OPS: Final[Mapping[str, Op]] = {
    "bool": Op.BOOL,
    "bytes": Op.BYTES,
    "double": Op.DOUBLE,
    "int32": Op.INT32,
    "int64": Op.INT,
    "raw": Op.RAW,
    "string": Op.STRING,
}
_ZEROS: Final[Mapping[str, Any]] = {"bool": False, "bytes": None, "double": 0, "int32": 0, "int64": 0, "string": ""}
_WIRE_TYPES: Final[Mapping[Op, int]] = {Op.INT: 0, Op.INT32: 0, Op.BOOL: 0, Op.DOUBLE: 1}


_ready: Final[dict[str, Message]] = {}
"""Messages that are complete, to be shared: no thread sees one that is being made."""


@cache
def message(name: str) -> Message:
    """The message of a name of the tables.

    Raises:
        KeyError: no such message.
    """
    known = _ready.copy()
    made = _made(name, known)
    _ready.update(known)
    return made


def compile_message(name: str, fields: Mapping[str, Sequence[str]], known: dict[str, Message] | None = None) -> Message:
    """Make a message of rows as they are in the tables.

    Args:
        name: of it.
        fields: number -> (JSON name, type, rule).
        known: messages that are being made, by name, for those that contain themselves.
    """
    made = Message(name)
    known = {} if known is None else known
    known[name] = made
    for number, (field, kind, rule) in fields.items():
        if rule == "inline":
            inlined = _made(kind, known)
            made.fields[int(number) << 3 | 2] = Field(int(Shape.INLINE), int(Op.MESSAGE), "", False, inlined)
            made.numbers[int(number)] = kind.rpartition(".")[2]
            made.scalars.update(inlined.scalars)
            made.nested.extend(inlined.nested)
            continue
        element = kind[2:] if kind[:2] in {"[]", "{}"} else kind
        op = _OPS.get(element, Op.MESSAGE)
        child = _made(element, known) if op is Op.MESSAGE else None
        shape = _shape(kind, op, child)
        wire_type = 2 if shape in {Shape.MAP, Shape.STRINGS} else _WIRE_TYPES.get(op, 2)
        made.fields[int(number) << 3 | wire_type] = Field(int(shape), int(op), field, rule == "omit", child)
        made.numbers[int(number)] = field
        if rule == "null" or (not rule and element != kind):
            made.scalars[field] = None
        elif not rule and child is not None:
            made.nested.append((field, child))
        elif not rule and op is not Op.RAW:
            made.scalars[field] = _ZEROS[element]
    return made


def _shape(kind: str, op: Op, child: Message | None) -> Shape:
    if kind.startswith("[]"):
        return Shape.LIST
    if kind.startswith("{}"):
        return Shape.STRINGS if op is Op.STRING else Shape.MAP
    if child is not None:
        return Shape.ONE if child.convert else Shape.OBJECT
    return Shape.STRING if op is Op.STRING else Shape.NUMBER if op < Op.STRING else Shape.ONE


def _made(name: str, known: dict[str, Message]) -> Message:
    if (found := known.get(name)) is not None:
        return found
    fields, convert = _OWN_JSON.get(name) or _fields(name)
    made = compile_message(name, fields, known)
    made.convert = convert
    # Fields that contain their own message are pointers or lists, so that the zero value is finite.
    made.weight = (1 if convert else _OBJECT_WEIGHT) + len(orjson.dumps(made.zero())) // 16
    return made


def _fields(name: str) -> tuple[Mapping[str, Sequence[str]], Convert | None]:
    rows = message_fields(name)
    if (only := rows.get("1")) is not None and only[2] == "items":
        return {"1": ("items", only[1], "omit")}, _items
    return rows, None


def _time(value: dict[str, Any], _levels: int) -> str | None:
    seconds = value.get("seconds")
    # Nanoseconds are dropped: JSON has none either.
    return None if seconds is None and "nanos" not in value else _moment(seconds or 0, None)


def _micro_time(value: dict[str, Any], _levels: int) -> str | None:
    seconds, nanos = value.get("seconds"), value.get("nanos")
    return None if seconds is None and nanos is None else _moment(seconds or 0, nanos or 0)


def _moment(seconds: int, nanos: int | None) -> str | None:
    if seconds == _ZERO_TIME and not nanos:
        return None
    micros = 0
    if nanos:
        # Go truncates towards zero.
        carried, micros = divmod(int(nanos / 1000), _MICRO)
        seconds += carried
    if not _ZERO_TIME <= seconds <= _LAST_SECOND:
        raise ProtobufError("Time.MarshalJSON: year outside of range [0,9999]")
    if nanos is None:
        return format_time(seconds)
    return f"{format_time(seconds)[:-1]}.{micros:06d}Z" if micros else format_micro_time(seconds)


def _quantity(value: dict[str, Any], _levels: int) -> str:
    text = value.get("string")
    return "0" if text is None else str(parse_quantity_text(text))


def _raw_json(value: dict[str, Any], levels: int) -> Any:
    raw = value.get("raw")
    if not raw:
        return None
    decoded = decode_json(raw)
    if raw.count(b"{") + raw.count(b"[") > levels and too_deep(decoded, levels):
        raise ProtobufError(f"exceeded max depth of {MAX_DEPTH}")
    return decoded


def _int_or_string(value: dict[str, Any], _levels: int) -> int | str:
    text: str = value["strVal"]
    number: int = value["intVal"]
    match value["type"]:
        case 0:
            return number
        case 1:
            return text
    raise ProtobufError("impossible IntOrString.Type")


def _items(value: dict[str, Any], _levels: int) -> Any:
    return value.get("items")


def _schema_or_bool(value: dict[str, Any], _levels: int) -> Any:
    return value["schema"] if "schema" in value else value.get("allows", False)


def _schema_or_list(value: dict[str, Any], _levels: int) -> Any:
    return value.get("list") or value.get("schema")


def _schemas(schema: str) -> Mapping[str, tuple[Mapping[str, Sequence[str]], Convert]]:
    one = ("schema", schema, "pointer")
    return {
        "JSONSchemaPropsOrBool": ({"1": ("allows", "bool", "pointer"), "2": one}, _schema_or_bool),
        "JSONSchemaPropsOrArray": ({"1": one, "2": ("list", f"[]{schema}", "omit")}, _schema_or_list),
        "JSONSchemaPropsOrStringArray": ({"1": one, "2": ("list", "[]string", "omit")}, _schema_or_list),
    }


_TIME: Final = {"1": ("seconds", "int64", "pointer"), "2": ("nanos", "int32", "pointer")}
_SMALL: Final = frozenset({META + "Time", META + "MicroTime", API_RESOURCE + "Quantity", INT_OR_STRING})
_RAW: Final = {"1": ("raw", "raw", "pointer")}
_OWN_JSON: Final[Mapping[str, tuple[Mapping[str, Sequence[str]], Convert]]] = {
    META + "Time": (_TIME, _time),
    META + "MicroTime": (_TIME, _micro_time),
    META + "FieldsV1": (_RAW, _raw_json),
    RUNTIME + "RawExtension": (_RAW, _raw_json),
    API_RESOURCE + "Quantity": ({"1": ("string", "string", "pointer")}, _quantity),
    INT_OR_STRING: ({"1": ("type", "int64", ""), "2": ("intVal", "int32", ""), "3": ("strVal", "string", "")}, _int_or_string),
    **{
        package + name: own
        for package in APIEXTENSIONS
        for name, own in {
            "JSON": (_RAW, _raw_json),
            **_schemas(package + "JSONSchemaProps"),
        }.items()
    },
}
