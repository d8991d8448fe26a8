"""CustomResourceDefinitions of the upstream kinds: their published schemas as structural schemas.

A server that has the data of a kind completes the properties that a CRD cannot express: patch keys, computed columns, defaults that
depend on other fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kcp_py.apis.upstream.deprecations import deprecation_warning
from kcp_py.apis.upstream.schemas import structural_schema
from kcp_py.bootstrap.upstream_kinds import UpstreamKind, upstream_kinds
from kcp_py.bootstrap.upstream_names import find_kinds

APPROVAL: Final = "api-approved.kubernetes.io"
"""The annotation without which a CRD may not define a kind in a group of Kubernetes' domains."""
_APPROVED_BY: Final = "https://github.com/kubernetes/api"
_PROTECTED: Final = (".k8s.io", ".kubernetes.io")

CONVERTED: Final = frozenset({("autoscaling", "HorizontalPodAutoscaler")})
"""Kinds whose versions have different forms, between which a server that knows the kind converts."""
_SCALE: Final = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def crds_named(names: Iterable[str]) -> list[dict[str, Any]]:
    """The CRDs of the kinds that names stand for; see `find_kinds`.

    Raises:
        UnknownKindError: a name stands for nothing that is known.
    """
    return crds_of(find_kinds(names))


def crds_of(kinds: Sequence[UpstreamKind]) -> list[dict[str, Any]]:
    """A CRD for each group and kind among `kinds`, with all versions that differ in their name alone from the preferred one.

    Those of other forms cannot be converted by a CRD.
    """
    return [_crd(*name) for name in dict.fromkeys((kind.group, kind.kind) for kind in kinds)]


def versions_of(group: str, kind: str) -> list[UpstreamKind]:
    """The versions in which the CRD of a kind offers it, the preferred and stored one first."""
    versions = sorted((row for row in upstream_kinds().values() if (row.group, row.kind) == (group, kind)), key=_preference)
    if (group, kind) in CONVERTED:
        return versions
    first = structural_schema(versions[0].model)
    return [row for row in versions if row is versions[0] or structural_schema(row.model) == first]


def _preference(row: UpstreamKind) -> tuple[bool, int]:
    # GA before beta, higher before lower: there is nothing else among their versions.
    stable, _, beta = row.version.removeprefix("v").partition("beta")
    return bool(beta), -int(stable) * 1000 - int(beta or 0)


def _crd(group: str, kind: str) -> dict[str, Any]:
    versions = versions_of(group, kind)
    row = versions[0]
    names: dict[str, Any] = {"kind": row.kind, "listKind": row.list_kind, "plural": row.plural, "singular": row.singular}
    if row.short_names:
        names["shortNames"] = list(row.short_names)
    if row.categories:
        names["categories"] = list(row.categories)
    metadata: dict[str, Any] = {"name": f"{row.plural}.{group or 'core'}"}
    if group.endswith(_PROTECTED):
        metadata["annotations"] = {APPROVAL: _APPROVED_BY}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if row.namespaced else "Cluster",
            "versions": [_version(version, storage=version is row) for version in versions],
        },
    }


def _version(row: UpstreamKind, *, storage: bool) -> dict[str, Any]:
    schema = structural_schema(row.model)
    version: dict[str, Any] = {"name": row.version, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}}
    if warning := deprecation_warning(row.group, row.version, row.kind):
        version |= {"deprecated": True, "deprecationWarning": warning}
    if row.subresources:
        version["subresources"] = {name: dict(_SCALE) if name == "scale" else {} for name in sorted(row.subresources, reverse=True)}
    if fields := [f".{label}" for label in row.field_labels if _is_scalar(schema, label)]:
        version["selectableFields"] = [{"jsonPath": path} for path in fields]
    return version


def _is_scalar(schema: Mapping[str, Any], path: str) -> bool:
    for name in path.split("."):
        schema = (schema.get("properties") or {}).get(name, {})
    return schema.get("type") in {"boolean", "integer", "string"}
