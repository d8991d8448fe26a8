"""Warnings about deprecated versions (recorded from kube-apiserver 1.37.2)."""

from __future__ import annotations

import pytest

from kcp_py.apis.upstream.crds import crds_named
from kcp_py.apis.upstream.deprecations import deprecation_warning


@pytest.mark.parametrize(
    ("kind", "warning"),
    [
        (("", "v1", "Endpoints"), "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        (
            ("coordination.k8s.io", "v1beta1", "LeaseCandidate"),
            "coordination.k8s.io/v1beta1 LeaseCandidate is deprecated in v1.36+, unavailable in v1.39+",
        ),
        (
            ("certificates.k8s.io", "v1beta1", "ClusterTrustBundle"),
            (
                "certificates.k8s.io/v1beta1 ClusterTrustBundle is deprecated in v1.37+, unavailable in v1.40+; "
                "use certificates.k8s.io/v1 ClusterTrustBundle"
            ),
        ),
        (("certificates.k8s.io", "v1", "ClusterTrustBundle"), ""),
        (("resource.k8s.io", "v1beta2", "DeviceTaintRule"), ""),
        (("autoscaling", "v1", "HorizontalPodAutoscaler"), ""),
    ],
)
def test_the_warning_names_releases_and_the_replacement(kind: tuple[str, str, str], warning: str) -> None:
    """As far as there are any."""
    assert deprecation_warning(*kind) == warning


def test_definitions_have_the_warnings() -> None:
    """Of each deprecated version, and of no other one."""
    deprecated = {
        (definition["spec"]["names"]["kind"], version["name"]): version["deprecationWarning"]
        for definition in crds_named(["all"])
        for version in definition["spec"]["versions"]
        if version.get("deprecated")
    }
    assert set(deprecated) == {
        ("ClusterTrustBundle", "v1beta1"),
        ("DeviceClass", "v1beta1"),
        ("DeviceClass", "v1beta2"),
        ("Endpoints", "v1"),
        ("LeaseCandidate", "v1beta1"),
        ("ResourceClaim", "v1beta2"),
        ("ResourceClaimTemplate", "v1beta2"),
        ("ResourceSlice", "v1beta2"),
        ("StorageVersionMigration", "v1beta1"),
    }
    assert deprecated["LeaseCandidate", "v1beta1"] == deprecation_warning("coordination.k8s.io", "v1beta1", "LeaseCandidate")
