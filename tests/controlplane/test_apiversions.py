"""Which versions of the API are served."""

from __future__ import annotations

import dataclasses

import pytest

from kcp_py.apis.builtin.resources import builtin_resources
from kcp_py.controlplane.apiversions import ServedVersions
from kcp_py.registry.resource import ServedResource

[LEASES] = [one for one in builtin_resources("/registry") if one.resource == "leases"]


def resource(group: str, version: str, name: str = "things") -> ServedResource:
    return dataclasses.replace(LEASES, group=group, version=version, resource=name)


@pytest.mark.parametrize(
    ("settings", "group", "version", "served"),
    [
        pytest.param([], "apps", "v1", True, id="ga"),
        pytest.param([], "coordination.k8s.io", "v1beta1", False, id="beta"),
        pytest.param(["api/beta=true"], "coordination.k8s.io", "v1beta1", True, id="all betas"),
        pytest.param(["api/beta=true", "a/v1beta1=false"], "a", "v1beta1", False, id="the version counts more"),
        pytest.param(["api/all=true"], "a", "v1alpha1", True, id="everything"),
        pytest.param(["api/all=false", "api/ga=true"], "a", "v1", True, id="the level counts more"),
        pytest.param(["apps/v1=false"], "apps", "v1", False, id="a version"),
        pytest.param(["apps/v1=true", "apps/v1/things=false"], "apps", "v1", False, id="a resource"),
        pytest.param(["api/all=false"], "", "v1", True, id="what the server needs"),
        pytest.param(["batch/v1"], "batch", "v1", True, id="without a value"),
        pytest.param(["api/all=true"], "core.kcp.io", "v1alpha1", False, id="kcp"),
    ],
)
def test_versions_of_a_single_cluster(settings: list[str], group: str, version: str, *, served: bool) -> None:
    """The rules are those of `--runtime-config` of kube-apiserver: the most specific setting counts."""
    assert ServedVersions(settings, single_cluster=True).serves(resource(group, version)) is served


def test_all_versions_are_served_with_many_clusters() -> None:
    """Beta versions and the groups of kcp too, unless they are switched off."""
    versions = ServedVersions(["api/alpha=false"], single_cluster=False)
    assert versions.serves(resource("coordination.k8s.io", "v1beta1"))
    assert versions.serves(resource("core.kcp.io", "v1beta1"))
    assert not versions.serves(resource("core.kcp.io", "v1alpha1"))
