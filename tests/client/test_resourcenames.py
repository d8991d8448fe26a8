"""Resources by the names that kubectl takes."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client.contract import ApiResource
from kcp_py.client.resourcenames import find_named

SERVED = [
    ApiResource(GroupVersionResource("", "v1", "configmaps"), "ConfigMap", True, "configmap", ("cm",)),
    ApiResource(GroupVersionResource("", "v1", "events"), "Event", True, "event", ("ev",)),
    ApiResource(GroupVersionResource("apps", "v1", "deployments"), "Deployment", True, "deployment", ("deploy",)),
    ApiResource(GroupVersionResource("events.k8s.io", "v1", "events"), "Event", True, "event", ("ev",)),
    ApiResource(GroupVersionResource("example.com", "v2", "widgets"), "Widget", True, "", ("cm", "w")),
    ApiResource(GroupVersionResource("example.com", "v1", "widgets"), "Widget", True, "", ("cm", "w")),
    ApiResource(GroupVersionResource("other.com", "v1", "cm"), "Cm", True, "cm"),
]


@pytest.mark.parametrize(
    ("text", "group", "version", "resource"),
    [
        ("configmaps", "", "v1", "configmaps"),
        ("ConfigMap", "", "v1", "configmaps"),
        ("deploy", "apps", "v1", "deployments"),
        ("deployments.apps", "apps", "v1", "deployments"),
        ("deployment.v1.apps", "apps", "v1", "deployments"),
        ("events", "", "v1", "events"),
        ("ev.events.k8s.io", "events.k8s.io", "v1", "events"),
        ("events.events", "events.k8s.io", "v1", "events"),
        ("w", "example.com", "v2", "widgets"),
        ("widget.v1.example.com", "example.com", "v1", "widgets"),
        ("cm", "other.com", "v1", "cm"),
        ("cm.example.com", "example.com", "v2", "widgets"),
    ],
)
def test_a_text_names_a_resource(text: str, group: str, version: str, resource: str) -> None:
    """A short name yields to a plural or a singular, and the first resource in discovery counts."""
    found = find_named(SERVED, text)
    assert found is not None
    assert found.resource == GroupVersionResource(group, version, resource)


@pytest.mark.parametrize("text", ["", "config", "configmaps.apps", "deployments.v2.apps", "widgets.v1", ".", "cm.k8s.io"])
def test_another_text_names_none(text: str) -> None:
    """Parts of names, and names in other groups and versions."""
    assert find_named(SERVED, text) is None
