"""kubectl and helm see workloads become ready in clusters without nodes (`--simulate workloads`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.binaries import UnavailableError, chosen_helm, helm_of
from e2e.conftest import Kubectl, ServerProcess
from e2e.test_helm import CHART, JOB, VALUES, WORKLOAD, Helm

KINDS = "*.apps,*.batch,pods,services,persistentvolumeclaims"
OTHERS = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: postgres}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers: [{name: agent, image: agent}]
---
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  containers: [{name: c, image: i}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Service
metadata: {name: edge}
spec:
  type: LoadBalancer
  ports: [{port: 80}]
"""
WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "nginx:1"}]
"""
MIGRATION = """\
apiVersion: batch/v1
kind: Job
metadata: {name: migration}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: i}]
"""
WAIT = ("--timeout", "90s")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that simulates workloads, with their kinds in every cluster."""
    arguments = ("--builtin-kinds", KINDS, "--simulate", "workloads", "--simulate-delay", "300ms")
    process = ServerProcess(tmp_path_factory.mktemp("simulating") / "root", *arguments).start()
    try:
        yield process
    finally:
        process.stop()


def test_kubectl_sees_rollouts_end(kubectl: Callable[[str], Kubectl]) -> None:
    """Of a deployment with its updates, scales and undone updates, of stateful and daemon sets; and waits for conditions end."""
    run = kubectl("rollouts").run
    run("apply", "-f", "-", stdin=OTHERS + "---\n" + WEB + "---\n" + MIGRATION)
    for workload in ("deploy/web", "sts/db", "ds/agent"):
        run("rollout", "status", workload, *WAIT)
    run("wait", "--for=condition=Available", "deploy/web", *WAIT)
    run("wait", "--for=condition=Ready", "pod/one", *WAIT)
    run("wait", "--for=condition=Complete", "job/migration", *WAIT)
    run("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", *WAIT)
    run("wait", "--for=jsonpath={.status.loadBalancer.ingress[0].ipMode}=VIP", "service/edge", *WAIT)

    run("set", "image", "deploy/web", "web=nginx:2")
    assert "successfully rolled out" in run("rollout", "status", "deploy/web", *WAIT)
    run("scale", "deploy/web", "--replicas=5")
    assert "successfully rolled out" in run("rollout", "status", "deploy/web", *WAIT)
    assert run("get", "deploy/web", "-o", "jsonpath={.status.readyReplicas}") == "5"
    run("rollout", "undo", "deploy/web")
    assert "successfully rolled out" in run("rollout", "status", "deploy/web", *WAIT)
    assert run("get", "deploy/web", "-o", "jsonpath={.spec.template.spec.containers[0].image}") == "nginx:1"
    numbers = "jsonpath={range .items[*]}{.spec.replicas}/{.status.readyReplicas} {end}"
    assert sorted(run("get", "rs", "-o", numbers).split()) == ["0/", "5/5"]
    run("delete", "deploy/web")
    run("wait", "--for=delete", "rs", "--all", *WAIT)


@pytest.mark.parametrize("version", chosen_helm())
def test_helm_waits_for_workloads(server: ServerProcess, tmp_path: Path, version: str) -> None:
    """An installation and an upgrade with `--wait`, and a hook that is a job."""
    try:
        binary = helm_of(version)
    except UnavailableError as error:
        pytest.skip(f"no helm {version}: {error}")
    helm = Helm(binary, server, f"waiting-{version.replace('.', '-')}", tmp_path / "home")
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text(CHART)
    (chart / "values.yaml").write_text("".join(f"{name}: {value}\n" for name, value in VALUES.items()))
    for name, text in {"workload": WORKLOAD, "hook": JOB, "others": OTHERS, "migration": MIGRATION}.items():
        (chart / "templates" / f"{name}.yaml").write_text(text)
    told = helm.json("install", "shop", str(chart), "--wait", "--wait-for-jobs", *WAIT)
    assert told["info"]["status"] == "deployed"
    assert helm.get("/apis/apps/v1/namespaces/default/deployments/shop")["status"]["readyReplicas"] == 1
    told = helm.json("upgrade", "shop", str(chart), "--set", "replicas=3,tag=1.28", "--wait", *WAIT)
    assert told["info"]["status"] == "deployed"
    assert helm.get("/apis/apps/v1/namespaces/default/deployments/shop")["status"]["readyReplicas"] == 3
