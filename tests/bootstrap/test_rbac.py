"""The file with Kubernetes' own policy."""

from __future__ import annotations

import pytest

from kcp_py.bootstrap.rbac import policy_objects

RESOURCES = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")


def test_resources():
    """The file has all four kinds, and is read once. No binding in a namespace is for a caller that exists here."""
    assert tuple(policy_objects()) == RESOURCES
    assert [resource for resource, objects in policy_objects().items() if not objects] == ["rolebindings"]
    assert policy_objects() is policy_objects()


@pytest.mark.parametrize("resource", RESOURCES)
def test_names_are_sorted(resource):
    """The objects are in the order of their names, and each name is there once; namespaced ones have a namespace."""
    metadata = [obj["metadata"] for obj in policy_objects()[resource]]
    names = [one["name"] for one in metadata]
    assert names == sorted(set(names))
    assert all(bool(one.get("namespace")) is resource.startswith("role") for one in metadata)


@pytest.mark.parametrize("resource", RESOURCES)
def test_objects_have_only_what_differs(resource):
    """What all objects have in common is left out, and there is nothing of a server in them."""
    fields = {"metadata", "roleRef", "subjects"} if resource.endswith("bindings") else {"metadata", "rules", "aggregationRule"}
    for obj in policy_objects()[resource]:
        assert obj.keys() <= fields
        assert obj["metadata"].keys() <= {"name", "namespace", "labels"}
        assert "kubernetes.io/bootstrapping" not in obj["metadata"].get("labels", {})


def test_rules():
    """Each rule has verbs, and is either for resources or for URLs."""
    for resource in ("clusterroles", "roles"):
        for obj in policy_objects()[resource]:
            for rule in obj["rules"] or ():
                assert rule["verbs"], obj["metadata"]
                assert rule.keys() - {"verbs"} in (
                    {"apiGroups", "resources"},
                    {"apiGroups", "resources", "resourceNames"},
                    {"nonResourceURLs"},
                )
