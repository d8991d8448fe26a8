"""Derive the data of the kinds of Kubernetes that a cluster can be given as CRDs: kcp_py/bootstrap/upstream.

The same sources and forms as those of `update_builtin_kinds.py`, for every kind in a GA or beta version that can be stored and that the
server does not serve by itself. What the sources lack is here: names and places of kubernetes `pkg/registry/*/storage`, and the defaults
of `pkg/apis/*/defaults.go` and of `+default` in k8s.io/api that do not depend on other fields. Run it from the repository's root; the
output is deterministic, one model a line.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from typing import Any

import lightkube.resources
from update_builtin_kinds import SERVED, TARGET, VERBS, normalised, references, source_definitions

FOLDER = TARGET / "upstream"
CORE = "io.k8s.api.core.v1."

NAMES: dict[tuple[str, str], tuple[list[str], list[str]]] = {
    # group, kind -> short names, categories
    ("", "Endpoints"): (["ep"], []),
    ("", "Node"): (["no"], []),
    ("", "PersistentVolume"): (["pv"], []),
    ("", "PersistentVolumeClaim"): (["pvc"], []),
    ("", "Pod"): (["po"], ["all"]),
    ("", "ReplicationController"): (["rc"], ["all"]),
    ("", "Service"): (["svc"], ["all"]),
    ("apiregistration.k8s.io", "APIService"): ([], ["api-extensions"]),
    ("apps", "DaemonSet"): (["ds"], ["all"]),
    ("apps", "Deployment"): (["deploy"], ["all"]),
    ("apps", "ReplicaSet"): (["rs"], ["all"]),
    ("apps", "StatefulSet"): (["sts"], ["all"]),
    ("autoscaling", "HorizontalPodAutoscaler"): (["hpa"], ["all"]),
    ("batch", "CronJob"): (["cj"], ["all"]),
    ("batch", "Job"): ([], ["all"]),
    ("networking.k8s.io", "IPAddress"): (["ip"], []),
    ("networking.k8s.io", "Ingress"): (["ing"], []),
    ("networking.k8s.io", "NetworkPolicy"): (["netpol"], []),
    ("policy", "PodDisruptionBudget"): (["pdb"], []),
    ("scheduling.k8s.io", "PriorityClass"): (["pc"], []),
    ("storage.k8s.io", "StorageClass"): (["sc"], []),
    ("storage.k8s.io", "VolumeAttributesClass"): (["vac"], []),
}

FIELD_LABELS: dict[tuple[str, str], list[str]] = {
    # group, kind -> what field selectors name beyond metadata (`AddFieldLabelConversionFunc`)
    ("", "Node"): ["spec.unschedulable"],
    ("", "Pod"): [
        "spec.hostNetwork",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.nominatedNodeName",
        "status.phase",
        "status.podIP",
    ],
    ("", "ReplicationController"): ["status.replicas"],
    ("", "Service"): ["spec.clusterIP", "spec.type"],
    ("batch", "Job"): ["status.successful"],
    ("certificates.k8s.io", "ClusterTrustBundle"): ["spec.signerName"],
    ("certificates.k8s.io", "PodCertificateRequest"): ["spec.nodeName", "spec.podName", "spec.signerName"],
    ("resource.k8s.io", "ResourceSlice"): ["spec.driver", "spec.nodeName", "spec.pool.name"],
}

_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_MODE = {"defaultMode": 420}
_ORDERED = {"maxUnavailable": 1, "partition": 0}
_ROLLING = {"maxSurge": "25%", "maxUnavailable": "25%"}
_ISCSI = {"iscsiInterface": "default"}
_RBD = {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}
_SCALE_IO = {"storageMode": "ThinProvisioned", "fsType": "xfs"}
_FLOW = "io.k8s.api.flowcontrol.v1."

DEFAULTS: dict[str, dict[str, Any]] = {
    # model -> field -> default
    CORE + "AzureDiskVolumeSource": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    CORE + "ConfigMapVolumeSource": _MODE,
    CORE + "Container": _CONTAINER,
    CORE + "ContainerPort": {"protocol": "TCP"},
    CORE + "DownwardAPIVolumeSource": _MODE,
    CORE + "EndpointPort": {"protocol": "TCP"},
    CORE + "EphemeralContainer": _CONTAINER,
    CORE + "FileKeySelector": {"optional": False},
    CORE + "GRPCAction": {"service": ""},
    CORE + "HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    CORE + "HostPathVolumeSource": {"type": ""},
    CORE + "ISCSIPersistentVolumeSource": _ISCSI,
    CORE + "ISCSIVolumeSource": _ISCSI,
    CORE + "ObjectFieldSelector": {"apiVersion": "v1"},
    CORE + "PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    CORE + "PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    CORE + "PodSpec": {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    },
    CORE + "Probe": {"failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1},
    CORE + "ProjectedVolumeSource": _MODE,
    CORE + "RBDPersistentVolumeSource": _RBD,
    CORE + "RBDVolumeSource": _RBD,
    CORE + "ReplicationControllerSpec": {"replicas": 1},
    CORE + "ResourceFieldSelector": {"divisor": "0"},
    CORE + "ScaleIOPersistentVolumeSource": _SCALE_IO,
    CORE + "ScaleIOVolumeSource": _SCALE_IO,
    CORE + "SecretVolumeSource": _MODE,
    CORE + "ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    CORE + "ServicePort": {"protocol": "TCP"},
    CORE + "ServiceSpec": {"sessionAffinity": "None", "type": "ClusterIP"},
    "io.k8s.api.apps.v1.DaemonSetSpec": {
        "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    },
    "io.k8s.api.apps.v1.DeploymentSpec": {
        "progressDeadlineSeconds": 600,
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": _ROLLING},
    },
    "io.k8s.api.apps.v1.DaemonSetUpdateStrategy": {"type": "RollingUpdate"},
    "io.k8s.api.apps.v1.DeploymentStrategy": {"type": "RollingUpdate"},
    "io.k8s.api.apps.v1.ReplicaSetSpec": {"replicas": 1},
    "io.k8s.api.apps.v1.RollingUpdateDaemonSet": {"maxSurge": 0, "maxUnavailable": 1},
    "io.k8s.api.apps.v1.RollingUpdateDeployment": _ROLLING,
    "io.k8s.api.apps.v1.RollingUpdateStatefulSetStrategy": _ORDERED,
    "io.k8s.api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    "io.k8s.api.apps.v1.StatefulSetSpec": {
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "podManagementPolicy": "OrderedReady",
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": _ORDERED},
    },
    "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "io.k8s.api.batch.v1.CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "failedJobsHistoryLimit": 1,
        "successfulJobsHistoryLimit": 3,
        "suspend": False,
    },
    "io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern": {"status": "True"},
    "io.k8s.api.certificates.v1.PodCertificateRequestSpec": {"maxExpirationSeconds": 86400},
    "io.k8s.api.certificates.v1beta1.PodCertificateRequestSpec": {"maxExpirationSeconds": 86400},
    "io.k8s.api.discovery.v1.EndpointPort": {"name": "", "protocol": "TCP"},
    "io.k8s.api.networking.v1.IngressClassParametersReference": {"scope": "Cluster"},
    "io.k8s.api.networking.v1.NetworkPolicyPort": {"protocol": "TCP"},
    "io.k8s.api.scheduling.v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "io.k8s.api.scheduling.v1beta1.PodGroupSpec": {"disruptionMode": {"single": {}}},
    "io.k8s.api.storage.v1.CSIDriverSpec": {
        "attachRequired": True,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "podInfoOnMount": False,
        "preventPodSchedulingIfMissing": False,
        "requiresRepublish": False,
        "seLinuxMount": False,
        "storageCapacity": False,
        "volumeLifecycleModes": ["Persistent"],
    },
    "io.k8s.api.storage.v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    _FLOW + "ExemptPriorityLevelConfiguration": {"lendablePercent": 0, "nominalConcurrencyShares": 0},
    _FLOW + "FlowSchemaSpec": {"matchingPrecedence": 1000},
    _FLOW + "LimitedPriorityLevelConfiguration": {"lendablePercent": 0, "nominalConcurrencyShares": 30},
    _FLOW + "QueuingConfiguration": {"handSize": 8, "queueLengthLimit": 50, "queues": 64},
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference": {"port": 443},
    **{f"io.k8s.api.resource.{version}.DeviceToleration": {"operator": "Equal"} for version in ("v1", "v1beta2")},
}


def resources() -> tuple[list[dict[str, Any]], set[tuple[str, str]]]:
    """One row per kind and version in order of group, kind and version; and the groups and versions."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    subresources: list[tuple[tuple[str, str, str], str]] = []
    for module in pkgutil.iter_modules(lightkube.resources.__path__):
        for candidate in vars(importlib.import_module(f"lightkube.resources.{module.name}")).values():
            info = getattr(candidate, "_api_info", None)
            if info is None or not isinstance(candidate, type):
                continue
            if info.parent is not None:
                subresources.append(((info.parent.group, info.parent.kind, info.parent.version), info.action))
                continue
            group, version, kind = info.resource.group, info.resource.version, info.resource.kind
            if "alpha" in version or not {"post", "put", "delete", "list", "watch"} <= set(info.verbs) or is_served(group, kind):
                continue
            short_names, categories = NAMES.get((group, kind), ([], []))
            found[group, kind, version] = {
                "group": group,
                "version": version,
                "kind": kind,
                "plural": info.plural,
                "namespaced": any(verb.startswith("global_") for verb in info.verbs),
                "short_names": short_names,
                "categories": categories,
                "field_labels": FIELD_LABELS.get((group, kind), []),
                "verbs": sorted({VERBS.get(verb, verb) for verb in info.verbs if not verb.startswith("global_")}),
                "subresources": [],
            }
    for parent, name in subresources:
        if parent in found and name in {"status", "scale"}:
            found[parent]["subresources"] = sorted({*found[parent]["subresources"], name})
    return [found[key] for key in sorted(found)], {(row["group"], row["version"]) for row in found.values()}


