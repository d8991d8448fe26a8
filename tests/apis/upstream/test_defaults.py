"""Defaults of upstream kinds that depend on other fields."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kcp_py.apis.upstream.defaults import DEFAULTERS
from kcp_py.apis.upstream.strategy import UpstreamSchema

APPS, BATCH, CORE = "io.k8s.api.apps.v1.", "io.k8s.api.batch.v1.", "io.k8s.api.core.v1."
HPA = "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler"


def defaulted(model: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An object with its defaults."""
    obj = {"metadata": {"name": "one"}, "spec": copy.deepcopy(spec), **more}
    UpstreamSchema(model, DEFAULTERS.get(model)).default(obj)
    return obj


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("example.com:5000/team/nginx", "Always"),
        ("nginx:1.2", "IfNotPresent"),
        ("nginx@sha256:" + "0" * 64, "IfNotPresent"),
        ("nginx:latest@sha256:" + "0" * 64, "Always"),
        ("example.com:5000/nginx:1", "IfNotPresent"),
        # No references at all.
        ("ko://example.com/cmd", "IfNotPresent"),
        ("", "IfNotPresent"),
        ("UPPER", "IfNotPresent"),
        ("a" * 100_000, "IfNotPresent"),
        ("a-" * 500, "IfNotPresent"),
    ],
)
def test_pull_policies(image, policy):
    """An image without a tag, or tagged latest, is pulled each time."""
    spec = defaulted(CORE + "Pod", {"containers": [{"name": "a", "image": image}]})["spec"]
    assert spec["containers"][0]["imagePullPolicy"] == policy


def test_pods():
    """Requests follow limits, host ports the container's on the host's network, a volume of nothing is an empty directory."""
    containers = [{"name": "a", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1"}}}]
    pod = defaulted(
        CORE + "Pod",
        {"containers": containers, "hostNetwork": True, "terminationGracePeriodSeconds": -5, "volumes": [{"name": "v"}]},
        status={"podIP": "10.0.0.1"},
    )
    container = pod["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"memory": "1", "cpu": "1"}
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1
    assert pod["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
    assert pod["status"]["podIPs"] == [{"ip": "10.0.0.1"}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
        ({}, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
        ({"type": "Recreate"}, {"type": "Recreate"}),
        (
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
        ),
    ],
    ids=["none", "empty", "recreate", "in part"],
)
def test_strategies_of_deployments(given, expected):
    """What rolls gets its bounds, what does not gets none."""
    spec = {"template": {"spec": {}}} | ({} if given is None else {"strategy": given})
    assert defaulted(APPS + "Deployment", spec)["spec"]["strategy"] == expected


def test_stateful_sets():
    """A strategy without a type rolls from the start; claims are objects of their own kind."""
    spec = defaulted(APPS + "StatefulSet", {"updateStrategy": {}, "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]})[
        "spec"
    ]
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "partition": 0}}
    claim = spec["volumeClaimTemplates"][0]
    assert (claim["apiVersion"], claim["kind"], claim["status"]) == ("v1", "PersistentVolumeClaim", {"phase": "Pending"})
    assert defaulted(APPS + "StatefulSet", {"updateStrategy": {"type": "OnDelete"}})["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_jobs():
    """A job that says nothing runs once; one with failures by index may fail as often as it has indexes."""
    job = defaulted(BATCH + "Job", {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {}}})
    spec = job["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (1, 1, 6)
    assert job["metadata"]["labels"] == {"a": "b"}
    spec = defaulted(BATCH + "Job", {"parallelism": 2, "backoffLimitPerIndex": 1, "podFailurePolicy": {"rules": []}})["spec"]
    assert "completions" not in spec
    assert (spec["backoffLimit"], spec["podReplacementPolicy"]) == (2**31 - 1, "Failed")


def test_services():
    """Ports are their own targets; policies depend on the type."""
    spec = defaulted(CORE + "Service", {"type": "LoadBalancer", "sessionAffinity": "ClientIP", "ports": [{"port": 80}]})["spec"]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert spec["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}
    assert (spec["externalTrafficPolicy"], spec["allocateLoadBalancerNodePorts"]) == ("Cluster", True)
    spec = defaulted(CORE + "Service", {"type": "ExternalName", "sessionAffinityConfig": {}})["spec"]
    assert spec == {"type": "ExternalName", "sessionAffinity": "None"}


def test_autoscalers():
    """Without a metric the processor counts; a behaviour that is given in part is completed."""
    spec = defaulted(HPA, {"behavior": {"scaleUp": {"selectPolicy": "Min"}}})["spec"]
    assert spec["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 80}
    assert (spec["behavior"]["scaleUp"]["selectPolicy"], spec["behavior"]["scaleUp"]["stabilizationWindowSeconds"]) == ("Min", 0)
    assert spec["behavior"]["scaleDown"]["policies"] == [{"type": "Percent", "value": 100, "periodSeconds": 15}]


def test_other_kinds():
    """Labels become selectors, claims are pending, policies are for what they speak of."""
    labels = {"metadata": {"labels": {"a": "b"}}, "spec": {}}
    controller = defaulted(CORE + "ReplicationController", {"template": labels})
    assert controller["spec"]["selector"] == controller["metadata"]["labels"] == {"a": "b"}
    assert defaulted(CORE + "PersistentVolumeClaim", {})["status"] == {"phase": "Pending"}
    policy = "io.k8s.api.networking.v1.NetworkPolicy"
    assert defaulted(policy, {"egress": [{}]})["spec"]["policyTypes"] == ["Ingress", "Egress"]
    node = defaulted(CORE + "Node", {}, status={"capacity": {"cpu": "1"}})
    assert node["status"]["allocatable"] == {"cpu": "1"}


WRONG = {
    "template": 1,
    "containers": 1,
    "ports": [1, {"port": 1, "targetPort": [1]}],
    "strategy": "x",
    "type": [],
    "volumes": [{"image": 1}],
}


@pytest.mark.parametrize("model", DEFAULTERS)
@pytest.mark.parametrize("spec", [None, 1, [], WRONG])
def test_objects_of_other_types_are_left_alone(model, spec):
    """What another definition has let into the store can still be read."""
    DEFAULTERS[model]({"metadata": {}, "spec": spec, "status": spec})
