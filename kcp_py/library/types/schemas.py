"""`schema_of_resource`: the structural schema of a Pydantic model or of a dataclass, as controller-gen makes that of a Go type.

A field without a default is required; `X | None` without one is required and nullable. Defaults that are not None, and not empty, are
those of the schema. Descriptions are `Field(description=...)`, the text below a field, or the docstring of its type.
"""

from __future__ import annotations

import datetime as dt
import enum
import ipaddress
import types
import typing
import uuid
from collections.abc import Collection, Mapping, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from kcp_py.library.types.constraints import constrain
from kcp_py.library.types.defaults import default_of
from kcp_py.library.types.fields import (
    DefinitionError,
    Field,
    documentation,
    expanded,
    fields_of,
    is_pydantic_model,
    is_structure,
    is_url,
)
from kcp_py.library.types.markers import KEYWORDS, RULES, Fixed, Schema

_API_VERSION: Final = (
    "APIVersion defines the versioned schema of this representation of an object.\n"
    "Servers should convert recognized schemas to the latest internal value, and\n"
    "may reject unrecognized values.\n"
    "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
)
_KIND: Final = (
    "Kind is a string value representing the REST resource this object represents.\n"
    "Servers may infer this from the endpoint the client submits requests to.\n"
    "Cannot be updated.\n"
    "In CamelCase.\n"
    "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
)
_SCALARS: Final[Mapping[Any, Mapping[str, Any]]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "format": "byte"},
    dt.timedelta: {"type": "string"},
    dt.datetime: {"type": "string", "format": "date-time"},
    dt.date: {"type": "string", "format": "date"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    ipaddress.IPv4Address: {"type": "string", "format": "ipv4"},
    ipaddress.IPv6Address: {"type": "string", "format": "ipv6"},
}
_LISTS: Final = frozenset({list, Sequence, MutableSequence, Collection})
_SETS: Final = frozenset({set, frozenset, AbstractSet})
_MAPS: Final = frozenset({dict, Mapping, MutableMapping})
_SUPPORTED: Final = (
    "a Pydantic model, a dataclass, an Enum, a Literal, list, set, dict[str, ...], str, int, float, bool, bytes, datetime, date, "
    "timedelta, UUID, IPv4Address, IPv6Address, a URL of Pydantic, IntOrString, Quantity, or Any"
)
_UNCHECKED: Final[Mapping[str, Any]] = {"x-kubernetes-preserve-unknown-fields": True}


class _Place(NamedTuple):
    """Where a type stands."""

    text: str
    """For messages: the class and the fields."""
    inside: tuple[type, ...] = ()
    """The classes that contain it."""
    camel: bool = False
    """Whether fields have names in camelCase."""

    def at(self, step: str) -> _Place:
        return self._replace(text=self.text + step)

    def error(self, problem: str) -> DefinitionError:
        return DefinitionError(f"{self.text}: {problem}")


def schema_of_resource(cls: type, *, camel: bool = False) -> dict[str, Any]:
    """The schema of a whole object.

    Args:
        cls: a Pydantic model or a dataclass.
        camel: whether fields without an alias have names in camelCase.

    Raises:
        DefinitionError: a type has no schema. The message names the field.
    """
    found = _structure(cls, _Place(cls.__name__, camel=camel), root=True)
    found["properties"] = {
        "apiVersion": {"description": _API_VERSION, "type": "string"},
        "kind": {"description": _KIND, "type": "string"},
        "metadata": {"type": "object"},
        **found["properties"],
    }
    return found


def _structure(cls: type, place: _Place, *, root: bool = False) -> dict[str, Any]:
    if cls in place.inside:
        raise place.error(f"{cls.__name__} contains itself, and schemas of resources cannot; use dict[str, Any] or Any here")
    found: dict[str, Any] = {"type": "object"}
    if text := documentation(cls):
        found["description"] = text
    properties: dict[str, Any] = {}
    required = []
    for field in fields_of(cls, place.text, camel=place.camel):
        if root and field.json in {"apiVersion", "kind", "metadata"}:
            continue
        where = place.at(f".{field.name}")
        if field.json in properties:
            raise where.error(f"two fields have the name {field.json!r}")
        properties[field.json] = _of_field(field, where._replace(inside=(*place.inside, cls)))
        if field.required:
            required.append(field.json)
    if properties or root:
        found["properties"] = properties
    if required:
        found["required"] = sorted(required)
    extra = cls.model_config.get("extra") if is_pydantic_model(cls) else None  # type: ignore[attr-defined]
    if extra == "allow" and not root:
        found.update(_UNCHECKED)
    found.update(vars(cls).get(KEYWORDS, {}))
    if rules := [rule.document() for base in reversed(cls.__mro__) for rule in vars(base).get(RULES, ())]:
        found["x-kubernetes-validations"] = rules
    return found


def _of_field(field: Field, place: _Place) -> dict[str, Any]:
    found = _of(field.annotation, field.metadata, place, optional=not field.required)
    if field.description:
        found["description"] = field.description
    default = None if field.required else default_of(field, place.text, camel=place.camel)
    if default is not None:
        found["default"] = default
    return found


