"""The names of all controllers, and which of them a selection runs.

Controllers that kube-controller-manager has too have its names, which are those of its `--controllers` (kubernetes
`cmd/kube-controller-manager/names`). The others follow the same conventions. Upstream's older names and those of older versions of this
program are accepted as aliases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kcp_py.apimachinery.kinds import GroupResource

CLAIM_PROTECTION: Final = "persistentvolumeclaim-protection-controller"
CLASS_PROTECTION: Final = "volumeattributesclass-protection-controller"
APPROVING: Final = "certificatesigningrequest-approving-controller"
CLUSTER_ROLE_AGGREGATION: Final = "clusterrole-aggregation-controller"
CUSTOM_RESOURCE_DEFINITION: Final = "customresourcedefinition-controller"
DISRUPTION: Final = "disruption-controller"
EVENT_TTL: Final = "event-ttl-controller"
GARBAGE_COLLECTOR: Final = "garbage-collector-controller"
LEGACY_CLEANER: Final = "legacy-serviceaccount-token-cleaner-controller"
LOGICAL_CLUSTER_CONTROLLER: Final = "logicalcluster-controller"
LOGICAL_CLUSTER_LIMITS: Final = "logicalcluster-limits-controller"
NAMESPACE: Final = "namespace-controller"
POD_GARBAGE_COLLECTOR: Final = "pod-garbage-collector-controller"
RESOURCE_QUOTA: Final = "resourcequota-controller"
SERVICE_ACCOUNT_SECRETS: Final = "serviceaccount-token-controller"
SIGNING: Final = "certificatesigningrequest-signing-controller"
SIGNING_REQUEST_CLEANER: Final = "certificatesigningrequest-cleaner-controller"
STORAGE_VERSION_MIGRATOR: Final = "storage-version-migrator-controller"
TTL_AFTER_FINISHED: Final = "ttl-after-finished-controller"
VALIDATING_POLICY_STATUS: Final = "validatingadmissionpolicy-status-controller"
VOLUME_PROTECTION: Final = "persistentvolume-protection-controller"
WORKLOAD_SIMULATION: Final = "workload-simulation-controller"

CONTROLLERS: Final = (
    APPROVING,
    SIGNING_REQUEST_CLEANER,
    SIGNING,
    CLUSTER_ROLE_AGGREGATION,
    CUSTOM_RESOURCE_DEFINITION,
    DISRUPTION,
    EVENT_TTL,
    GARBAGE_COLLECTOR,
    LEGACY_CLEANER,
    LOGICAL_CLUSTER_CONTROLLER,
    LOGICAL_CLUSTER_LIMITS,
    NAMESPACE,
    VOLUME_PROTECTION,
    CLAIM_PROTECTION,
    POD_GARBAGE_COLLECTOR,
    RESOURCE_QUOTA,
    SERVICE_ACCOUNT_SECRETS,
    STORAGE_VERSION_MIGRATOR,
    TTL_AFTER_FINISHED,
    VALIDATING_POLICY_STATUS,
    CLASS_PROTECTION,
)
"""The controllers that are on by default."""

SIMULATIONS: Final = (WORKLOAD_SIMULATION,)
"""The controllers that `--simulate` adds."""

PROTECTED_BY: Final[Mapping[GroupResource, str]] = {
    GroupResource("", "persistentvolumeclaims"): CLAIM_PROTECTION,
    GroupResource("", "persistentvolumes"): VOLUME_PROTECTION,
    GroupResource("storage.k8s.io", "volumeattributesclasses"): CLASS_PROTECTION,
}
"""The controllers that remove the finalizers which objects in use are protected by."""

ALIASES: Final[Mapping[str, str]] = {
    "clusterrole-aggregation": CLUSTER_ROLE_AGGREGATION,
    "clusterroles": CLUSTER_ROLE_AGGREGATION,
    "csrapproving": APPROVING,
    "csrcleaner": SIGNING_REQUEST_CLEANER,
    "csrsigning": SIGNING,
    "definitions": CUSTOM_RESOURCE_DEFINITION,
    "disruption": DISRUPTION,
    "garbagecollector": GARBAGE_COLLECTOR,
    "legacy-service-account-token-cleaner": LEGACY_CLEANER,
    "logicalclusters": LOGICAL_CLUSTER_CONTROLLER,
    "namespace": NAMESPACE,
    "namespaces": NAMESPACE,
    "podgc": POD_GARBAGE_COLLECTOR,
    "pv-protection": VOLUME_PROTECTION,
    "pvc-protection": CLAIM_PROTECTION,
    "resourcequota": RESOURCE_QUOTA,
    "serviceaccount-token": SERVICE_ACCOUNT_SECRETS,
    "tokensecrets": SERVICE_ACCOUNT_SECRETS,
    "ttl-after-finished": TTL_AFTER_FINISHED,
}
"""Other names that a selection may use."""


def is_enabled(name: str, selection: Collection[str]) -> bool:
    """Whether a controller runs: `*` stands for all, `foo` runs foo, `-foo` does not (kube-controller-manager's `--controllers`).

    Args:
        name: of the controller, and no alias.
        selection: of names and aliases. A dash wins over a name without one.
    """
    selected = {_without_alias(one) for one in selection}
    if f"-{name}" in selected:
        return False
    return name in selected or "*" in selected


def check_selection(selection: Collection[str], additional: Iterable[str] = ()) -> None:
    """Check that a selection names nothing but controllers.

    Args:
        selection: see `is_enabled`.
        additional: names of controllers in addition to those of the server.

    Raises:
        ValueError: it does.
    """
    names = (*CONTROLLERS, *SIMULATIONS, *additional)
    unknown = sorted({name.removeprefix("-") for name in selection} - {"*", *names, *ALIASES})
    if unknown:
        raise ValueError(f"unknown controllers: {', '.join(unknown)}; there are {', '.join(names)}")


def _without_alias(selected: str) -> str:
    dash = "-" if selected.startswith("-") else ""
    name = selected.removeprefix("-")
    return dash + ALIASES.get(name, name)
