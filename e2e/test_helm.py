"""helm, of several versions: releases of charts with built-in kinds, definitions, custom resources and hooks, in clusters of their own."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.binaries import UnavailableError, chosen_helm, helm_of
from e2e.conftest import COMMAND_SECONDS, ServerProcess
from e2e.informer import TIMEOUT, Watch, create_definition
from e2e.kubectl_versions import DEFINITION, GROUP
from kcp_py import builtin_definitions

CHART = """\
apiVersion: v2
name: shop
version: 0.1.0
appVersion: "1"
kubeVersion: ">=1.20.0-0"
"""
TEMPLATES = {
    "configmap.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-settings
  labels: {app.kubernetes.io/managed-by: {{ .Release.Service }}}
data:
  color: {{ .Values.color | quote }}
  {{- range $key, $value := .Values.more }}
  {{ $key }}: {{ $value | quote }}
  {{- end }}
""",
    "access.yaml": """\
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}-key}
stringData: {key: {{ .Values.color | quote }}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: {{ .Release.Name }}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: {{ .Release.Name }}}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
""",
    "ship.yaml": """\
{{- if .Capabilities.APIVersions.Has "fleet.example.com/v1" }}
apiVersion: fleet.example.com/v1
kind: Ship
metadata:
  name: {{ .Release.Name }}
spec:
  color: {{ .Values.color }}
  crew: {{ .Values.crew }}
{{- end }}
""",
    "hook.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-hook
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-delete-policy: before-hook-creation
data: {revision: {{ .Release.Revision | quote }}}
""",
    "NOTES.txt": "The shop is {{ .Values.color }}.\n",
}
WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec:
      containers:
      - name: web
        image: nginx:{{ .Values.tag }}
        ports: [{containerPort: 80}]
        env: [{name: COLOR, value: {{ .Values.color }}}]
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec:
  selector: {app: {{ .Release.Name }}}
  ports: [{name: http, port: 80}]
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: migrate, image: busybox}]
"""
WIDE_ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: {{ .Release.Name }}}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
"""
VALUES: dict[str, Any] = {"color": "red", "crew": 2, "more": {}, "replicas": 1, "tag": "1.27"}


@dataclass
class Helm:
    """A helm binary with a cache and a configuration of its own, for one cluster."""

    binary: Path
    server: ServerProcess
    cluster: str
    home: Path
    kubeconfig: Path | None = None
    """Of a user; None for the administrator."""

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        access = ["--kube-apiserver", f"{self.server.url}/clusters/{self.cluster}", "--kube-ca-file", str(self.server.ca_file)]
        access += ["--kube-token", self.server.token]
        homes = {f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        return subprocess.Popen(
            [str(self.binary), *arguments, *([] if self.kubeconfig else access)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **homes, "KUBECONFIG": str(self.kubeconfig or os.devnull)},
        )

    def run(self, *arguments: str, fails: bool = False) -> str:
        """The output of a command. With `fails` it has to fail, and the output is its error."""
        with self.start(*arguments) as process:
            said, error = process.communicate(timeout=COMMAND_SECONDS)
        if fails:
            assert process.returncode != 0, said
            return error
        assert process.returncode == 0, f"helm {' '.join(arguments)}: {error}\n{said}"
        return said

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "-o", "json"))

    def get(self, path: str) -> Any:
        """An object of the cluster, read without helm."""
        answer = self.server.request("GET", f"/clusters/{self.cluster}{path}")
        return answer.json if answer.code == 200 else answer.code

    def config_map(self, name: str) -> Any:
        return self.get(f"/api/v1/namespaces/default/configmaps/{name}")

    def ship(self, name: str) -> Any:
        return self.get(f"/apis/{GROUP}/v1/namespaces/default/ships/{name}")


@pytest.fixture
def helm(version: str, server: ServerProcess, tmp_path: Path) -> Callable[[str], Helm]:
    """helm of the version that the test is for, in a logical cluster of that version and a subject."""
    try:
        binary = helm_of(version)
    except UnavailableError as error:
        pytest.skip(f"no helm {version}: {error}")
    return lambda subject: Helm(binary, server, f"helm-{version.replace('.', '-')}-{subject}", tmp_path / "home")


@pytest.fixture
def chart(tmp_path: Path) -> Callable[..., str]:
    """Writes a chart of these templates and says where."""

    def write(name: str, templates: dict[str, str], *definitions: dict[str, Any]) -> str:
        folder = tmp_path / name
        shutil.rmtree(folder, ignore_errors=True)
        files = {
            "Chart.yaml": CHART,
            "values.yaml": yaml.safe_dump(VALUES),
            **{f"templates/{file}": text for file, text in templates.items()},
            **{f"crds/{one['metadata']['name']}.yaml": yaml.safe_dump(one) for one in definitions},
        }
        for file, text in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        return str(folder)

    return write


def each_helm(exercised: str) -> pytest.MarkDecorator:
    """A test for each version of helm, with its row of docs/compatibility.md."""
    versions = [pytest.param(version, marks=pytest.mark.compatibility("helm", version, exercised)) for version in chosen_helm()]
    return pytest.mark.parametrize("version", versions)


def release_of(secret: dict[str, Any]) -> dict[str, Any]:
    """What helm keeps of a revision: JSON, compressed, in base64 twice."""
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))
    return found


@pytest.mark.slow
@each_helm("install, upgrade, rollback, list, status, get, history, uninstall of config maps, secrets, roles, CRDs, CRs and hooks")
def test_releases(helm: Callable[[str], Helm], chart: Callable[..., str], version: str) -> None:
    """A release goes through its life in one cluster, and one of the same name in another cluster is not touched by it."""
    one, other = helm("a"), helm("b")
    path = chart("shop", TEMPLATES, DEFINITION)
    told = one.json("install", "shop", path, "--wait")
    assert (told["info"]["status"], told["info"]["notes"], told["version"]) == ("deployed", "The shop is red.\n", 1)
    assert one.config_map("shop-settings")["data"] == {"color": "red"}
    assert one.config_map("shop-hook")["data"] == {"revision": "1"}
    assert one.ship("shop")["spec"] == {"color": "red", "crew": 2}
    assert one.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ships.{GROUP}")["kind"] == "CustomResourceDefinition"
    assert "a name that is still in use" in one.run("install", "shop", path, fails=True)
    assert other.json("list", "-A") == []
    other.run("install", "shop", path, "--set", "color=blue", "--namespace", "team", "--create-namespace")

    settings = "/api/v1/namespaces/default/configmaps/shop-settings"
    merge = {"Content-Type": "application/merge-patch+json"}
    one.server.request("PATCH", f"/clusters/{one.cluster}{settings}", {"data": {"live": "kept"}}, headers=merge)
    told = one.json("upgrade", "shop", path, "--set", "color=green,crew=3,more.a=b", "--wait")
    assert told["version"] == 2
    assert one.config_map("shop-settings")["data"] == {"color": "green", "live": "kept", "a": "b"}
    assert one.config_map("shop-hook")["data"] == {"revision": "2"}
    assert one.ship("shop")["spec"] == {"color": "green", "crew": 3}
    assert one.run("get", "values", "shop").splitlines()[0] == "USER-SUPPLIED VALUES:"
    assert "kind: Ship" in one.run("get", "manifest", "shop")
    atomic = "--atomic" if version.startswith("3") else "--rollback-on-failure"
    said = one.run("upgrade", "shop", path, "--set", "color=black,crew=-1", atomic, fails=True)
    assert "spec.crew" in said
    history = one.json("history", "shop")
    assert [(entry["revision"], entry["status"]) for entry in history] == [
        (1, "superseded"),
        (2, "superseded"),
        (3, "failed"),
        (4, "deployed"),
    ]
    assert one.config_map("shop-settings")["data"] == {"color": "green", "live": "kept", "a": "b"}

    assert "Rollback was a success" in one.run("rollback", "shop", "1", "--wait")
    assert one.config_map("shop-settings")["data"] == {"color": "red", "live": "kept"}
    assert one.ship("shop")["spec"] == {"color": "red", "crew": 2}
    assert [(entry["name"], entry["revision"], entry["status"]) for entry in one.json("list")] == [("shop", "5", "deployed")]
    assert one.json("status", "shop")["info"]["status"] == "deployed"
    secrets = one.get("/api/v1/namespaces/default/secrets?labelSelector=owner%3Dhelm%2Cstatus%3Ddeployed")["items"]
    assert [(item["metadata"]["name"], item["type"]) for item in secrets] == [("sh.helm.release.v1.shop.v5", "helm.sh/release.v1")]
    assert release_of(secrets[0])["chart"]["metadata"]["name"] == "shop"

    assert "uninstalled" in one.run("uninstall", "shop", "--wait")
    assert (one.config_map("shop-settings"), one.ship("shop")) == (404, 404)
    assert one.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ships.{GROUP}")["kind"] == "CustomResourceDefinition"
    assert one.json("list", "-A") == []
    assert [(entry["name"], entry["namespace"], entry["revision"]) for entry in other.json("list", "-A")] == [("shop", "team", "1")]
    assert other.get("/api/v1/namespaces/team/configmaps/shop-settings")["data"] == {"color": "blue"}


@each_helm("three-way strategic merge of a deployment and a service in a cluster with those kinds")
def test_workloads(helm: Callable[[str], Helm], chart: Callable[..., str]) -> None:
    """What others have added to a live deployment stays when the chart changes it: containers by name, labels by key."""
    shop = helm("workloads")
    for definition in builtin_definitions("deployments.apps", "services"):
        create_definition(shop.server, shop.cluster, definition)
    path = chart("shop", {"workload.yaml": WORKLOAD})
    shop.run("install", "shop", path)
    deployment, service = "/apis/apps/v1/namespaces/default/deployments/shop", "/api/v1/namespaces/default/services/shop"
    assert shop.get(service)["spec"]["ports"] == [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80}]
    sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "proxy", "image": "envoy:1"}]}}}}
    strategic = {"Content-Type": "application/strategic-merge-patch+json"}
    assert shop.server.request("PATCH", f"/clusters/{shop.cluster}{deployment}", sidecar, headers=strategic).code == 200
    shop.run("upgrade", "shop", path, "--set", "tag=1.28,color=blue,replicas=3")
    live = shop.get(deployment)
    containers = {one["name"]: one for one in live["spec"]["template"]["spec"]["containers"]}
    assert {name: one["image"] for name, one in containers.items()} == {"web": "nginx:1.28", "proxy": "envoy:1"}
    assert containers["web"]["env"] == [{"name": "COLOR", "value": "blue"}]
    assert live["spec"]["replicas"] == 3
    shop.run("rollback", "shop")
    live = shop.get(deployment)
    images = {one["name"]: one["image"] for one in live["spec"]["template"]["spec"]["containers"]}
    assert images == {"web": "nginx:1.27", "proxy": "envoy:1"}
    assert live["spec"]["replicas"] == 1
    shop.run("uninstall", "shop")
    assert (shop.get(deployment), shop.get(service)) == (404, 404)


@each_helm("a job as a hook, which is waited for; upgrade --install")
def test_job_as_hook(helm: Callable[[str], Helm], chart: Callable[..., str]) -> None:
    """helm waits for its hook's job, sees that it has succeeded, deletes it and goes on."""
    shop = helm("hook")
    for definition in builtin_definitions("jobs.batch", "pods"):
        create_definition(shop.server, shop.cluster, definition)
    path = chart("shop", {"job.yaml": JOB, "configmap.yaml": TEMPLATES["configmap.yaml"]})
    jobs = f"/clusters/{shop.cluster}/apis/batch/v1/namespaces/default/jobs"
    with (
        Watch(shop.server, f"{jobs}?watch=1&timeoutSeconds={TIMEOUT}") as watch,
        shop.start("upgrade", "--install", "shop", path, "--timeout", "60s", "--wait") as process,
    ):
        job = next(watch)["object"]
        assert shop.config_map("shop-settings") == 404
        moment = "2024-01-01T00:00:00Z"
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": moment} for kind in ("SuccessCriteriaMet", "Complete")]
        status = {"status": {"succeeded": 1, "startTime": moment, "completionTime": moment, "conditions": conditions}}
        merge = {"Content-Type": "application/merge-patch+json"}
        assert shop.server.request("PATCH", f"{jobs}/{job['metadata']['name']}/status", status, headers=merge).code == 200
        said, error = process.communicate(timeout=COMMAND_SECONDS)
        assert process.returncode == 0, error
        assert "STATUS: deployed" in said
        assert any(event["type"] == "DELETED" for event in watch)
    assert shop.config_map("shop-settings")["data"] == {"color": "red"}


