"""Roles of users, groups and service accounts, given and taken by commands."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml
from click.shell_completion import ShellComplete

from kcp_py.cli.clusterbindings import Subject
from kcp_py.cli.clustermembers import parse_subjects
from kcp_py.cli.exits import UsageError
from kcp_py.cli.remote import RemoteError, RemoteServer, load_context
from kcp_py.cli.root import cli, run
from tests.cli.conftest import running_server

ACCESS = "system:kcp:workspace:access"
RBAC = "apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The kubeconfig of a whole server that knows the user bob."""
    users = tmp_path_factory.mktemp("users") / "users.csv"
    users.write_text("bob-token,bob,b1\n")
    settings = ["--storage", "memory", "--token-auth-file", str(users)]
    with running_server(tmp_path_factory, "-m", "kcp_py", settings=settings) as kubeconfig:
        yield kubeconfig


@pytest.fixture
def server(running):
    """The server, as its administrator."""
    with RemoteServer(load_context(str(running), None)) as server:
        yield server


@pytest.fixture
def cluster(command, request):
    """A cluster of the test."""
    name = request.node.originalname.replace("_", "-")[:60].rstrip("-")
    assert command("create", name, "--if-not-exists")[0] == 0
    return name


@pytest.fixture
def rows(command):
    """The roles in a cluster, as (kind, name, role, namespace); further columns with further flags."""

    def call(cluster, *flags):
        code, out, err = command("members", cluster, *flags)
        assert (code, err if out else "") == (0, "")
        return [tuple(line.split()) for line in out.splitlines()[1:]]

    return call


def as_bob(running, tmp_path):
    """The server, as bob."""
    document = yaml.safe_load(running.read_text())
    document["users"] = [{"name": entry["name"], "user": {"token": "bob-token"}} for entry in document["users"]]
    (tmp_path / "bob").write_text(yaml.safe_dump(document))
    return RemoteServer(load_context(str(tmp_path / "bob"), None))


