"""`LogicalClusterLifecycle`: the rules about the object that stands for a logical cluster.

Source: kcp `pkg/admission/logicalcluster` and `pkg/admission/logicalclusterfinalizer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kcp_py.apimachinery import errors
from kcp_py.apis.access import GRANTS
from kcp_py.apis.kcp.logicalclusters import INACTIVE_ANNOTATION, LEGACY_INACTIVE_ANNOTATION
from kcp_py.apis.rbac.policy import CLUSTER_OPERATORS, KCP_ADMINS
from kcp_py.logicalcluster import ROOT, Name, is_system
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from kcp_py.registry.clusterlimits import LIMIT_ANNOTATIONS
from kcp_py.request.user import SYSTEM_MASTERS
from kcp_py.tenancy import LOGICAL_CLUSTER

_ADMINISTRATORS: Final = frozenset((SYSTEM_MASTERS, KCP_ADMINS))
_RESERVED_LABELS: Final = f"{GRANTS.group}/"
"""Grants that select clusters by these labels cannot be joined or left by administrators of single clusters."""
_SWITCHES: Final = (INACTIVE_ANNOTATION, LEGACY_INACTIVE_ANNOTATION)


class LogicalClusterLifecycle(AdmissionPlugin):
    """Fills `status.URL` of a new LogicalCluster, and refuses to delete the clusters that always exist.

    An administrator of one cluster may change labels, finalizers and annotations of its LogicalCluster. The specification, the status,
    whether the cluster is switched off, its limits, and labels of the domain of ClusterAccessGrants are for administrators of all
    clusters. Operators of clusters, who make and delete clusters, set limits, too. Others cannot delete a cluster with limits of its own,
    because a new cluster of its name would have none. Clusters whose names begin with `system:` are made by the server and by
    `system:masters` alone: they cannot be deleted.

    In kcp `spec.directlyDeletable` and the user's groups decide for every cluster whether it is deleted.
    """

    name = "LogicalClusterLifecycle"
    conforming = True
    operations = frozenset[Operation]({"CREATE", "UPDATE", "DELETE"})
    resources = frozenset({LOGICAL_CLUSTER.group_resource})

    def __init__(self, url_of: Callable[[Name], str]) -> None:
        """`url_of` tells where a cluster is reached; empty where that is not known."""
        self._url_of = url_of

    async def mutate(self, attributes: Attributes) -> None:
        """Let a LogicalCluster name its URL from the beginning (kcp: `status.URL`)."""
        if (
            attributes.operation == "CREATE"
            and attributes.obj is not None
            and (url := self._url_of(attributes.request.target.cluster_state.name))
        ):
            attributes.obj["status"]["URL"] = url

    async def validate(self, attributes: Attributes) -> None:
        """Keep `root`, the clusters of the system, and the fields of administrators of all clusters.

        Raises:
            StatusError: 403; for a deletion in kcp's words.
        """
        cluster = attributes.request.target.cluster_state.name
        if attributes.operation == "DELETE" and (cluster == ROOT or is_system(cluster)):
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, "LogicalCluster cannot be deleted")
        if attributes.operation == "CREATE" and is_system(cluster) and SYSTEM_MASTERS not in attributes.user.groups:
            message = f"only members of {SYSTEM_MASTERS} can create clusters of the system"
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, message)
        obj, old = attributes.obj, attributes.old
        if not _ADMINISTRATORS.isdisjoint(attributes.user.groups):
            return
        operator, refused = CLUSTER_OPERATORS in attributes.user.groups, ""
        if attributes.operation == "UPDATE" and obj is not None and old is not None:
            if changed := _reserved_change(obj, old, "status" if attributes.subresource else "spec", limits=not operator):
                refused = f"change {changed}"
        elif not operator and (
            limit := next((name for name in LIMIT_ANNOTATIONS if name in _annotations(obj if old is None else old)), "")
        ):
            refused = f"set the annotation {limit}" if old is None else f"delete a logical cluster with the annotation {limit}"
        if refused:
            message = f"only administrators of all clusters can {refused}"
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, message)


def _reserved_change(obj: Mapping[str, Any], old: Mapping[str, Any], member: str, *, limits: bool) -> str:
    """The field that a write changes and only administrators of all clusters can change; empty where there is none.

    Args:
        obj: the new object.
        old: the object as it is.
        member: that is reserved.
        limits: whether limits are such fields.
    """
    if obj.get(member) != old.get(member):
        return member
    annotations, before = _annotations(obj), _annotations(old)
    names = (*_SWITCHES, *LIMIT_ANNOTATIONS) if limits else _SWITCHES
    if switched := next((name for name in names if annotations.get(name) != before.get(name)), ""):
        return f"the annotation {switched}"
    labels, before = (one["metadata"].get("labels") or {} for one in (obj, old))
    reserved = (name for name in sorted({*labels, *before}) if name.startswith(_RESERVED_LABELS) and labels.get(name) != before.get(name))
    return next((f"the label {name}" for name in reserved), "")


def _annotations(obj: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {} if obj is None else obj["metadata"].get("annotations") or {}
