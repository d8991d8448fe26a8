"""Autoscalers between autoscaling/v1 and autoscaling/v2."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcp_py.apimachinery.errors import bad_request
from kcp_py.apis.upstream.autoscaler_conversion import V1, V2, convert_autoscaler
from kcp_py.apis.upstream.strategy import UpstreamSchema

TARGET = {"kind": "Deployment", "name": "web"}
CHECK = UpstreamSchema("io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler", None).type_error
PREFIX = "autoscaling.alpha.kubernetes.io/"


def v1(spec: dict[str, Any], annotations: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "one", **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": V1, "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": {"scaleTargetRef": TARGET, **spec}, **more}


def cpu(utilization: int) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": utilization}}}


def test_the_processor_has_a_field():
    """The fields of v1 are the one metric of v2, whose default is a part of v2."""
    converted = convert_autoscaler(v1({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}), V2, CHECK)
    assert converted["spec"] == {"scaleTargetRef": TARGET, "maxReplicas": 3, "metrics": [cpu(50)]}
    assert convert_autoscaler(v1({"maxReplicas": 3}), V2, CHECK)["spec"]["metrics"] == [cpu(80)]
    back = convert_autoscaler(converted, V1, CHECK)
    assert back["spec"] == {"scaleTargetRef": TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
    assert "annotations" not in back["metadata"]


METRICS: list[dict[str, Any]] = [
    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
    {"type": "External", "external": {"metric": {"name": "m", "selector": {}}, "target": {"type": "Value", "value": "1k"}}},
    {"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}},
    {
        "type": "Object",
        "object": {"describedObject": TARGET, "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}},
    },
    {"type": "Object", "object": {"describedObject": TARGET, "metric": {"name": "m"}, "target": {"type": "Value", "value": "2"}}},
    {
        "type": "ContainerResource",
        "containerResource": {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 1}},
    },
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
]


def test_everything_else_travels_in_annotations():
    """What goes to v1 comes back as it was; v1's names are upstream's."""
    behavior = {"scaleUp": {"selectPolicy": "Min", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]}}
    status = {
        "currentReplicas": 1,
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 4, "averageValue": "1"}}}],
        "conditions": [{"type": "AbleToScale", "status": "True"}],
    }
    given = v1({"maxReplicas": 3, "metrics": METRICS, "behavior": behavior}, {"a": "b"}, status=status) | {"apiVersion": V2}
    there = convert_autoscaler(given, V1, CHECK)
    assert there["spec"] == {"scaleTargetRef": TARGET, "maxReplicas": 3}
    assert there["status"] == {"currentReplicas": 1, "currentCPUUtilizationPercentage": 4}
    annotations = there["metadata"]["annotations"]
    assert json.loads(annotations[PREFIX + "metrics"])[0] == {"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "10"}}
    assert "SelectPolicy" in json.loads(annotations[PREFIX + "behavior"])["ScaleUp"]
    assert convert_autoscaler(there, V2, CHECK) == given


@pytest.mark.parametrize(
    "annotations",
    [
        {"metrics": "no JSON"},
        {"metrics": "{}", "behavior": "[]"},
        {"metrics": '[{"type": "Resource", "resource": {"name": 1}}]'},
        {"conditions": '["x"]'},
        {"metrics": "[1, null]"},
        {"behavior": '{"ScaleUp": 3}'},
    ],
)
def test_annotations_that_cannot_be_read_carry_nothing(annotations):
    """Clients may write invalid annotations."""
    given = v1({"targetCPUUtilizationPercentage": 50}, {PREFIX + name: value for name, value in annotations.items()})
    converted = convert_autoscaler(given, V2, CHECK)
    assert converted["spec"]["metrics"] == [cpu(50)]
    assert "behavior" not in converted["spec"]
    assert "annotations" not in converted["metadata"]


def test_nothing_to_do():
    """An object of the version asked for is itself."""

    def refuse(_obj: dict[str, Any]) -> None:
        raise bad_request("not asked")

    given = v1({})
    assert convert_autoscaler(given, V1, refuse) is given