def test_create_with_administrators(command, rows, running, tmp_path):
    """Administrators work in the new cluster at once and in no other; a second create adds to them with --if-not-exists only."""
    done = command("create", "owned", "--admin", "bob", "--admin-group", "team-a", "--admin", "bob")
    granted = "user bob granted cluster-admin in logical cluster owned\ngroup team-a granted cluster-admin in logical cluster owned\n"
    assert done == (0, f"logical cluster owned created\n{granted}", "")
    with as_bob(running, tmp_path) as bob:
        path = f"/clusters/owned/{RBAC}/clusterrolebindings/kcp-py:cluster-admin"
        assert bob.request("GET", path)["roleRef"] == {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"}
        command("create", "other")
        with pytest.raises(RemoteError):
            bob.request("GET", "/clusters/other/api/v1/namespaces")
    assert command("create", "owned", "--admin", "carol") == (1, "", "error: logical cluster owned exists already\n")
    code, out, _ = command("create", "owned", "--if-not-exists", "--admin", "carol", "--admin", "bob")
    assert (code, out.splitlines()) == (
        0,
        [
            "logical cluster owned exists already",
            "user carol granted cluster-admin in logical cluster owned",
            "user bob has cluster-admin in logical cluster owned already",
        ],
    )
    assert rows("owned") == [
        ("Group", "team-a", "cluster-admin", "<all>"),
        ("User", "bob", "cluster-admin", "<all>"),
        ("User", "carol", "cluster-admin", "<all>"),
    ]


def test_an_empty_administrator(command):
    """It is a mistake in the command line, and no cluster is created."""
    assert command("create", "nameless", "--admin", "") == (2, "", "error: --admin: the name is empty\n")
    assert command("get", "nameless")[0] == 1


def test_a_role_in_a_namespace(command, cluster, rows, running, tmp_path):
    """The user enters the cluster and reads in that namespace alone, and after revoke not even enters."""
    path = f"/clusters/{cluster}/api/v1/namespaces"
    with as_bob(running, tmp_path) as bob:
        granted = f"user bob granted view in namespace default of logical cluster {cluster}\nuser bob may enter logical cluster {cluster}\n"
        assert command("grant", cluster, "--user", "bob", "--role", "view", "--namespace", "default") == (0, granted, "")
        assert rows(cluster) == [("User", "bob", ACCESS, "<all>"), ("User", "bob", "view", "default")]
        assert bob.request("GET", f"{path}/default/configmaps")["kind"] == "ConfigMapList"
        with pytest.raises(RemoteError, match="forbidden"):
            bob.request("GET", f"{path}/kube-system/configmaps")
        again = f"user bob has view in namespace default of logical cluster {cluster} already\n"
        assert command("grant", cluster, "--user", "bob", "--role", "view", "-n", "default") == (0, again, "")
        revoked = f"view in namespace default of logical cluster {cluster} revoked from user bob\n"
        left = f"user bob may no longer enter logical cluster {cluster}\n"
        assert command("revoke", cluster, "--user", "bob", "-n", "default") == (0, revoked + left, "")
        assert rows(cluster) == []
        with pytest.raises(RemoteError, match="forbidden"):
            bob.request("GET", f"{path}/default/configmaps")


def test_a_role_in_the_cluster(command, cluster, running, tmp_path):
    """A role without the permission to enter comes with it, one that contains it does not."""
    out = command("grant", cluster, "--user", "bob", "--role", "view")[1]
    assert out == f"user bob granted view in logical cluster {cluster}\nuser bob may enter logical cluster {cluster}\n"
    with as_bob(running, tmp_path) as bob:
        assert bob.request("GET", f"/clusters/{cluster}/api/v1/configmaps")["kind"] == "ConfigMapList"
    granted = command("grant", cluster, "--group", "staff", "--role", "cluster-admin")
    assert granted == (0, f"group staff granted cluster-admin in logical cluster {cluster}\n", "")


def test_service_accounts(command, cluster, rows, server):
    """They need no permission to enter; their user name names them, too."""
    out = command("grant", cluster, "--service-account", "default/ci", "--role", "edit", "--namespace", "default")[1]
    assert out == f"service account default/ci granted edit in namespace default of logical cluster {cluster}\n"
    again = command("grant", cluster, "--user", "system:serviceaccount:default:ci", "--role", "edit", "--namespace", "default")[1]
    assert again == f"service account default/ci has edit in namespace default of logical cluster {cluster} already\n"
    assert rows(cluster) == [("ServiceAccount", "default/ci", "edit", "default")]
    path = f"/clusters/{cluster}/{RBAC}/namespaces/default/rolebindings"
    assert server.request("GET", f"{path}/kcp-py:edit")["subjects"] == [{"kind": "ServiceAccount", "name": "ci", "namespace": "default"}]
    assert command("revoke", cluster, "--service-account", "default/ci")[0] == 0
    with pytest.raises(RemoteError, match="not found"):
        server.request("GET", f"{path}/kcp-py:edit")


def test_revoke_keeps_the_rest(command, cluster, rows):
    """--role and --namespace select; other subjects, other roles and with them the permission to enter stay."""
    for role, namespace in (("view", "default"), ("edit", "default"), ("view", "kube-system")):
        command("grant", cluster, "--user", "bob", "--user", "carol", "--role", role, "--namespace", namespace)
    command("grant", cluster, "--user", "bob", "--role", "admin")
    every = rows(cluster)
    assert len(every) == 9
    out = command("revoke", cluster, "--user", "bob", "--role", "view", "--namespace", "default")[1]
    assert out == f"view in namespace default of logical cluster {cluster} revoked from user bob\n"
    every.remove(("User", "bob", "view", "default"))
    assert rows(cluster) == every
    assert command("revoke", cluster, "--user", "bob", "--role", "view")[1].count("\n") == 1
    every.remove(("User", "bob", "view", "kube-system"))
    assert rows(cluster) == every
    assert command("revoke", cluster, "--user", "bob")[1].endswith(f"user bob may no longer enter logical cluster {cluster}\n")
    assert rows(cluster) == [row for row in every if row[1] == "carol"]


def test_bindings_of_other_clients(command, cluster, rows, server):
    """Members and revoke know bindings of any name, and Roles; a binding in the place of the commands' own is not changed."""
    root = f"/clusters/{cluster}/{RBAC}"
    subjects = [{"kind": "User", "apiGroup": GROUP, "name": "bob"}]
    role = {"apiGroup": GROUP, "kind": "Role", "name": "maps"}
    body = {"kind": "RoleBinding", "apiVersion": f"{GROUP}/v1", "metadata": {"name": "mine"}, "roleRef": role, "subjects": subjects}
    server.request("POST", f"{root}/namespaces/default/rolebindings", body)
    server.request("POST", f"{root}/namespaces/default/rolebindings", {**body, "metadata": {"name": "kcp-py:edit"}})
    shown = rows(cluster, "-o", "wide")
    assert shown == [("User", "bob", "Role/maps", "default", name) for name in ("kcp-py:edit", "mine")]
    refused = f"error: RoleBinding kcp-py:edit of logical cluster {cluster} binds Role/maps, not edit; delete it first\n"
    assert command("grant", cluster, "--user", "eve", "--role", "edit", "-n", "default") == (1, "", refused)
    assert command("revoke", cluster, "--user", "bob", "--role", "maps")[0] == 0
    assert rows(cluster) == []


def test_inherited_roles(command, cluster, rows, server):
    """They are shown with --all and taken by --role only; a subject that was added to an inherited binding is not inherited."""
    anyone = ("Group", "system:authenticated", "system:discovery", "<all>", "yes")
    assert rows(cluster) == []
    assert command("members", cluster)[2] == f"no members in logical cluster {cluster}\n"
    assert anyone in rows(cluster, "--all")
    assert command("revoke", cluster, "--group", "system:authenticated")[0] == 1
    path = f"/clusters/{cluster}/{RBAC}/clusterrolebindings/system:discovery"
    found = server.request("GET", path)
    server.request("PUT", path, {**found, "subjects": [*found["subjects"], {"kind": "User", "apiGroup": GROUP, "name": "bob"}]})
    assert rows(cluster) == [("User", "bob", "system:discovery", "<all>")]
    assert ("User", "bob", "system:discovery", "<all>", "no") in rows(cluster, "--all")
    assert command("revoke", cluster, "--user", "bob")[0] == 0
    assert anyone in rows(cluster, "--all")
    assert command("revoke", cluster, "--group", "system:authenticated", "--role", "system:discovery")[0] == 0
    assert anyone not in rows(cluster, "--all")
    assert not server.request("GET", path).get("subjects")


def test_forms_of_output(command, cluster):
    """JSON is an array and YAML a document for each subject, with the roles, their namespaces and bindings."""
    command("grant", cluster, "--user", "bob", "--role", "view", "--namespace", "default")
    access = {"kind": "ClusterRole", "name": ACCESS, "binding": f"kcp-py:{ACCESS}", "inherited": False}
    view = {"kind": "ClusterRole", "name": "view", "binding": "kcp-py:view", "inherited": False, "namespace": "default"}
    document = {"subject": {"kind": "User", "apiGroup": GROUP, "name": "bob"}, "roles": [access, view]}
    assert json.loads(command("members", cluster, "-o", "json")[1]) == [document]
    assert list(yaml.safe_load_all(command("members", cluster, "-o", "yaml")[1])) == [document]
    assert command("members", cluster)[1].splitlines()[0].split() == ["KIND", "NAME", "ROLE", "NAMESPACE"]
    assert command("members", cluster, "-o", "wide")[1].splitlines()[0].split()[-1] == "BINDING"


def test_a_changed_binding_is_read_again(command, cluster, rows, running):
    """Of administrators who grant and revoke at the same time none overwrites the change of another."""

    program = [sys.executable, "-m", "kcp_py", "cluster"]
    names = [f"user-{number}" for number in range(3)]
    command("grant", cluster, "--user", "gone", "--role", "cluster-admin")
    calls = [["grant", cluster, "--user", name, "--role", "cluster-admin"] for name in names] + [["revoke", cluster, "--user", "gone"]]
    processes = [subprocess.Popen([*program, *call, "--kubeconfig", str(running)], stdout=subprocess.DEVNULL) for call in calls]
    assert [process.wait() for process in processes] == [0] * len(calls)
    assert [row[1] for row in rows(cluster)] == names


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            "grant CLUSTER --user bob --role vieww",
            "has no ClusterRole vieww; there are admin, cluster-admin, edit, view, and those of system:; ",
        ),
        ("grant CLUSTER --user bob --role vieww -n default", "did you mean view?"),
        ("grant CLUSTER --user bob --role view -n absent", 'namespaces "absent" not found'),
        ("grant absent --user bob --role view", "there is no logical cluster absent"),
        ("revoke absent --user bob", "there is no logical cluster absent"),
        ("members absent", "there is no logical cluster absent"),
        ("revoke CLUSTER --user bob", "no role to revoke in logical cluster"),
        ("revoke CLUSTER --user bob --group g --role view -n a", "no role view to revoke in namespace a of logical cluster"),
    ],
)
def test_refusals(command, cluster, rows, line, error):
    """One line names the mistake, and nothing is changed."""
    code, out, err = command(*line.replace("CLUSTER", cluster).split()) if "CLUSTER" in line else command(*line.split())
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert error in err
    assert rows(cluster) == []


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["grant", "root", "--role", "view"], "error: no subject: give --user, --group or --service-account\n"),
        (["revoke", "root"], "error: no subject: give --user, --group or --service-account\n"),
        (["grant", "root", "--user", "", "--role", "view"], "error: --user: the name is empty\n"),
        (["revoke", "root", "--user", "bob", "--namespace", ""], "error: --namespace: the value is empty\n"),
        (["revoke", "root", "--user", "bob", "--role", ""], "error: --role: the value is empty\n"),
        (["grant", "root", "--service-account", "ci", "--role", "view"], 'error: --service-account: "ci" is not NAMESPACE/NAME\n'),
        (["grant", "root", "--user", "bob"], "--role"),
    ],
    ids=" ".join,
)
def test_mistakes_in_the_command_line(capsys, words, error):
    """They are reported before anything is sent, with exit code 2."""
    assert run(["cluster", *words, "--kubeconfig", "/nonexistent"]) == 2
    assert error in capsys.readouterr().err


