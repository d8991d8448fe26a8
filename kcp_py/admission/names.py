"""The names of all admission plugins in their order, which of them are on, and which kube-apiserver has and this server does not.

Source: kubernetes `pkg/kubeapiserver/options/plugins.go` (`AllOrderedPlugins`, `DefaultOffAdmissionPlugins`) and k8s.io/apiserver
`pkg/server/options/admission.go` (`Validate`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

FIRST: Final = (
    "LogicalClusterLifecycle",
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "NodeDeclaredFeatureValidator",
    "PodResizeValidator",
    "TokenSecrets",
)
"""Before the plugins of a library user, which take the place that kube-apiserver has for new plugins."""
LAST: Final = (
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    # They judge an object as all others have left it.
    "RBACEscalation",
    "ClusterAccessGrantEscalation",
    "PolicyParameterAccess",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
)
"""After the plugins of a library user."""

OFF_BY_DEFAULT: Final = frozenset(
    {
        "AlwaysPullImages",
        "DenyServiceExternalIPs",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "LimitPodHardAntiAffinityTopology",
        "NamespaceAutoProvision",
        "NamespaceExists",
        "OwnerReferencesPermissionEnforcement",
        "PodNodeSelector",
        "PodTolerationRestriction",
    }
)
"""Plugins of this server that run only where they are enabled, as upstream."""

REQUIRED: Final[Mapping[str, str]] = {
    "ClusterAccessGrantEscalation": "without it an administrator of root could become one of every cluster",
    "LogicalClusterLifecycle": "without it tenants could write what administrators of all clusters decide",
    "PolicyParameterAccess": "without it authors of policies could show objects that they may not read",
    "RBACEscalation": "without it authors of roles could give themselves any permission",
    "TokenSecrets": "without it secrets of service accounts would get no tokens",
}
"""Plugins that cannot be disabled, each with the reason."""

_NODES: Final = "there are no nodes"
ABSENT: Final[Mapping[str, str]] = {
    "AlwaysAdmit": "it has no effect in kube-apiserver either",
    "AlwaysDeny": "it would refuse the writes that the server itself needs",
    "ImagePolicyWebhook": "images are run by nodes, and " + _NODES,
    "NamespaceAutoProvision": "it conflicts with the rule that nothing outlives its namespace",
    "NamespaceExists": "NamespaceLifecycle does the same and more",
    "NodeDeclaredFeatureValidator": "kubelets declare the features of nodes, and there are no kubelets",
    "NodeRestriction": "it restricts the kubelets of nodes, and " + _NODES,
    "PodGroupProtection": "it has no effect in kube-apiserver either, where the feature of PodGroups is off by default",
}
"""Plugins of kube-apiserver that this server does not have, each with the reason. Disabling one is allowed, as it is off."""

PLUGINS: Final = tuple(name for name in (*FIRST, *LAST) if name not in ABSENT)
"""The plugins of this server in their order."""


def check_switches(enabled: Collection[str], disabled: Collection[str], additional: Sequence[str] = ()) -> None:
    """Check the names of the switches of admission plugins.

    Args:
        enabled: names of `--enable-admission-plugins`.
        disabled: names of `--disable-admission-plugins`.
        additional: the names of the plugins of a library user.

    Raises:
        ValueError: a name is unknown, or in both; a plugin to enable is absent; a plugin to disable is required.
    """
    known = {*FIRST, *LAST, *additional}
    problems = []
    for flag, names in (("--enable-admission-plugins", enabled), ("--disable-admission-plugins", disabled)):
        if unknown := sorted(set(names) - known):
            have = ", ".join((*PLUGINS, *additional))
            problems.append(f"{flag}: unknown plugins: {', '.join(unknown)}; there are {have}")
    problems += [f"--enable-admission-plugins: {name} is not available: {ABSENT[name]}" for name in sorted(set(enabled) & set(ABSENT))]
    problems += [f"--disable-admission-plugins: {name} is required: {REQUIRED[name]}" for name in sorted(set(disabled) & set(REQUIRED))]
    if both := sorted(set(enabled) & set(disabled)):
        problems.append(f"--enable-admission-plugins and --disable-admission-plugins both name {', '.join(both)}")
    if problems:
        raise ValueError("; ".join(problems))


def is_on(name: str, enabled: Collection[str], disabled: Collection[str]) -> bool:
    """Whether a plugin runs."""
    return name not in disabled and (name in enabled or name not in OFF_BY_DEFAULT)