def kcp_py(server: ServerProcess, *arguments: str) -> None:
    """A command of the administrator about a logical cluster."""
    command = [sys.executable, "-m", "kcp_py", "cluster", *arguments, "--kubeconfig", str(server.kubeconfig)]
    subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_SECONDS)


@each_helm("install, upgrade, list and uninstall by a user who administers one namespace; refusals elsewhere")
def test_releases_of_a_namespaced_user(helm: Callable[[str], Helm], chart: Callable[..., str], tmp_path: Path) -> None:
    """The administrator of a namespace installs a release with a role and hooks there, and nothing in others or beyond its permissions."""
    admin = helm("team")
    server, cluster = admin.server, admin.cluster
    for namespace in ("shop", "other"):
        assert server.request("POST", f"/clusters/{cluster}/api/v1/namespaces", {"metadata": {"name": namespace}}).code == 201
    kubeconfig = tmp_path / "alice.kubeconfig"
    kcp_py(server, "grant", cluster, "--user", "alice", "--role", "admin", "--namespace", "shop")
    kcp_py(server, "kubeconfig", cluster, "--user", "alice", "--namespace", "shop", "-o", str(kubeconfig))
    alice = dataclasses.replace(admin, kubeconfig=kubeconfig)
    path = chart("shop", TEMPLATES)
    assert alice.json("install", "shop", path, "--wait")["info"]["status"] == "deployed"
    assert alice.json("upgrade", "shop", path, "--set", "color=green", "--wait")["version"] == 2
    assert alice.get("/api/v1/namespaces/shop/configmaps/shop-settings")["data"] == {"color": "green"}
    assert alice.get("/api/v1/namespaces/shop/configmaps/shop-hook")["data"] == {"revision": "2"}
    assert [(entry["name"], entry["namespace"]) for entry in alice.json("list")] == [("shop", "shop")]

    refused = alice.run("install", "shop", path, "--namespace", "other", fails=True)
    assert re.search(r'User "alice" cannot \w+ resource "\w+" in API group "" in the namespace "other"', refused), refused
    assert 'User "alice" cannot list resource "secrets"' in alice.run("list", "-A", fails=True)
    wide = chart("wide", {"role.yaml": WIDE_ROLE})
    assert "is attempting to grant RBAC permissions not currently held" in alice.run("install", "wide", wide, fails=True)
    crds = chart("crds", {}, DEFINITION)
    assert re.search('"alice" cannot (create|patch) resource "customresourcedefinitions"', alice.run("install", "crds", crds, fails=True))
    assert alice.get("/api/v1/namespaces/other/secrets")["items"] == []

    assert "uninstalled" in alice.run("uninstall", "shop", "--wait")
    assert alice.get("/api/v1/namespaces/shop/configmaps/shop-settings") == 404