def test_subjects_of_flags():
    """Each subject counts once, in the order of the flags."""
    found = parse_subjects(["a", "a", "system:serviceaccount:n:s"], ["g"], ["n/s", "n/t"], user="--user", group="--group")
    assert found == [Subject("User", "a"), Subject("ServiceAccount", "s", "n"), Subject("Group", "g"), Subject("ServiceAccount", "t", "n")]
    with pytest.raises(UsageError, match="--group: the name is empty"):
        parse_subjects(["a"], [""], [], user="--user", group="--group")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["grant", "root", "--role", ""], ["admin", "cluster-admin", "edit", "view"]),
        (["grant", "root", "--role", "system:kcp"], ["system:kcp:cluster-operator", ACCESS]),
        (["revoke", "root", "--namespace", "kube-s"], ["kube-system"]),
        (["grant", "--role", "vi"], []),
    ],
    ids=" ".join,
)
def test_completion(running, monkeypatch, words, found):
    """Roles and namespaces of the logical cluster on the command line are completed."""
    monkeypatch.setenv("KUBECONFIG", str(running))
    completions = ShellComplete(cli, {}, "kcp-py", "_KCP_PY_COMPLETE").get_completions(["cluster", *words[:-1]], words[-1])
    assert [item.value for item in completions] == found
