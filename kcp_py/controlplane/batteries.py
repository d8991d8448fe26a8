"""`Batteries`: what a selection of batteries means for resources, admission plugins and controllers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.controllers import is_elected
from kcp_py.controllers import names as controllers
from kcp_py.options import Options
from kcp_py.options.batteries import BATTERIES, select_batteries
from kcp_py.registry.resource import ServedResource


class _Content(NamedTuple):
    groups: Collection[str] = ()
    """Every resource of these API groups belongs to the battery, and those of `resources`."""
    resources: Collection[GroupResource] = ()
    plugins: Collection[str] = ()
    controllers: Collection[str] = ()
    kinds: Collection[str] = ()
    """Names for `builtin_kinds`."""
    namespaced: bool = False
    """Whether nothing of it is left without namespaces."""


def _core(*plurals: str) -> tuple[GroupResource, ...]:
    return tuple(GroupResource("", plural) for plural in plurals)


_CONTENT: Final = {
    "admission-webhooks": _Content(
        resources=[GroupResource("admissionregistration.k8s.io", f"{kind}webhookconfigurations") for kind in ("mutating", "validating")],
        plugins=("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"),
    ),
    "aggregation": _Content(kinds=("*.apiregistration.k8s.io",)),
    "authentication": _Content(groups=("authentication.k8s.io", "authentication.kcp-py.io")),
    "authorization": _Content(groups=("authorization.k8s.io",)),
    "certificates": _Content(
        groups=("certificates.k8s.io",),
        plugins=("CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction"),
        controllers=(controllers.APPROVING, controllers.SIGNING, controllers.SIGNING_REQUEST_CLEANER),
    ),
    "core": _Content(resources=_core("configmaps", "secrets", "componentstatuses"), namespaced=True),
    "crds": _Content(
        groups=("apiextensions.k8s.io",), controllers=(controllers.CUSTOM_RESOURCE_DEFINITION, controllers.STORAGE_VERSION_MIGRATOR)
    ),
    "events": _Content(
        groups=("events.k8s.io",),
        resources=_core("events"),
        plugins=("EventRateLimit",),
        controllers=(controllers.EVENT_TTL,),
        namespaced=True,
    ),
    "flow-control": _Content(kinds=("*.flowcontrol.apiserver.k8s.io",)),
    "leases": _Content(groups=("coordination.k8s.io",), namespaced=True),
    "logical-clusters": _Content(
        groups=("core.kcp.io", "metrics.kcp-py.dev"),
        plugins=("LogicalClusterLifecycle",),
        controllers=(controllers.LOGICAL_CLUSTER_CONTROLLER, controllers.LOGICAL_CLUSTER_LIMITS),
    ),
    "namespaces": _Content(resources=_core("namespaces"), plugins=("NamespaceLifecycle",), controllers=(controllers.NAMESPACE,)),
    "policies": _Content(
        resources=[
            GroupResource("admissionregistration.k8s.io", f"{kind}admissionpolic{end}")
            for kind in ("mutating", "validating")
            for end in ("ies", "ybindings")
        ],
        plugins=("MutatingAdmissionPolicy", "PolicyParameterAccess", "ValidatingAdmissionPolicy"),
        controllers=(controllers.VALIDATING_POLICY_STATUS,),
    ),
    "quotas": _Content(
        resources=_core("limitranges", "resourcequotas"),
        plugins=("LimitRanger", "ResourceQuota"),
        controllers=(controllers.RESOURCE_QUOTA,),
        namespaced=True,
    ),
    "rbac": _Content(
        groups=("rbac.authorization.k8s.io",),
        plugins=("ClusterAccessGrantEscalation", "RBACEscalation"),
        controllers=(controllers.CLUSTER_ROLE_AGGREGATION,),
    ),
    "service-accounts": _Content(
        resources=_core("serviceaccounts"),
        plugins=("ServiceAccount",),
        namespaced=True,
    ),
}
assert _CONTENT.keys() == BATTERIES.keys()

_OF_KUBERNETES: Final = frozenset({
    "AlwaysPullImages", "ClusterTrustBundleAttest", "DefaultIngressClass", "DefaultStorageClass", "DefaultTolerationSeconds",
    "DenyServiceExternalIPs", "ExtendedResourceToleration", "LimitPodHardAntiAffinityTopology", "PersistentVolumeClaimResize",
    "PodNodeSelector", "PodResizeValidator", "PodSecurity", "PodTolerationRestriction", "PodTopologyLabels", "Priority", "RuntimeClass",
    "ServiceAccount", "StorageObjectInUseProtection", "TaintNodesByCondition",
})  # fmt: skip
"""The plugins for kinds that only CRDs or `builtin_kinds` add."""
_WORKLOADS: Final = frozenset({
    controllers.CLAIM_PROTECTION, controllers.CLASS_PROTECTION, controllers.DISRUPTION, controllers.POD_GARBAGE_COLLECTOR,
    controllers.TTL_AFTER_FINISHED, controllers.VOLUME_PROTECTION, controllers.WORKLOAD_SIMULATION,
})  # fmt: skip
"""The controllers for such kinds."""
_TOKEN_SECRETS: Final = frozenset({controllers.LEGACY_CLEANER, controllers.SERVICE_ACCOUNT_SECRETS})


class Batteries:
    """The batteries of one server.

    Attributes:
        names: of the batteries.
        kinds: the names of `Options.builtin_kinds`, with those of batteries.
        absent_plugins: the admission plugins without work.
        absent_controllers: the controllers without work.
    """

    def __init__(self, options: Options) -> None:
        """Check what depends on what.

        Raises:
            ValueError: a setting or a battery needs a battery that is not selected. The text lists all of them.
        """
        self.names: Final = select_batteries(options.batteries)
        self.kinds: Final = (*options.builtin_kinds, *(kind for name in sorted(self.names) for kind in _CONTENT[name].kinds))
        missing = [content for name, content in _CONTENT.items() if name not in self.names]
        self._groups = frozenset(group for content in missing for group in content.groups)
        self._resources = frozenset(resource for content in missing for resource in content.resources)
        self.absent_plugins = {plugin for content in missing for plugin in content.plugins}
        self.absent_controllers = {controller for content in missing for controller in content.controllers}
        if not self.has_kinds_of_kubernetes:
            self.absent_plugins |= _OF_KUBERNETES
            self.absent_controllers |= _WORKLOADS
        if not {"core", "service-accounts"} <= self.names:
            self.absent_plugins.add("TokenSecrets")
            self.absent_controllers |= _TOKEN_SECRETS
        if problems := [*self._problems(options)]:
            raise ValueError("; ".join(problems))

    def __contains__(self, name: str) -> bool:
        return name in self.names

    @property
    def has_kinds_of_kubernetes(self) -> bool:
        """Whether a cluster may have kinds such as pods."""
        return "crds" in self.names or bool(self.kinds)

    def serves(self, resource: ServedResource) -> bool:
        """Whether a built-in resource is served."""
        if resource.namespaced and "namespaces" not in self.names:
            return False
        return resource.group not in self._groups and resource.group_resource not in self._resources

    def check_scopes(self, resources: Iterable[ServedResource]) -> None:
        """Check that the resources of a program, and those of Kubernetes that the options add, have what they need.

        Raises:
            ValueError: one is namespaced, and there are no namespaces.
        """
        namespaced = sorted({str(resource.group_resource) for resource in resources if resource.namespaced})
        if namespaced and "namespaces" not in self.names:
            raise ValueError(f"{', '.join(namespaced)}: namespaced resources need the battery namespaces")

    def _problems(self, options: Options) -> Iterable[str]:
        for name in sorted(self.names):
            if _CONTENT[name].namespaced and "namespaces" not in self.names:
                yield f"the battery {name} needs the battery namespaces, because its resources are namespaced"
        yield from self._unserved("--enable-admission-plugins", options.enable_admission_plugins, self._wanting_plugin)
        yield from self._unserved("--controllers", options.controllers, self._wanting_controller)
        needs = {
            "--logical-clusters declared": (options.logical_clusters == "declared", "logical-clusters"),
            "leader election, which --leader-elect=false turns off,": (is_elected(options), "leases"),
        }
        for setting, (is_set, battery) in needs.items():
            if is_set and battery not in self.names:
                yield f"{setting} needs the battery {battery}"

    def _unserved(self, flag: str, names: Sequence[str], wanting: Callable[[str], str]) -> Iterable[str]:
        for name in names:
            if battery := wanting(name):
                yield f"{flag}: {name} needs the battery {battery}"

    def _wanting_plugin(self, plugin: str) -> str:
        return self._wanting(plugin, self.absent_plugins, lambda content: content.plugins)

    def _wanting_controller(self, controller: str) -> str:
        return self._wanting(controller, self.absent_controllers, lambda content: content.controllers)

    def _wanting(self, name: str, absent: Collection[str], members: Callable[[_Content], Collection[str]]) -> str:
        """The battery for want of which a plugin or a controller has no work; empty for one that has."""
        if name not in absent:
            return ""
        for battery, content in _CONTENT.items():
            if battery not in self.names and name in members(content):
                return battery
        return "crds" if not self.has_kinds_of_kubernetes else "core and service-accounts"
