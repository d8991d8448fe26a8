"""Derive the roles and bindings that every logical cluster inherits: kcp_py/bootstrap/rbac.json.

The source is kubernetes' own description of its policy, `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata`, in a checkout or a
module of k8s.io/kubernetes that is given as the argument. Run it from the repository's root:

    python hack/update_rbac_policy.py "$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)"

Roles of controllers that have nothing to do here (pods, nodes, volumes) are left out. The rules of roles that are composed of others are
filled in, as the aggregation controller does it. The output is deterministic, one object a line; what all objects have in common
(`apiVersion`, the label and the annotation of the policy) is left out of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

TESTDATA = Path("plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata")
OUTPUT = Path("kcp_py/bootstrap/rbac.json")
CONTROLLERS = {
    "certificate-controller",
    "clusterrole-aggregation-controller",
    "generic-garbage-collector",
    "legacy-service-account-token-cleaner",
    "namespace-controller",
    "resourcequota-controller",
    "root-ca-cert-publisher",
    "service-account-controller",
    "validatingadmissionpolicy-status-controller",
}
NAMESPACED = {"extension-apiserver-authentication-reader"}
FILES = {
    "clusterroles": ("cluster-roles.yaml", "controller-roles.yaml"),
    "clusterrolebindings": ("cluster-role-bindings.yaml", "controller-role-bindings.yaml"),
    "roles": ("namespace-roles.yaml",),
    "rolebindings": ("namespace-role-bindings.yaml",),
}
ANNOTATION = "rbac.authorization.kubernetes.io/autoupdate"
LABEL = "kubernetes.io/bootstrapping"


def is_wanted(name: str, *, namespaced: bool) -> bool:
    """Whether an object of the policy is of use in a logical cluster."""
    controller = name.removeprefix("system:controller:")
    if namespaced:
        return name in NAMESPACED
    return controller == name or controller in CONTROLLERS


def slim(obj: dict[str, Any]) -> dict[str, Any]:
    """An object without what all objects of the policy have."""
    metadata = obj["metadata"]
    assert metadata["annotations"] == {ANNOTATION: "true"}, metadata
    labels = {key: value for key, value in metadata["labels"].items() if key != LABEL}
    kept = {key: value for key, value in {"namespace": metadata.get("namespace"), "labels": labels}.items() if value}
    rest = {key: value for key, value in obj.items() if key not in {"apiVersion", "kind", "metadata"}}
    return {"metadata": {"name": metadata["name"], **kept}, **rest}


def aggregate(roles: list[dict[str, Any]]) -> None:
    """Fill in the rules of composed roles. Roles that are composed themselves are filled in first."""
    composed = [role for role in roles if "aggregationRule" in role]
    for _ in composed:
        for role in composed:
            rules: list[Any] = []
            for selector in role["aggregationRule"]["clusterRoleSelectors"]:
                for other in sorted(roles, key=lambda one: str(one["metadata"]["name"])):
                    labels = other["metadata"].get("labels") or {}
                    if other is not role and selector["matchLabels"].items() <= labels.items():
                        rules += [rule for rule in other["rules"] or [] if rule not in rules]
            role["rules"] = rules


def main() -> None:
    folder = Path(sys.argv[1]) / TESTDATA
    found = {}
    for resource, names in FILES.items():
        items = [item for name in names for item in yaml.safe_load((folder / name).read_text())["items"]]
        namespaced = resource.startswith("role")
        found[resource] = [slim(item) for item in items if is_wanted(item["metadata"]["name"], namespaced=namespaced)]
        found[resource].sort(key=lambda one: str(one["metadata"]["name"]))
    aggregate(found["clusterroles"])
    lines = [f'"{resource}":[\n' + ",\n".join(map(compact, items)) + "\n]" for resource, items in found.items()]
    OUTPUT.write_text("{" + ",\n".join(lines) + "}\n")
    print(OUTPUT, {resource: len(items) for resource, items in found.items()})


def compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


if __name__ == "__main__":
    main()
