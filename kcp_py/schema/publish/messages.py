"""OpenAPI in protobuf: the parts of a document as messages of gnostic, v2 and v3.

kubectl and client-go's `OpenAPISchema` ask for v2 in no other form. A table maps the members of JSON objects to the fields of each message;
functions choose among alternative fields by the shape of the JSON. Values of any type are carried as YAML text, which may be JSON. Members
without a field and values of the wrong type are left out: gnostic would refuse the whole document.

Source: gnostic-models `openapiv2/OpenAPIv2.proto`, `openapiv3/OpenAPIv3.proto` and the code made of them; kube-openapi `pkg/util/proto`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import orjson

from kcp_py.apimachinery.serializer.protobuf.varints import length_of, varint

Write = Callable[[Any], bytes]
"""A JSON value to a message without its length, or to a field with its tag; nothing where it is of the wrong type or zero."""

_INT64: Final = 1 << 63

# Rows: member=number:type, of which the type `string` is left out. `*` stands for every other member, each of which becomes a message of
# name and value, and `x-` for every extension. Types: string, bool, int64, double, strings, any, anys, or a message; `[]` for lists of it.
_TABLES: Final[Mapping[int, Mapping[str, str]]] = {
    2: {
        "Schema": "$ref=1 format=2 title=3 description=4 default=5:any multipleOf=6:double maximum=7:double exclusiveMaximum=8:bool "
        "minimum=9:double exclusiveMinimum=10:bool maxLength=11:int64 minLength=12:int64 pattern=13 maxItems=14:int64 minItems=15:int64 "
        "uniqueItems=16:bool maxProperties=17:int64 minProperties=18:int64 required=19:strings enum=20:anys "
        "additionalProperties=21:AdditionalPropertiesItem type=22:TypeItem items=23:ItemsItem allOf=24:[]Schema properties=25:Properties "
        "discriminator=26 readOnly=27:bool externalDocs=29:ExternalDocs example=30:any x-=31",
        "Properties": "*=1:Schema",
        "ExternalDocs": "description=1 url=2 x-=3",
        "PathItem": "$ref=1 get=2:Operation put=3:Operation post=4:Operation delete=5:Operation options=6:Operation head=7:Operation "
        "patch=8:Operation parameters=9:[]ParametersItem x-=10",
        "Operation": "tags=1:strings summary=2 description=3 operationId=5 produces=6:strings consumes=7:strings "
        "parameters=8:[]ParametersItem responses=9:Responses schemes=10:strings deprecated=11:bool x-=13",
        "BodyParameter": "description=1 name=2 in=3 required=4:bool schema=5:Schema x-=6",
        "QueryParameter": "required=1:bool in=2 description=3 name=4 type=6 uniqueItems=20:bool x-=23",
        "PathParameter": "required=1:bool in=2 description=3 name=4 type=5 uniqueItems=19:bool x-=22",
        "Responses": "*=1:ResponseValue x-=2",
        "Response": "description=1 schema=2:SchemaItem x-=5",
        "Definitions": "*=1:Schema",
        "Paths": "x-=1 *=2:PathItem",
    },
    3: {
        "Schema": "nullable=1:bool readOnly=3:bool writeOnly=4:bool externalDocs=6:ExternalDocs example=7:any deprecated=8:bool title=9 "
        "multipleOf=10:double maximum=11:double exclusiveMaximum=12:bool minimum=13:double exclusiveMinimum=14:bool maxLength=15:int64 "
        "minLength=16:int64 pattern=17 maxItems=18:int64 minItems=19:int64 uniqueItems=20:bool maxProperties=21:int64 "
        "minProperties=22:int64 required=23:strings enum=24:anys type=25 allOf=26:[]SchemaOrReference oneOf=27:[]SchemaOrReference "
        "anyOf=28:[]SchemaOrReference not=29:Schema items=30:ItemsItem properties=31:Properties "
        "additionalProperties=32:AdditionalPropertiesItem default=33:DefaultType description=34 format=35 x-=36",
        "Reference": "$ref=1 summary=2 description=3",
        "Properties": "*=1:SchemaOrReference",
        "ExternalDocs": "description=1 url=2 x-=3",
        "PathItem": "$ref=1 summary=2 description=3 get=4:Operation put=5:Operation post=6:Operation delete=7:Operation "
        "options=8:Operation head=9:Operation patch=10:Operation trace=11:Operation parameters=13:[]ParameterOrReference x-=14",
        "Operation": "tags=1:strings summary=2 description=3 operationId=5 parameters=6:[]ParameterOrReference "
        "requestBody=7:RequestBodyOrReference responses=8:Responses deprecated=10:bool x-=13",
        "Parameter": "name=1 in=2 description=3 required=4:bool deprecated=5:bool schema=10:SchemaOrReference content=13:MediaTypes x-=14",
        "RequestBody": "description=1 content=2:MediaTypes required=3:bool x-=4",
        "MediaTypes": "*=1:MediaType",
        "MediaType": "schema=1:SchemaOrReference x-=5",
        "Responses": "*=2:ResponseOrReference x-=3",
        "Response": "description=1 content=3:MediaTypes x-=5",
        "SchemasOrReferences": "*=1:SchemaOrReference",
        "Paths": "*=1:PathItem x-=2",
    },
}


def path_message(version: int, path: str, item: Any) -> bytes:
    """One path of the document, as an element of its `paths`.

    Args:
        version: 2 or 3, of OpenAPI.
        path: its name.
        item: its JSON.
    """
    number = 2 if version == 2 else 1
    return _named(number, path, _writer(version, "PathItem")(item))


def model_message(version: int, name: str, schema: Any) -> bytes:
    """One model, as an element of `definitions` or of `components.schemas`. Arguments: `path_message`."""
    return _named(1, name, _writer(version, "Schema" if version == 2 else "SchemaOrReference")(schema))


def field(number: int, content: bytes) -> bytes:
    """A field with a length before its content."""
    return varint(number << 3 | 2) + length_of(content) + content


def field_head(number: int, length: int) -> bytes:
    """What stands before the content of such a field."""
    return varint(number << 3 | 2) + varint(length)


def _named(number: int, name: str, value: bytes) -> bytes:
    return field(number, field(1, name.encode()) + field(2, value))


@cache
def _writer(version: int, message: str) -> Write:
    if (row := _TABLES[version].get(message)) is not None:
        return _of_row(version, row)
    make = _CHOICES[version, message]
    return make(version)


def _later(version: int, message: str) -> Write:
    """The writer of a message that may contain the one that is being made."""
    found: list[Write] = []

    def write(value: Any) -> bytes:
        if not found:
            found.append(_writer(version, message))
        return found[0](value)

    return write


def _of_row(version: int, row: str) -> Write:
    absent: list[bytes] = []
    fields: dict[str, tuple[int, Write]] = {}
    other: tuple[int, int, Write] | None = None
    extension: tuple[int, int] | None = None
    for slot, text in enumerate(row.split()):
        member, _, rest = text.partition("=")
        number, _, kind = rest.partition(":")
        absent.append(b"")
        if member == "*":
            other = slot, int(number), _later(version, kind)
        elif member == "x-":
            extension = slot, int(number)
        else:
            fields[member] = slot, _field(version, int(number), kind or "string")

    def write(value: Any) -> bytes:
        if not isinstance(value, dict):
            return b""
        slots = absent.copy()
        named: dict[int, list[bytes]] = {}
        for member, item in value.items():
            if (known := fields.get(member)) is not None:
                slot, put = known
                slots[slot] = put(item)
            elif extension is not None and member.startswith("x-"):
                slot, number = extension
                named.setdefault(slot, []).append(_named(number, member, _any(item)))
            elif other is not None:
                slot, number, put = other
                named.setdefault(slot, []).append(_named(number, member, put(item)))
        for slot, parts in named.items():
            slots[slot] = b"".join(parts)
        return b"".join(slots)

    return write


def _field(version: int, number: int, kind: str) -> Write:
    tag = varint(number << 3 | 2)
    if kind in _SCALARS:
        wire_type, make = _SCALARS[kind]
        return make(varint(number << 3 | wire_type))
    if kind == "any":
        return lambda value: field(number, _any(value))
    if kind == "anys":
        return lambda value: b"".join(field(number, _any(item)) for item in value) if isinstance(value, list) else b""
    if kind.startswith("[]"):
        write = _later(version, kind[2:])
        return lambda value: b"".join(field(number, write(item)) for item in value) if isinstance(value, list) else b""
    write = _later(version, kind)

    def put(value: Any) -> bytes:
        body = write(value)
        return tag + length_of(body) + body

    return put


def _string(tag: bytes) -> Write:
    def put(value: Any) -> bytes:
        if not isinstance(value, str) or not value:
            return b""
        raw = value.encode()
        return tag + length_of(raw) + raw

    return put


def _strings(tag: bytes) -> Write:
    def put(value: Any) -> bytes:
        if not isinstance(value, list):
            return b""
        raws = [item.encode() for item in value if isinstance(item, str)]
        return b"".join(tag + length_of(raw) + raw for raw in raws)

    return put


def _bool(tag: bytes) -> Write:
    return lambda value: tag + b"\1" if value is True else b""


def _int64(tag: bytes) -> Write:
    def put(value: Any) -> bytes:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        fits = isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64
        return tag + varint(value) if fits and value else b""

    return put


def _double(tag: bytes) -> Write:
    def put(value: Any) -> bytes:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return tag + struct.pack("<d", value) if number and value else b""

    return put


_SCALARS: Final[Mapping[str, tuple[int, Callable[[bytes], Write]]]] = {
    "bool": (0, _bool),
    "double": (1, _double),
    "int64": (0, _int64),
    "string": (2, _string),
    "strings": (2, _strings),
}

_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON allows as they are, and YAML does not or takes for the end of a line."""


