"""Names of upstream kinds."""

from __future__ import annotations

import pytest

from kcp_py.bootstrap.upstream_kinds import upstream_kinds
from kcp_py.bootstrap.upstream_names import UnknownKindError, find_kinds


@pytest.mark.parametrize("name", ["pods", "pod", "Pod", "po", "pods.core", "pods.v1.core"])
def test_names_of_one_kind(name):
    """Plural, singular, kind and short name are taken, with group and version or without."""
    assert [kind.model for kind in find_kinds([name])] == ["io.k8s.api.core.v1.Pod"]


def test_every_version_of_a_kind():
    """A name without a version stands for all of them."""
    assert [kind.version for kind in find_kinds(["hpa"])] == ["v1", "v2"]
    assert [kind.version for kind in find_kinds(["horizontalpodautoscalers.v2.autoscaling"])] == ["v2"]


def test_groups_and_all():
    """A group is written with a star; nothing is named twice."""
    assert {kind.kind for kind in find_kinds(["*.apps", "deployments"])} == {
        "ControllerRevision",
        "DaemonSet",
        "Deployment",
        "ReplicaSet",
        "StatefulSet",
    }
    assert len(find_kinds(["*.apps", "deployments"])) == 5
    assert all(kind.group == "" for kind in find_kinds(["*.core"]))
    assert find_kinds(["all", "pods"]) == list(upstream_kinds().values())


def test_every_plural_is_a_name_of_its_own():
    """No name stands for kinds of two groups."""
    for kind in upstream_kinds().values():
        assert {(found.group, found.kind) for found in find_kinds([kind.plural])} == {(kind.group, kind.kind)}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("podz", '"podz" is not a kind of Kubernetes that can be installed; did you mean'),
        ("widgets", '"widgets" is not a kind of Kubernetes that can be installed'),
        ("configmaps", "configmaps is served by every cluster already"),
        ("roles.rbac.authorization.k8s.io", "is served by every cluster already"),
        ("*.example.com", 'no known kind is in the group "example.com"; there are apiregistration.k8s.io, '),
    ],
)
def test_unknown_names(name, message):
    """The message names the fault and similar kinds."""
    with pytest.raises(UnknownKindError) as raised:
        find_kinds([name])
    assert message in str(raised.value)
