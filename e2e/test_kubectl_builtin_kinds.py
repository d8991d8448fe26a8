"""Every version of kubectl with kinds of Kubernetes that a cluster has as CRDs: workloads, services, and what hangs on what."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from e2e.conftest import Kubectl, ServerProcess, lines_of
from e2e.informer import TIMEOUT, Watch, create_definition
from e2e.kubectl_versions import each_kubectl, manifests
from kcp_py import builtin_definitions

MERGE = {"Content-Type": "application/merge-patch+json"}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]},
}


def deployment(image: str, **spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    containers = [{"name": "web", "image": image, "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "500m"}}}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def images_of(team: Kubectl) -> dict[str, str]:
    containers = team.json("get", "deploy", "web")["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["image"] for one in containers}


def install(team: Kubectl, server: ServerProcess, *kinds: str) -> None:
    for one in builtin_definitions(*kinds):
        create_definition(server, team.server.rpartition("/")[2], one)


@each_kubectl("deployments, services and pods: create, run, expose, apply, diff, set, patch, scale, wait, describe, explain")
def test_workloads(kubectl_version: Callable[[str], Kubectl], server: ServerProcess) -> None:
    """Commands that know a kind find it; what is applied twice is unchanged; containers and ports are merged by their keys."""
    team = kubectl_version("workloads")
    install(team, server, "deployments.apps", "replicasets.apps", "pods", "services")
    applied = manifests(deployment("nginx:1"), SERVICE)
    assert team.complete("diff", "-f", "-", stdin=applied).returncode == 1
    assert team.run("apply", "-f", "-", stdin=applied).split()[1::2] == ["created", "created"]
    assert team.run("apply", "-f", "-", stdin=applied).split()[1::2] == ["unchanged", "unchanged"]
    assert team.complete("diff", "-f", "-", stdin=applied).returncode == 0

    team.run("patch", "deploy", "web", "-p", '{"spec":{"template":{"spec":{"containers":[{"name":"proxy","image":"envoy:1"}]}}}}')
    team.run("apply", "-f", "-", stdin=manifests(deployment("nginx:2", replicas=2)))
    assert images_of(team) == {"web": "nginx:2", "proxy": "envoy:1"}
    team.run("set", "image", "deployment/web", "proxy=envoy:2")
    team.run("set", "env", "deployment/web", "--containers=web", "COLOR=red")
    assert images_of(team) == {"web": "nginx:2", "proxy": "envoy:2"}
    team.run("patch", "deploy", "web", "-p", '{"spec":{"template":{"spec":{"containers":[{"name":"proxy","$patch":"delete"}]}}}}')
    assert images_of(team) == {"web": "nginx:2"}
    assert team.run("scale", "deployment/web", "--replicas=4").strip() == "deployment.apps/web scaled"
    table = [line.split() for line in lines_of(team.run("get", "deploy", "-o", "wide"))]
    assert table[0] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert (table[1][:4], table[1][5:]) == (["web", "0/4", "0", "0"], ["web", "nginx:2", "app=web"])
    team.run("rollout", "restart", "deployment/web")
    annotations = team.json("get", "deploy", "web")["spec"]["template"]["metadata"]["annotations"]
    assert list(annotations) == ["kubectl.kubernetes.io/restartedAt"]

    status = {"status": {"replicas": 4, "conditions": [{"type": "Available", "status": "True"}]}}
    path = f"{team.server[len(server.url) :]}/apis/apps/v1/namespaces/default/deployments/web/status"
    assert server.request("PATCH", path, status, headers=MERGE).code == 200
    assert "condition met" in team.run("wait", "--for=condition=Available", "deploy/web", "--timeout=60s")

    team.run("create", "deployment", "made", "--image=busybox", "--replicas=2")
    assert team.run("expose", "deployment", "made", "--port=80", "--target-port=8080").strip() == "service/made exposed"
    assert team.run("get", "svc", "made", "-o", "jsonpath={.spec.selector.app}:{.spec.ports[0].targetPort}") == "made:8080"
    assert team.run("run", "one", "--image=busybox", "--labels=x=y").strip() == "pod/one created"
    assert [line.split()[:3] for line in lines_of(team.run("get", "pods", "-l", "x=y"))] == [
        ["NAME", "READY", "STATUS"],
        ["one", "0/1", "Pending"],
    ]
    assert team.run("get", "pods", "--field-selector=status.phase=Pending,spec.nodeName=", "-o", "name").split() == ["pod/one"]
    assert {"pod/one", "service/web", "deployment.apps/web"} <= set(team.run("get", "all", "-o", "name").split())
    described = team.run("describe", "deployment", "web")
    assert "4 desired" in described
    assert "nginx:2" in described
    assert "Pending" in team.run("describe", "pod", "one")
    assert "is running at" in team.run("cluster-info")
    assert "image" in team.run("explain", "deployments.spec.template.spec.containers")
    said = team.run("apply", "-f", "-", stdin=json.dumps({**SERVICE, "spec": {"ports": [{"prot": 80}]}}), fails=True)
    assert '"prot"' in said or "spec.ports[0].prot" in said


@each_kubectl("delete --cascade=background, foreground, orphan")
def test_cascades(kubectl_version: Callable[[str], Kubectl], server: ServerProcess) -> None:
    """Dependents go after their owner, before it, or stay without it."""
    team = kubectl_version("cascades")
    install(team, server, "replicasets.apps", "pods")
    cluster = team.server[len(server.url) :]
    pods = f"{cluster}/api/v1/namespaces/default/pods"

    def make(name: str) -> None:
        """A replica set with two pods."""
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "busybox"}]}}
        sets = f"{cluster}/apis/apps/v1/namespaces/default/replicasets"
        made = server.request(
            "POST", sets, {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
        )
        assert made.code == 201, made.body
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": made.json["metadata"]["uid"]}
        owner |= {"controller": True, "blockOwnerDeletion": True}
        for number in range(2):
            metadata = {"name": f"{name}-{number}", "labels": labels, "ownerReferences": [owner]}
            assert server.request("POST", pods, {"metadata": metadata, "spec": template["spec"]}).code == 201

    def left(name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = server.request("GET", f"{pods}?labelSelector=app%3D{name}").json["items"]
        return found

    def until_gone(name: str) -> None:
        listed = server.request("GET", f"{pods}?labelSelector=app%3D{name}").json
        names = {item["metadata"]["name"] for item in listed["items"]}
        since = listed["metadata"]["resourceVersion"]
        with Watch(server, f"{pods}?watch=1&labelSelector=app%3D{name}&resourceVersion={since}&timeoutSeconds={TIMEOUT}") as watch:
            while names:
                event = next(watch)
                if event["type"] == "DELETED":
                    names.discard(event["object"]["metadata"]["name"])

    for name in ("background", "foreground", "orphan"):
        make(name)
    assert 'replicaset.apps "orphan" deleted' in team.run("delete", "rs", "orphan", "--cascade=orphan")
    assert [item["metadata"].get("ownerReferences") for item in left("orphan")] == [None, None]
    assert 'replicaset.apps "foreground" deleted' in team.run("delete", "rs", "foreground", "--cascade=foreground")
    assert left("foreground") == []
    assert 'replicaset.apps "background" deleted' in team.run("delete", "rs", "background", "--cascade=background")
    until_gone("background")
    assert len(left("orphan")) == 2
