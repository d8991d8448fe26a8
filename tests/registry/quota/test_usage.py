"""What objects count for, and in which scopes, as in kubernetes `pkg/quota/v1/evaluator/core`."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.quota.usage import CLAIMS, DEVICE_CLAIMS, PODS, SERVICES, Scope, evaluator_of, resource_of_name

METADATA = {"name": "x", "namespace": "n"}


def shown(resource: GroupResource, obj: dict[str, Any]) -> dict[str, str]:
    return {name: str(amount) for name, amount in evaluator_of(resource).usage({"metadata": METADATA, **obj}).items()}


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("count/deployments.apps", GroupResource("apps", "deployments")),
        ("count/widgets.example.com", GroupResource("example.com", "widgets")),
        ("count/pods", PODS),
        ("pods", PODS),
        ("limits.ephemeral-storage", PODS),
        ("hugepages-2Mi", PODS),
        ("requests.hugepages-2Mi", PODS),
        ("requests.nvidia.com/gpu", PODS),
        ("requests.deviceclass.resource.kubernetes.io/big", PODS),
        ("nvidia.com/gpu", None),
        ("limits.nvidia.com/gpu", None),
        ("services.nodeports", SERVICES),
        ("requests.storage", CLAIMS),
        ("gold.storageclass.storage.k8s.io/requests.storage", CLAIMS),
        ("gold.storageclass.storage.k8s.io/other", None),
        ("gpu.deviceclass.resource.k8s.io/devices", DEVICE_CLAIMS),
        ("count/resourceclaims.resource.k8s.io", DEVICE_CLAIMS),
        ("configmaps", GroupResource("", "configmaps")),
        ("replicationcontrollers", GroupResource("", "replicationcontrollers")),
        ("deployments", None),
        ("count/events", None),
        ("count/events.events.k8s.io", None),
    ],
)
def test_names(name, resource):
    """Each name of a quota is about one resource, or about none."""
    assert resource_of_name(name) == resource


def test_objects_are_counted_by_resource():
    """Some resources of the core group have an older name as well."""
    assert shown(GroupResource("apps", "deployments"), {}) == {"count/deployments.apps": "1"}
    assert shown(GroupResource("", "secrets"), {}) == {"count/secrets": "1", "secrets": "1"}
    assert shown(GroupResource("", "endpoints"), {}) == {"count/endpoints": "1"}


@pytest.mark.parametrize(
    ("spec", "node_ports", "load_balancers"),
    [
        ({"type": "ClusterIP", "ports": [{}, {}]}, "0", "0"),
        ({"type": "NodePort", "ports": [{}, {}]}, "2", "0"),
        ({"type": "LoadBalancer", "ports": [{}, {}]}, "2", "1"),
        ({"type": "LoadBalancer", "ports": [{"nodePort": 30000}, {}], "allocateLoadBalancerNodePorts": False}, "1", "1"),
    ],
)
def test_services(spec, node_ports, load_balancers):
    """Node ports count where they are asked for, whether or not they are given out."""
    wanted = {"count/services": "1", "services": "1", "services.nodeports": node_ports, "services.loadbalancers": load_balancers}
    assert shown(SERVICES, {"spec": spec}) == wanted


def test_claims():
    """Storage counts in bytes, in total and for its class; an allocation counts where it is more."""
    claim: dict[str, Any] = {"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}}}
    assert shown(CLAIMS, claim) == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": "1Gi",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
    }
    assert shown(CLAIMS, claim | {"status": {"allocatedResources": {"storage": "2Gi"}}})["requests.storage"] == "2Gi"
    plain = {"spec": {"resources": {"requests": {"storage": "1500m"}}}}
    assert shown(CLAIMS, plain) == {"count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1", "requests.storage": "2"}
    older = {
        "metadata": {**METADATA, "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
        "spec": {"storageClassName": "new"},
    }
    assert "old.storageclass.storage.k8s.io/persistentvolumeclaims" in shown(CLAIMS, older)


POD: dict[str, Any] = {"metadata": METADATA, "spec": {"containers": [{"name": "c"}]}}
WORKER: dict[str, Any] = {
    "metadata": METADATA,
    "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "activeDeadlineSeconds": 5,
        "priorityClassName": "high",
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["other"]}]}},
    },
}
CLAIM: dict[str, Any] = {"metadata": METADATA, "spec": {"volumeAttributesClassName": "fast"}}


@pytest.mark.parametrize(
    ("scope", "pod", "worker"),
    [
        (Scope("Terminating"), False, True),
        (Scope("NotTerminating"), True, False),
        (Scope("BestEffort"), True, False),
        (Scope("NotBestEffort"), False, True),
        (Scope("PriorityClass"), False, True),
        (Scope("PriorityClass", "DoesNotExist"), True, False),
        (Scope("PriorityClass", "In", {"low"}), False, False),
        (Scope("PriorityClass", "In", {"high", "low"}), False, True),
        (Scope("PriorityClass", "NotIn", {"high"}), True, False),
        (Scope("CrossNamespacePodAffinity"), False, True),
        (Scope("VolumeAttributesClass"), False, False),
    ],
)
def test_scopes_of_pods(scope, pod, worker):
    """A pod is counted in each scope that describes it."""
    in_scope = evaluator_of(PODS).in_scope
    assert (in_scope(scope, POD), in_scope(scope, WORKER)) == (pod, worker)


def test_scopes_of_other_resources():
    """Claims have one scope, services and all else have none."""
    in_scope = evaluator_of(CLAIMS).in_scope
    assert in_scope(Scope("VolumeAttributesClass", "In", {"fast"}), CLAIM)
    assert not in_scope(Scope("VolumeAttributesClass", "In", {"slow"}), CLAIM)
    assert in_scope(Scope("VolumeAttributesClass", "In", {"slow"}), CLAIM | {"status": {"currentVolumeAttributesClassName": "slow"}})
    assert not in_scope(Scope("Terminating"), CLAIM)
    assert not evaluator_of(SERVICES).in_scope(Scope("Terminating"), {"metadata": METADATA})
    assert not evaluator_of(GroupResource("", "secrets")).in_scope(Scope("BestEffort"), {"metadata": METADATA})