def _any(value: Any) -> bytes:
    """A value of any type: gnostic's `Any`, whose only field in use is its text as YAML."""
    text = orjson.dumps(value).decode()
    return field(2, _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode() + b"\n")


def _has_reference(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("$ref"), str)


def _or_reference(message: str, reference: str) -> Callable[[int], Write]:
    """A choice of a message or of a reference to one."""

    def make(version: int) -> Write:
        write = _later(version, message)
        refer = _field_of_reference if reference == "JsonReference" else _later(version, reference)
        return lambda value: field(2, refer(value)) if _has_reference(value) else field(1, write(value))

    return make


def _field_of_reference(value: Any) -> bytes:
    return _string(b"\x0a")(value["$ref"]) + _string(b"\x12")(value.get("description"))


def _additional(message: str) -> Callable[[int], Write]:
    def make(version: int) -> Write:
        write = _later(version, message)
        return lambda value: (b"\x10\x01" if value else b"\x10\x00") if isinstance(value, bool) else field(1, write(value))

    return make


def _items(message: str) -> Callable[[int], Write]:
    def make(version: int) -> Write:
        write = _later(version, message)
        return lambda value: b"".join(field(1, write(item)) for item in (value if isinstance(value, list) else [value]))

    return make


def _types(_version: int) -> Write:
    put = _strings(b"\x0a")
    return lambda value: put(value if isinstance(value, list) else [value])


