"""Validation errors that name a field, with upstream's texts (k8s.io/apimachinery `util/validation/field`).

The whole message of an error is `<field>: <text>`; its cause in a Status carries the text alone. Values are printed as Go prints them:
with `%q` for strings, plainly for numbers and booleans, and as compact JSON for anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.golang.floats import format_float
from kcp_py.golang.json import go_json
from kcp_py.golang.quoting import go_quote

MAX_SHOWN: Final = 64 * 1024
"""Characters of a value in a message."""


class FieldError(NamedTuple):
    """One problem with one field."""

    reason: str
    """The reason of the cause, such as `FieldValueRequired`."""
    field: str
    """The path, such as `spec.containers[0].name`."""
    text: str
    """The message without the field."""

    def __str__(self) -> str:
        return f"{self.field}: {self.text}"


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, _with_detail("Required value", detail))


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, _with_detail(f"Invalid value: {go_value(value)}", detail))


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueTypeInvalid", field, _with_detail(f"Invalid value: {go_value(value)}", detail))


def not_supported(field: str, value: Any, supported: Sequence[Any]) -> FieldError:
    text = f"Unsupported value: {go_value(value)}"
    if supported:
        text += ": supported values: " + ", ".join(go_value(item) for item in supported)
    return FieldError("FieldValueNotSupported", field, text)


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, _with_detail("Forbidden", detail))


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {go_value(value)}")


def not_found(field: str, value: Any) -> FieldError:
    return FieldError("FieldValueNotFound", field, f"Not found: {go_value(value)}")


def too_long(field: str, maximum: int) -> FieldError:
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {maximum} bytes")


def too_many(field: str, actual: int, maximum: int) -> FieldError:
    items = "item" if maximum == 1 else "items"
    return FieldError("FieldValueTooMany", field, f"Too many: {actual}: must have at most {maximum} {items}")


def internal(field: str, detail: str) -> FieldError:
    return FieldError("InternalError", field, _with_detail("Internal error", detail))


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


def join_path(parent: str, child: str) -> str:
    """`spec` and `replicas` give `spec.replicas`; an empty parent gives the child."""
    return f"{parent}.{child}" if parent else child


def aggregate(errors: Iterable[FieldError]) -> str:
    """The message of several errors: one alone, or `[a, b]` without repetitions, as upstream's `ErrorList.ToAggregate`."""
    messages = list(dict.fromkeys(map(str, errors)))
    return messages[0] if len(messages) == 1 else "[" + ", ".join(messages) + "]"


def _with_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text
