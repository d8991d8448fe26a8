"""`withheld`: the parts of an identity that a caller cannot take on, whatever roles in its cluster allow. Pure.

An administrator of a cluster holds the verb `impersonate` there, but these groups and extra fields give permissions in all clusters.

Source: kcp `pkg/server/filters/impersonation.go` (`WithImpersonationGatekeeper`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kcp_py.golang.quoting import go_quote
from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.user import CLUSTER_NAME_EXTRA, SYSTEM_MASTERS, UserInfo

_GROUPS: Final = "system:kcp:"
_DOMAINS: Final = ("kcp.io", "kcp-py.io")


def withheld(user: UserInfo, cluster: ClusterSelection, groups: Sequence[str], extra: Mapping[str, Sequence[str]]) -> str:
    """Why a caller cannot act with groups and extra fields; empty where it can.

    Members of `system:masters` can take on everything, and other callers what they have themselves. The cluster of a service account can be
    the cluster of the request.

    Args:
        user: the caller.
        cluster: of the request.
        groups: of the wanted user.
        extra: of the wanted user.
    """
    if SYSTEM_MASTERS in user.groups:
        return ""
    for group in groups:
        if (group == SYSTEM_MASTERS or group.startswith(_GROUPS)) and group not in user.groups:
            return f"only members of the group {go_quote(group)} can impersonate it"
    for key, values in extra.items():
        held = user.extra.get(key, ())
        own = (cluster,) if key == CLUSTER_NAME_EXTRA else ()
        if _is_reserved(key) and any(value not in held and value not in own for value in values):
            return f"only users that have the extra field {go_quote(key)} can impersonate it"
    return ""


def _is_reserved(key: str) -> bool:
    domain = key.partition("/")[0].lower()
    return domain in _DOMAINS or domain.endswith(tuple(f".{one}" for one in _DOMAINS))
