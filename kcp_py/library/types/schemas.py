"""`schema_of_resource`: the structural schema of a Pydantic model or of a dataclass, as controller-gen makes that of a Go type.

A field without a default is required; `X | None` without one is required and nullable. Defaults that are not None, and not empty, are
those of the schema. Descriptions are `Field(description=...)`, the text below a field, or the docstring of its type.
"""

from __future__ import annotations

import datetime as dt
import enum
import ipaddress
import re
import types
import typing
import uuid
from collections.abc import Collection, Mapping, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import Any, Final

from kcp_py.library.types.fields import DefinitionError, Field, documentation, expanded, fields_of, is_pydantic_model, is_structure
from kcp_py.library.types.markers import IMMUTABLE, KEYWORDS, RULES, Fixed, Rule, Schema

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
    dt.datetime: {"type": "string", "format": "date-time"},
    dt.date: {"type": "string", "format": "date"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    ipaddress.IPv4Address: {"type": "string", "format": "ipv4"},
    ipaddress.IPv6Address: {"type": "string", "format": "ipv6"},
}
_LISTS: Final = frozenset({list, Sequence, MutableSequence, Collection})
_SETS: Final = frozenset({set, frozenset, AbstractSet})
_MAPS: Final = frozenset({dict, Mapping, MutableMapping})
_BOUNDS: Final = (
    ("ge", "minimum", ""),
    ("gt", "minimum", "exclusiveMinimum"),
    ("le", "maximum", ""),
    ("lt", "maximum", "exclusiveMaximum"),
)
_LENGTHS: Final = {"string": "Length", "array": "Items", "object": "Properties"}
_UNCHECKED: Final[Mapping[str, Any]] = {"x-kubernetes-preserve-unknown-fields": True}


def schema_of_resource(cls: type) -> dict[str, Any]:
    """The schema of a whole object.

    Raises:
        DefinitionError: a type has no schema. The message names the field.
    """
    found = _structure(cls, cls.__name__, (), root=True)
    found["properties"] = {
        "apiVersion": {"description": _API_VERSION, "type": "string"},
        "kind": {"description": _KIND, "type": "string"},
        "metadata": {"type": "object"},
        **found["properties"],
    }
    return found


def _structure(cls: type, place: str, inside: tuple[type, ...], *, root: bool = False) -> dict[str, Any]:
    if cls in inside:
        raise DefinitionError(f"{place}: {cls.__name__} contains itself, and schemas of resources cannot; use dict[str, Any] or Any here")
    found: dict[str, Any] = {"type": "object"}
    if text := documentation(cls):
        found["description"] = text
    properties: dict[str, Any] = {}
    required = []
    for field in fields_of(cls, place):
        if root and field.json in {"apiVersion", "kind", "metadata"}:
            continue
        where = f"{place}.{field.name}"
        if field.json in properties:
            raise DefinitionError(f"{where}: two fields have the name {field.json!r}")
        properties[field.json] = _of_field(field, where, (*inside, cls))
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


def _of_field(field: Field, place: str, inside: tuple[type, ...]) -> dict[str, Any]:
    found = _of(field.annotation, field.metadata, place, inside, optional=not field.required)
    if field.description:
        found["description"] = field.description
    default = None if field.required else _default(field, place)
    if default is not None:
        found["default"] = default
    return found


