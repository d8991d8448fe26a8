"""Schemas of CustomResourceDefinitions as Go writes what it has read: without nulls, and without what `omitempty` leaves out.

Source: k8s.io/apiextensions-apiserver `pkg/apis/apiextensions/v1/types_jsonschema.go` and `marshal.go`. Values of the wrong type and
unknown fields stay as they are: other steps refuse the ones and drop the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Form = Callable[[Any], Any]
"""From a value as it was sent to the one that is written; `_LEFT_OUT` for none at all."""

_LEFT_OUT: Final[Any] = object()


def normalize_crd(crd: dict[str, Any]) -> None:
    """Bring the schemas of a CRD into Go's form, in place."""
    spec = crd.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    for version in versions if isinstance(versions, list) else ():
        holder = version.get("schema") if isinstance(version, dict) else None
        if isinstance(holder, dict) and "openAPIV3Schema" in holder:
            schema = _optional(_schema)(holder["openAPIV3Schema"])
            if schema is _LEFT_OUT:
                del holder["openAPIV3Schema"]
            else:
                holder["openAPIV3Schema"] = schema


def _schema(value: Any) -> Any:
    """One node of a schema; null is an empty one."""
    if type(value) is not dict:
        return {} if value is None else value
    written: dict[str, Any] = {}
    for name, part in value.items():
        form = _FIELDS.get(name)
        kept = part if form is None else form(part)
        if kept is not _LEFT_OUT:
            written[name] = kept
    return written


def _optional(form: Form) -> Form:
    """A pointer: null alone is left out."""
    return lambda value: _LEFT_OUT if value is None else form(value)


def _same(value: Any) -> Any:
    return value


def _filled(value: Any) -> Any:
    """A text or a flag, which is left out where it is empty or false."""
    return _LEFT_OUT if value is None or value is False or value == "" else value


def _list_of(form: Form) -> Form:
    def write(value: Any) -> Any:
        if type(value) is list:
            return [form(part) for part in value] if value else _LEFT_OUT
        return _LEFT_OUT if value is None else value

    return write


def _map_of(form: Form) -> Form:
    def write(value: Any) -> Any:
        if type(value) is dict:
            return {name: form(part) for name, part in value.items()} if value else _LEFT_OUT
        return _LEFT_OUT if value is None else value

    return write


def _text(value: Any) -> Any:
    return "" if value is None else value


def _schema_or_flag(value: Any) -> Any:
    """`JSONSchemaPropsOrBool`."""
    return _schema(value) if type(value) is dict else value


def _schema_or_list(value: Any) -> Any:
    """`JSONSchemaPropsOrArray`: a value that is neither, or an empty list, is written as null."""
    if type(value) is dict:
        return _schema(value)
    return [_schema(part) for part in value] or None if type(value) is list else None


def _schema_or_texts(value: Any) -> Any:
    """`JSONSchemaPropsOrStringArray`: a value that is neither, or an empty list, is written as null."""
    if type(value) is dict:
        return _schema(value)
    return [_text(part) for part in value] or None if type(value) is list else None


def _struct(**fields: Form) -> Form:
    def write(value: Any) -> Any:
        if type(value) is not dict:
            return {} if value is None else value
        written = {name: fields[name](part) if name in fields else part for name, part in value.items()}
        return {name: part for name, part in written.items() if part is not _LEFT_OUT}

    return write


_rule_form: Final = _struct(
    message=_filled, messageExpression=_filled, reason=_optional(_same), fieldPath=_filled, optionalOldSelf=_optional(_same)
)


def _rule(value: Any) -> Any:
    """A validation rule, whose expression is always written."""
    written = _rule_form(value)
    return {**written, "rule": written.get("rule") or ""} if type(written) is dict else written


_FIELDS: Final[dict[str, Form]] = {
    **dict.fromkeys(("id", "$schema", "description", "type", "format", "title", "pattern"), _filled),
    **dict.fromkeys(
        ("exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"),
        _filled,
    ),
    **dict.fromkeys(
        (
            *("$ref", "default", "example", "maximum", "minimum", "multipleOf", "maxLength", "minLength", "maxItems", "minItems"),
            *("maxProperties", "minProperties", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type", "x-kubernetes-map-type"),
        ),
        _optional(_same),
    ),
    "enum": _list_of(_same),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys"), _list_of(_text)),
    "items": _optional(_schema_or_list),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _list_of(_schema)),
    "not": _optional(_schema),
    **dict.fromkeys(("properties", "patternProperties", "definitions"), _map_of(_schema)),
    **dict.fromkeys(("additionalProperties", "additionalItems"), _optional(_schema_or_flag)),
    "dependencies": _map_of(_schema_or_texts),
    "externalDocs": _optional(_struct(description=_filled, url=_filled)),
    "x-kubernetes-validations": _list_of(_rule),
}
