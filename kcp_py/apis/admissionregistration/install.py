"""The kinds of the group."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.admissionregistration.columns import BINDING, MUTATING_POLICY, VALIDATING_POLICY, WEBHOOKS
from kcp_py.apis.admissionregistration.defaults import (
    default_binding,
    default_mutating_webhooks,
    default_policy,
    default_validating_webhooks,
)
from kcp_py.apis.admissionregistration.strategy import (
    MutatingPolicyBindingStrategy,
    MutatingPolicyStrategy,
    MutatingWebhookStrategy,
    ValidatingPolicyBindingStrategy,
    ValidatingPolicyStrategy,
    ValidatingWebhookStrategy,
)
from kcp_py.apis.kindrules import Installed, KindRules

GROUP: Final = "admissionregistration.k8s.io"
MUTATING_WEBHOOKS: Final = GroupResource(GROUP, "mutatingwebhookconfigurations")
VALIDATING_WEBHOOKS: Final = GroupResource(GROUP, "validatingwebhookconfigurations")
MUTATING_POLICIES: Final = GroupResource(GROUP, "mutatingadmissionpolicies")
MUTATING_BINDINGS: Final = GroupResource(GROUP, "mutatingadmissionpolicybindings")
VALIDATING_POLICIES: Final = GroupResource(GROUP, "validatingadmissionpolicies")
VALIDATING_BINDINGS: Final = GroupResource(GROUP, "validatingadmissionpolicybindings")


def install() -> Installed:
    """The rules of each kind."""
    return {
        MUTATING_WEBHOOKS: KindRules(MutatingWebhookStrategy, WEBHOOKS, normalize=default_mutating_webhooks),
        VALIDATING_WEBHOOKS: KindRules(ValidatingWebhookStrategy, WEBHOOKS, normalize=default_validating_webhooks),
        MUTATING_POLICIES: KindRules(MutatingPolicyStrategy, MUTATING_POLICY, normalize=default_policy),
        MUTATING_BINDINGS: KindRules(MutatingPolicyBindingStrategy, BINDING, normalize=default_binding),
        VALIDATING_POLICIES: KindRules(ValidatingPolicyStrategy, VALIDATING_POLICY, normalize=default_policy),
        VALIDATING_BINDINGS: KindRules(ValidatingPolicyBindingStrategy, BINDING, normalize=default_binding),
    }
