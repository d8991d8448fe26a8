"""Which resources a cluster serves, from its discovery documents."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind, GroupVersionResource
from kcp_py.client.discovery import DiscoveryCache, resources_of
from kcp_py.logicalcluster import Name

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
WIDGETS = GroupResource("example.com", "widgets")


def document(*versions: str) -> dict[str, Any]:
    """A group with a resource in some versions, the preferred one first."""
    resources = [{"resource": "widgets", "responseKind": {"kind": "Widget"}, "scope": "Namespaced"}]
    return {"items": [{"metadata": {"name": "example.com"}, "versions": [{"version": one, "resources": resources} for one in versions]}]}


class Server:
    """Serves widgets in the versions that it is told."""

    def __init__(self) -> None:
        self.versions: tuple[str, ...] = ()
        self.asked = 0
        self.time = 0.0

    async def fetch(self, cluster: Name, path: str) -> Any:
        del cluster
        self.asked += path == "/apis"
        return document(*self.versions) if path == "/apis" and self.versions else {"items": []}


async def test_a_resource_that_was_found_is_asked_for_again_after_a_while() -> None:
    """One that was not found is asked for each time."""
    server = Server()
    cache = DiscoveryCache(server.fetch, clock=lambda: server.time)
    assert await cache.find_resource(TEAM, WIDGETS) is None
    server.versions = ("v1",)
    found = await cache.find_resource(TEAM, WIDGETS)
    assert found is not None
    assert found.resource == GroupVersionResource("example.com", "v1", "widgets")
    assert server.asked == 2
    server.versions = ()
    assert await cache.find_kind(TEAM, GroupVersionKind("example.com", "v1", "Widget")) == found
    assert server.asked == 2
    server.time = 10.0
    assert await cache.find_resource(TEAM, WIDGETS) is None


async def test_a_forgotten_cluster_is_asked_again() -> None:
    """Whatever its age."""
    server = Server()
    server.versions = ("v1",)
    cache = DiscoveryCache(server.fetch, clock=lambda: server.time)
    await cache.find_resource(TEAM, WIDGETS)
    cache.forget(TEAM)
    await cache.find_resource(TEAM, WIDGETS)
    assert server.asked == 2


def test_the_preferred_version_comes_first() -> None:
    """As in the document."""
    assert [one.resource.version for one in resources_of(document("v2", "v1"))] == ["v2", "v1"]