def is_served(group: str, kind: str) -> bool:
    modules = {"": "core_v1", "events.k8s.io": "events_v1"}
    module = modules.get(group, group.removesuffix(".k8s.io").replace(".", "_") + "_v1")
    return (module, kind) in SERVED


def model_names(source: dict[str, Any]) -> dict[tuple[str, str, str], str]:
    """(group, version, kind) -> model. A kind may be listed with more than one group; its own package is the last of its name."""
    names = {}
    for name, schema in source.items():
        for mark in schema.get("x-kubernetes-group-version-kind") or ():
            if name.endswith(f".{mark['version']}.{mark['kind']}"):
                names[mark["group"], mark["version"], mark["kind"]] = name
    return names


def with_defaults(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    for field, default in DEFAULTS.get(name, {}).items():
        schema["properties"][field]["default"] = default
    return schema


def main() -> None:
    source = source_definitions()
    rows, groups = resources()
    names = model_names(source)
    served = {name for file in sorted((TARGET / "models").glob("*.json")) for name in json.loads(file.read_text())}
    for row in rows:
        row["model"] = names[row["group"], row["version"], row["kind"]]
    pending = [name for row in rows for name in (row["model"], row["model"] + "List")]
    reached: dict[str, Any] = {}
    while pending:
        name = pending.pop()
        if name not in reached and name not in served:
            reached[name] = with_defaults(name, normalised(source[name], groups))
            pending.extend(references(source[name]))
    if unknown := DEFAULTS.keys() - reached.keys():
        raise SystemExit(f"defaults of unknown models: {sorted(unknown)}")
    write_lines("kinds.json", "[\n", [compact(row) for row in rows], "\n]\n")
    write_lines("models.json", "{\n", [f"{json.dumps(name)}:{compact(schema)}" for name, schema in sorted(reached.items())], "\n}\n")


def compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def write_lines(name: str, start: str, lines: list[str], end: str) -> None:
    (FOLDER / name).write_text(start + ",\n".join(lines) + end)
    print(FOLDER / name)


if __name__ == "__main__":
    main()
