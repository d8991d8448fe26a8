"""Roles and bindings are checked in upstream's words."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apis.rbac.strategy import ClusterRoleStrategy, RoleBindingStrategy, RoleStrategy

GROUP = "rbac.authorization.k8s.io"


def texts(problems: Any) -> list[str]:
    return [str(problem) for problem in problems]


def binding(**members: Any) -> dict[str, Any]:
    return {"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "admin"}, **members}


@pytest.mark.parametrize(("rule", "wanted"), [
    ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, []),
    ({}, [
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        "rules[0].resources: Required value: resource rules must supply at least one resource",
        "rules[0].verbs: Required value",
    ]),
    ({"verbs": ["get"], "nonResourceURLs": ["/x"]}, [
        'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
    ]),
], ids=["good", "empty", "urls"])  # fmt: skip
def test_rules_of_roles(rule, wanted):
    """A role's rule names verbs, groups and resources, and no URLs."""
    assert texts(RoleStrategy().validate({"rules": [rule]})) == wanted


def test_rules_of_cluster_roles():
    """A cluster role's rule is for URLs or for resources, not for both."""
    assert ClusterRoleStrategy().validate({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}) == []
    mixed = {"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}
    assert texts(ClusterRoleStrategy().validate({"rules": [mixed]})) == [
        'rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs'
    ]


def test_aggregation():
    """An aggregation rule selects something, by a selector that can be read."""
    assert texts(ClusterRoleStrategy().validate({"aggregationRule": {}})) == [
        "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"
    ]
    path = "aggregationRule.clusterRoleSelectors[0].matchExpressions"
    selector = {"matchExpressions": [{"key": "a", "operator": "In"}, {"key": "a", "operator": "Odd"}]}
    assert texts(ClusterRoleStrategy().validate({"aggregationRule": {"clusterRoleSelectors": [selector]}})) == [
        f"{path}[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        f'{path}[1].operator: Invalid value: "Odd": not a valid selector operator',
        "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
    ]


def test_binding_defaults():
    """The group of the role and of users and groups is filled in, that of service accounts stays empty."""
    obj = binding(subjects=[{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s"}])
    RoleBindingStrategy().prepare_for_create(obj)
    assert obj["roleRef"]["apiGroup"] == GROUP
    assert [subject.get("apiGroup") for subject in obj["subjects"]] == [GROUP, GROUP, None]
    assert RoleBindingStrategy().validate(obj) == []


@pytest.mark.parametrize(("namespaced", "change", "wanted"), [
    (True, {"roleRef": {}}, [
        'roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole"',
        "roleRef.name: Required value",
    ]),
    (False, {"roleRef": {"kind": "Role", "name": "a/b"}}, [
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
        "roleRef.name: Invalid value: \"a/b\": may not contain '/'",
    ]),
    (False, {"subjects": [{"kind": "ServiceAccount", "name": "s"}]}, ["subjects[0].namespace: Required value"]),
    (True, {"subjects": [{"kind": "User", "name": "", "apiGroup": "x"}]}, [
        f'subjects[0].apiGroup: Unsupported value: "x": supported values: "{GROUP}"',
        "subjects[0].name: Required value",
    ]),
    (True, {"subjects": [{"kind": "Odd", "name": "o"}]}, [
        'subjects[0].kind: Unsupported value: "Odd": supported values: "ServiceAccount", "User", "Group"',
    ]),
], ids=["no role", "role in cluster", "account", "user", "kind"])  # fmt: skip
def test_binding_problems(namespaced, change, wanted):
    """Each rule of bindings answers in upstream's words."""
    strategy = RoleBindingStrategy(namespaced=namespaced)
    obj = binding(**change)
    strategy.prepare_for_create(obj)
    assert texts(strategy.validate(obj)) == wanted


def test_role_of_a_binding_is_fixed():
    """A binding is for one role for its whole life."""
    old, new = binding(), binding(roleRef={"kind": "ClusterRole", "name": "view"})
    strategy = RoleBindingStrategy()
    strategy.prepare_for_create(old)
    strategy.prepare_for_update(new, old)
    assert texts(strategy.validate_update(new, old)) == [
        f'roleRef: Invalid value: {{"APIGroup":"{GROUP}","Kind":"ClusterRole","Name":"view"}}: field is immutable'
    ]


@pytest.mark.parametrize(("name", "good"), [("system:node", True), ("a b", True), ("a/b", False), ("..", False)])
def test_names_are_path_segments(name, good):
    """Names of roles and bindings are anything that fits into a path."""
    assert (RoleStrategy().validate_name(name) == []) is good
