"""What tables show of upstream kinds."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.apis.upstream.columns import UPSTREAM_COLUMNS
from kcp_py.bootstrap.upstream_kinds import upstream_kinds
from tests.corpus import needs_corpus, read, rows

NOW = parse_time("2026-01-01T01:00:00Z")
THEN = "2026-01-01T00:00:00Z"


def row(resource: str, obj: dict[str, Any], *, wide: bool = False) -> list[Any]:
    """The cells of an object as kubectl prints them, without its name and age."""
    plural, _, group = resource.partition(".")
    obj = {"metadata": {"name": "one", "creationTimestamp": THEN}, **obj}
    columns = UPSTREAM_COLUMNS[group, plural]
    return [column.cell(obj, NOW) for column in columns if column.name not in {"Name", "Age"} and (wide or not column.priority)]


def test_every_kind_has_its_columns():
    """Nothing is shown with name and age alone because it was forgotten."""
    missing = {(kind.group, kind.plural) for kind in upstream_kinds().values()} - UPSTREAM_COLUMNS.keys()
    assert missing == set()


def test_api_services():
    """The aggregator prints them: where they are served, and whether they are."""
    local = {"spec": {"service": None}, "status": {}}
    assert row("apiservices.apiregistration.k8s.io", local) == ["Local", "Unknown"]
    condition = {"type": "Available", "status": "False", "reason": "ServiceNotFound"}
    remote = {"spec": {"service": {"namespace": "a", "name": "b"}}, "status": {"conditions": [condition]}}
    assert row("apiservices.apiregistration.k8s.io", remote) == ["a/b", "False (ServiceNotFound)"]


TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}}
OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}
ENDED = {"terminated": {"finishedAt": THEN}}
SELECTOR = {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize(
    ("resource", "obj", "cells"),
    [
        (
            "deployments.apps",
            {"spec": {"replicas": 3, "template": TEMPLATE, "selector": SELECTOR}, "status": {"readyReplicas": 1, "updatedReplicas": 2}},
            ["1/3", 2, 0, "a,b", "x,y", "app=web"],
        ),
        (
            "replicasets.apps",
            {"spec": {"replicas": 3, "template": TEMPLATE, "selector": SELECTOR}, "status": {"replicas": 2}},
            [3, 2, 0, "a,b", "x,y", "app=web"],
        ),
        ("statefulsets.apps", {"spec": {"replicas": 3, "template": TEMPLATE}}, ["0/3", "a,b", "x,y"]),
        (
            "daemonsets.apps",
            {"spec": {"template": TEMPLATE, "selector": SELECTOR}, "status": {"desiredNumberScheduled": 2}},
            [2, 0, 0, 0, 0, "<none>", "a,b", "x,y", "app=web"],
        ),
        (
            "jobs.batch",
            {
                "spec": {"completions": 2, "template": TEMPLATE, "selector": SELECTOR},
                "status": {"succeeded": 2, "startTime": THEN, "conditions": [{"type": "Complete", "status": "True"}]},
            },
            ["Complete", "2/2", "60m", "a,b", "x,y", "app=web"],
        ),
        (
            "cronjobs.batch",
            {
                "spec": {"schedule": "* * * * *", "suspend": False, "jobTemplate": {"spec": {"template": TEMPLATE}}},
                "status": {"active": [{}]},
            },
            ["* * * * *", "<none>", "False", 1, "<none>", "a,b", "x,y", "<none>"],
        ),
        (
            "services",
            {
                "spec": {
                    "type": "LoadBalancer",
                    "clusterIP": "10.0.0.1",
                    "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}, {"port": 81, "protocol": "UDP"}],
                    "selector": {"b": "2", "a": "1"},
                }
            },
            ["LoadBalancer", "10.0.0.1", "<pending>", "80:30000/TCP,81/UDP", "a=1,b=2"],
        ),
        (
            "endpoints",
            {"subsets": [{"addresses": [{"ip": f"10.0.0.{number}"} for number in range(1, 6)], "ports": [{"port": 80}]}]},
            ["10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more..."],
        ),
        (
            "ingresses.networking.k8s.io",
            {"spec": {"rules": [{"host": "a"}, {}], "tls": [{}]}, "status": {"loadBalancer": {"ingress": [{"hostname": "lb"}]}}},
            ["<none>", "a", "lb", "80, 443"],
        ),
        ("networkpolicies.networking.k8s.io", {"spec": {"podSelector": {}}}, ["<none>"]),
        (
            "horizontalpodautoscalers.autoscaling",
            {
                "spec": {
                    "scaleTargetRef": {"kind": "Deployment", "name": "web"},
                    "minReplicas": 1,
                    "maxReplicas": 3,
                    "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}],
                }
            },
            ["Deployment/web", "cpu: <unknown>/80%", "1", 3, 0],
        ),
        ("poddisruptionbudgets.policy", {"spec": {"minAvailable": "50%"}}, ["50%", "N/A", 0]),
        (
            "persistentvolumeclaims",
            {
                "spec": {"volumeName": "v", "storageClassName": "fast", "volumeMode": "Filesystem"},
                "status": {"phase": "Bound", "capacity": {"storage": "1024Mi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]},
            },
            ["Bound", "v", "1Gi", "RWO,RWX", "fast", "<unset>", "Filesystem"],
        ),
        (
            "nodes",
            {
                "metadata": {"name": "one", "labels": {"node-role.kubernetes.io/control-plane": ""}},
                "spec": {"unschedulable": True},
                "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.37.0"}},
            },
            ["Ready,SchedulingDisabled", "control-plane", "v1.37.0", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"],
        ),
        (
            "controllerrevisions.apps",
            {
                "metadata": {
                    "name": "one",
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}],
                },
                "revision": 4,
            },
            ["daemonset.apps/d", 4],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_rows(resource, obj, cells):
    """The cells are those that kubectl prints of a real server."""
    assert row(resource, obj, wide=True) == cells


def state(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": more.pop("state", {}), **more}


RUNNING = {"running": {"startedAt": THEN}}


@pytest.mark.parametrize(
    ("pod", "cells"),
    [
        ({"status": {"phase": "Pending"}}, ["0/2", "Pending", "0"]),
        (
            {"status": {"phase": "Running", "containerStatuses": [state("a", ready=True, state=RUNNING), state("b", state=RUNNING)]}},
            ["1/2", "Running", "0"],
        ),
        (
            {
                "status": {
                    "phase": "Running",
                    "containerStatuses": [
                        state(
                            "a",
                            restartCount=3,
                            state={"waiting": {"reason": "CrashLoopBackOff"}},
                            lastState={"terminated": {"finishedAt": THEN}},
                        )
                    ],
                }
            },
            ["0/2", "CrashLoopBackOff", "3 (60m ago)"],
        ),
        (
            {"status": {"phase": "Failed", "containerStatuses": [state("a", state={"terminated": {"exitCode": 1, "signal": 9}})]}},
            ["0/2", "Signal:9", "0"],
        ),
        (
            {
                "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j", "restartPolicy": "Always"}]},
                "status": {"phase": "Pending", "initContainerStatuses": [state("i", state=RUNNING)]},
            },
            ["0/2", "Init:0/2", "0"],
        ),
        (
            {
                "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]},
                "status": {"phase": "Pending", "initContainerStatuses": [state("i", state={"terminated": {"exitCode": 2}})]},
            },
            ["0/1", "Init:ExitCode:2", "0"],
        ),
        ({"metadata": {"name": "one", "deletionTimestamp": THEN}, "status": {"phase": "Running"}}, ["0/2", "Terminating", "0"]),
        ({"status": {"phase": "Failed", "reason": "Evicted"}}, ["0/2", "Evicted", "0"]),
    ],
    ids=["pending", "running", "crashing", "signal", "initializing", "failed to initialize", "terminating", "evicted"],
)
def test_states_of_pods(pod, cells):
    """The word that says how a pod is comes from all of its containers."""
    assert row("pods", {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}, **pod}) == cells


def test_wide_columns_of_pods():
    """Unknown values are shown as unknown."""
    pod = {"spec": {"containers": [], "readinessGates": [{"conditionType": "www"}]}, "status": {"podIPs": [{"ip": "10.0.0.1"}]}}
    assert row("pods", pod, wide=True)[3:] == ["10.0.0.1", "<none>", "<none>", "0/1"]


WRONG: dict[str, Any] = {"type": [], "status": {}, "name": {}, "reason": 1}
TWISTED: dict[str, Any] = {
    "spec": {"initContainers": [WRONG], "readinessGates": [{"conditionType": []}], "type": [], "ports": [WRONG], "rules": [WRONG]},
    "status": {"phase": [], "conditions": [WRONG], "initContainerStatuses": [WRONG], "containerStatuses": [WRONG]},
}


@pytest.mark.parametrize("name", UPSTREAM_COLUMNS, ids=lambda name: name[1])
@pytest.mark.parametrize(
    "obj", [{}, TWISTED, {"spec": 1, "status": "x"}, {"spec": {"template": [], "containers": [1], "metrics": [{"type": 1}]}}]
)
def test_objects_of_other_types_have_rows_too(name, obj):
    """One object that another definition has let in must not take the list from its reader."""
    for column in UPSTREAM_COLUMNS[name]:
        column.cell({"metadata": {"name": "one"}, **obj}, NOW)


@needs_corpus
def test_real_objects_have_rows():
    """Every object of the corpus has cells of the types that its columns promise."""
    for entry in rows("manifests-index.jsonl"):
        group, _, version = entry["api_version"].rpartition("/")
        kind = upstream_kinds().get((group, version, entry["kind"]))
        if kind is not None and (columns := UPSTREAM_COLUMNS.get((kind.group, kind.plural))) is not None:
            obj = read(entry["path"])
            obj.setdefault("metadata", {})
            assert all(column.cell(obj, NOW) is not None for column in columns)
