"""Kinds of Kubernetes that tests install and fill."""

from __future__ import annotations

from typing import Any

from kcp_py.apis.upstream.crds import crds_named
from tests.server.handlers.conftest import Api
from tests.server.handlers.widgets import install

PROTOBUF = "application/vnd.kubernetes.protobuf"
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
DEPLOYMENTS = "/clusters/a/apis/apps/v1/namespaces/default/deployments"
PODS = "/clusters/a/api/v1/namespaces/default/pods"
SERVICES = "/clusters/a/api/v1/namespaces/default/services"
APPLY = {"Content-Type": "application/apply-patch+yaml"}


def deployment(name: str = "web", **container: Any) -> dict[str, Any]:
    """A Deployment as people write it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "a", "image": "nginx:1.2", "ports": [{"containerPort": 80}], **container}]},
            },
        },
    }


def pod(name: str = "one", **spec: Any) -> dict[str, Any]:
    """A Pod as people write it."""
    containers = [{"name": "a", "image": "busybox"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


async def installed(api: Api, *names: str) -> None:
    """Have these kinds in cluster `a`."""
    for crd in crds_named(names):
        await install(api, crd)
