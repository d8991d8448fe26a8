"""What a CRD's OpenAPI schema may contain.

Source: k8s.io/apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go`
(`ValidateCustomResourceDefinitionOpenAPISchema`, `specStandardValidatorV3`). Rules of
`x-kubernetes-validations` are checked for their form only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden, invalid, not_supported, required
from kcp_py.schema.crd.structure import has_unsupported
from kcp_py.schema.documents import Schema, child_schema, parts_of, walk_schema
from kcp_py.schema.structural.field_paths import FieldPathError, find_field
from kcp_py.schema.structural.nodes import META_FIELDS, Node, SchemaTooDeepError, read_schema

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NESTED: Final = ("not", "allOf", "oneOf", "anyOf", "definitions", "dependencies", "items")
"""The keywords whose schemas obey the rules of the schema above them, in upstream's order."""
_NEWLINE: Final = re.compile(r"[\n\r]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRules:
    """Which rules apply: some are not enforced on an update of a CRD that already broke them."""

    require_valid_types: bool = True
    require_atomic_sets: bool = True
    require_map_keys: bool = True
    defaults_forbidden: str | None = None
    """Why a default must not be set here; None where it may."""
    inside_metadata: bool = False
    nodes: dict[int, Node] = field(default_factory=dict, compare=False)
    """The nodes of the parts of the document, by the `id` of the part: for the paths of rules."""


def schema_errors(schema: Schema, path: str, rules: SchemaRules, *, root: bool = False) -> list[FieldError]:
    """The problems of one schema and everything below it."""
    errors = _keyword_errors(schema, path, rules)
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{path}.uniqueItems", detail))
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    if additional is not None:
        if properties and additional is not True:
            errors.append(forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"))
        if isinstance(additional, Mapping):
            inner = rules
            if rules.inside_metadata:
                inner = replace(rules, defaults_forbidden="inside additionalProperties applying to object metadata")
            errors.extend(schema_errors(additional, f"{path}.additionalProperties", inner))
    embedded = root or bool(schema.get("x-kubernetes-embedded-resource"))
    for name, child in properties.items():
        inner = rules
        if embedded and name in META_FIELDS:
            inner = replace(inner, inside_metadata=True)
            if root:
                inner = replace(inner, defaults_forbidden=f"in top-level {name}")
        errors.extend(schema_errors(child, f"{path}.properties[{name}]", inner))
    for part in parts_of(schema, _NESTED):
        errors.extend(schema_errors(part.schema, f"{path}.{part.step}", rules))
    errors.extend(_extension_errors(schema, path, rules))
    if rules.require_map_keys:
        errors.extend(map_key_errors(schema, path))
    errors.extend(_rule_errors(schema, path, rules))
    return errors


def _keyword_errors(schema: Schema, path: str, rules: SchemaRules) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = schema.get("type") or ""
    if rules.require_valid_types and kind and kind not in TYPES:
        errors.append(not_supported(f"{path}.type", kind, TYPES))
    if schema.get("default") is not None and rules.defaults_forbidden is not None:
        errors.append(forbidden(f"{path}.default", f"must not be set {rules.defaults_forbidden}"))
    unsupported = (
        ("id", bool(schema.get("id"))),
        ("additionalItems", schema.get("additionalItems") is not None),
        ("patternProperties", bool(schema.get("patternProperties"))),
        ("definitions", bool(schema.get("definitions"))),
        ("dependencies", schema.get("dependencies") is not None),
        ("$ref", schema.get("$ref") is not None),
    )
    errors.extend(forbidden(f"{path}.{name}", f"{name} is not supported") for name, present in unsupported if present)
    if kind == "null":
        errors.append(forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative"))
    if isinstance(schema.get("items"), list) and schema["items"]:
        errors.append(forbidden(f"{path}.items", "items must be a schema object and not an array"))
    if rules.inside_metadata and schema.get("x-kubernetes-embedded-resource"):
        errors.append(forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta"))
    return errors


def _extension_errors(schema: Schema, path: str, rules: SchemaRules) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = schema.get("type") or ""
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        errors.append(invalid(f"{path}.x-kubernetes-preserve-unknown-fields", value=False, detail="must be true or undefined"))
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is not None and kind != "object":
        detail = "must be object if x-kubernetes-map-type is specified"
        errors.append(invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail))
    if map_type not in {None, "atomic", "granular"}:
        errors.append(not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular")))
    list_type = schema.get("x-kubernetes-list-type")
    if list_type is not None and kind != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        errors.append(invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail))
    elif rules.require_atomic_sets and (name := non_atomic_set_item(schema)):
        value = schema["items"].get("x-kubernetes-list-type")
        errors.append(invalid(f"{path}.items.{name}", value, "must be atomic as item of a list with x-kubernetes-list-type=set"))
    if list_type not in {None, "atomic", "set", "map"}:
        errors.append(not_supported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map")))
    if schema.get("x-kubernetes-list-map-keys") and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        list_path = f"{path}.x-kubernetes-list-type"
        errors.append(required(list_path, detail) if list_type is None else invalid(list_path, list_type, detail))
    if list_type == "map":
        errors.extend(_list_map_errors(schema, path))
    return errors


def non_atomic_set_item(schema: Schema) -> str:
    """The extension that has to be atomic in the items of a list of type set and is not, or the empty text."""
    items = child_schema(schema, "items")
    if schema.get("x-kubernetes-list-type") != "set" or items is None:
        return ""
    match items.get("type"):
        case "array" if items.get("x-kubernetes-list-type") not in {None, "atomic"}:
            return "x-kubernetes-list-type"
        case "object" if items.get("x-kubernetes-map-type") != "atomic":
            return "x-kubernetes-map-type"
        case _:
            return ""


def _list_map_errors(schema: Schema, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    keys_path = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        errors.append(required(keys_path, "must not be empty if x-kubernetes-list-type is map"))
    items = schema.get("items")
    if items is None:
        errors.append(required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map"))
        return errors
    if not isinstance(items, Mapping):
        errors.append(invalid(f"{path}.items", items, "must only have a single schema if x-kubernetes-list-type is map"))
        return errors
    kind = items.get("type") or ""
    if kind != "object":
        errors.append(invalid(f"{path}.items.type", kind, "must be object if parent array's x-kubernetes-list-type is map"))
        return errors
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        if key not in properties:
            errors.append(invalid(keys_path, keys, "entries must all be names of item properties"))
        elif properties[key].get("type") in {"array", "object"}:
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            errors.append(invalid(f"{path}.items.properties[{key}].type", kind, detail))
        if key in keys[:index]:
            errors.append(invalid(keys_path, keys, "must not contain duplicate entries"))
    return errors


def map_key_errors(schema: Schema, path: str) -> list[FieldError]:
    """Items of sets and maps are never null; keys of maps are always there."""
    items = child_schema(schema, "items")
    list_type = schema.get("x-kubernetes-list-type")
    if items is None or list_type not in {"set", "map"}:
        return []
    errors = []
    if items.get("nullable"):
        errors.append(forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}"))
    if list_type == "map":
        properties = items.get("properties") or {}
        for key in schema.get("x-kubernetes-list-map-keys") or ():
            if (child := properties.get(key)) is None:
                continue
            child_path = f"{path}.items.properties[{key}]"
            if key not in (items.get("required") or ()) and child.get("default") is None:
                detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
                errors.append(required(f"{child_path}.default", detail))
            if child.get("nullable"):
                detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
                errors.append(forbidden(f"{child_path}.nullable", detail))
    return errors


def _rule_errors(schema: Schema, path: str, rules: SchemaRules) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        here = f"{path}.x-kubernetes-validations[{index}]"
        errors.extend(_one_rule_errors(rule, here))
        if (field_path := rule.get("fieldPath") or "") and not _has_field(schema, field_path, rules):
            errors.append(invalid(f"{here}.fieldPath", field_path, "must be a valid path"))
    return errors


def _has_field(schema: Schema, field_path: str, rules: SchemaRules) -> bool:
    """Whether a schema has a field, or cannot be asked: upstream looks for fields only in structural schemas."""
    try:
        node = rules.nodes.get(id(schema)) or read_schema(schema, index=rules.nodes)
        find_field(field_path, node)
    except FieldPathError:
        return any(map(has_unsupported, walk_schema(schema)))
    except SchemaTooDeepError:
        pass
    return True


def _one_rule_errors(rule: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    expression = (rule.get("rule") or "").strip()
    message = rule.get("message") or ""
    if not expression:
        errors.append(required(f"{path}.rule", "rule is not specified"))
    elif message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif _NEWLINE.search(message.strip()):
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    elif _NEWLINE.search(expression) and not message.strip():
        errors.append(required(f"{path}.message", "message must be specified if rule contains line breaks"))
    message_expression = rule.get("messageExpression") or ""
    if message_expression and not message_expression.strip():
        errors.append(required(f"{path}.messageExpression", "messageExpression must be non-empty if specified"))
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        errors.append(not_supported(f"{path}.reason", reason, _REASONS))
    field_path = rule.get("fieldPath") or ""
    if field_path and not field_path.strip():
        errors.append(invalid(f"{path}.fieldPath", field_path, "must be non-empty if specified"))
    if _NEWLINE.search(field_path):
        errors.append(invalid(f"{path}.fieldPath", field_path, "must not contain line breaks"))
    return errors
