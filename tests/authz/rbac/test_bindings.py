"""Bindings name their subjects and roles as Kubernetes does."""

from __future__ import annotations

import pytest

from kcp_py.request.user import UserInfo
from tests.authz.rbac.objects import ACCOUNT, GET_PODS, READER, binding, index_of


@pytest.mark.parametrize(("place", "kind", "subjects", "reason"), [
    (("", "b"), "ClusterRole", [{"kind": "User", "name": "alice"}], 'ClusterRoleBinding "b" of ClusterRole "r" to User "alice"'),
    (("n1", "b"), "ClusterRole", [{"kind": "Group", "name": "team"}], 'RoleBinding "b/n1" of ClusterRole "r" to Group "team"'),
    (("n1", "b"), "Role", [{"kind": "Group", "name": "team"}], 'RoleBinding "b/n1" of Role "r" to Group "team"'),
    (
        ("n1", "b"), "Role", [{"kind": "ServiceAccount", "name": "robot"}],
        'RoleBinding "b/n1" of Role "r" to ServiceAccount "robot/n1"',
    ),
    (
        ("", "b"), "ClusterRole", [{"kind": "ServiceAccount", "namespace": "n1", "name": "robot"}],
        'ClusterRoleBinding "b" of ClusterRole "r" to ServiceAccount "robot/n1"',
    ),
    (
        ("", "b"), "ClusterRole", [{"kind": "Group", "name": "team"}, {"kind": "User", "name": "alice"}],
        'ClusterRoleBinding "b" of ClusterRole "r" to Group "team"',
    ),
    (
        ("", "b"), "ClusterRole", [{"kind": "Group", "name": "staff"}, {"kind": "User", "name": "zoe"}, {"kind": "Group", "name": "team"}],
        'ClusterRoleBinding "b" of ClusterRole "r" to Group "staff"',
    ),
    (
        ("", "b"), "ClusterRole", [{"kind": "User", "name": ACCOUNT}, {"kind": "ServiceAccount", "namespace": "n1", "name": "robot"}],
        f'ClusterRoleBinding "b" of ClusterRole "r" to User "{ACCOUNT}"',
    ),
    (
        ("", 'b"\x00'), "ClusterRole", [{"kind": "User", "name": "alice"}],
        'ClusterRoleBinding "b\\"\\x00" of ClusterRole "r" to User "alice"',
    ),
], ids=["user", "group", "role", "account here", "account", "first subject", "order of subjects", "twice", "quoted"])  # fmt: skip
def test_reasons(place, kind, subjects, reason):
    """The reason of a decision names the binding, the role, and the first subject of the binding that is the caller."""
    user = next(user for user in (UserInfo("alice", "", ("team", "staff")), UserInfo(ACCOUNT))
                if any(one["kind"] == "ServiceAccount" for one in subjects) is (user.name == ACCOUNT))  # fmt: skip
    allowed_by = index_of({("", "r"): READER, ("n1", "r"): READER}, {place: binding("r", *subjects, kind=kind)}).allowing(user, GET_PODS)
    assert allowed_by is not None
    assert allowed_by.describe(user) == reason


@pytest.mark.parametrize(
    ("place", "kind"), [(("", "b"), "Role"), (("", "b"), "Odd"), (("", "b"), ""), (("n1", "b"), "Odd"), (("n1", "b"), "")]
)
def test_references_to_no_role(place, kind):
    """A reference of another kind, or to a role of no namespace, is never one to the cluster role of the name."""
    index = index_of({("", "r"): READER, ("n1", "r"): READER}, {place: binding("r", {"kind": "User", "name": "alice"}, kind=kind)})
    assert index.allowing(UserInfo("alice"), GET_PODS) is None
    assert len(index.missing_roles(UserInfo("alice"), "n1")) == 1


@pytest.mark.parametrize("obj", [
    {}, {"subjects": None, "roleRef": None}, {"subjects": [{}], "roleRef": {}}, {"subjects": [{"kind": None, "name": None}]},
    {"subjects": [None], "roleRef": {"kind": None, "name": None}},
    {"subjects": [{"kind": "User", "name": None}, {"kind": "ServiceAccount", "name": None, "namespace": None}]},
], ids=["empty", "null", "empty members", "null members", "null subject", "null names"])  # fmt: skip
def test_odd_bindings_bind_no_role(obj):
    """A binding without some of its fields, as other software may store it, gives nothing and does not disturb."""
    index = index_of({("", "r"): READER, ("", ""): READER}, {("", "b"): obj, ("", "c"): binding("r", {"kind": "User", "name": "alice"})})
    assert index.allowing(UserInfo("alice"), GET_PODS)
    for user in (UserInfo("bob"), UserInfo("")):
        assert index.allowing(user, GET_PODS) is None
        assert len(index.missing_roles(user, "n1")) <= 1


def test_names_with_separators_are_distinguished():
    """Names that contain NUL, slashes or colons match themselves alone; letters beyond ASCII are compared as they are."""
    index = index_of({("", "r"): READER}, {
        ("", "nul"): binding("r", {"kind": "User", "name": "a\x00b"}), ("n1", "slash"): binding("r", {"kind": "Group", "name": "n1/x"}),
        ("", "account"): binding("r", {"kind": "ServiceAccount", "namespace": "n1:x", "name": "y"}),
        ("", "letters"): binding("r", {"kind": "User", "name": "zo\u00eb"}),
    })  # fmt: skip
    for name in ("a\x00b", "zo\u00eb", "system:serviceaccount:n1:x:y"):
        assert index.allowing(UserInfo(name), GET_PODS), name
    for name in ("a", "ab", "n1/x", "zoe\u0308", "zo\u00cb", "n1:x:y", "system:serviceaccount:n1:x"):
        assert index.allowing(UserInfo(name), GET_PODS) is None, name
    assert index.allowing(UserInfo("b", "", ("n1/x",)), GET_PODS)
    assert index.allowing(UserInfo("b", "", ("x",)), GET_PODS) is None
