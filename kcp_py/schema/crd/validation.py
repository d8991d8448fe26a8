"""The rules of CustomResourceDefinitions, over decoded apiextensions.k8s.io/v1 objects.

Source: k8s.io/apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go`, `v1/defaults.go`, `v1/conversion.go` and
`pkg/registry/customresourcedefinition/strategy.go`. Fields are named as in the internal type, which upstream validates: clients match
those paths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kcp_py.apimachinery.equality import equal
from kcp_py.apimachinery.fielderrors import FieldError, invalid, not_supported, required
from kcp_py.apimachinery.formats import is_recognized
from kcp_py.apimachinery.meta.names import dns_1035_label_problems, dns_subdomain_problems
from kcp_py.golang.quoting import go_quote
from kcp_py.schema.crd.conversion import bundle_errors, conversion_errors, knows_review_version
from kcp_py.schema.crd.defaults import has_unpruned_defaults
from kcp_py.schema.crd.names import approval_errors, missing_names, names_errors
from kcp_py.schema.crd.names_conditions import is_condition_true
from kcp_py.schema.crd.openapi_schema import TYPES, SchemaRules, map_key_errors, non_atomic_set_item
from kcp_py.schema.crd.patterns import cost_errors
from kcp_py.schema.crd.printing import invalid_struct, printed_versions
from kcp_py.schema.crd.shape import crd_shape
from kcp_py.schema.crd.structure import is_structural
from kcp_py.schema.crd.versions import (
    VersionRules,
    column_errors,
    deprecation_errors,
    selectable_field_errors,
    subresource_errors,
    validation_errors,
)
from kcp_py.schema.documents import Schema, child_schema, walk_schema
from kcp_py.schema.structural.nodes import SchemaTooDeepError, read_schema

Crd = Mapping[str, Any]
Version = Mapping[str, Any]


def default_crd(crd: dict[str, Any]) -> None:
    """Fill what the v1 defaults fill, in place: singular, listKind, conversion, the port of the conversion service."""
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(kind := names.get("kind"), str) and kind:
        if not names.get("singular"):
            names["singular"] = kind.lower()
        if not names.get("listKind"):
            names["listKind"] = f"{kind}List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    conversion = spec["conversion"]
    if not isinstance(conversion, dict):
        return
    client = (conversion.get("webhook") or {}).get("clientConfig") if isinstance(conversion.get("webhook"), dict) else None
    if isinstance(client, dict) and isinstance(service := client.get("service"), dict):
        service.setdefault("port", 443)


def initial_status(crd: Crd) -> dict[str, Any]:
    """The status with which a CRD is created: whatever the client sent, only its storage version is known to be stored."""
    stored = [version["name"] for version in crd["spec"].get("versions") or () if version.get("storage")][:1]
    return {"acceptedNames": {"plural": "", "kind": ""}, "conditions": [], "storedVersions": stored}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """The rules that are enforced. An update may keep violations that the stored CRD already has."""

    versions: VersionRules
    require_schema: bool
    require_review_version: bool
    immutable_names: bool
    allow_invalid_bundle: bool


BUILTIN_GROUPS = frozenset({"", "apps", "autoscaling", "batch", "extensions", "policy"})
"""The groups of Kubernetes that are not domains. kcp lets CRDs bring their kinds to a cluster that does not have them; those of the core
group, which has the empty name, are called `<plural>.core`."""


def crd_name(spec: Mapping[str, Any]) -> str:
    """The name that a CRD with this spec has to have."""
    return f"{(spec.get('names') or {}).get('plural') or ''}.{'core' if spec.get('group') == '' else spec.get('group') or ''}"


def validate_crd(crd: Crd, old: Crd | None = None, *, builtin_groups: frozenset[str] = BUILTIN_GROUPS) -> list[FieldError]:
    """Every problem of a CRD that is created, or with `old`, updated.

    What the generic rules for metadata see is left to them, except that the name must be the plural and the group.
    `status.storedVersions` must be filled before, as `initial_status` and the rules for updates do.
    Groups in `builtin_groups` need not be domains.
    """
    if errors := crd_shape().validate(dict(crd)):
        return errors
    spec: Mapping[str, Any] = crd.get("spec") or {}
    status: Mapping[str, Any] = crd.get("status") or {}
    old_schemas = _schemas((old or {}).get("spec") or {})
    if errors := cost_errors(*([node for schema in schemas for node in walk_schema(schema)] for schemas in (_schemas(spec), old_schemas))):
        return errors
    if old is None:
        name = (crd.get("metadata") or {}).get("name") or ""
        if name and name != crd_name(spec):
            errors.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    rules = _rules(old, spec)
    errors.extend(_group_errors(spec, builtin_groups))
    errors.extend(_spec_errors(spec, rules))
    if old is not None:
        errors.extend(_immutable_errors(spec, old.get("spec") or {}, rules))
    errors.extend(names_errors(status.get("acceptedNames") or {}, "status.acceptedNames"))
    errors.extend(stored_version_errors(status.get("storedVersions"), spec.get("versions") or []))
    errors.extend(approval_errors(crd, old))
    if spec.get("preserveUnknownFields") and not ((old or {}).get("spec") or {}).get("preserveUnknownFields"):
        detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        errors.append(invalid("spec.preserveUnknownFields", value=True, detail=detail))
    return errors


def _rules(old: Crd | None, new: Mapping[str, Any]) -> _Rules:
    if old is None:
        return _Rules(
            versions=VersionRules(schema=SchemaRules()),
            require_schema=True,
            require_review_version=True,
            immutable_names=False,
            allow_invalid_bundle=True,
        )
    spec = old.get("spec") or {}
    schemas = _schemas(spec)
    nodes = [node for schema in schemas for node in walk_schema(schema)]
    structural = all(map(is_structural, schemas))
    established = is_condition_true(old, "Established")
    webhook = (spec.get("conversion") or {}).get("webhook") or {}
    bundle = (webhook.get("clientConfig") or {}).get("caBundle")
    return _Rules(
        versions=VersionRules(
            schema=SchemaRules(
                require_valid_types=all(not node.get("type") or node["type"] in TYPES for node in nodes),
                require_atomic_sets=not any(map(non_atomic_set_item, nodes)),
                require_map_keys=not any(map_key_errors(node, "") for node in nodes),
            ),
            require_structural=structural,
            selectable_fields={version.get("name") or "": version.get("selectableFields") for version in spec.get("versions") or ()},
            unchanged_schemas=_unchanged_schemas(spec, new),
            require_pruned_defaults=not structural or not any(has_unpruned_defaults(read_schema(schema)) for schema in schemas),
        ),
        require_schema=len(schemas) == len(spec.get("versions") or ()),
        require_review_version=knows_review_version(webhook.get("conversionReviewVersions") or []),
        immutable_names=established,
        allow_invalid_bundle=not established or bool(bundle and bundle_errors(bundle, "caBundle")),
    )


def _unchanged_schemas(spec: Mapping[str, Any], new: Mapping[str, Any]) -> frozenset[str]:
    """The versions of a specification that have the same schema in a new one."""
    before = {version.get("name") or "": version.get("schema") for version in spec.get("versions") or ()}
    now = {version.get("name") or "": version.get("schema") for version in new.get("versions") or ()}
    return frozenset(name for name, schema in now.items() if name in before and equal(before[name], schema))


def _schemas(spec: Mapping[str, Any]) -> list[Schema]:
    found = (child_schema(version.get("schema") or {}, "openAPIV3Schema") for version in spec.get("versions") or ())
    return [schema for schema in found if schema is not None]


def _spec_errors(spec: Mapping[str, Any], rules: _Rules) -> list[FieldError]:
    errors: list[FieldError] = []
    versions: Sequence[Version] = spec.get("versions") or []
    scope = spec.get("scope") or ""
    if not scope:
        errors.append(required("spec.scope"))
    elif scope not in {"Cluster", "Namespaced"}:
        errors.append(not_supported("spec.scope", scope, ("Cluster", "Namespaced")))
    errors.extend(_missing_schema_errors(versions, spec, rules))
    preserve = bool(spec.get("preserveUnknownFields"))
    nodes = [node for schema in _schemas(spec) for node in walk_schema(schema)]
    has_defaults = any(node.get("default") is not None for node in nodes)
    if has_defaults and preserve:
        detail = "must be false in order to use defaults in the schema"
        errors.append(invalid("spec.preserveUnknownFields", value=True, detail=detail))
    schema_rules = rules.versions
    if not preserve or has_defaults or any(map(_has_extension, nodes)):
        schema_rules = replace(schema_rules, require_structural=True)
    errors.extend(_versions_errors(spec.get("versions"), schema_rules))
    names = spec.get("names") or {}
    errors.extend(missing_names(names, "spec.names"))
    errors.extend(names_errors(names, "spec.names"))
    errors.extend(_hoisted_errors(versions, schema_rules))
    conversion = spec.get("conversion")
    if preserve and conversion is not None and conversion.get("strategy") != "None":
        detail = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid("spec.conversion.strategy", conversion.get("strategy") or "", detail))
    errors.extend(
        conversion_errors(
            conversion,
            "spec.conversion",
            require_known_version=rules.require_review_version,
            allow_invalid_bundle=rules.allow_invalid_bundle,
        )
    )
    return errors


_EXTENSIONS = (
    "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-validations",
)  # fmt: skip


def _has_extension(node: Schema) -> bool:
    return (
        any(node.get(name) for name in _EXTENSIONS)
        or node.get("x-kubernetes-preserve-unknown-fields") is not None
        or node.get("x-kubernetes-list-type") is not None
    )


def _group_errors(spec: Mapping[str, Any], builtin_groups: frozenset[str]) -> list[FieldError]:
    group = spec.get("group")
    if group in builtin_groups:
        return []
    if not group:
        return [required("spec.group")]
    if problems := dns_subdomain_problems(group):
        return [invalid("spec.group", group, ",".join(problems))]
    if "." not in group:
        return [invalid("spec.group", group, "should be a domain with at least one dot")]
    return []


def _missing_schema_errors(versions: Sequence[Version], spec: Mapping[str, Any], rules: _Rules) -> list[FieldError]:
    missing = [index for index, version in enumerate(versions) if child_schema(version.get("schema") or {}, "openAPIV3Schema") is None]
    detail = ""
    if not rules.require_schema:
        if spec.get("preserveUnknownFields"):
            return []
        missing = [index for index in missing if versions[index].get("served")]
        detail = "because otherwise all fields are pruned"
    return [required(f"spec.versions[{index}].schema.openAPIV3Schema", detail) for index in missing]


def _common(versions: Sequence[Version], name: str) -> Any:
    """What all versions have in common under a name, so that the internal type has it once; None where they differ."""
    first = versions[0].get(name) if versions else None
    return first if all(version.get(name) == first for version in versions) else None


def _has_status(version: Version) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


_HOISTED = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def _versions_errors(given: Sequence[Version] | None, rules: VersionRules) -> list[FieldError]:
    errors: list[FieldError] = []
    versions = given or []
    hoisted = frozenset(name for name in _HOISTED if _common(versions, name) is not None)
    seen: set[str] = set()
    unique = True
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        name = version.get("name") or ""
        unique = unique and name not in seen
        seen.add(name)
        if problems := dns_1035_label_problems(name):
            errors.append(invalid(f"{path}.name", name, ",".join(problems)))
        errors.extend(deprecation_errors(version, path))
        schema = version.get("schema")
        if "schema" not in hoisted:
            errors.extend(validation_errors(schema, f"{path}.schema", rules, has_status=_has_status(version), version=name))
        if "subresources" not in hoisted:
            errors.extend(subresource_errors(version.get("subresources"), f"{path}.subresources"))
        if "additionalPrinterColumns" not in hoisted:
            errors.extend(column_errors(version.get("additionalPrinterColumns"), f"{path}.additionalPrinterColumns"))
        if "selectableFields" not in hoisted and version.get("selectableFields"):
            errors.extend(_selectable_errors(version, f"{path}.selectableFields", rules, hoisted="schema" in hoisted))
    if not unique:
        errors.append(_wrong_versions(given, hoisted, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        errors.append(_wrong_versions(given, hoisted, "must have exactly one version marked as storage version"))
    first = (versions[0].get("name") or "") if versions else ""
    if first and (problems := dns_1035_label_problems(first)):
        # The internal type has the name of the first version a second time.
        errors.append(invalid("spec.version", first, ",".join(problems)))
    return errors


def _wrong_versions(versions: Sequence[Version] | None, hoisted: frozenset[str], detail: str) -> FieldError:
    return invalid_struct("spec.versions", None if versions is None else printed_versions(versions, hoisted), detail)


def _hoisted_errors(versions: Sequence[Version], rules: VersionRules) -> list[FieldError]:
    errors: list[FieldError] = []
    if (schema := _common(versions, "schema")) is not None:
        has_status = any(map(_has_status, versions))
        errors.extend(validation_errors(schema, "spec.validation", rules, has_status=has_status, version=versions[0].get("name") or ""))
    errors.extend(subresource_errors(_common(versions, "subresources"), "spec.subresources"))
    errors.extend(column_errors(_common(versions, "additionalPrinterColumns"), "spec.additionalPrinterColumns"))
    if _common(versions, "selectableFields"):
        if schema is None:
            return [*errors, invalid("spec.selectableFields", "", "may only be set when validations.schema is included")]
        errors.extend(_selectable_errors(versions[0], "spec.selectableFields", rules))
    return errors


def _selectable_errors(version: Version, path: str, rules: VersionRules, *, hoisted: bool = False) -> list[FieldError]:
    """`hoisted`: whether the schema moved to the specification, where upstream does not look for it."""
    schema = child_schema(version.get("schema") or {}, "openAPIV3Schema")
    if schema is None or hoisted:
        return [invalid(path, "", "may only be set when `version.schema.openAPIV3Schema` is not included")]
    fields = version["selectableFields"]
    counted = rules.selectable_fields.get(version.get("name") or "") != fields
    try:
        root = read_schema(schema)
    except SchemaTooDeepError:
        return []  # which is an error of the schema
    return selectable_field_errors(fields, root, path, counted=counted)


def _immutable_errors(spec: Mapping[str, Any], old: Mapping[str, Any], rules: _Rules) -> list[FieldError]:
    names, old_names = spec.get("names") or {}, old.get("names") or {}
    pairs = [
        ("spec.scope", spec.get("scope"), old.get("scope")),
        ("spec.names.kind", names.get("kind"), old_names.get("kind")),
    ]
    if not rules.immutable_names:
        pairs.clear()
    pairs.extend([("spec.group", spec.get("group"), old.get("group")), ("spec.names.plural", names.get("plural"), old_names.get("plural"))])
    return [invalid(path, new or "", "field is immutable") for path, new, before in pairs if (new or "") != (before or "")]


def stored_version_errors(stored: list[str] | None, versions: Sequence[Version]) -> list[FieldError]:
    """The rules of `status.storedVersions`, which `/status` may shrink."""
    path = "status.storedVersions"
    if not stored:
        return [invalid(path, stored, "must have at least one stored version")]
    errors: list[FieldError] = []
    present: set[str] = set()
    for version in versions:
        name = version.get("name") or ""
        if version.get("storage") and (name not in stored or name in present):
            errors.append(invalid(path, stored, f"must have the storage version {name}"))
        present.add(name)
    errors.extend(
        invalid(
            f"{path}[{index}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage "
            f"migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions",
        )
        for index, name in enumerate(stored)
        if name not in present
    )
    return errors


def warnings_for_crd(crd: Crd, old: Crd | None = None) -> list[str]:
    """Texts for `Warning` headers: unrecognised formats (on update, new ones) and sets of objects."""
    nodes = [node for schema in _schemas(crd.get("spec") or {}) for node in walk_schema(schema)]
    before = [node for schema in _schemas((old or {}).get("spec") or {}) for node in walk_schema(schema)]
    warnings = [f"unrecognized format {go_quote(name)}" for name in sorted(_formats(nodes) - _formats(before))]
    warnings.extend(
        f'x-kubernetes-list-type: set for items of type "{kind}" is not supported by server-side apply or CEL validation rules'
        for kind in sorted(_container_sets(nodes) - _container_sets(before))
    )
    return warnings


def _formats(nodes: list[Schema]) -> set[str]:
    return {
        name for node in nodes if isinstance(name := node.get("format"), str) and name and not is_recognized(name, node.get("type") or "")
    }


def _container_sets(nodes: list[Schema]) -> set[str]:
    """The types of elements of sets that are not scalars."""
    kinds = {(child_schema(node, "items") or {}).get("type") for node in nodes if node.get("x-kubernetes-list-type") == "set"}
    return {kind for kind in kinds if kind in {"array", "object"}}
