"""Validation errors that name a field, with upstream's texts (k8s.io/apimachinery `util/validation/field`).

The whole message of an error is `<field>: <text>`; its cause in a Status carries the text alone. Values are printed as Go prints them:
with `%q` for strings, plainly for numbers and booleans, and as compact JSON for anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from kcp_py.golang.floats import format_float
from kcp_py.golang.json import go_json
from kcp_py.golang.quoting import go_quote

MAX_SHOWN: Final = 64 * 1024
"""Characters of a value in a message."""


NO_VALUE: Final[Any] = type("NoValue", (), {"__repr__": lambda _: "NO_VALUE"})()
"""Stands for the absence of a value in an error: null is a value."""

_PROBLEMS: Final = {
    "FieldValueRequired": "Required value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotFound": "Not found",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "InternalError": "Internal error",
}


class Printed(str):
    """A value in the form in which messages print it, for values that Go prints as structs."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class FieldError:
    """One problem with one field. The text is rendered when it is first asked for; do not change the value before that."""

    reason: str
    """The reason of the cause in a Status, such as `FieldValueRequired`."""
    field: str
    """The path, such as `spec.containers[0].name`."""
    value: Any = NO_VALUE
    """The value that messages print."""
    detail: str = ""
    """The problem with the value."""
    expected: str = ""
    """The types that the schema allows, separated by commas, where `value` is the name of a type that it does not allow."""

    @cached_property
    def text(self) -> str:
        """The message without the field: `Invalid value: 5: must be less than 3`."""
        text = _PROBLEMS[self.reason]
        if self.value is not NO_VALUE:
            text = f"{text}: {self.value if type(self.value) is Printed else go_value(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        """The whole message."""
        return f"{self.field}: {self.text}"


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(reason="FieldValueRequired", field=field, detail=detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(reason="FieldValueInvalid", field=field, value=value, detail=detail)


def type_invalid(field: str, value: Any, detail: str, *, expected: str = "") -> FieldError:
    return FieldError(reason="FieldValueTypeInvalid", field=field, value=value, detail=detail, expected=expected)


def not_supported(field: str, value: Any, supported: Sequence[Any]) -> FieldError:
    detail = "supported values: " + ", ".join(go_value(item) for item in supported) if supported else ""
    return FieldError(reason="FieldValueNotSupported", field=field, value=value, detail=detail)


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError(reason="FieldValueForbidden", field=field, detail=detail)


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError(reason="FieldValueDuplicate", field=field, value=value)


def not_found(field: str, value: Any) -> FieldError:
    return FieldError(reason="FieldValueNotFound", field=field, value=value)


def too_long(field: str, maximum: int) -> FieldError:
    return FieldError(reason="FieldValueTooLong", field=field, detail=f"may not be more than {maximum} bytes")


def too_many(field: str, actual: int, maximum: int) -> FieldError:
    items = "item" if maximum == 1 else "items"
    return FieldError(reason="FieldValueTooMany", field=field, value=actual, detail=f"must have at most {maximum} {items}")


def internal(field: str, detail: str) -> FieldError:
    return FieldError(reason="InternalError", field=field, detail=detail)


def go_value(value: Any) -> str:
    """A value as upstream's messages print it, but not more of it than `MAX_SHOWN`: many messages may show the same one."""
    text = _shown(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _shown(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return go_quote(value)
        case int():
            return str(value)
        case float():
            return format_float(value)
        case _:
            return go_json(value, sort=True)


def go_struct(value: Mapping[str, Any], fields: Mapping[str, str], *, zero: Any = "") -> Printed:
    """An object as messages print a struct that has no JSON names: every field is there, under the name that it has in Go.

    Args:
        value: the object.
        fields: the names in Go and in JSON, in the order of the struct.
        zero: the value of a missing field.
    """
    return Printed(go_json({name: value.get(member, zero) for name, member in fields.items()}))


def join_path(parent: str, child: str) -> str:
    """`spec` and `replicas` give `spec.replicas`; an empty parent gives the child."""
    return f"{parent}.{child}" if parent else child


def aggregate(errors: Iterable[FieldError]) -> str:
    """The message of several errors: one alone, or `[a, b]` without repetitions, as upstream's `ErrorList.ToAggregate`."""
    messages = list(dict.fromkeys(map(str, errors)))
    return messages[0] if len(messages) == 1 else "[" + ", ".join(messages) + "]"
