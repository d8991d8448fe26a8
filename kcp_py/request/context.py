"""`RequestContext`: the attributes of a request from the filters, frozen before any handler runs."""

from __future__ import annotations

from typing import NamedTuple

from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.sight import NO_CLUSTER, Sight
from kcp_py.request.user import UserInfo


class RequestContext(NamedTuple):
    """Built once, after authentication. Authorization and storage keys use the same `cluster`: there is no second parser."""

    audit_id: str
    cluster: ClusterSelection
    explicit_cluster: bool
    """Whether the client named the cluster, by path or header."""
    info: RequestInfo
    user: UserInfo
    warnings: list[str]
    """Texts for `Warning` headers; handlers append to it until the response starts."""
    audit_annotations: dict[str, str]
    """Annotations of admission plugins for the audit event of the request: `plugin.domain/key` -> value."""
    sight: Sight = NO_CLUSTER
    """What a request over all clusters may read, by its authorization."""
