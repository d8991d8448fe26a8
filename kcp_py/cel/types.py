"""The types of CEL, as values that the checker compares and the generator reads.

Source of the rules: the CEL language definition ("Gradual type checking") and cel-go's `common/types`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "ERROR",
    "INT",
    "NULL",
    "STRING",
    "TIMESTAMP",
    "UINT",
    "Field",
    "Type",
    "list_of",
    "map_of",
    "object_of",
    "opaque",
    "optional_of",
    "type_of",
    "type_parameter",
]

# How cel-go's messages name types whose own names are longer.
_SHOWN: Final = {"null": "null", "timestamp": "timestamp", "duration": "duration"}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an object type.

    Attributes:
        type: what a selection of the field has.
        key: the key in the decoded JSON; differs from the name in CEL where that had to be escaped (`__namespace__`).
        nullable: whether it may be null, which is to CEL as if it were not there.
    """

    type: Type
    key: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Type:
    """One type. Two types are equal when kind, name and parameters are; sizes and list semantics do not count.

    Attributes:
        kind: `dyn`, `error`, `null`, `bool`, `int`, `uint`, `double`, `string`, `bytes`, `timestamp`, `duration`, `list`, `map`,
            `object`, `opaque` (also `optional_type`), `type`, `parameter`.
        name: as cel-go prints it in messages, without parameters: `int`, `list`, `google.protobuf.Timestamp`, `optional_type`,
            `kubernetes.Quantity`, the object type's name, the type parameter's letter.
        parameters: of a list (element), a map (key, value), an opaque or `type`.
        fields: of an object: name in CEL -> field. Compared by the object's name alone.
        max_size: an upper bound for the elements of a list or map, the characters of a string, the bytes of bytes; None: unknown.
        list_type: `atomic`, `set` or `map` (x-kubernetes-list-type): decides equality and `+`.
        list_keys: JSON keys of a `map` list.
        size: how many types are written in it, itself included; fields do not count.
        generic: whether a type parameter is anywhere in it.
    """

    kind: str
    name: str
    parameters: tuple[Type, ...] = ()
    fields: Mapping[str, Field] | None = field(default=None, compare=False, repr=False)
    max_size: int | None = field(default=None, compare=False, repr=False)
    list_type: str = field(default="atomic", compare=False, repr=False)
    list_keys: tuple[str, ...] = field(default=(), compare=False, repr=False)
    size: int = field(init=False, compare=False, repr=False)
    generic: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Keep what would take a walk to find: types share their parts, so that a small one may be very large when it is walked."""
        parameters = self.parameters
        object.__setattr__(self, "size", 1 + sum(kind.size for kind in parameters))
        object.__setattr__(self, "generic", self.kind == "parameter" or any(kind.generic for kind in parameters))

    def with_parameters(self, parameters: tuple[Type, ...]) -> Type:
        """This type with other parameters."""
        return Type(self.kind, self.name, parameters, self.fields, self.max_size, self.list_type, self.list_keys)

    def __str__(self) -> str:
        """The type as messages of cel-go print it: `map(string, list(int))`."""
        name = _SHOWN.get(self.kind, self.name)
        return f"{name}({', '.join(map(str, self.parameters))})" if self.parameters else name

    @property
    def element(self) -> Type:
        """The element type of a list."""
        return self.parameters[0]

    @property
    def key(self) -> Type:
        """The key type of a map."""
        return self.parameters[0]

    @property
    def value(self) -> Type:
        """The value type of a map."""
        return self.parameters[1]


DYN: Final = Type("dyn", "dyn")
ERROR: Final = Type("error", "!error!")
NULL: Final = Type("null", "null_type")
BOOL: Final = Type("bool", "bool")
INT: Final = Type("int", "int")
UINT: Final = Type("uint", "uint")
DOUBLE: Final = Type("double", "double")
STRING: Final = Type("string", "string")
BYTES: Final = Type("bytes", "bytes")
TIMESTAMP: Final = Type("timestamp", "google.protobuf.Timestamp")
DURATION: Final = Type("duration", "google.protobuf.Duration")


def list_of(element: Type, *, max_size: int | None = None, list_type: str = "atomic", list_keys: tuple[str, ...] = ()) -> Type:
    """A list of `element`."""
    return Type("list", "list", (element,), max_size=max_size, list_type=list_type, list_keys=list_keys)


def map_of(key: Type, value: Type, *, max_size: int | None = None) -> Type:
    """A map from `key` to `value`."""
    return Type("map", "map", (key, value), max_size=max_size)


def object_of(name: str, fields: Mapping[str, Field]) -> Type:
    """An object with a fixed set of fields; at run time a dict that may lack any of them."""
    return Type("object", name, fields=fields)


def opaque(name: str, *parameters: Type) -> Type:
    """A type that only its library's functions understand."""
    return Type("opaque", name, parameters)


def optional_of(value: Type) -> Type:
    """`optional_type(value)`: a value or its absence."""
    return Type("opaque", "optional_type", (value,))


def type_of(value: Type) -> Type:
    """The type of a type literal, `type(int)`."""
    return Type("type", "type", (value,))


def type_parameter(name: str) -> Type:
    """A variable of a generic overload's signature, `A`."""
    return Type("parameter", name)
