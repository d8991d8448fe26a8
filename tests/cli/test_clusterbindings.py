"""Bindings of a logical cluster, as the commands read and change them."""

from __future__ import annotations

import pytest

from kcp_py.apis.rbac.policy import inherited_objects
from kcp_py.cli.clusterbindings import Subject, get_role, grant_role, lets_enter, list_bindings, remove_subject
from kcp_py.cli.exits import CommandError
from kcp_py.cli.remote import RemoteServer, load_context
from tests.cli.conftest import running_server

GROUP = "rbac.authorization.k8s.io"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A whole server, as its administrator."""
    with (
        running_server(tmp_path_factory, "-m", "kcp_py", settings=["--storage", "memory"]) as kubeconfig,
        RemoteServer(load_context(str(kubeconfig), None)) as server,
    ):
        yield server


def binding_of(server, cluster, name):
    """The binding of a name; None where there is none."""
    return next((binding for binding in list_bindings(server, cluster) if binding.name == name), None)


def rule(verbs, urls):
    """A ClusterRole with one rule for URLs."""
    return {"rules": [{"verbs": verbs, "nonResourceURLs": urls}]}


@pytest.mark.parametrize(
    ("role", "enters"),
    [
        (rule(["access"], ["/"]), True),
        (rule(["get", "*"], ["/x", "*"]), True),
        (rule(["access"], ["/*"]), True),
        (rule(["access"], ["/x"]), False),
        (rule(["get"], ["/"]), False),
        ({"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}, False),
        ({"rules": None}, False),
        ({}, False),
    ],
)
def test_roles_that_contain_the_permission_to_enter(role, enters):
    """Only a rule with the verb and the URL, or wildcards for them, contains it."""
    assert lets_enter(role) is enters


def test_inherited_roles_that_contain_the_permission_to_enter():
    """Those of administrators, of operators, and the one that contains nothing else."""
    roles = inherited_objects()["clusterroles"]
    names = [role["metadata"]["name"] for role in roles if lets_enter(role)]
    assert names == ["cluster-admin", "system:kcp:cluster-operator", "system:kcp:workspace:access"]


def test_subjects():
    """Subjects are read and written without loss; the user name of a service account is that service account."""
    user, group = ({"kind": kind, "apiGroup": GROUP, "name": "a"} for kind in ("User", "Group"))
    account = {"kind": "ServiceAccount", "name": "a", "namespace": "n"}
    assert [Subject.parse(one).to_json() for one in (user, group, account)] == [user, group, account]
    assert [str(Subject.parse(one)) for one in (user, group, account)] == ["user a", "group a", "service account n/a"]
    assert Subject.parse({**user, "name": "system:serviceaccount:n:a"}) == Subject.parse(account)
    assert Subject.user("system:serviceaccount:n").kind == "User"


def test_names_that_a_terminal_would_obey():
    """Names of subjects are chosen by users of the cluster: control characters are not printed as they are."""
    subject = Subject.user("a\x1b[2Jb\nc")
    assert subject.full_name == '"a\\u001b[2Jb\\nc"'
    assert str(subject) == f"user {subject.full_name}"
    assert subject.to_json()["name"] == subject.name


def test_a_binding_that_changed_since_it_was_read(server):
    """Only the subject is removed from the binding as it is then, and the binding is deleted when it was the last."""
    alice, bob, carol = map(Subject.user, ("alice", "bob", "carol"))
    list(grant_role(server, "changed", "view", [alice]))
    old = binding_of(server, "changed", "kcp-py:view")
    list(grant_role(server, "changed", "view", [bob, carol]))
    remove_subject(server, old, alice)
    assert binding_of(server, "changed", "kcp-py:view").subjects == [bob, carol]
    old = binding_of(server, "changed", "kcp-py:view")
    remove_subject(server, old, bob)
    remove_subject(server, old, carol)
    assert binding_of(server, "changed", "kcp-py:view") is None
    remove_subject(server, old, carol)
    assert binding_of(server, "changed", "kcp-py:view") is None


def test_a_binding_that_every_cluster_inherits_is_emptied(server):
    """Deleted, it would come back with its subjects."""
    found = binding_of(server, "emptied", "system:discovery")
    [everyone] = found.subjects
    assert (found.is_default, found.is_inherited(everyone)) == (True, True)
    remove_subject(server, found, everyone)
    assert binding_of(server, "emptied", "system:discovery").subjects == []


def test_every_page_is_read(server):
    """A cluster can have more bindings than a page of a list has."""
    role = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}
    path = f"/clusters/paged/apis/{GROUP}/v1/clusterrolebindings"
    names = {f"b-{number}" for number in range(520)}
    for name in names:
        server.request("POST", path, {"metadata": {"name": name}, "roleRef": role})
    found = [binding.name for binding in list_bindings(server, "paged")]
    assert len(found) == len(set(found))
    assert names <= set(found)


def test_a_role_that_is_not_there(server):
    """The error has the roles of the cluster, with its own, and the nearest name."""
    body = {"metadata": {"name": "sailor"}, "rules": []}
    server.request("POST", f"/clusters/named/apis/{GROUP}/v1/clusterroles", body)
    with pytest.raises(CommandError, match=r"there are admin, cluster-admin, edit, sailor, view, .*; did you mean sailor"):
        get_role(server, "named", "sailer")
    assert get_role(server, "named", "sailor")["metadata"]["name"] == "sailor"
