"""Members of teams with the real kubectl: what roles and bindings of one cluster give them there, and nothing elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.binaries import KUBECTL, UnavailableError, kubectl_of
from e2e.conftest import COMMAND_SECONDS, Kubectl, ServerProcess

CLUSTERS = ("team-a", "team-b")
OLDEST, NEWEST = KUBECTL[0], KUBECTL[-1]
As = Callable[..., Kubectl]


@pytest.fixture(scope="module")
def users_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that knows alice and bob by tokens."""
    folder = tmp_path_factory.mktemp("permissions")
    users = folder / "users.csv"
    users.write_text('alice-token,alice,a1,"team-a"\nbob-token,bob,b1,"team-b"\n')
    process = ServerProcess(folder / "root", "--token-auth-file", str(users)).start()
    yield process
    process.stop()


@pytest.fixture(params=[OLDEST, NEWEST])
def user(request: pytest.FixtureRequest, users_server: ServerProcess, tmp_path: Path) -> As:
    """kubectl of a user in a cluster: of the administrator where no user is named."""
    try:
        binary = str(kubectl_of(request.param))
    except UnavailableError as error:
        pytest.skip(f"no kubectl {request.param}: {error}")

    def of(cluster: str, name: str = "") -> Kubectl:
        kubeconfig = users_server.kubeconfig
        if name:
            kubeconfig = tmp_path / f"{name}.kubeconfig"
            kubeconfig.write_text(
                json.dumps(
                    {
                        "apiVersion": "v1",
                        "kind": "Config",
                        "current-context": "c",
                        "clusters": [
                            {"name": "c", "cluster": {"certificate-authority": str(users_server.ca_file), "server": users_server.url}}
                        ],
                        "users": [{"name": "u", "user": {"token": f"{name}-token"}}],
                        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    }
                )
            )
        return Kubectl(binary, kubeconfig, tmp_path / f"cache-{cluster}-{name}", f"{users_server.url}/clusters/{cluster}")

    for cluster, group in zip(CLUSTERS, ("team-a", "team-b"), strict=True):
        admin = of(cluster)
        admin.run("delete", "clusterrolebinding", "members", "--ignore-not-found")
        admin.run("delete", "rolebinding,role", "-n", "default", "--all")
        admin.run("create", "clusterrolebinding", "members", "--clusterrole=system:kcp:workspace:access", f"--group={group}")
    return of


def reads(namespace: str = "") -> tuple[str, ...]:
    """A command without discovery: old versions say that there are no such resources where discovery is forbidden."""
    return "get", "--raw", f"/api/v1/namespaces/{namespace}/configmaps" if namespace else "/api/v1/configmaps"


def test_can_i(user: As) -> None:
    """`kubectl auth can-i` answers for the caller, for others, and with all rules of the caller."""
    admin, alice = user("team-a"), user("team-a", "alice")
    assert admin.run("auth", "can-i", "*", "*") == "yes\n"
    denied = alice.complete("auth", "can-i", "list", "configmaps")
    assert (denied.returncode, denied.stdout) == (1, "no\n")
    admin.run("create", "role", "maps", "--verb=get,list,create", "--resource=configmaps")
    admin.run("create", "rolebinding", "maps", "--role=maps", "--user=alice")
    assert alice.run("auth", "can-i", "list", "configmaps") == "yes\n"
    assert (
        admin.run("auth", "can-i", "list", "configmaps", "--as", "alice", "--as-group", "team-a", "--as-group", "system:authenticated")
        == "yes\n"
    )
    listed = alice.run("auth", "can-i", "--list")
    assert "selfsubjectaccessreviews.authorization.k8s.io" in listed
    assert any(line.split() == ["configmaps", "[]", "[]", "[get", "list", "create]"] for line in listed.splitlines()), listed


@pytest.mark.parametrize("user", [NEWEST], indirect=True)
def test_whoami(user: As) -> None:
    """`kubectl auth whoami` shows the caller."""
    shown = user("team-a", "alice").run("auth", "whoami")
    assert "alice" in shown
    assert "[team-a system:authenticated]" in shown


def test_each_team_in_its_own_cluster(user: As) -> None:
    """An administrator of one cluster works there, and is refused at the other's door."""
    user("team-a").run("create", "rolebinding", "editors", "--clusterrole=admin", "--group=team-a")
    alice, bob = user("team-a", "alice"), user("team-a", "bob")
    alice.run("create", "configmap", "mine", "--from-literal=a=b")
    assert alice.json("get", "configmap", "mine")["data"] == {"a": "b"}
    alice.run("delete", "configmap", "mine")
    for refused in (bob, user("team-b", "alice"), user("team-x", "alice")):
        assert "(Forbidden)" in refused.run(*reads("default"), fails=True)


def test_grants_by_members(user: As) -> None:
    """Who may write bindings hands on what it has: `kubectl create rolebinding` and `auth reconcile`, and no more than that."""
    user("team-a").run("create", "rolebinding", "admins", "--clusterrole=admin", "--user=alice")
    alice = user("team-a", "alice")
    alice.run("create", "rolebinding", "viewers", "--clusterrole=view", "--user=carol")
    refused = alice.run("create", "rolebinding", "strong", "--clusterrole=cluster-admin", "--user=alice", fails=True)
    assert "is attempting to grant RBAC permissions not currently held" in refused
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reconciled", "namespace": "default"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    }
    assert "reconciled" in alice.run("auth", "reconcile", "-f", "-", stdin=json.dumps(role))
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}
    alice.run("auth", "reconcile", "-f", "-", stdin=json.dumps({**role, "rules": [rule]}))
    assert len(alice.json("get", "role", "reconciled")["rules"]) == 2