def _of(annotation: Any, metadata: Sequence[Any], place: _Place, *, optional: bool = False) -> dict[str, Any]:
    """The schema of a type.

    Args:
        annotation: the type.
        metadata: its constraints and markers.
        place: of the type.
        optional: whether it is a field that need not be there, so that None is its absence.
    """
    while True:
        if typing.get_origin(annotation) is typing.Annotated:
            annotation, *more = typing.get_args(annotation)
            metadata = [*expanded(more), *metadata]
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            break
    fixed = next((one for one in metadata if isinstance(one, Fixed)), None)
    if fixed is not None:
        found = {**fixed.schema}
    elif _is_free(metadata):
        found = {}
    else:
        found = _of_type(annotation, place, optional=optional)
    constrain(found, metadata, place.text)
    return found


def _is_free(metadata: Sequence[Any]) -> bool:
    return any(isinstance(one, Schema) and one.preserve_unknown_fields and not one.embedded_resource for one in metadata)


def _of_type(annotation: Any, place: _Place, *, optional: bool) -> dict[str, Any]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    kind = origin or annotation
    if kind is typing.Union or kind is types.UnionType:
        return _of_union(arguments, place, optional=optional)
    if kind is typing.Literal:
        return _of_values(arguments, place)
    if kind is Any or kind is object:
        return {**_UNCHECKED}
    if kind in _SCALARS:
        return {**_SCALARS[kind]}
    if kind in _MAPS:
        return _of_map(arguments, place)
    if kind in _LISTS or (kind is tuple and len(arguments) == 2 and arguments[1] is ...):
        return {"type": "array", "items": _of(arguments[0] if arguments else Any, (), place.at("[]"))}
    if kind in _SETS:
        items = _of(arguments[0] if arguments else Any, (), place.at("[]"))
        return {"type": "array", "items": items, "x-kubernetes-list-type": "set"}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        found = _of_values([one.value for one in kind], place)
        return {**found, "description": text} if (text := documentation(kind)) else found
    if getattr(kind, "__pydantic_root_model__", False):
        return _of_root_model(annotation if isinstance(annotation, type) else kind, place)
    if is_structure(kind):
        return _structure(annotation if is_structure(annotation) else kind, place)
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return {"type": "string"}
    if is_url(kind):
        return {"type": "string", "format": "uri"}
    raise place.error(f"{_shown(annotation)} has no schema; {_advice(kind)}")


def _of_root_model(cls: type, place: _Place) -> dict[str, Any]:
    """The schema of a model that stands for one value."""
    if cls in place.inside:
        raise place.error(f"{cls.__name__} contains itself, and schemas of resources cannot; use dict[str, Any] or Any here")
    (root,) = fields_of(cls, place.text)
    return _of(root.annotation, root.metadata, place._replace(inside=(*place.inside, cls)))


def _advice(kind: Any) -> str:
    name = getattr(kind, "__name__", "")
    if name == "Decimal":
        return "use Quantity, or a text"
    if kind is dt.time:
        return 'use a text: Annotated[str, Schema(pattern="...")]'
    if kind in {bytearray, memoryview}:
        return "use bytes"
    if kind is tuple:
        return "use a list, or tuple[X, ...]"
    if isinstance(kind, typing.TypeVar):
        return "give the generic class its arguments"
    return f"use {_SUPPORTED}"


def _of_union(members: Sequence[Any], place: _Place, *, optional: bool) -> dict[str, Any]:
    others = [one for one in members if one is not types.NoneType]
    if len(others) != 1:
        names = " | ".join(map(_shown, members))
        advice = "use IntOrString" if set(others) == {int, str} else "use one type, or Annotated[..., Schema(preserve_unknown_fields=True)]"
        raise place.error(f"a union has no structural schema ({names}); {advice}")
    found = _of(others[0], (), place, optional=optional)
    if not optional and len(others) < len(members):
        found["nullable"] = True
    return found


def _of_values(values: Sequence[Any], place: _Place) -> dict[str, Any]:
    if not values:
        raise place.error("an enumeration without values")
    for kind, name in ((str, "string"), (bool, "boolean"), (int, "integer")):
        if values and all(type(value) is kind or (kind is str and isinstance(value, str)) for value in values):
            return {"type": name, "enum": [kind(value) for value in values]}
    raise place.error(f"the values {', '.join(map(repr, values))} are not all texts or all integers")


def _of_map(arguments: Sequence[Any], place: _Place) -> dict[str, Any]:
    if not arguments or arguments[1] is Any or arguments[1] is object:
        return {"type": "object", **_UNCHECKED}
    key = arguments[0]
    while typing.get_origin(key) is typing.Annotated or hasattr(key, "__supertype__"):
        key = getattr(key, "__supertype__", None) or typing.get_args(key)[0]
    if not (isinstance(key, type) and issubclass(key, str)):
        raise place.error(f"the keys of an object in JSON are texts, not {_shown(arguments[0])}")
    return {"type": "object", "additionalProperties": _of(arguments[1], (), place.at("{}"))}


def _shown(annotation: Any) -> str:
    return (
        annotation.__name__ if isinstance(annotation, type) and not typing.get_args(annotation) else str(annotation).replace("typing.", "")
    )
