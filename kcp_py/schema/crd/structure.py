"""Whether a CRD's schema is structural: types and defaults are declared outside of the logical junctors.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/validation.go` and `complete.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden, invalid, required
from kcp_py.golang.regexp import PatternError, check_pattern
from kcp_py.schema.crd.printing import members_set
from kcp_py.schema.documents import JUNCTORS, Schema, child_schema, parts_of, walk_schema


class _Level(Enum):
    ROOT = "must not be empty at the root"
    ITEM = "must not be empty for specified array items"
    FIELD = "must not be empty for specified object fields"


def structural_errors(schema: Schema, path: str) -> list[FieldError]:
    """The violations, sorted by their text, as upstream sorts them."""
    errors = [*_invariants(schema, _Level.ROOT, path), *_completeness(schema, schema, path, path)]
    return sorted(errors, key=str)


def is_structural(schema: Schema) -> bool:
    """Whether a schema can be taken for structural at all, and is."""
    return not any(has_unsupported(node) for node in walk_schema(schema)) and not structural_errors(schema, "")


def has_unsupported(schema: Schema) -> bool:
    """Whether one node has a keyword that no structural schema can hold."""
    return (
        bool(schema.get("id") or schema.get("$schema") or schema.get("$ref") or schema.get("patternProperties"))
        or bool(schema.get("dependencies") or schema.get("definitions"))
        or schema.get("additionalItems") is not None
        or isinstance(schema.get("items"), list)
        or schema.get("x-kubernetes-preserve-unknown-fields") is False
    )


def _children(schema: Schema, name: str) -> Sequence[Schema]:
    return schema.get(name) or ()


def _properties(schema: Schema) -> Mapping[str, Schema]:
    return schema.get("properties") or {}


def _invariants(schema: Schema, level: _Level, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = schema.get("type") or ""
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    properties = _properties(schema)
    if kind == "array" and child_schema(schema, "items") is None:
        errors.append(required(f"{path}.items", "must be specified"))
    for part in parts_of(schema, ("items", "properties")):
        level_below = _Level.ITEM if part.keyword == "items" else _Level.FIELD
        errors.extend(_invariants(part.schema, level_below, f"{path}.{part.step}"))
    additional = schema.get("additionalProperties")
    if additional is not None:
        if level is _Level.ROOT:
            errors.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
        if isinstance(additional, Mapping):
            errors.extend(_invariants(additional, _Level.FIELD, f"{path}.additionalProperties"))
    if int_or_string and preserve:
        detail = "must be false if x-kubernetes-int-or-string is true"
        errors.append(invalid(f"{path}.x-kubernetes-preserve-unknown-fields", value=True, detail=detail))
    if int_or_string and embedded:
        detail = "must be false if x-kubernetes-int-or-string is true"
        errors.append(invalid(f"{path}.x-kubernetes-embedded-resource", value=True, detail=detail))
    errors.extend(_value_errors(schema, path, skip_any_of=_is_int_or_string(schema), skip_first_all_of=_starts_int_or_string(schema)))
    errors.extend(_type_errors(schema, level, path))
    if embedded and additional is not None:
        errors.append(forbidden(f"{path}.additionalProperties", "must not be used if x-kubernetes-embedded-resource is set"))
    if level is _Level.ROOT and kind and kind != "object":
        errors.append(invalid(f"{path}.type", kind, "must be object at the root"))
    errors.extend(_meta_errors(schema, level, path, check=level is _Level.ROOT or embedded))
    if embedded and not preserve and not properties:
        detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        errors.append(required(f"{path}.properties", detail))
    return errors


def _type_errors(schema: Schema, level: _Level, path: str) -> list[FieldError]:
    kind = schema.get("type") or ""
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        return [invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)]
    if not kind and not schema.get("x-kubernetes-int-or-string") and not schema.get("x-kubernetes-preserve-unknown-fields"):
        return [required(f"{path}.type", level.value)]
    return []


def _meta_errors(schema: Schema, level: _Level, path: str, *, check: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    properties = _properties(schema)
    if check:
        errors.extend(
            invalid(f"{path}.properties[{name}].type", properties[name].get("type") or "", "must be string")
            for name in ("kind", "apiVersion")
            if name in properties and properties[name].get("type") != "string"
        )
    metadata = properties.get("metadata")
    if metadata is None:
        return errors
    metadata_path = f"{path}.properties[metadata]"
    if check and metadata.get("type") != "object":
        errors.append(invalid(f"{metadata_path}.type", metadata.get("type") or "", "must be object"))
    if level is _Level.ROOT and not _only_restricts_names(metadata):
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        errors.append(forbidden(metadata_path, detail))
    return errors


def _only_restricts_names(metadata: Schema) -> bool:
    if not _properties(metadata).keys() <= {"name", "generateName"}:
        return False
    # Upstream compares all that remains, a description too, to nothing.
    return set(members_set({name: value for name, value in metadata.items() if value != []})) <= {"Type", "Properties", "Default"}


_INT_OR_STRING: Final = ({"type": "integer"}, {"type": "string"})


def _is_int_or_string(schema: Schema) -> bool:
    """Whether `anyOf` is the one form that may name types: integer, then string."""
    parts = _children(schema, "anyOf")
    return len(parts) == 2 and all(
        {name: value for name, value in part.items() if value not in (None, "", [], {}, False)} == expected
        for part, expected in zip(parts, _INT_OR_STRING, strict=True)
    )


def _starts_int_or_string(schema: Schema) -> bool:
    parts = _children(schema, "allOf")
    return bool(parts) and _is_int_or_string(parts[0])


def _value_errors(schema: Schema, path: str, *, skip_any_of: bool, skip_first_all_of: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for part in parts_of(schema, ("allOf", "oneOf", "not") if skip_any_of else ("anyOf", "allOf", "oneOf", "not")):
        first_all_of = part.keyword == "allOf" and part.key == 0
        errors.extend(_nested_errors(part.schema, f"{path}.{part.step}", skip_any_of=skip_first_all_of and first_all_of))
    if pattern := schema.get("pattern"):
        try:
            check_pattern(pattern)
        except PatternError as error:
            errors.append(invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}"))
    return errors


_NESTED_FORBIDDEN: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_UNDEFINED: Final = frozenset({"additionalProperties", "default", "x-kubernetes-list-type", "x-kubernetes-map-type"})


def _nested_errors(schema: Schema, path: str, *, skip_any_of: bool = False) -> list[FieldError]:
    errors = _value_errors(schema, path, skip_any_of=skip_any_of, skip_first_all_of=False)
    for part in parts_of(schema, ("items", "properties")):
        errors.extend(_nested_errors(part.schema, f"{path}.{part.step}"))
    for name, detail in _NESTED_FORBIDDEN:
        value = schema.get(name)
        if value is not None if name in _UNDEFINED else value:
            errors.append(forbidden(f"{path}.{name}", detail))
    if "metadata" in _properties(schema):
        errors.append(forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context"))
    return errors


def _completeness(value: Schema, schema: Schema, schema_path: str, value_path: str) -> list[FieldError]:
    """What the junctors of `value` mention and `schema` does not specify."""
    errors: list[FieldError] = []
    for part in parts_of(value, ("not", *JUNCTORS)):
        errors.extend(_nested_completeness(part.schema, schema, schema_path, f"{value_path}.{part.step}"))
    return errors


def _nested_completeness(value: Schema, schema: Schema, schema_path: str, value_path: str) -> list[FieldError]:
    errors = _completeness(value, schema, schema_path, value_path)
    for part in parts_of(value, ("items", "properties")):
        specified = child_schema(schema, "items") if part.key is None else _properties(schema).get(str(part.key))
        place = f"{value_path}.{part.step}"
        if specified is None:
            errors.append(required(f"{schema_path}.{part.step}", f"because it is defined in {place}"))
        else:
            errors.extend(_nested_completeness(part.schema, specified, f"{schema_path}.{part.step}", place))
    return errors
