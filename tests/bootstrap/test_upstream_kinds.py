"""What ships of the kinds that come to clusters as CRDs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kcp_py.bootstrap.kinds import REFERENCE_PREFIX, builtin_kinds
from kcp_py.bootstrap.upstream_kinds import upstream_kinds, upstream_models
from tests.corpus import CORPUS, needs_corpus

CORE = "io.k8s.api.core.v1."
KEYS: dict[str, dict[str, str]] = {
    # definition -> field -> patch strategy and merge key: the struct tags of k8s.io/api (PodSpec, Container, …)
    CORE + "PodSpec": {
        "volumes": "merge,retainKeys/name",
        "initContainers": "merge/name",
        "containers": "merge/name",
        "ephemeralContainers": "merge/name",
        "imagePullSecrets": "merge/name",
        "hostAliases": "merge/ip",
        "topologySpreadConstraints": "merge/topologyKey",
        "schedulingGates": "merge/name",
        "resourceClaims": "merge,retainKeys/name",
        "tolerations": "/",
    },
    CORE + "Container": {
        "ports": "merge/containerPort",
        "env": "merge/name",
        "volumeMounts": "merge/mountPath",
        "volumeDevices": "merge/devicePath",
        "envFrom": "/",
        "args": "/",
        "command": "/",
    },
    CORE + "EphemeralContainer": {
        "ports": "merge/containerPort",
        "env": "merge/name",
        "volumeMounts": "merge/mountPath",
        "volumeDevices": "merge/devicePath",
    },
    CORE + "PodStatus": {"conditions": "merge/type", "hostIPs": "merge/ip", "podIPs": "merge/ip"},
    CORE + "ServiceSpec": {"ports": "merge/port"},
    CORE + "ServiceStatus": {"conditions": "merge/type"},
    CORE + "NodeSpec": {"podCIDRs": "merge/"},
    CORE + "NodeStatus": {"conditions": "merge/type", "addresses": "merge/type"},
    CORE + "PersistentVolumeClaimStatus": {"conditions": "merge/type"},
    CORE + "ReplicationControllerStatus": {"conditions": "merge/type"},
    "io.k8s.api.apps.v1.DeploymentSpec": {"strategy": "retainKeys/"},
    "io.k8s.api.apps.v1.DeploymentStatus": {"conditions": "merge/type"},
    "io.k8s.api.apps.v1.StatefulSetStatus": {"conditions": "merge/type"},
    "io.k8s.api.apps.v1.DaemonSetStatus": {"conditions": "merge/type"},
    "io.k8s.api.apps.v1.ReplicaSetStatus": {"conditions": "merge/type"},
    "io.k8s.api.batch.v1.JobStatus": {"conditions": "merge/type"},
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus": {"conditions": "merge/type"},
    "io.k8s.api.policy.v1.PodDisruptionBudgetSpec": {"selector": "replace/"},
    "io.k8s.api.policy.v1.PodDisruptionBudgetStatus": {"conditions": "merge/type"},
    "io.k8s.api.networking.v1.ServiceCIDRStatus": {"conditions": "merge/type"},
    "io.k8s.api.flowcontrol.v1.FlowSchemaStatus": {"conditions": "merge/type"},
    "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationStatus": {"conditions": "merge/type"},
    "io.k8s.api.certificates.v1.PodCertificateRequestStatus": {"conditions": "merge/type"},
    "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration": {"webhooks": "merge/name"},
    "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration": {"webhooks": "merge/name"},
    "io.k8s.api.admissionregistration.v1.ValidatingWebhook": {"matchConditions": "merge/name"},
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicySpec": {"matchConditions": "merge/name", "variables": "merge/name"},
    "io.k8s.api.storage.v1.CSINodeSpec": {"drivers": "merge/name"},
    "io.k8s.api.resource.v1.ResourceClaimStatus": {"reservedFor": "merge/uid"},
    "io.k8s.api.networking.v1.IngressSpec": {"rules": "/", "tls": "/"},
}


@pytest.mark.parametrize("model", KEYS)
def test_patch_keys(model: str) -> None:
    """Strategic merge patch finds the strategies and keys of the struct tags of k8s.io/api."""
    properties = upstream_models()[model]["properties"]
    found = {
        field: f"{properties[field].get('x-kubernetes-patch-strategy', '')}/{properties[field].get('x-kubernetes-patch-merge-key', '')}"
        for field in KEYS[model]
    }
    assert found == KEYS[model]


def test_every_kind_is_whole() -> None:
    """The type of each kind and of its list is there with everything that it refers to, and is not served anyway."""
    served = {(kind.group, kind.kind) for kind in builtin_kinds()}
    pending = [name for kind in upstream_kinds().values() for name in (kind.model, kind.model + "List")]
    for kind in upstream_kinds().values():
        assert (kind.group, kind.kind) not in served
        assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(kind.verbs)
        assert "alpha" not in kind.version
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending.extend(_references(upstream_models()[name]))


def test_defaults_of_keys() -> None:
    """Keys of lists that may be left out have their default, which field ownership needs."""
    for name in ("ContainerPort", "ServicePort"):
        assert upstream_models()[CORE + name]["properties"]["protocol"]["default"] == "TCP"


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(target := schema.get("$ref"), str):
            yield target.removeprefix(REFERENCE_PREFIX)
        for child in schema.values():
            yield from _references(child)
    elif isinstance(schema, list):
        for child in schema:
            yield from _references(child)


def discovered() -> Iterator[tuple[tuple[str, str, str], Mapping[str, Any]]]:
    """The resources of a real server by group, version and kind, in the form of legacy discovery."""
    assert CORPUS is not None
    folder = CORPUS / "tables" / "k8s-discovery"
    for entry in json.loads((folder / "api__v1.json").read_text())["resources"]:
        if "/" not in entry["name"]:
            yield ("", "v1", entry["kind"]), entry
    for group in json.loads((folder / "aggregated_v2.json").read_text())["items"]:
        for version in group["versions"]:
            for entry in version["resources"]:
                kind = entry["responseKind"]["kind"]
                names = {"name": entry["resource"], "namespaced": entry["scope"] == "Namespaced"}
                yield (group["metadata"].get("name", ""), version["version"], kind), {**entry, **names}


@needs_corpus
def test_names_are_those_of_a_real_server() -> None:
    """Plural, scope, verbs, short names and categories equal those of a real server."""
    seen = 0
    for key, entry in discovered():
        if (kind := upstream_kinds().get(key)) is not None:
            seen += 1
            assert (kind.plural, kind.namespaced) == (entry["name"], entry["namespaced"])
            assert sorted(entry["verbs"]) == list(kind.verbs)
            assert (entry.get("shortNames") or [], entry.get("categories") or []) == (list(kind.short_names), list(kind.categories)), key
    assert seen > 30
