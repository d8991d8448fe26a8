"""A read-only resource that is computed from another API, as metrics-server does it: for each namespace, the objects that it has.

The other API is that of any Kubernetes server, through a `RemoteClient`; here it is the control plane's own, through its client.

::

    python config/samples/library/proxied_usage.py 8080 &
    alias k='kubectl --server http://127.0.0.1:8080/clusters/team-a'
    k get namespaceusages -w &
    k create configmap one
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import uvicorn

from kcp_py import ComputedResource, ControlPlane, Credentials, GroupVersionResource, Name, Options, SnapshotStorage, UserInfo

COUNTED = (GroupVersionResource("", "v1", "configmaps"), GroupVersionResource("", "v1", "secrets"))


class NamespaceUsages(SnapshotStorage):
    """Counts objects in the source, with the rights of its client."""

    interval = 1.0
    freshness = 0.0

    async def items(self, cluster: Name) -> Sequence[dict[str, Any]]:
        source = control_plane.client  # or: RemoteClient(Path("other.kubeconfig"))
        counts: dict[str, Counter[str]] = {}
        for resource in COUNTED:
            found = await source.list(cluster, resource, metadata_only=True)
            for obj in found.items:
                counts.setdefault(obj["metadata"]["namespace"], Counter())[resource.resource] += 1
        return [{"metadata": {"name": name}, "usage": dict(usage)} for name, usage in counts.items()]


usages = ComputedResource(
    group="usage.example.com",
    version="v1beta1",
    resource="namespaceusages",
    kind="NamespaceUsage",
    namespaced=False,
    rest=NamespaceUsages(),
    columns=[{"name": name.capitalize(), "type": "integer", "jsonPath": f".usage.{name}"} for name in ("configmaps", "secrets")],
)
control_plane = ControlPlane(Options(storage="memory"), apis=[usages])


@control_plane.authenticator
async def everyone(_credentials: Credentials) -> UserInfo:
    """Each request is that of an administrator, so the server must listen on this machine only."""
    return UserInfo("me", groups=("system:masters",))


async def main(port: int) -> None:
    """Serve until interrupted."""
    async with control_plane:
        await uvicorn.Server(uvicorn.Config(control_plane.app, port=port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
