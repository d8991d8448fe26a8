"""What `Annotated[...]` and decorators say about types: `Schema`, `Rule`, and types that Kubernetes has and Python has not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Literal, TypeVar

C = TypeVar("C", bound=type)

RULES: Final = "__kcp_rules__"
"""The attribute of a class with its rules."""

KEYWORDS: Final = "__kcp_keywords__"
"""The attribute of a class with keywords of its schema."""

_KEYWORDS: Final = {
    "exclusive_maximum": "exclusiveMaximum",
    "exclusive_minimum": "exclusiveMinimum",
    "max_items": "maxItems",
    "max_length": "maxLength",
    "max_properties": "maxProperties",
    "min_items": "minItems",
    "min_length": "minLength",
    "min_properties": "minProperties",
    "multiple_of": "multipleOf",
    "embedded_resource": "x-kubernetes-embedded-resource",
    "list_map_keys": "x-kubernetes-list-map-keys",
    "list_type": "x-kubernetes-list-type",
    "map_type": "x-kubernetes-map-type",
    "preserve_unknown_fields": "x-kubernetes-preserve-unknown-fields",
}


@dataclass(frozen=True)
class Rule:
    """A CEL rule of a field (`Annotated[int, Rule("self % 2 == 0")]`) or of a class (`@Rule("self.low <= self.high")`).

    The members are those of `x-kubernetes-validations`.
    """

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: Literal["", "FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"] = ""
    field_path: str = ""
    optional_old_self: bool | None = None

    def document(self) -> dict[str, Any]:
        """As it stands in a schema."""
        members = {
            "rule": self.rule,
            "message": self.message,
            "messageExpression": self.message_expression,
            "reason": self.reason,
            "fieldPath": self.field_path,
            "optionalOldSelf": self.optional_old_self,
        }
        return {name: value for name, value in members.items() if value not in {"", None}}

    def __call__(self, cls: C) -> C:
        """Add the rule to a class."""
        setattr(cls, RULES, (self, *vars(cls).get(RULES, ())))
        return cls


@dataclass(frozen=True, kw_only=True, eq=False)
class Schema:
    """Keywords of the schema of a field. They replace what its type says.

    ::

        ports: Annotated[list[Port], Schema(list_type="map", list_map_keys=["name"])] = []
    """

    description: str | None = None
    title: str | None = None
    format: str | None = None
    enum: Sequence[Any] | None = None
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool | None = None
    exclusive_maximum: bool | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    nullable: bool | None = None
    list_type: Literal["atomic", "set", "map"] | None = None
    list_map_keys: Sequence[str] | None = None
    map_type: Literal["atomic", "granular"] | None = None
    preserve_unknown_fields: bool | None = None
    embedded_resource: bool | None = None
    more: Mapping[str, Any] | None = None
    """Keywords that have no name here, such as `oneOf`."""
    immutable: bool = False
    """Whether the field keeps the value that it once has: a rule."""

    def keywords(self) -> dict[str, Any]:
        """As they stand in a schema."""
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in {"immutable", "more"}}
        named = {
            _KEYWORDS.get(name, name): list(value) if isinstance(value, list | tuple) else value
            for name, value in given.items()
            if value is not None
        }
        return {**named, **(self.more or {})}

    def __call__(self, cls: C) -> C:
        """Say keywords of a class: those of the schema of its objects."""
        setattr(cls, KEYWORDS, {**vars(cls).get(KEYWORDS, {}), **self.keywords()})
        return cls


IMMUTABLE: Final = Rule("self == oldSelf", message="is immutable")


@dataclass(frozen=True, eq=False)
class Fixed:
    """The whole schema of a type, in the place of what it is in Python."""

    schema: Mapping[str, Any]


_INT_OR_STRING: Final = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_QUANTITY: Final = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"

Int32 = Annotated[int, Schema(format="int32")]
"""An integer of 32 bits."""
Int64 = Annotated[int, Schema(format="int64")]
"""An integer of 64 bits."""
IntOrString = Annotated[int | str, Fixed(_INT_OR_STRING)]
"""A number or a text, such as a port or a percentage."""
Quantity = Annotated[int | str, Fixed({**_INT_OR_STRING, "pattern": _QUANTITY})]
"""An amount with a suffix, such as `500m` or `2Gi`."""
