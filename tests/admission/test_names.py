"""The names and the order of admission plugins are those of kube-apiserver, and the switches accept what can be meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kcp_py.admission.names import ABSENT, FIRST, LAST, OFF_BY_DEFAULT, PLUGINS, REQUIRED, check_switches, is_on

# Recorded from kube-apiserver 1.37.2: `AllOrderedPlugins`, and the names of --help that are not on by default.
UPSTREAM = [
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
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
]
UPSTREAM_OFF = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
    "PodTolerationRestriction",
]
OWN = ["LogicalClusterLifecycle", "TokenSecrets", "RBACEscalation", "ClusterAccessGrantEscalation", "PolicyParameterAccess"]


def test_the_order_is_that_of_kube_apiserver():
    """With plugins of its own between those."""
    assert [name for name in (*FIRST, *LAST) if name not in OWN] == UPSTREAM
    assert sorted(OWN) == sorted({*FIRST, *LAST} - set(UPSTREAM))


def test_webhooks_and_policies_come_after_all_that_fills_objects():
    """Quota comes last, and the check of escalation sees what webhooks add."""
    assert LAST[:3] == ("MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "RBACEscalation")
    assert LAST[-4:] == ("ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "ResourceQuota", "AlwaysDeny")


def test_what_is_off_by_default_is_off_in_kube_apiserver():
    """No plugin that kube-apiserver runs is off, and no plugin runs that it does not run."""
    assert set(UPSTREAM_OFF) >= OFF_BY_DEFAULT
    assert {name for name in PLUGINS if name in UPSTREAM_OFF} <= OFF_BY_DEFAULT
    assert not {name for name in PLUGINS if name in ABSENT}
    assert set(REQUIRED) <= set(PLUGINS)


@pytest.mark.parametrize(
    ("enabled", "disabled", "message"),
    [
        pytest.param(["NamespaceLifecycle"], [], None, id="what is on"),
        pytest.param([], ["NamespaceLifecycle"], None, id="what may be off"),
        pytest.param([], ["NodeRestriction"], None, id="what is absent is off"),
        pytest.param(["Own"], [], None, id="that of a library user"),
        pytest.param(
            ["Limitranger"],
            [],
            "--enable-admission-plugins: unknown plugins: Limitranger; there are Logical",
            id="unknown",
        ),
        pytest.param([], ["Foo", "Bar"], "--disable-admission-plugins: unknown plugins: Bar, Foo; there are ", id="unknown to disable"),
        pytest.param(
            ["NodeRestriction"],
            [],
            "--enable-admission-plugins: NodeRestriction is not available: it restricts the kubelets of nodes, and there are no nodes",
            id="absent",
        ),
        pytest.param(
            [],
            ["RBACEscalation"],
            "--disable-admission-plugins: RBACEscalation is required: without it authors of roles could give themselves any permission",
            id="required",
        ),
        pytest.param(
            ["NamespaceLifecycle"],
            ["NamespaceLifecycle"],
            "--enable-admission-plugins and --disable-admission-plugins both name NamespaceLifecycle",
            id="both",
        ),
    ],
)
def test_switches(enabled: list[str], disabled: list[str], message: str | None):
    """A switch that cannot be meant is refused with the reason."""
    if message is None:
        check_switches(enabled, disabled, ["Own"])
    else:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            check_switches(enabled, disabled, ["Own"])


def test_a_plugin_is_on_unless_it_is_off_by_default_or_disabled():
    """Enabling one that is on changes nothing."""
    assert is_on("NamespaceLifecycle", (), ())
    assert is_on("NamespaceLifecycle", ("NamespaceLifecycle",), ())
    assert not is_on("NamespaceLifecycle", (), ("NamespaceLifecycle",))
    assert not is_on("EventRateLimit", (), ())
    assert is_on("EventRateLimit", ("EventRateLimit",), ())


def test_the_documentation_names_every_plugin_and_every_reason():
    """In the order of the chain, and with the reasons that the switches tell."""
    text = (Path(__file__).parents[2] / "docs" / "admission.md").read_text()
    there, absent = (part.split("\n## ")[0] for part in (text.split("## Plugins in")[1], text.split("## Plugins of kube-apiserver")[1]))
    assert re.findall(r"^\| `(\w+)`", there, re.MULTILINE) == [*PLUGINS]
    assert dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", absent, re.MULTILINE)) == ABSENT
