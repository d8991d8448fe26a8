"""The versions of a CRD: schemas, subresources, printer columns, selectable fields.

Source: k8s.io/apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go`. What all versions have in common is checked once,
under the name that the internal type gives it (`spec.validation`, `spec.subresources`, …), because conversion from v1 hoists it there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, duplicate, forbidden, invalid, required, too_many
from kcp_py.apimachinery.meta.names import byte_length
from kcp_py.schema.crd.defaults import default_errors
from kcp_py.schema.crd.openapi_schema import SchemaRules, schema_errors
from kcp_py.schema.crd.printing import invalid_struct, members_set, printed_schema
from kcp_py.schema.crd.structure import has_unsupported, structural_errors
from kcp_py.schema.documents import Schema, walk_schema
from kcp_py.schema.rules.tree import compile_tree
from kcp_py.schema.structural.field_paths import FieldPathError, find_field
from kcp_py.schema.structural.nodes import Node, SchemaTooDeepError, read_schema

MAX_SELECTABLE_FIELDS: Final = 8
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_WARNING_MAX: Final = 256

_ROOT_KEYWORDS: Final = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength", "MinLength",
    "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties", "ExternalDocs", "Example",
    "XPreserveUnknownFields", "XValidations",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VersionRules:
    """Which rules apply to the schemas of a CRD."""

    schema: SchemaRules
    require_structural: bool = True
    require_pruned_defaults: bool = True
    selectable_fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What the stored versions have already, by name: as many may stay."""
    unchanged_schemas: frozenset[str] = frozenset()
    """The versions whose schemas are the stored ones: their rules may go on costing what they cost."""


def validation_errors(
    validation: Mapping[str, Any] | None, path: str, rules: VersionRules, *, has_status: bool, version: str = ""
) -> list[FieldError]:
    """The problems of one `schema` (in the internal type, `validation`), which is that of `version`."""
    schema: Schema | None = (validation or {}).get("openAPIV3Schema")
    if schema is None:
        return []
    path = f"{path}.openAPIV3Schema"
    nodes: dict[int, Node] = {}
    try:
        root = read_schema(schema, index=nodes)
    except SchemaTooDeepError as error:
        return [invalid(path, "", str(error))]
    errors = _root_errors(schema, path) if has_status else []
    if schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    schema_rules = dataclasses.replace(rules.schema, nodes=nodes)
    if not rules.require_structural:
        return errors + schema_errors(schema, path, schema_rules, root=True)
    documents = walk_schema(schema)
    if any(map(has_unsupported, documents)):
        errors.extend(schema_errors(schema, path, schema_rules, root=True))
        if not errors and any(document.get("$schema") for document in documents):
            # The one keyword of which only the conversion to a structural schema speaks.
            errors.append(invalid(path, "", "OpenAPIV3Schema 'schema' is not supported"))
        return errors
    if structural := structural_errors(schema, path):
        return errors + structural + schema_errors(schema, path, schema_rules, root=True)
    tree = compile_tree(root, schema)
    defaults = default_errors(root, path, tree, require_pruned=rules.require_pruned_defaults)
    problems = schema_errors(schema, path, schema_rules, root=True)
    errors.extend(defaults + problems)
    if not defaults and root.has_rules:
        from kcp_py.schema.crd.rule_checks import rule_errors  # noqa: PLC0415  # CEL is loaded where there are rules

        errors.extend(rule_errors(root, path, tree, problems, suppress_cost=version in rules.unchanged_schemas))
    return errors


def _root_errors(schema: Schema, path: str) -> list[FieldError]:
    """With a status subresource, `properties.status` is validated alone, so keywords at the root must not restrict it."""
    kind = schema.get("type") or ""
    for name in members_set(schema):
        if name == "Type" and kind != "object":
            detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            return [invalid(f"{path}.type", kind, detail)]
        if name not in _ROOT_KEYWORDS:
            detail = f"only [{' '.join(_ROOT_KEYWORDS)}] fields are allowed at the root of the schema if the status subresource is enabled"
            return [invalid_struct(path, printed_schema(schema), detail)]
    return []


