"""Objects as messages print structs whose fields have no names in JSON: in the order of the struct, with every field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcp_py.apimachinery.fielderrors import Printed
from kcp_py.golang.json import go_json


class Struct(NamedTuple):
    """The fields of a struct."""

    fields: Mapping[str, tuple[str, Any]]
    """Name in Go -> name in JSON, and the value of a missing field or what the field has: a `Struct`, `Pointer` or `Many`."""


class Pointer(NamedTuple):
    """A struct that may be missing."""

    struct: Struct


class Many(NamedTuple):
    """A list of structs."""

    struct: Struct


def printed(value: Any, struct: Struct) -> Printed:
    """An object as a message prints it."""
    return Printed(go_json(values_of(value, struct)))


def values_of(value: Any, struct: Struct) -> dict[str, Any]:
    """An object with all fields of its struct. Two are equal to upstream where these are. Missing lists and empty ones are the same."""
    given: Mapping[str, Any] = value or {}
    return {name: _value(given.get(member), kind) for name, (member, kind) in struct.fields.items()}


def _value(value: Any, kind: Any) -> Any:
    match kind:
        case Struct():
            return values_of(value, kind)
        case Pointer(struct):
            return None if value is None else values_of(value, struct)
        case Many(struct):
            return [values_of(one, struct) for one in value] if value else None
        case _:
            return kind if value is None else value