def _of(annotation: Any, metadata: Sequence[Any], place: str, inside: tuple[type, ...], *, optional: bool = False) -> dict[str, Any]:
    """The schema of a type.

    Args:
        annotation: the type.
        metadata: its constraints and markers.
        place: for messages.
        inside: the classes that contain it.
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
        found = _of_type(annotation, metadata, place, inside, optional=optional)
    _constrain(found, metadata, place)
    return found


def _is_free(metadata: Sequence[Any]) -> bool:
    return any(isinstance(one, Schema) and one.preserve_unknown_fields and not one.embedded_resource for one in metadata)


def _of_type(annotation: Any, metadata: Sequence[Any], place: str, inside: tuple[type, ...], *, optional: bool) -> dict[str, Any]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    kind = origin or annotation
    if kind is typing.Union or kind is types.UnionType:
        return _of_union(arguments, place, inside, optional=optional)
    if kind is typing.Literal:
        return _of_values(arguments, place)
    if kind is Any or kind is object:
        return {**_UNCHECKED}
    if kind in _SCALARS:
        return {**_SCALARS[kind]}
    if kind is bytes:
        if any("Base64" in repr(one) for one in metadata):
            return {"type": "string", "format": "byte"}
        raise DefinitionError(f"{place}: bytes have no form in JSON by themselves; use pydantic.Base64Bytes")
    if kind in _MAPS:
        return _of_map(arguments, place, inside)
    if kind in _LISTS or (kind is tuple and len(arguments) == 2 and arguments[1] is ...):
        return {"type": "array", "items": _of(arguments[0] if arguments else Any, (), f"{place}[]", inside)}
    if kind in _SETS:
        items = _of(arguments[0] if arguments else Any, (), f"{place}[]", inside)
        return {"type": "array", "items": items, "x-kubernetes-list-type": "set"}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        found = _of_values([one.value for one in kind], place)
        return {**found, "description": text} if (text := documentation(kind)) else found
    if is_structure(kind):
        return _structure(annotation if is_structure(annotation) else kind, place, inside)
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return {"type": "string"}
    if isinstance(kind, type) and kind.__module__ == "pydantic.networks" and kind.__name__.endswith("Url"):
        return {"type": "string", "format": "uri"}
    raise DefinitionError(f"{place}: {_shown(annotation)} has no schema; {_advice(kind)}")


def _advice(kind: Any) -> str:
    if kind is dt.timedelta:
        return 'use a text such as "1h30m": Annotated[str, Schema(format="duration")]'
    if getattr(kind, "__name__", "") == "Decimal":
        return "use Quantity, or a text"
    if kind is tuple:
        return "use a list, or tuple[X, ...]"
    if isinstance(kind, typing.TypeVar):
        return "give the generic class its arguments"
    return "use a Pydantic model, a dataclass, an Enum, a Literal, list, dict, or a type of JSON"


def _of_union(members: Sequence[Any], place: str, inside: tuple[type, ...], *, optional: bool) -> dict[str, Any]:
    others = [one for one in members if one is not types.NoneType]
    if len(others) != 1:
        names = " | ".join(map(_shown, members))
        advice = "use IntOrString" if set(others) == {int, str} else "use one type, or Annotated[..., Schema(preserve_unknown_fields=True)]"
        raise DefinitionError(f"{place}: a union has no structural schema ({names}); {advice}")
    found = _of(others[0], (), place, inside, optional=optional)
    if not optional and len(others) < len(members):
        found["nullable"] = True
    return found


def _of_values(values: Sequence[Any], place: str) -> dict[str, Any]:
    for kind, name in ((str, "string"), (bool, "boolean"), (int, "integer")):
        if values and all(type(value) is kind or (kind is str and isinstance(value, str)) for value in values):
            return {"type": name, "enum": [kind(value) for value in values]}
    raise DefinitionError(f"{place}: the values {', '.join(map(repr, values))} are not all texts or all integers")


def _of_map(arguments: Sequence[Any], place: str, inside: tuple[type, ...]) -> dict[str, Any]:
    if not arguments or arguments[1] is Any or arguments[1] is object:
        return {"type": "object", **_UNCHECKED}
    key = arguments[0]
    while typing.get_origin(key) is typing.Annotated or hasattr(key, "__supertype__"):
        key = getattr(key, "__supertype__", None) or typing.get_args(key)[0]
    if not (isinstance(key, type) and issubclass(key, str)):
        raise DefinitionError(f"{place}: the keys of an object in JSON are texts, not {_shown(arguments[0])}")
    return {"type": "object", "additionalProperties": _of(arguments[1], (), f"{place}{{}}", inside)}


def _constrain(found: dict[str, Any], metadata: Sequence[Any], place: str) -> None:
    """Add what constraints say: those of annotated-types, which Pydantic uses, and our own."""
    rules: list[dict[str, Any]] = []
    kind = found.get("type", "")
    for one in metadata:
        if isinstance(one, Rule):
            rules.append(one.document())
        elif isinstance(one, Schema):
            found.update(one.keywords())
            if one.immutable:
                rules.append(IMMUTABLE.document())
        elif not isinstance(one, Fixed):
            _bound(found, kind, one, place)
    if rules:
        found["x-kubernetes-validations"] = [*found.get("x-kubernetes-validations", ()), *rules]


def _bound(found: dict[str, Any], kind: str, constraint: Any, place: str) -> None:
    for name, keyword, exclusive in _BOUNDS:
        if (value := getattr(constraint, name, None)) is None:
            continue
        if not isinstance(value, int | float):
            raise DefinitionError(f"{place}: the bound {name}={value!r} is not a number")
        found[keyword] = value
        if exclusive:
            found[exclusive] = True
    if isinstance(value := getattr(constraint, "multiple_of", None), int | float):
        found["multipleOf"] = value
    for name, prefix in (("min_length", "min"), ("max_length", "max")):
        if isinstance(value := getattr(constraint, name, None), int):
            if kind not in _LENGTHS:
                raise DefinitionError(f"{place}: {name} is for texts, lists and maps")
            found[f"{prefix}{_LENGTHS[kind]}"] = value
    pattern = getattr(constraint, "pattern", None)
    if isinstance(pattern, str | re.Pattern):
        found["pattern"] = pattern if isinstance(pattern, str) else pattern.pattern


def _default(field: Field, place: str) -> Any:
    """The default of a field as JSON; None where it has none, or an empty collection, which is what clients see without one, too."""
    value = field.default if field.factory is None else _made(field.factory, place)
    found = _plain(value, place)
    if field.factory is not None and found != _plain(_made(field.factory, place), place):
        raise DefinitionError(f"{place}: default_factory gives different values; set the value in the hook `default`")
    return None if found in ([], {}) and not is_structure(type(value)) else found


def _made(factory: Any, place: str) -> Any:
    try:
        return factory()
    except TypeError as error:
        raise DefinitionError(f"{place}: default_factory fails: {error}; set the value in the hook `default`") from None


def _plain(value: Any, place: str) -> Any:
    """A default value as JSON. Members of structures that have their own default are left out: the schema fills them in."""
    if value is None or (isinstance(value, str | bool | int | float) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, enum.Enum):
        return _plain(value.value, place)
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dt.date | uuid.UUID | ipaddress.IPv4Address | ipaddress.IPv6Address | PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one, place) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(_plain(one, place) for one in value)
    if isinstance(value, list | tuple):
        return [_plain(one, place) for one in value]
    if is_structure(type(value)):
        members = {}
        for field in fields_of(type(value), place):
            member = _plain(getattr(value, field.name), f"{place}.{field.name}")
            own = None if field.required else _default(field, f"{place}.{field.name}")
            if member is not None and (field.required or member not in (own, [], {})):
                members[field.json] = member
        return members
    raise DefinitionError(f"{place}: the default {value!r} has no form in JSON")


def _shown(annotation: Any) -> str:
    return (
        annotation.__name__ if isinstance(annotation, type) and not typing.get_args(annotation) else str(annotation).replace("typing.", "")
    )