def _only(message: str) -> Callable[[int], Write]:
    """A choice of which nothing but the first is ever published."""

    def make(version: int) -> Write:
        write = _later(version, message)
        return lambda value: field(1, write(value))

    return make


def _parameter(version: int) -> Write:
    """`ParametersItem` of v2: a parameter that is a body or not, and if not, in the path or in the query."""
    body, query, path = (_later(version, name) for name in ("BodyParameter", "QueryParameter", "PathParameter"))

    def write(value: Any) -> bytes:
        place = value.get("in") if isinstance(value, dict) else None
        if place == "body":
            return field(1, field(1, body(value)))
        return field(1, field(2, field(4, path(value)) if place == "path" else field(3, query(value))))

    return write


def _default(_version: int) -> Write:
    """`DefaultType` of v3: objects, lists and null have no place in it."""

    def write(value: Any) -> bytes:
        if isinstance(value, bool):
            return b"\x10\x01" if value else b"\x10\x00"
        if isinstance(value, int | float):
            return b"\x09" + struct.pack("<d", value)
        return field(3, value.encode()) if isinstance(value, str) else b""

    return write


_CHOICES: Final[Mapping[tuple[int, str], Callable[[int], Write]]] = {
    (2, "AdditionalPropertiesItem"): _additional("Schema"),
    (2, "ItemsItem"): _items("Schema"),
    (2, "ParametersItem"): _parameter,
    (2, "ResponseValue"): _or_reference("Response", "JsonReference"),
    (2, "SchemaItem"): _only("Schema"),
    (2, "TypeItem"): _types,
    (3, "AdditionalPropertiesItem"): _additional("SchemaOrReference"),
    (3, "DefaultType"): _default,
    (3, "ItemsItem"): _items("SchemaOrReference"),
    (3, "ParameterOrReference"): _or_reference("Parameter", "Reference"),
    (3, "RequestBodyOrReference"): _or_reference("RequestBody", "Reference"),
    (3, "ResponseOrReference"): _or_reference("Response", "Reference"),
    (3, "SchemaOrReference"): _or_reference("Schema", "Reference"),
}
