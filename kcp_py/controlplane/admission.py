"""`build_admission`: the chain of admission plugins, from the options and from the arguments of a library user."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from kcp_py.admission import (
    CertificateSubjectRestriction,
    ClusterAccessGrantEscalation,
    LogicalClusterLifecycle,
    NamespaceLifecycle,
    ResourceQuota,
    TokenSecrets,
)
from kcp_py.admission.alwayspullimages import AlwaysPullImages
from kcp_py.admission.clusterobjects import ClusterObjects, Parse, V
from kcp_py.admission.configuration import AdmissionConfiguration, read_admission_configuration
from kcp_py.admission.defaultclasses import (
    INGRESS_CLASSES,
    STORAGE_CLASSES,
    DefaultIngressClass,
    DefaultStorageClass,
    parse_ingress_class,
    parse_storage_class,
)
from kcp_py.admission.defaulttolerationseconds import DefaultTolerationSeconds
from kcp_py.admission.denyserviceexternalips import DenyServiceExternalIPs
from kcp_py.admission.limitranger import LIMIT_RANGES, LimitRanger, parse_limits
from kcp_py.admission.names import FIRST, LAST, PLUGINS, check_switches, is_on
from kcp_py.admission.persistentvolumeclaimresize import PersistentVolumeClaimResize, parse_expansion
from kcp_py.admission.podnodes import Nodes
from kcp_py.admission.podresizevalidator import PodResizeValidator
from kcp_py.admission.podsecurity.configuration import parse_configuration as parse_pod_security
from kcp_py.admission.podsecurity.plugin import PodSecurity
from kcp_py.admission.podtopologylabels import PodTopologyLabels
from kcp_py.admission.policy.definitions import parse_binding, parse_policy
from kcp_py.admission.policy.engine import PolicyEngine
from kcp_py.admission.policy.hooks import ClusterHooks
from kcp_py.admission.policy.mutatingplugin import MutatingAdmissionPolicy
from kcp_py.admission.policy.objects import PolicyObjects
from kcp_py.admission.policy.parameteraccess import PolicyParameterAccess
from kcp_py.admission.policy.validatingplugin import ValidatingAdmissionPolicy
from kcp_py.admission.priority import Priority, parse_priority_class
from kcp_py.admission.runtimeclass import RUNTIME_CLASSES, RuntimeClass, parse_runtime_class
from kcp_py.admission.serviceaccount import ServiceAccount
from kcp_py.admission.storageprotection import StorageObjectInUseProtection
from kcp_py.admission.taintnodesbycondition import TaintNodesByCondition
from kcp_py.admission.tokensecrets import Sign
from kcp_py.admission.webhook.calls import WebhookCalls
from kcp_py.admission.webhook.definitions import parse_configuration
from kcp_py.admission.webhook.dispatch import WebhookDispatch
from kcp_py.admission.webhook.mutating import MutatingAdmissionWebhook
from kcp_py.admission.webhook.validating import ValidatingAdmissionWebhook
from kcp_py.aio.clock import Clock
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.admissionregistration.install import (
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_WEBHOOKS,
)
from kcp_py.apis.upstream.priorityclasses import PRIORITY_CLASSES
from kcp_py.authz.authorizer import Authorizer
from kcp_py.authz.rbac.escalation import EscalationCheck
from kcp_py.authz.rbac.indexes import RBACIndexes
from kcp_py.authz.signers import CertificateApproval, CertificateSigning, ClusterTrustBundleAttest
from kcp_py.controllers.names import PROTECTED_BY, is_enabled
from kcp_py.egress import Caller
from kcp_py.options import Options
from kcp_py.registry.admission import AdmissionChain, AdmissionPlugin
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.quota import QuotaLedger
from kcp_py.registry.store import Access
from kcp_py.registry.store.read import find
from kcp_py.storage.keys import InvalidSegmentError
from kcp_py.telemetry.gauges import Gauges
from kcp_py.tenancy import LogicalClusters
from kcp_py.watchcache import Fanout


class AdmissionParts(NamedTuple):
    """What plugins are made of."""

    options: Options
    access: Access
    fanout: Fanout
    tables: ResourceTables
    clusters: LogicalClusters
    authorizer: Authorizer
    rbac: RBACIndexes
    sign_secret: Sign
    quotas: QuotaLedger
    webhooks: Caller
    """Calls the webhooks of tenants."""
    clock: Clock
    """Refills the buckets of rate limits."""

    async def find_account(self, cluster_state: ClusterState, namespace: str, name: str) -> Mapping[str, Any] | None:
        """A ServiceAccount, stored or by default: see `admission.serviceaccount.FindAccount`."""
        served = self.tables.builtin("", "v1", "serviceaccounts")
        assert served is not None, "every cluster serves accounts"
        try:
            item = await find(self.access, cluster_state, served, namespace, name)
        except InvalidSegmentError:
            # A pod is filled before its names are validated.
            return None
        return None if item is None else orjson.loads(item.value)

    def objects(self, resource: GroupResource, parse: Parse[V], *, namespaced: bool = False) -> ClusterObjects[V]:
        """What the objects of a resource say to a plugin."""
        return ClusterObjects(
            resource,
            parse,
            namespaced=namespaced,
            access=self.access,
            fanout=self.fanout,
            tables=self.tables,
            root=self.options.etcd_prefix,
        )


def build_admission(parts: AdmissionParts, additional: Sequence[AdmissionPlugin] = (), *, absent: Collection[str] = ()) -> AdmissionChain:
    """The plugins that are on, in kube-apiserver's order.

    Args:
        parts: see `AdmissionParts`.
        additional: the plugins of a library user. They keep their order and run where kube-apiserver has its place for new plugins: after
            all others of their phase but policies, webhooks, checks of escalation, and quota.
        absent: plugins whose resources are not served.

    Raises:
        ValueError: a switch names a plugin that does not exist, see `check_switches`; a plugin has the name of another one; the
            configuration of a plugin is invalid (OptionsError).
    """
    makers = _makers(parts, read_admission_configuration(parts.options.admission_control_config_file))
    assert makers.keys() == set(PLUGINS), "every name has a plugin"
    names = [plugin.name for plugin in additional if plugin.name]
    if taken := sorted({name for name in names if name in {*FIRST, *LAST} or names.count(name) > 1}):
        raise ValueError(f"several admission plugins are named {', '.join(taken)}")
    enabled, disabled = parts.options.enable_admission_plugins, parts.options.disable_admission_plugins
    check_switches(enabled, disabled, names)

    def own(order: Sequence[str]) -> list[AdmissionPlugin]:
        return [makers[name]() for name in order if name in makers and name not in absent and is_on(name, enabled, disabled)]

    return AdmissionChain((*own(FIRST), *(plugin for plugin in additional if plugin.name not in disabled), *own(LAST)))


def describe_policies(chain: AdmissionChain, gauges: Gauges) -> None:
    """Offer the metrics of policies. Names of policies and bindings, which are labels upstream, belong to tenants and are left out.

    Source: k8s.io/apiserver `pkg/admission/plugin/policy/validating/metrics` and `policy/mutating/metrics`.
    """
    for plugin in chain.plugins:
        if isinstance(plugin, ValidatingAdmissionPolicy):
            name, labels = "apiserver_validating_admission_policy_check", ("error_type", "enforcement_action")
            text = "Decisions of ValidatingAdmissionPolicies that deny, warn or audit, or that allow in spite of an error."
            gauges.add(name, text, _counts(plugin.checks), kind="counter", labels=labels)
        elif isinstance(plugin, MutatingAdmissionPolicy):
            name, text = "apiserver_mutating_admission_policy_check", "Mutations by MutatingAdmissionPolicies."
            gauges.add(name, text, _counts(plugin.checks), kind="counter", labels=("error_type",))


def _counts(counts: dict[Any, int]) -> Callable[[], Mapping[tuple[str, ...], float]]:
    return lambda: {labels: float(count) for labels, count in counts.copy().items()}


def _makers(parts: AdmissionParts, configuration: AdmissionConfiguration) -> Mapping[str, Callable[[], AdmissionPlugin]]:
    """The plugins of the server by their names; `admission.names` has their order."""
    authorizer = parts.authorizer
    calls = WebhookCalls(parts.webhooks)
    return {
        "AlwaysPullImages": AlwaysPullImages,
        "CertificateApproval": lambda: CertificateApproval(authorizer),
        "CertificateSigning": lambda: CertificateSigning(authorizer),
        "CertificateSubjectRestriction": CertificateSubjectRestriction,
        "ClusterAccessGrantEscalation": ClusterAccessGrantEscalation,
        "ClusterTrustBundleAttest": lambda: ClusterTrustBundleAttest(authorizer),
        "DefaultIngressClass": lambda: DefaultIngressClass(parts.objects(INGRESS_CLASSES, parse_ingress_class)),
        "DefaultStorageClass": lambda: DefaultStorageClass(parts.objects(STORAGE_CLASSES, parse_storage_class)),
        "DefaultTolerationSeconds": lambda: DefaultTolerationSeconds(
            not_ready=parts.options.default_not_ready_toleration_seconds, unreachable=parts.options.default_unreachable_toleration_seconds
        ),
        "DenyServiceExternalIPs": DenyServiceExternalIPs,
        "EventRateLimit": lambda: _event_rate_limit(parts, configuration),
        "ExtendedResourceToleration": _extended_resources,
        "LimitPodHardAntiAffinityTopology": _anti_affinity,
        "LimitRanger": lambda: LimitRanger(parts.objects(LIMIT_RANGES, parse_limits, namespaced=True)),
        "LogicalClusterLifecycle": lambda: LogicalClusterLifecycle(parts.clusters.url_of),
        "MutatingAdmissionPolicy": lambda: MutatingAdmissionPolicy(_policies(parts, MUTATING_POLICIES, MUTATING_BINDINGS)),
        "MutatingAdmissionWebhook": lambda: MutatingAdmissionWebhook(_webhooks(parts, calls, MUTATING_WEBHOOKS)),
        "NamespaceLifecycle": lambda: NamespaceLifecycle(parts.access.storage),
        "PolicyParameterAccess": lambda: PolicyParameterAccess(PolicyObjects(parts.access, parts.tables), authorizer),
        "OwnerReferencesPermissionEnforcement": lambda: _owner_references(parts),
        "PersistentVolumeClaimResize": lambda: PersistentVolumeClaimResize(parts.objects(STORAGE_CLASSES, parse_expansion)),
        "PodNodeSelector": lambda: _node_selector(parts, configuration),
        "PodResizeValidator": lambda: PodResizeValidator(Nodes(parts.access.storage, parts.tables)),
        "PodSecurity": lambda: PodSecurity(parse_pod_security(configuration.of("PodSecurity")), parts.access.storage, parts.tables),
        "PodTolerationRestriction": lambda: _toleration_restriction(parts, configuration),
        "PodTopologyLabels": lambda: PodTopologyLabels(Nodes(parts.access.storage, parts.tables)),
        "Priority": lambda: Priority(parts.objects(PRIORITY_CLASSES, parse_priority_class)),
        "RBACEscalation": lambda: EscalationCheck(parts.rbac, authorizer),
        "ResourceQuota": lambda: _resource_quota(parts, configuration),
        "RuntimeClass": lambda: RuntimeClass(parts.objects(RUNTIME_CLASSES, parse_runtime_class)),
        "ServiceAccount": lambda: ServiceAccount(parts.find_account),
        "StorageObjectInUseProtection": lambda: _storage_protection(parts.options),
        "TaintNodesByCondition": TaintNodesByCondition,
        "TokenSecrets": lambda: TokenSecrets(parts.sign_secret),
        "ValidatingAdmissionPolicy": lambda: ValidatingAdmissionPolicy(_policies(parts, VALIDATING_POLICIES, VALIDATING_BINDINGS)),
        "ValidatingAdmissionWebhook": lambda: ValidatingAdmissionWebhook(_webhooks(parts, calls, VALIDATING_WEBHOOKS)),
    }


# Few servers have the following ones on.


def _resource_quota(parts: AdmissionParts, configuration: AdmissionConfiguration) -> AdmissionPlugin:
    document = configuration.of("ResourceQuota")
    if document is None:
        return ResourceQuota(parts.quotas)
    from kcp_py.admission.limitedresources import LimitedResourceQuota, parse_limited_resources  # noqa: PLC0415

    limited = parse_limited_resources(document)
    return LimitedResourceQuota(parts.quotas, limited) if limited else ResourceQuota(parts.quotas)


def _event_rate_limit(parts: AdmissionParts, configuration: AdmissionConfiguration) -> AdmissionPlugin:
    from kcp_py.admission.eventratelimit import EventRateLimit, parse_limits  # noqa: PLC0415

    return EventRateLimit(parse_limits(configuration.of("EventRateLimit")), clock=parts.clock.monotonic)


def _extended_resources() -> AdmissionPlugin:
    from kcp_py.admission.extendedresourcetoleration import ExtendedResourceToleration  # noqa: PLC0415

    return ExtendedResourceToleration()


def _anti_affinity() -> AdmissionPlugin:
    from kcp_py.admission.limitpodhardantiaffinitytopology import LimitPodHardAntiAffinityTopology  # noqa: PLC0415

    return LimitPodHardAntiAffinityTopology()


def _node_selector(parts: AdmissionParts, configuration: AdmissionConfiguration) -> AdmissionPlugin:
    from kcp_py.admission.podnodeselector import PodNodeSelector, parse_selectors  # noqa: PLC0415

    return PodNodeSelector(parse_selectors(configuration.of("PodNodeSelector")), parts.access.storage)


def _toleration_restriction(parts: AdmissionParts, configuration: AdmissionConfiguration) -> AdmissionPlugin:
    from kcp_py.admission.podtolerationrestriction import PodTolerationRestriction, parse_tolerations  # noqa: PLC0415

    return PodTolerationRestriction(parse_tolerations(configuration.of("PodTolerationRestriction")), parts.access.storage)


def _owner_references(parts: AdmissionParts) -> AdmissionPlugin:
    from kcp_py.admission.ownerreferences import OwnerReferencesPermissionEnforcement  # noqa: PLC0415

    return OwnerReferencesPermissionEnforcement(parts.authorizer, parts.tables)


def _storage_protection(options: Options) -> AdmissionPlugin:
    """The plugin for the resources whose finalizers this server removes, or for all where an operator asks for it by name."""
    explicit = StorageObjectInUseProtection.name in options.enable_admission_plugins
    resources = [resource for resource, controller in PROTECTED_BY.items() if explicit or is_enabled(controller, options.controllers)]
    return StorageObjectInUseProtection(resources)


def _webhooks(parts: AdmissionParts, calls: WebhookCalls, resource: GroupResource) -> WebhookDispatch:
    configurations = parts.objects(resource, parse_configuration)
    return WebhookDispatch(configurations, PolicyObjects(parts.access, parts.tables), parts.authorizer, calls)


def _policies(parts: AdmissionParts, policies: GroupResource, bindings: GroupResource) -> PolicyEngine:
    hooks = ClusterHooks(parts.objects(policies, parse_policy), parts.objects(bindings, parse_binding), parts.access.budget)
    return PolicyEngine(hooks, PolicyObjects(parts.access, parts.tables), parts.authorizer)
