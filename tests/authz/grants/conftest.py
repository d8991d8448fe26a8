"""ClusterAccessGrants of an administrator, and requests of the users that they name."""

from __future__ import annotations

from typing import Any, Final

from tests.authz.conftest import rule
from tests.server.handlers.conftest import Api

GRANTS: Final = "/clusters/root/apis/access.kcp-py.dev/v1alpha1/clusteraccessgrants"
ALICE: Final[dict[str, Any]] = {"kind": "User", "name": "alice"}
MERGE: Final = {"Content-Type": "application/merge-patch+json"}


def grant(name: str, clusters: dict[str, Any], *rules: dict[str, Any], subjects: tuple[dict[str, Any], ...] = (ALICE,)) -> dict[str, Any]:
    """A grant for alice to read config maps, unless other rules are given."""
    spec = {"subjects": list(subjects), "rules": list(rules) or [rule("get list watch", "configmaps")], "clusters": clusters}
    return {"apiVersion": "access.kcp-py.dev/v1alpha1", "kind": "ClusterAccessGrant", "metadata": {"name": name}, "spec": spec}


def config_maps(cluster: str, namespace: str = "default") -> str:
    """The path of the config maps of a cluster, or of all of them (`*`)."""
    return f"/clusters/{cluster}/api/v1/namespaces/{namespace}/configmaps"


def everywhere(path: str = "api/v1/configmaps") -> str:
    """A path over all clusters."""
    return f"/clusters/*/{path}"


def logical_cluster(cluster: str) -> str:
    """The path of the object of a cluster."""
    return f"/clusters/{cluster}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"


async def fill(api: Api, *clusters: str) -> None:
    """Store the config map `one` in clusters."""
    for cluster in clusters:
        await api.ok("POST", config_maps(cluster), {"metadata": {"name": "one"}})


async def label(api: Api, cluster: str, **labels: str | None) -> None:
    """Change labels of a cluster; None removes one."""
    await api.ok("PATCH", logical_cluster(cluster), {"metadata": {"labels": labels}}, headers=MERGE)


def places(listed: dict[str, Any]) -> list[str]:
    """Cluster and name of each item of a list."""
    return [f"{one['metadata']['annotations']['kcp.io/cluster']}/{one['metadata']['name']}" for one in listed["items"]]
