"""Every version of kubectl with kinds of Kubernetes that a cluster has as CRDs: workloads, services, and what hangs on what."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from e2e.conftest import Kubectl, ServerProcess, lines_of
from e2e.informer import TIMEOUT, Watch, create_definition
from e2e.kubectl_versions import DEFINITION, GROUP, each_kubectl, manifests, ship
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
    """Commands for a kind find it; a repeated apply changes nothing; containers and ports are merged by their keys."""
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


@each_kubectl("delete --cascade=background, foreground, orphan of a replica set with pods, and of custom resources")
def test_cascades(kubectl_version: Callable[[str], Kubectl], server: ServerProcess) -> None:
    """Dependents go after their owner, before it, or stay without it."""
    team = kubectl_version("cascades")
    install(team, server, "replicasets.apps", "pods")
    create_definition(server, team.server.rpartition("/")[2], DEFINITION)
    core = f"{team.server[len(server.url) :]}/api/v1/namespaces/default"
    cluster = core.removesuffix("/api/v1/namespaces/default")
    template = {"spec": {"containers": [{"name": "a", "image": "busybox"}]}}

    def make(path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = server.request("POST", path, body)
        assert answer.code == 201, answer.body
        made: dict[str, Any] = answer.json
        return made

    def owner(kind: str, name: str) -> str:
        """An owner with two dependents: a replica set with pods, or a ship with config maps; returns the path of what it owns."""
        labels = {"app": name}
        if kind == "rs":
            spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, **template}}
            made = make(f"{cluster}/apis/apps/v1/namespaces/default/replicasets", {"metadata": {"name": name}, "spec": spec})
        else:
            made = make(f"{cluster}/apis/{GROUP}/v1/namespaces/default/ships", ship(name))
        reference = {key: made[key] for key in ("apiVersion", "kind")} | {"name": name, "uid": made["metadata"]["uid"]}
        reference |= {"controller": True, "blockOwnerDeletion": True}
        dependents = "pods" if kind == "rs" else "configmaps"
        for number in range(2):
            metadata = {"name": f"{name}-{number}", "labels": labels, "ownerReferences": [reference]}
            make(f"{core}/{dependents}", {"metadata": metadata, **(template if kind == "rs" else {})})
        return f"{core}/{dependents}?labelSelector=app%3D{name}"

    def left(path: str) -> list[Any]:
        """Owners of each that is left."""
        return [item["metadata"].get("ownerReferences") for item in server.request("GET", path).json["items"]]

    def until_gone(path: str) -> None:
        listed = server.request("GET", path).json
        names = {item["metadata"]["name"] for item in listed["items"]}
        since = listed["metadata"]["resourceVersion"]
        with Watch(server, f"{path}&watch=1&resourceVersion={since}&timeoutSeconds={TIMEOUT}") as watch:
            while names:
                event = next(watch)
                if event["type"] == "DELETED":
                    names.discard(event["object"]["metadata"]["name"])

    for kind in ("rs", "ship"):
        owned = {name: owner(kind, name) for name in ("background", "foreground", "orphan")}
        for cascade in ("orphan", "foreground", "background"):
            assert f'"{cascade}" deleted' in team.run("delete", kind, cascade, f"--cascade={cascade}")
        assert left(owned["orphan"]) == [None, None]
        assert left(owned["foreground"]) == []
        until_gone(owned["background"])
        assert left(owned["background"]) == []


@each_kubectl("logs, exec, cp, attach and port-forward without nodes; --as and --as-group")
def test_what_needs_nodes_or_another_user(kubectl_version: Callable[[str], Kubectl], server: ServerProcess) -> None:
    """Commands that need a kubelet print why there is none; administrators act as other users, with the rights of those."""
    team = kubectl_version("nodeless")
    install(team, server, "pods", "nodes")
    spec = {"containers": [{"name": "a", "image": "busybox"}], "nodeName": "n"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec}
    addresses = {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": addresses}
    team.run("create", "-f", "-", stdin=manifests(pod))
    refused = team.complete("logs", "one")
    assert (refused.returncode, refused.stderr) == (1, 'Error from server (NotFound): pods "n" not found\n')
    team.run("create", "-f", "-", stdin=manifests(node))
    refused = team.complete("logs", "one")
    assert refused.returncode == 1
    assert "this server stores objects, it has no nodes on which pods could run" in refused.stderr
    refused = team.complete("get", "configmaps", "--as", "bob")
    assert refused.returncode == 1
    assert 'User "bob" cannot list resource "configmaps" in API group "" in the namespace "default"' in refused.stderr
    team.run("get", "configmaps", "--as", "bob", "--as-group", "system:masters")
