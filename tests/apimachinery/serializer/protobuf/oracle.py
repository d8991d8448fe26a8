"""Protobuf's own implementation (upb) for the built-in kinds: classes made of the tables, and messages of random content."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kcp_py.bootstrap.wire import META, message_fields

Rows = Mapping[str, Sequence[str]]

_TYPES = {"double": 1, "int64": 3, "int32": 5, "bool": 8, "string": 9, "message": 11, "bytes": 12}
_APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SCHEMA = _APIEXTENSIONS + "JSONSchemaProps"
_TIMESTAMP = {"1": ("seconds", "int64", ""), "2": ("nanos", "int32", "")}
_RAW = {"1": ("raw", "bytes", "")}
_OWN: Mapping[str, Rows] = {
    META + "Time": _TIMESTAMP,
    META + "MicroTime": _TIMESTAMP,
    META + "FieldsV1": _RAW,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _RAW,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"1": ("string", "string", "")},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "1": ("type", "int64", ""),
        "2": ("intVal", "int32", ""),
        "3": ("strVal", "string", ""),
    },
    _APIEXTENSIONS + "JSON": _RAW,
    _SCHEMA + "OrBool": {"1": ("allows", "bool", ""), "2": ("schema", _SCHEMA, "")},
    _SCHEMA + "OrArray": {"1": ("schema", _SCHEMA, ""), "2": ("jSONSchemas", f"[]{_SCHEMA}", "")},
    _SCHEMA + "OrStringArray": {"1": ("schema", _SCHEMA, ""), "2": ("property", "[]string", "")},
}
"""What the tables leave to the codec, as the `generated.proto` files have it."""


def rows_of(name: str) -> Rows:
    """The fields of a message on the wire."""
    return _OWN.get(name) or message_fields(name)


@cache
def message_class(name: str) -> Callable[[], Any]:
    """The class of a message, in a pool of its own with all that it reaches."""
    file = descriptor_pb2.FileDescriptorProto(name="tables.proto", package="t", syntax="proto2")
    for reached in _reached(name):
        message = file.message_type.add(name=_flat(reached))
        for number, (_, kind, _) in rows_of(reached).items():
            element = kind.removeprefix("[]").removeprefix("{}")
            field = message.field.add(name=f"f{number}", number=int(number), label=1 if element == kind else 3)
            _type(field, element)
            if kind.startswith("{}"):
                entry = message.nested_type.add(name=f"F{number}Entry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, label=1, type=_TYPES["string"])
                _type(entry.field.add(name="value", number=2, label=1), element)
                field.type, field.type_name = _TYPES["message"], f".t.{message.name}.{entry.name}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made: Callable[[], Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{_flat(name)}"))
    return made


def _flat(name: str) -> str:
    return name.replace(".", "_").replace("-", "_")


def _type(field: Any, element: str) -> None:
    field.type = _TYPES.get(element, _TYPES["message"])
    if element not in _TYPES:
        field.type_name = f".t.{_flat(element)}"


def _reached(name: str) -> Iterator[str]:
    seen, pending = set(), [name]
    while pending:
        current = pending.pop()
        if current not in seen:
            seen.add(current)
            yield current
            elements = (kind.removeprefix("[]").removeprefix("{}") for _, kind, _ in rows_of(current).values())
            pending.extend(element for element in elements if element not in _TYPES)


_WORDS = ("", "a", "name", "zażółć", "x" * 127, "y" * 128, "\U0001f600 \x00", "-1")
_INTS = (0, 1, 127, 128, -1, 2**31 - 1, -(2**31))
_LONGS = (*_INTS, 2**63 - 1, -(2**63))


def fill(message: Any, name: str, random: Random, *, depth: int = 6, entries: int = 3) -> None:
    """Fill a message with content that comes back from JSON as it was: a Time has no fraction there, a Quantity is canonical.

    Args:
        message: empty.
        name: of it.
        random: decides everything.
        depth: of messages within it.
        entries: at most, of each map.
    """
    if name in _OWN and not name.startswith(_SCHEMA):
        _fill_own(message, name.rpartition(".")[2], random)
        return
    if name.startswith(_SCHEMA + "Or"):
        _fill_choice(message, name, random, depth, entries)
        return
    for number, (_, kind, rule) in rows_of(name).items():
        if rule not in {"inline", "items"} and random.random() < (0.6 if depth < 4 else 0.3):
            continue
        field, element = f"f{number}", kind.removeprefix("[]").removeprefix("{}")
        if element not in _TYPES and depth == 0:
            continue
        if kind.startswith("{}"):
            for key in random.sample(_WORDS, random.randint(0, entries)):
                if element in _TYPES:
                    getattr(message, field)[key] = _scalar(element, random)
                else:
                    fill(getattr(message, field)[key], element, random, depth=depth - 1, entries=entries)
        elif kind.startswith("[]"):
            for _ in range(random.randint(0, 3)):
                if element in _TYPES:
                    getattr(message, field).append(_scalar(element, random))
                else:
                    fill(getattr(message, field).add(), element, random, depth=depth - 1, entries=entries)
        elif element in _TYPES:
            setattr(message, field, _scalar(element, random))
        else:
            getattr(message, field).SetInParent()
            fill(getattr(message, field), element, random, depth=depth - 1, entries=entries)


def _scalar(kind: str, random: Random) -> Any:
    match kind:
        case "bool":
            return random.random() < 0.5
        case "bytes":
            return random.randbytes(random.choice((0, 1, 2, 3, 200)))
        case "double":
            return random.choice((0.0, 1.0, -1.5, 1e300, 2.0**53))
        case "int32":
            return random.choice(_INTS)
        case "int64":
            return random.choice(_LONGS)
    return random.choice(_WORDS)


def _fill_own(message: Any, kind: str, random: Random) -> None:
    match kind:
        case "Time" | "MicroTime":
            message.f1 = random.choice((0, 1, -1, 1_767_225_600, 253_402_300_799, -62_135_596_799))
            message.f2 = random.choice((0, 1_000, 999_999_000)) if kind == "MicroTime" else 0
        case "Quantity":
            message.f1 = random.choice(("0", "1", "100m", "64Mi", "-3k", "1e3"))
        case "IntOrString":
            message.f1 = random.randint(0, 1)
            setattr(message, "f3" if message.f1 else "f2", random.choice(_WORDS if message.f1 else _INTS))
        case _:
            content: Any = random.choice(({}, {"f:metadata": {"f:name": {}}}, {"a": [1, None, "x", {"b": 1.5}]}))
            message.f1 = json.dumps(content, separators=(",", ":")).encode()


def _fill_choice(message: Any, name: str, random: Random, depth: int, entries: int) -> None:
    if name.endswith("OrBool"):
        message.f1 = depth == 0 or random.random() < 0.5
        if message.f1 and depth:
            message.f2.SetInParent()
            fill(message.f2, _SCHEMA, random, depth=depth - 1, entries=entries)
    elif name.endswith("OrStringArray") and random.random() < 0.5:
        message.f2.extend(["a", ""])
    else:
        # One of both: neither is null in JSON, which is as good as absent.
        chosen = message.f2.add() if random.random() < 0.5 and name.endswith("OrArray") else message.f1
        chosen.SetInParent()
        if depth:
            fill(chosen, _SCHEMA, random, depth=depth - 1, entries=entries)


def without_zeros(message: Any) -> Any:
    """A copy without what Go writes though it is zero, and JSON may leave out."""
    copy = type(message)()
    copy.CopyFrom(message)
    _clear(copy)
    return copy


def _clear(message: Any) -> None:
    for field, value in list(message.ListFields()):
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                for item in value.values():
                    _clear(item)
        elif field.message_type is not None:
            repeated = not hasattr(value, "ListFields")
            for item in value if repeated else (value,):
                _clear(item)
            if not repeated and not value.ListFields():
                message.ClearField(field.name)
        elif not isinstance(value, str | bytes | bool | int | float):
            continue
        elif value == field.default_value or (value == "0" and message.DESCRIPTOR.name.endswith("_Quantity")):
            message.ClearField(field.name)