@pytest.mark.parametrize("user", [NEWEST], indirect=True)
def test_inherited_roles(user: As) -> None:
    """The roles of Kubernetes are there, described as kubectl describes them, and the aggregated ones take up roles of the cluster."""
    admin = user("team-b")
    names = admin.run("get", "clusterroles", "-o", "name")
    assert {"admin", "edit", "view", "cluster-admin", "system:discovery"} <= {name.rpartition("/")[2] for name in names.split()}
    assert "selfsubjectaccessreviews.authorization.k8s.io" in admin.run("describe", "clusterrole", "system:basic-user")
    admin.run("create", "clusterrole", "ships", "--verb=get", "--resource=configmaps", "--dry-run=client")
    admin.run("delete", "clusterrole", "ships", "--ignore-not-found")
    admin.run("create", "clusterrole", "ships", "--verb=frobnicate", "--resource=configmaps")
    admin.run("label", "clusterrole", "ships", "rbac.authorization.k8s.io/aggregate-to-view=true")
    found = "{.rules[?(@.verbs[0]=='frobnicate')].resources[0]}=configmaps"
    admin.run("wait", "clusterrole/admin", f"--for=jsonpath={found}", "--timeout=30s")
    admin.run("delete", "clusterrole", "ships")


@pytest.mark.slow
def test_members_by_commands(user: As, users_server: ServerProcess) -> None:
    """An administrating group gets its cluster by one command; its members grant a role in one namespace, list and revoke it."""

    def kcp_py(*arguments: str, kubeconfig: Path = users_server.kubeconfig) -> str:
        command = [sys.executable, "-m", "kcp_py", "cluster", *arguments, "--kubeconfig", str(kubeconfig)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=COMMAND_SECONDS).stdout

    kcp_py("create", "shared", "--if-not-exists", "--admin-group", "team-a")
    alice, bob = user("shared", "alice"), user("shared", "bob")
    assert "shop" in alice.run("create", "namespace", "shop")
    alice.run("create", "configmap", "prices", "--namespace", "shop")
    assert "(Forbidden)" in bob.run(*reads("shop"), fails=True)

    own = alice.kubeconfig
    assert "user bob may enter" in kcp_py("grant", "shared", "--user", "bob", "--role", "view", "--namespace", "shop", kubeconfig=own)
    assert "prices" in bob.run("get", "configmaps", "--namespace", "shop")
    assert "orbidden" in bob.run("delete", "configmap", "prices", "--namespace", "shop", fails=True)
    assert "orbidden" in bob.run("get", "configmaps", "--namespace", "default", fails=True)
    members = [line.split() for line in kcp_py("members", "shared", kubeconfig=own).splitlines()]
    assert ["Group", "team-a", "cluster-admin", "<all>"] in members
    assert ["User", "bob", "view", "shop"] in members

    assert "user bob may no longer enter" in kcp_py("revoke", "shared", "--user", "bob", kubeconfig=own)
    assert "bob" not in kcp_py("members", "shared", kubeconfig=own)
    assert "(Forbidden)" in bob.run(*reads("shop"), fails=True)
    alice.run("delete", "namespace", "shop")


def test_grants_in_several_clusters(user: As) -> None:
    """A grantee reads its clusters at once and one by one; a watch follows a grant by label, and the grant ends."""
    root, everywhere = user("root"), user("*", "alice")
    spec = {
        "subjects": [{"kind": "User", "name": "alice"}],
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}],
        "clusters": {"selector": {"matchLabels": {"access.kcp-py.dev/maps": "seen"}}},
    }
    grant = {"apiVersion": "access.kcp-py.dev/v1alpha1", "kind": "ClusterAccessGrant", "metadata": {"name": "maps"}, "spec": spec}
    for cluster in (*CLUSTERS, "team-c"):
        user(cluster).run("delete", "configmap", "granted", "--ignore-not-found")
        user(cluster).run("create", "configmap", "granted", f"--from-literal=key={cluster}")
        user(cluster).run("label", "logicalcluster", "cluster", "access.kcp-py.dev/maps-")
    user("team-b").run("label", "logicalcluster", "cluster", "access.kcp-py.dev/maps=seen")
    root.run("delete", "clusteraccessgrants", "--all")
    assert "(Forbidden)" in everywhere.run(*reads(), fails=True)
    root.run("apply", "-f", "-", stdin=json.dumps(grant))
    selected = ("-A", "--field-selector=metadata.name=granted", "--no-headers")
    assert [line.split()[1] for line in everywhere.run("get", "configmaps", *selected).splitlines()] == ["team-b"]
    assert "team-b" in user("team-b", "alice").run("get", "configmap", "granted", "-o", "yaml")
    assert "(Forbidden)" in user("team-c", "alice").run(*reads("default"), fails=True)
    assert user("team-b", "alice").run("auth", "can-i", "watch", "configmaps") == "yes\n"
    watch = everywhere.start("get", "configmaps", *selected, "--watch", "--output-watch-events", "--request-timeout=120s")
    try:
        assert watch.stdout is not None
        assert watch.stdout.readline().split()[:3] == ["ADDED", "default", "team-b"]
        user("team-c").run("label", "logicalcluster", "cluster", "access.kcp-py.dev/maps=seen")
        assert watch.stdout.readline().split()[:3] == ["ADDED", "default", "team-c"]
        root.run("delete", "clusteraccessgrant", "maps")
        assert sorted(watch.stdout.readline().split()[2] for _ in range(2)) == ["team-b", "team-c"]
    finally:
        watch.kill()
        watch.communicate()
    assert "(Forbidden)" in everywhere.run(*reads(), fails=True)
