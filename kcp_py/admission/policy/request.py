"""A write as expressions of policies see it.

Source: k8s.io/apiserver `pkg/admission/plugin/cel/condition.go` (`CreateAdmissionRequest`, `CreateNamespaceObject`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from kcp_py.apimachinery.meta.options import CreateOptions, DeleteOptions
from kcp_py.registry.admission import Attributes
from kcp_py.registry.writerequest import WriteOptions

_NAMESPACE_METADATA: Final = (
    *("annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName", "generation"),
    *("labels", "name", "namespace", "resourceVersion", "uid"),
)


def request_value(attributes: Attributes, kind: GroupVersionKind, resource: GroupVersionResource) -> dict[str, Any]:
    """The variable `request`. Fields that are empty are absent, as in upstream's JSON.

    Args:
        attributes: the write.
        kind: of the objects as expressions see them.
        resource: as which the policy selected the request.
    """
    own = own_kind(attributes)
    user = attributes.user
    info = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    request: dict[str, Any] = {
        "kind": _kind_value(kind),
        "resource": _resource_value(resource),
        "subResource": attributes.subresource,
        "requestKind": _kind_value(own),
        "requestResource": _resource_value(own_resource(attributes)),
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
        "userInfo": {key: value for key, value in info.items() if value},
        "dryRun": attributes.dry_run,
        "options": options_value(attributes.operation, attributes.options),
    }
    return {key: value for key, value in request.items() if value not in ("", None)}


def own_kind(attributes: Attributes) -> GroupVersionKind:
    """The kind of the objects of a write. The bodies of some subresources are of other kinds than their resource."""
    resource, obj = attributes.resource, attributes.obj
    if attributes.subresource and obj is not None:
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
        if isinstance(api_version, str) and isinstance(kind, str):
            group, _, version = api_version.rpartition("/")
            return GroupVersionKind(group, version, kind)
    return resource.group_version_kind


def own_resource(attributes: Attributes) -> GroupVersionResource:
    """The resource of a write."""
    return attributes.resource.key


def _kind_value(kind: GroupVersionKind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource_value(resource: GroupVersionResource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "resource": resource.resource}


def options_value(operation: str, options: WriteOptions) -> dict[str, Any] | None:
    """The options of a write as an object. Those of a patch are those of the update or the create that it becomes.

    Connections have none.
    """
    if operation == "CONNECT":
        return None
    value: dict[str, Any] = {"apiVersion": "meta.k8s.io/v1"}
    if options.dry_run:
        value["dryRun"] = ["All"]
    match options:
        case CreateOptions():
            value["kind"] = "CreateOptions" if operation == "CREATE" else "UpdateOptions"
            if options.field_manager:
                value["fieldManager"] = options.field_manager
            if options.field_validation:
                value["fieldValidation"] = options.field_validation
        case DeleteOptions():
            value["kind"] = "DeleteOptions"
            given = {
                "gracePeriodSeconds": options.grace_period_seconds,
                "orphanDependents": options.orphan_dependents,
                "propagationPolicy": options.propagation_policy,
            }
            value |= {field: one for field, one in given.items() if one is not None}
    return value


def namespace_value(namespace: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The variable `namespaceObject`: a namespace without owners and managed fields."""
    if namespace is None:
        return None
    metadata = namespace["metadata"]
    return {
        "metadata": {field: metadata[field] for field in _NAMESPACE_METADATA if field in metadata},
        "spec": namespace.get("spec") or {},
        "status": namespace.get("status") or {},
    }
