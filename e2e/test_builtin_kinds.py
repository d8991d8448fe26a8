"""Pods, deployments and other kinds of Kubernetes in a logical cluster, as `kcp-py builtin install` brings them there, with kubectl."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.conftest import Kubectl, ServerProcess, lines_of

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: nginx
        image: nginx:1.27
        ports:
        - containerPort: 80
        resources:
          limits: {cpu: 100m}
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
  - port: 80
---
apiVersion: v1
kind: Pod
metadata:
  name: one
spec:
  containers:
  - name: a
    image: busybox
"""


@pytest.fixture(scope="module")
def cluster(server: ServerProcess) -> str:
    """A cluster with some kinds."""
    name = "with-pods"
    command = [sys.executable, "-m", "kcp_py", "builtin", "install", "--create", "--cluster", name, "--kubeconfig", str(server.kubeconfig)]
    printed = subprocess.run([*command, "pods", "svc", "*.apps", "*.batch", "hpa"], capture_output=True, text=True, check=True).stdout
    assert "deployments.apps created" in printed
    return name


@pytest.fixture
def client(cluster: str, kubectl: Callable[[str], Kubectl], tmp_path: Path) -> Kubectl:
    """kubectl in it, with a file to apply."""
    (tmp_path / "web.yaml").write_text(WEB)
    return kubectl(cluster)


def test_apply_twice(client: Kubectl, tmp_path: Path) -> None:
    """The second time there is nothing to do; a change is sent as a strategic merge patch."""
    file = tmp_path / "web.yaml"
    assert lines_of(client.run("apply", "-f", str(file))) == ["deployment.apps/web created", "service/web created", "pod/one created"]
    assert lines_of(client.run("apply", "-f", str(file))) == ["deployment.apps/web unchanged", "service/web unchanged", "pod/one unchanged"]
    assert client.run("diff", "-f", str(file)) == ""
    file.write_text(WEB.replace("nginx:1.27", "nginx:1.28"))
    changed = client.complete("apply", "-f", str(file), "-v", "8")
    assert "deployment.apps/web configured" in changed.stdout
    assert "application/strategic-merge-patch+json" in changed.stderr
    client.run("set", "env", "deployment/web", "A=1")
    client.run("patch", "deployment", "web", "-p", '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox"}]}}}}')
    containers = client.json("get", "deployment", "web")["spec"]["template"]["spec"]["containers"]
    assert {(container["name"], container["image"]) for container in containers} == {("nginx", "nginx:1.28"), ("side", "busybox")}
    client.run("delete", "-f", str(file))


def test_tables(client: Kubectl, tmp_path: Path) -> None:
    """`get` shows what it shows of a real server on which nothing runs yet."""
    client.run("apply", "-f", str(tmp_path / "web.yaml"))
    head, row = lines_of(client.run("get", "pods", "-o", "wide"))
    assert re.split(r"\s{2,}", head) == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
    cells = row.split()
    assert cells[:4] == ["one", "0/1", "Pending", "0"]
    assert cells[5:] == ["<none>"] * 4
    head, row = lines_of(client.run("get", "deploy", "-o", "wide"))
    assert head.split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    cells = row.split()
    assert (cells[:4], cells[5:]) == (["web", "0/1", "0", "0"], ["nginx", "nginx:1.27", "app=web"])
    everything = client.run("get", "all")
    named = {line.split()[0] for line in lines_of(everything) if "/" in line.split()[0]}
    assert named == {"pod/one", "service/kubernetes", "service/web", "deployment.apps/web"}
    # The command waits until the object with this uid is gone.
    client.run("delete", "service", "kubernetes", "--timeout=60s")
    assert "443/TCP" in client.run("get", "service", "kubernetes")
    assert "80/TCP" in everything
    client.run("delete", "-f", str(tmp_path / "web.yaml"))


def test_commands_of_the_kinds(client: Kubectl) -> None:
    """kubectl's commands for the kinds work: creating, scaling, autoscaling, exposing, rolling out, describing and explaining."""
    client.run("create", "deployment", "app", "--image=nginx", "--replicas=2")
    client.run("scale", "deployment", "app", "--replicas=5", "--current-replicas=2")
    assert client.json("get", "deployment", "app")["spec"]["replicas"] == 5
    client.run("expose", "deployment", "app", "--port=80")
    assert client.json("get", "service", "app")["spec"]["selector"] == {"app": "app"}
    client.run("autoscale", "deployment", "app", "--max=3", "--cpu=50%")
    assert "cpu: <unknown>/50%" in client.run("get", "hpa", "app")
    client.run("set", "image", "deployment/app", "nginx=nginx:2")
    client.run("rollout", "restart", "deployment/app")
    template = client.json("get", "deployment", "app")["spec"]["template"]
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]
    assert template["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    assert "5 desired | 0 updated | 0 total" in client.run("describe", "deployment", "app")
    client.run("run", "box", "--image=busybox", "--restart=Never", "--command", "--", "true")
    assert re.search(r"Status: +Pending", client.run("describe", "pod", "box"))
    client.run("create", "job", "once", "--image=busybox")
    assert "Running" in client.run("get", "job", "once")
    client.run("create", "cronjob", "often", "--image=busybox", "--schedule=* * * * *")
    client.run("create", "job", "now", "--from=cronjob/often")
    assert "rollingUpdate\t<RollingUpdateDeployment>" in client.run("explain", "deployment.spec.strategy")
    for kind in ("deployment/app", "service/app", "hpa/app", "pod/box", "job/once", "job/now", "cronjob/often"):
        assert "deleted" in client.run("delete", kind)


def test_server_side_apply_and_validation(client: Kubectl, tmp_path: Path) -> None:
    """Applying on the server owns elements of lists by their keys; unknown fields are refused before the write."""
    file = tmp_path / "web.yaml"
    client.run("apply", "--server-side", "-f", str(file))
    owners = client.json("get", "deployment", "web", "--show-managed-fields")["metadata"]["managedFields"]
    assert 'k:{"containerPort":80,"protocol":"TCP"}' in str(owners)
    client.run("apply", "--server-side", "-f", str(file))
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(WEB.partition("---")[0].replace("  selector:", "  replica: 1\n  selector:"))
    assert 'unknown field "spec.replica"' in client.run("apply", "-f", str(wrong), "--validate=strict", fails=True)
    client.run("delete", "-f", str(file))


def test_names(client: Kubectl) -> None:
    """They stand in discovery as on a real server."""
    resources = {line.split()[0]: line.split() for line in lines_of(client.run("api-resources", "-o", "wide"))}
    assert resources["deployments"][1:5] == ["deploy", "apps/v1", "true", "Deployment"]
    assert resources["horizontalpodautoscalers"][2] in {"autoscaling/v1", "autoscaling/v2"}
    assert "all" in resources["pods"][-1]
