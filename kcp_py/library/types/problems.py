"""What Pydantic refuses in an object, as errors of fields."""

from __future__ import annotations

import typing
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from kcp_py.apimachinery.fielderrors import NO_VALUE, FieldError
from kcp_py.client.models import decode
from kcp_py.library.types.described import ATTRIBUTE, TypedResource
from kcp_py.library.types.fields import contains, fields_of, is_structure
from kcp_py.schema.compilation import compile_schema
from kcp_py.schema.structural.report import NO_FIELD

_OF_USERS = frozenset({"value_error", "assertion_error"})
_OF_RULES = frozenset({"bytes_too_short", "bytes_too_long", "greater_than", "greater_than_equal", "less_than", "less_than_equal"})
"""Of bytes and timedeltas: the schema has rules for their bounds."""


def has_validators(model: type) -> bool:
    """Whether a class, or a class in it, has validators in code, which no schema expresses. The text of a timedelta counts as one."""
    return any(_has_own(cls) for cls in _classes(model, set()))


def problems_of(described: TypedResource, obj: dict[str, Any]) -> list[FieldError] | None:
    """Why an object does not fit the class. What its schema refuses, too, is left out.

    Returns:
        None where it is one; an empty list where the schema says all.
    """
    try:
        decode(described.model, obj)
    except ValueError as error:
        found: list[dict[str, Any]] = error.errors(include_url=False) if hasattr(error, "errors") else []
        wrong = bool(compile_schema(described.schema).validate(obj))
        shown = [one for one in found if one["type"] in _OF_USERS or not (wrong or _is_of_a_rule(one))]
        return [_field_error(one) for one in shown]
    return None


def problems_in(model: type, obj: dict[str, Any]) -> list[FieldError]:
    """All that keeps an object from being one of a class, in the words of its schema as far as possible.

    Args:
        model: describes a resource; its schema is known if it is one of this program.
        obj: in the version of the class.
    """
    try:
        decode(model, obj)
    except ValueError as error:
        resource = vars(model).get(ATTRIBUTE)
        of_schema = compile_schema(resource.schema).validate(obj) if isinstance(resource, TypedResource) else []
        found: list[dict[str, Any]] = error.errors(include_url=False) if hasattr(error, "errors") else []
        own = [_field_error(one) for one in found if one["type"] in _OF_USERS or not of_schema]
        return [*of_schema, *own] or [FieldError(reason="FieldValueInvalid", field=NO_FIELD, detail=str(error))]
    return []


def _is_of_a_rule(problem: dict[str, Any]) -> bool:
    return problem["type"] in _OF_RULES and isinstance(problem.get("input"), bytes | timedelta)


def _field_error(problem: dict[str, Any]) -> FieldError:
    path = ""
    for part in problem["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    detail = problem["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    value = problem.get("input", NO_VALUE)
    shown = value if isinstance(value, str | int | float | bool) else NO_VALUE
    return FieldError(reason="FieldValueInvalid", field=path or NO_FIELD, detail=detail, value=shown)


def _has_own(cls: Any) -> bool:
    decorators = getattr(cls, "__pydantic_decorators__", None)
    if decorators is not None and (decorators.validators or decorators.field_validators or decorators.model_validators):
        return True
    fields = fields_of(cls, cls.__name__)
    return any(contains(field.annotation, {timedelta}) or any(hasattr(one, "func") for one in field.metadata) for field in fields)


def _classes(annotation: Any, seen: set[type]) -> Iterable[type]:
    """The classes with fields in a type."""
    if is_structure(annotation) and annotation not in seen and annotation.__module__ != "kcp_py.library.types.metadata":
        seen.add(annotation)
        yield annotation
        for field in fields_of(annotation, annotation.__name__):
            yield from _classes(field.annotation, seen)
    for inner in typing.get_args(annotation):
        yield from _classes(inner, seen)