def subresource_errors(subresources: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    """The problems of `subresources`: the paths of scale."""
    scale = (subresources or {}).get("scale")
    if scale is None:
        return []
    errors: list[FieldError] = []
    for name, parent in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        value = scale.get(name) or ""
        field = f"{path}.scale.{name}"
        if not value:
            errors.append(required(field))
        elif simple := _simple_path_errors(value, field):
            errors.extend(simple)
        elif not value.startswith(f"{parent}."):
            errors.append(invalid(field, value, f"should be a json path under {parent}"))
    if value := scale.get("labelSelectorPath"):
        field = f"{path}.scale.labelSelectorPath"
        if simple := _simple_path_errors(value, field):
            errors.extend(simple)
        elif not value.startswith((".spec.", ".status.")):
            errors.append(invalid(field, value, "should be a json path under either .spec or .status"))
    return errors


def _simple_path_errors(text: str, path: str) -> list[FieldError]:
    return [] if text.startswith(".") else [invalid(path, text, "must be a simple json path starting with .")]


def column_errors(columns: Sequence[Mapping[str, Any]] | None, path: str) -> list[FieldError]:
    """The problems of `additionalPrinterColumns`."""
    errors: list[FieldError] = []
    for index, column in enumerate(columns or ()):
        field = f"{path}[{index}]"
        if not column.get("name"):
            errors.append(required(f"{field}.name"))
        kind = column.get("type") or ""
        if kind not in _COLUMN_TYPES:
            detail = f"must be one of {','.join(_COLUMN_TYPES)}"
            errors.append(invalid(f"{field}.type", kind, detail) if kind else required(f"{field}.type", detail))
        if (form := column.get("format")) and form not in _COLUMN_FORMATS:
            errors.append(invalid(f"{field}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}"))
        json_path = column.get("jsonPath") or ""
        errors.extend(_simple_path_errors(json_path, f"{field}.JSONPath") if json_path else [required(f"{field}.JSONPath")])
    return errors


def selectable_field_errors(fields: Sequence[Mapping[str, Any]], root: Node, path: str, *, counted: bool) -> list[FieldError]:
    """The problems of `selectableFields`, whose paths have to exist in `root`; their number only where it is `counted`."""
    errors: list[FieldError] = []
    unique: set[tuple[str, ...]] = set()
    for index, selectable in enumerate(fields):
        field = f"{path}[{index}].jsonPath"
        text = selectable.get("jsonPath") or ""
        if not text:
            errors.append(required(field))
            continue
        try:
            found = find_field(text, root, array_notation=False)
        except FieldPathError as error:
            errors.append(invalid(field, text, f"is an invalid path: {error}"))
            continue
        if found.steps[0] == "metadata":
            errors.append(invalid(field, text, "must not point to fields in metadata"))
        if found.node.kind not in {"string", "boolean", "integer"}:
            detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
            errors.append(invalid(field, text, detail))
        if found.steps in unique:
            errors.append(duplicate(field, text))
        unique.add(found.steps)
    if counted and len(unique) > MAX_SELECTABLE_FIELDS:
        errors.append(too_many(path, len(unique), MAX_SELECTABLE_FIELDS))
    return errors


def deprecation_errors(version: Mapping[str, Any], path: str) -> list[FieldError]:
    """The problems of `deprecationWarning`."""
    warning = version.get("deprecationWarning")
    if warning is None:
        return []
    field = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        return [invalid(field, warning, "can only be set for deprecated versions")]
    errors = []
    if byte_length(warning) > _WARNING_MAX:
        errors.append(invalid(field, warning, f"must be <= {_WARNING_MAX} characters long"))
    if not warning:
        errors.append(invalid(field, warning, "must not be an empty string"))
    for index, character in enumerate(warning):
        if not character.isprintable():
            detail = "must only contain printable UTF-8 characters; non-printable character found at index"
            errors.append(invalid(field, warning, f"{detail} {byte_length(warning[:index])}"))
            break
    return errors
