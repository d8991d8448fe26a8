"""Paths of requests."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client.paths import resource_path
from kcp_py.logicalcluster import WILDCARD, ClusterSelection, Name

CORE = GroupVersionResource("", "v1", "configmaps")
GROUP = GroupVersionResource("example.com", "v2", "widgets")


@pytest.mark.parametrize(
    ("cluster", "resource", "place", "subresource", "path"),
    [
        (Name("a"), CORE, ("n", "x"), "", "/clusters/a/api/v1/namespaces/n/configmaps/x"),
        (WILDCARD, GROUP, ("", ""), "", "/clusters/*/apis/example.com/v2/widgets"),
        (Name("a"), GROUP, ("n", "x"), "status", "/clusters/a/apis/example.com/v2/namespaces/n/widgets/x/status"),
        (Name("a"), GROUP, ("", "a:b/c?"), "", "/clusters/a/apis/example.com/v2/widgets/a%3Ab%2Fc%3F"),
    ],
    ids=["core", "all clusters", "subresource", "encoded name"],
)
def test_paths(cluster: ClusterSelection, resource: GroupVersionResource, place: tuple[str, str], subresource: str, path: str) -> None:
    """The cluster, the group, the namespace and the name have their places, percent-encoded."""
    assert resource_path(cluster, resource, *place, subresource=subresource) == path
