"""Discovery documents, as pure functions of the resources that a cluster serves.

Source: k8s.io/apiserver `pkg/endpoints/discovery`, `pkg/endpoints/discovery/aggregated`; group and version order: kubernetes
`pkg/controlplane/apiserver/aggregator.go`, apimachinery `pkg/version` (`CompareKubeAwareVersionStrings`), apiextensions
`pkg/apiserver/customresource_discovery_controller.go`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import orjson

from kcp_py.registry.resource import ServedResource
from kcp_py.registry.subresources import Subresource

AGGREGATED_TYPE: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The media type of the aggregated form, in Accept and in Content-Type: clients decide by the latter."""

_BUILTIN_GROUPS: Final = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "resource.k8s.io",
    "storagemigration.k8s.io",
)
"""From the most to the least preferred. All others come behind them, by name."""
_GROUP_RANK: Final = {group: rank for rank, group in enumerate(_BUILTIN_GROUPS)}

_VERSION: Final = re.compile(r"v([0-9]{1,18})(?:(alpha|beta)([0-9]{1,18}))?", re.ASCII)
_STAGES: Final = {"alpha": 0, "beta": 1, None: 2}


class Document(NamedTuple):
    """A document ready to be sent."""

    body: bytes
    etag: str
    """With its quotes."""


def group_order(group: str) -> tuple[int, str]:
    """Sorts groups from the most to the least preferred."""
    return _GROUP_RANK.get(group, len(_BUILTIN_GROUPS)), group


def version_order(version: str) -> tuple[int, int, int, int, str]:
    """Sorts versions from the most to the least preferred: GA before beta before alpha, higher before lower, all else by name behind."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return 1, 0, 0, 0, version
    major, stage, minor = match.groups()
    return 0, -_STAGES[stage], -int(major), -int(minor or 0), version


def etag_of(body: bytes) -> str:
    """The entity tag of a document: its SHA-512."""
    return etag_of_digest(hashlib.sha512(body).digest())


def etag_of_digest(digest: bytes) -> str:
    """The entity tag of a document with a digest, in upper-case hexadecimal as upstream's."""
    return f'"{digest.hex().upper()}"'


class Discovery:
    """The documents of one set of resources.

    Each is made when first asked for and kept; the caller keeps the object by the set's identity.
    """

    def __init__(self, resources: Iterable[ServedResource], *, server_address: str = "") -> None:
        """Sort the resources into groups and versions.

        Args:
            resources: each in each version in which it is served.
            server_address: `host:port` for the legacy documents' `serverAddressByClientCIDRs`; left out when empty.
        """
        groups: dict[str, dict[str, list[ServedResource]]] = {}
        for resource in resources:
            groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
        self._groups: dict[str, dict[str, list[ServedResource]]] = {
            group: {
                version: sorted(groups[group][version], key=lambda resource: resource.resource)
                for version in sorted(groups[group], key=version_order)
            }
            for group in sorted(groups, key=group_order)
        }
        self._server_address = server_address
        self._made: dict[tuple[str, ...], Document] = {}

    def core_versions(self) -> Document:
        """`/api`."""
        return self._document(("core",), lambda: _core_versions(self._groups.get("", {}), self._server_address))

    def groups(self) -> Document:
        """`/apis`."""
        return self._document(("groups",), lambda: _group_list(self._groups))

    def group(self, group: str) -> Document | None:
        """`/apis/<group>`; None where the group is not served."""
        versions = self._groups.get(group)
        if not group or versions is None:
            return None
        return self._document(("group", group), lambda: {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)})

    def resources(self, group: str, version: str) -> Document | None:
        """`/api/v1`, `/apis/<group>/<version>`; None where that is not served."""
        resources = self._groups.get(group, {}).get(version)
        if resources is None:
            return None
        return self._document(("resources", group, version), lambda: resource_list(group, version, resources))

    def aggregated_core(self) -> Document:
        """`/api` in the aggregated form."""
        return self._document(("aggregated", "core"), lambda: _aggregated({"": self._groups[""]} if "" in self._groups else {}))

    def aggregated(self) -> Document:
        """`/apis` in the aggregated form."""
        return self._document(("aggregated",), lambda: _aggregated({name: group for name, group in self._groups.items() if name}))

    def _document(self, key: tuple[str, ...], make: Any) -> Document:
        document = self._made.get(key)
        if document is None:
            body = orjson.dumps(make())
            document = self._made[key] = Document(body, etag_of(body))
        return document


def resource_list(group: str, version: str, resources: Sequence[ServedResource]) -> dict[str, Any]:
    """An APIResourceList. Its resources come sorted by name, a subresource behind its parent."""
    group_version = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        **({"apiVersion": "v1"} if group else {}),
        "groupVersion": group_version,
        "resources": [entry for resource in resources for entry in _entries(resource)],
    }


def _core_versions(versions: Mapping[str, Any], server_address: str) -> dict[str, Any]:
    return {
        "kind": "APIVersions",
        "versions": list(versions),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}] if server_address else [],
    }


def _group_list(groups: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name, versions) for name, versions in groups.items() if name]}


def _group(group: str, versions: Mapping[str, Any]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _entries(resource: ServedResource) -> list[dict[str, Any]]:
    entry: dict[str, Any] = {
        "name": resource.resource,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.storage_version_hash:
        entry["storageVersionHash"] = resource.storage_version_hash
    return [
        entry,
        *(
            {
                "name": f"{resource.resource}/{subresource.name}",
                "singularName": "",
                "namespaced": resource.namespaced,
                **_named_kind(resource, subresource),
                "verbs": list(subresource.verbs),
            }
            for subresource in resource.subresources.values()
        ),
    ]


def _named_kind(resource: ServedResource, subresource: Subresource) -> Mapping[str, str]:
    """The kind of a subresource, with its group and version where they are not those of the resource."""
    kind = subresource.kind
    if kind is None or (kind.group, kind.version) == (resource.group, resource.version):
        return {"kind": resource.kind if kind is None else kind.kind}
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _kind_of(subresource: Subresource) -> Mapping[str, str] | None:
    """The kind of a subresource, where it is not that of the resource."""
    kind = subresource.kind
    return {"group": kind.group, "version": kind.version, "kind": kind.kind} if kind is not None else None


def _aggregated(groups: Mapping[str, Mapping[str, Sequence[ServedResource]]]) -> dict[str, Any]:
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None},
                "versions": [
                    {"version": version, "resources": [_encoded_entry(resource) for resource in resources], "freshness": "Current"}
                    for version, resources in versions.items()
                ],
            }
            for group, versions in groups.items()
        ],
    }


_ENCODED: Final[WeakKeyDictionary[ServedResource, orjson.Fragment]] = WeakKeyDictionary()
"""Entries by their resource: clusters that serve the same share it, and one more CRD changes no other's."""


def _encoded_entry(resource: ServedResource) -> orjson.Fragment:
    if (known := _ENCODED.get(resource)) is None:
        known = _ENCODED[resource] = orjson.Fragment(orjson.dumps(_aggregated_entry(resource)))
    return known


def _aggregated_entry(resource: ServedResource) -> dict[str, Any]:
    response_kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    entry: dict[str, Any] = {
        "resource": resource.resource,
        "responseKind": response_kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    subresources = [
        {"subresource": subresource.name, "responseKind": _kind_of(subresource) or response_kind, "verbs": list(subresource.verbs)}
        for subresource in resource.subresources.values()
    ]
    if subresources:
        entry["subresources"] = subresources
    return entry
