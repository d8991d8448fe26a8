"""Which ClusterAccessGrants are valid."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apis.access.strategy import GrantStrategy


def grant(**change: Any) -> dict[str, Any]:
    """A valid grant, with some fields replaced."""
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}]
    return {"spec": {"subjects": [{"kind": "User", "name": "alice"}], "rules": rules, "clusters": {"all": True}, **change}}


@pytest.mark.parametrize("change", [
    {},
    {"clusters": {"names": ["team-a", "system:admin"]}},
    {"clusters": {"all": False, "names": ["team-a"]}},
    {"clusters": {"selector": {}}},
    {"subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "x", "cluster": "team-a"}]},
    {"subjects": [{"kind": "Group", "name": "system:kcp:admin"}]},
])  # fmt: skip
def test_valid_grants(change: dict[str, Any]) -> None:
    """Every way to select clusters, and every kind of subject."""
    assert GrantStrategy().validate_update(grant(**change), grant()) == []


@pytest.mark.parametrize(("change", "problem"), [
    ({"subjects": []}, "spec.subjects: Required value: must have at least one entry"),
    ({"rules": []}, "spec.rules: Required value: must have at least one entry"),
    ({"clusters": {}}, "spec.clusters: Invalid value"),
    ({"clusters": {"all": True, "names": ["a"]}}, "must have exactly one of all, names, selector"),
    ({"clusters": {"all": False}}, "must have exactly one of all, names, selector"),
    ({"clusters": {"names": []}}, "spec.clusters.names: Required value"),
    ({"clusters": {"names": ["*"]}}, "spec.clusters.names[0]: Invalid value"),
    ({"clusters": {"selector": {"matchLabels": {"a/b/c": "x"}}}}, "spec.clusters.selector.matchLabels"),
    ({"clusters": {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}}, "not a valid selector operator"),
    ({"subjects": [{"kind": "User", "name": "system:anonymous"}]}, "not for anonymous callers"),
    ({"subjects": [{"kind": "User", "name": "system:serviceaccount:a:b"}]}, "of the kind ServiceAccount"),
    ({"subjects": [{"kind": "Group", "name": "system:authenticated"}]}, "not for every caller"),
    ({"subjects": [{"kind": "Group", "name": "system:serviceaccounts:shop"}]}, "exist in every logical cluster"),
    ({"subjects": [{"kind": "User", "name": "alice", "cluster": "team-a"}]}, "spec.subjects[0].cluster: Forbidden"),
    ({"subjects": [{"kind": "ServiceAccount", "name": "bot"}]}, "spec.subjects[0].namespace: Required value"),
    ({"subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "x", "cluster": "a:b"}]}, "spec.subjects[0].cluster"),
    ({"rules": [{"verbs": [], "apiGroups": [""], "resources": ["x"]}]}, "spec.rules[0].verbs: Required value"),
    ({"rules": [{"verbs": ["get"], "apiGroups": [], "resources": ["x"]}]}, "spec.rules[0].apiGroups: Required value"),
])  # fmt: skip
def test_invalid_grants(change: dict[str, Any], problem: str) -> None:
    """Subjects that mean too many callers, selections of no or several kinds, rules without verbs."""
    (found,) = GrantStrategy().validate(grant(**change))
    assert problem in str(found)
