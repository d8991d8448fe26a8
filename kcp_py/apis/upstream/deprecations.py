"""What kube-apiserver 1.37 warns about with every request for a deprecated version of a kind.

Source: k8s.io/api `zz_generated.prerelease-lifecycle.go`, k8s.io/apiserver `pkg/endpoints/deprecation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class _Deprecation(NamedTuple):
    since: int
    """The minor version of Kubernetes 1 from which on the version of the kind is deprecated."""
    removed: int = 0
    """The minor version that does not serve it; 0 where none is planned."""
    replacement: str = ""


_DEPRECATIONS: Final[Mapping[tuple[str, str, str], _Deprecation]] = {
    ("", "v1", "Endpoints"): _Deprecation(33, replacement="discovery.k8s.io/v1 EndpointSlice"),
    ("certificates.k8s.io", "v1beta1", "ClusterTrustBundle"): _Deprecation(37, 40, "certificates.k8s.io/v1 ClusterTrustBundle"),
    ("coordination.k8s.io", "v1beta1", "LeaseCandidate"): _Deprecation(36, 39),
    ("resource.k8s.io", "v1beta1", "DeviceClass"): _Deprecation(35, 38),
    ("resource.k8s.io", "v1beta2", "DeviceClass"): _Deprecation(36, 39),
    ("resource.k8s.io", "v1beta2", "ResourceClaim"): _Deprecation(36, 39),
    ("resource.k8s.io", "v1beta2", "ResourceClaimTemplate"): _Deprecation(36, 39),
    ("resource.k8s.io", "v1beta2", "ResourceSlice"): _Deprecation(36, 39),
    ("storagemigration.k8s.io", "v1beta1", "StorageVersionMigration"): _Deprecation(
        37, 40, "storagemigration.k8s.io/v1 StorageVersionMigration"
    ),
}


def deprecation_warning(group: str, version: str, kind: str) -> str:
    """The warning; empty for a version that is not deprecated."""
    found = _DEPRECATIONS.get((group, version, kind))
    if found is None:
        return ""
    text = f"{group}/{version}".removeprefix("/") + f" {kind} is deprecated in v1.{found.since}+"
    if found.removed:
        text += f", unavailable in v1.{found.removed}+"
    return f"{text}; use {found.replacement}" if found.replacement else text
