"""Operators of clusters: they manage logical clusters, and get at nothing in them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from tests.authz.conftest import ALICE, GROUP, binding, role, rule
from tests.server.handlers.conftest import Api, Watch, options

pytestmark = pytest.mark.anyio

OLGA: Final = "Bearer olga"
OPERATORS: Final = "system:kcp:cluster-operator"
USERS: Final = f'alice,alice,a1,"dev"\nolga,olga,o1,"{OPERATORS}"\n'
CLUSTERS: Final = "apis/core.kcp.io/v1alpha1/logicalclusters"
TEAM: Final = "/clusters/team-a"
CORE: Final = f"{TEAM}/api/v1/namespaces/default"
RBAC: Final = f"{TEAM}/apis/{GROUP}/v1"
GRANTS: Final = "/clusters/root/apis/access.kcp-py.dev/v1alpha1/clusteraccessgrants"
MERGE: Final = "application/merge-patch+json"
MARKER: Final = "the-secret-of-team-a"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A server with the cluster team-a of alice, which has a secret, a token of an account and a changed binding."""
    users = tmp_path / "users.csv"
    users.write_text(USERS)
    async with (
        ControlPlane(options(tmp_path, token_auth_file=users)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api = Api(client, control_plane)
        await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("alice", "cluster-admin", "User:alice"))
        secret = {"metadata": {"name": "one"}, "stringData": {"password": MARKER}}
        await api.ok("POST", f"{CORE}/secrets", secret, token=ALICE)
        await api.ok("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "builder"}}, token=ALICE)
        yield api


def cluster(**labels: str) -> dict[str, Any]:
    """A LogicalCluster with labels of grants."""
    metadata = {"name": "cluster", "labels": {f"access.kcp-py.dev/{key}": value for key, value in labels.items()}}
    return {"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster", "metadata": metadata}


async def patched(api: Api, path: str, body: Any, *, token: str = OLGA) -> httpx.Response:
    return await api("PATCH", path, body, headers={"Authorization": token, "Content-Type": MERGE})


async def test_clusters_are_created_changed_listed_and_deleted(api: Api) -> None:
    """As the commands of `kcp-py cluster` do it. A new cluster may have labels by which grants select it."""
    await api.ok("POST", f"/clusters/team-b/{CLUSTERS}", cluster(team="dev"), token=OLGA)
    await api.fails(409, "POST", f"/clusters/team-b/{CLUSTERS}", cluster(team="dev"), token=OLGA)
    path = f"/clusters/team-b/{CLUSTERS}/cluster"
    assert (await patched(api, path, {"metadata": {"labels": {"tier": "gold"}}})).status_code == 200
    found = await api.ok("GET", path, token=OLGA)
    assert found["metadata"]["labels"].items() >= {"access.kcp-py.dev/team": "dev", "tier": "gold"}.items()
    listed = await api.ok("GET", f"/clusters/*/{CLUSTERS}?limit=500", token=OLGA)
    assert {"team-a", "team-b"} <= {one["metadata"]["annotations"]["kcp.io/cluster"] for one in listed["items"]}
    await api.ok("DELETE", path, token=OLGA)
    assert (await api("GET", path, token=OLGA)).json()["metadata"]["deletionTimestamp"]


async def test_clusters_are_watched(api: Api) -> None:
    """Over all clusters, as a list and as a watch."""
    version = (await api.ok("GET", f"/clusters/*/{CLUSTERS}", token=OLGA))["metadata"]["resourceVersion"]
    async with Watch(api, f"/clusters/*/{CLUSTERS}", {"Authorization": OLGA}, resourceVersion=version) as watch:
        await api.ok("POST", f"/clusters/team-b/{CLUSTERS}", cluster(), token=OLGA)
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["metadata"]["annotations"]["kcp.io/cluster"]) == ("ADDED", "team-b")


async def test_members_are_shown_and_removed(api: Api) -> None:
    """The bindings and roles of a cluster, its namespaces and definitions, and the grants of the platform can be read."""
    for path in (f"{RBAC}/clusterrolebindings", f"{RBAC}/rolebindings", f"{RBAC}/clusterroles", f"{RBAC}/roles", GRANTS):
        await api.ok("GET", path, token=OLGA)
    for path in ("api/v1/namespaces", "apis/apiextensions.k8s.io/v1/customresourcedefinitions"):
        await api.ok("GET", f"{TEAM}/{path}", token=OLGA)
    await api.ok("DELETE", f"{RBAC}/clusterrolebindings/alice", token=OLGA)
    await api.fails(403, "GET", f"{CORE}/secrets", token=ALICE)


async def test_a_grant_of_an_administrator_hands_a_new_cluster_to_its_team(api: Api) -> None:
    """An operator creates the cluster with the label that the grant selects, and enters nothing by that."""
    spec = {
        "subjects": [{"kind": "Group", "name": "dev"}],
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
        "clusters": {"selector": {"matchLabels": {"access.kcp-py.dev/team": "dev"}}},
    }
    head = {"apiVersion": "access.kcp-py.dev/v1alpha1", "kind": "ClusterAccessGrant"}
    await api.ok("POST", GRANTS, {**head, "metadata": {"name": "dev"}, "spec": spec})
    await api.ok("POST", f"/clusters/team-b/{CLUSTERS}", cluster(team="dev"), token=OLGA)
    secrets = "/clusters/team-b/api/v1/namespaces/default/secrets"
    await api.ok("POST", secrets, {"metadata": {"name": "one"}}, token=ALICE)
    await api.fails(403, "GET", f"{secrets}/one", token=OLGA)


_SUBJECT: Final = "User:olga"
_REFUSED: Final[list[tuple[str, str, str, Any]]] = [
    ("a secret", "GET", f"{CORE}/secrets/one", None),
    ("secrets", "GET", f"{CORE}/secrets", None),
    ("a watch of secrets", "GET", f"{CORE}/secrets?watch=true", None),
    ("secrets of all namespaces", "GET", f"{TEAM}/api/v1/secrets", None),
    ("secrets of all clusters", "GET", "/clusters/*/api/v1/secrets", None),
    ("config maps of all clusters", "GET", "/clusters/*/api/v1/configmaps", None),
    ("bindings of all clusters", "GET", f"/clusters/*/apis/{GROUP}/v1/clusterrolebindings", None),
    ("discovery of all clusters", "GET", "/clusters/*/api/v1", None),
    ("a write of a secret", "POST", f"{CORE}/secrets", {"metadata": {"name": "two"}}),
    ("a deletion of a secret", "DELETE", f"{CORE}/secrets/one", None),
    ("config maps", "GET", f"{CORE}/configmaps", None),
    ("a token of an account", "POST", f"{CORE}/serviceaccounts/builder/token", {"spec": {}}),
    ("a token by a secret", "POST", f"{CORE}/secrets", {
        "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "builder"}},
        "type": "kubernetes.io/service-account-token"}),
    ("an account", "POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "mine"}}),
    ("a certificate", "POST", f"{TEAM}/apis/certificates.k8s.io/v1/certificatesigningrequests", {"metadata": {"name": "one"}}),
    ("an approval", "PUT", f"{TEAM}/apis/certificates.k8s.io/v1/certificatesigningrequests/one/approval", {"metadata": {"name": "one"}}),
    ("an administrator", "POST", f"{RBAC}/clusterrolebindings", binding("olga", "cluster-admin", _SUBJECT)),
    ("a member", "POST", f"{RBAC}/clusterrolebindings", binding("olga", "system:kcp:workspace:access", "User:bob")),
    ("a role in a namespace", "POST", f"{RBAC}/namespaces/default/rolebindings", binding("olga", "view", _SUBJECT)),
    ("a role", "POST", f"{RBAC}/clusterroles", role("mine", rule("get", "secrets"))),
    ("a narrow role", "POST", f"{RBAC}/clusterroles", role("mine", rule("get", "namespaces"))),
    ("an identity provider", "POST", f"{TEAM}/apis/authentication.kcp-py.io/v1alpha1/clusterauthenticationconfigurations",
     {"metadata": {"name": "mine"}, "spec": {"jwt": []}}),
    ("a definition", "POST", f"{TEAM}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {"metadata": {"name": "x"}}),
    ("a grant", "POST", GRANTS, {"metadata": {"name": "mine"}, "spec": {
        "subjects": [{"kind": "User", "name": "olga"}], "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
        "clusters": {"all": True}}}),
    ("the status of a cluster", "PUT", f"{TEAM}/{CLUSTERS}/cluster/status", {"metadata": {"name": "cluster"}}),
    ("the root cluster", "DELETE", f"/clusters/root/{CLUSTERS}/cluster", None),
    ("secrets of root", "GET", "/clusters/root/api/v1/namespaces/default/secrets", None),
    ("leases of the system", "GET", "/clusters/system:admin/apis/coordination.k8s.io/v1/leases", None),
    ("metrics", "GET", "/metrics", None),
    ("the tap", "GET", "/clusters/*/tap", None),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body"), [row[1:] for row in _REFUSED], ids=[row[0] for row in _REFUSED])
async def test_operators_are_refused(api: Api, method: str, path: str, body: Any) -> None:
    """By 403, whatever the way to the content of a cluster, or to more permissions."""
    answer = await api(method, path, body, token=OLGA)
    assert (answer.status_code, MARKER in answer.text) == (403, False)


@pytest.mark.parametrize("accept", [
    "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf", "application/yaml",
])  # fmt: skip
async def test_no_form_shows_secrets(api: Api, accept: str) -> None:
    """Neither a table nor metadata alone."""
    answer = await api("GET", f"{CORE}/secrets", headers={"Authorization": OLGA, "Accept": accept})
    assert answer.status_code == 403


@pytest.mark.parametrize("headers", [
    {"Impersonate-User": "alice"},
    {"Impersonate-User": "olga", "Impersonate-Group": "system:masters"},
    {"Impersonate-User": "olga", "Impersonate-Group": "system:kcp:admin"},
    {"Impersonate-User": "system:serviceaccount:default:builder"},
])  # fmt: skip
async def test_operators_act_as_themselves(api: Api, headers: dict[str, str]) -> None:
    """Impersonation is refused, of members of the team and of administrators."""
    assert (await api("GET", f"{CORE}/secrets", headers={"Authorization": OLGA, **headers})).status_code == 403


@pytest.mark.parametrize("body", [
    {"metadata": {"labels": {"access.kcp-py.dev/team": "ops"}}},
    {"metadata": {"annotations": {"core.kcp.io/inactive": "true"}}},
    {"spec": {"owner": {"apiVersion": "v1", "resource": "x", "name": "x", "cluster": "x", "uid": "x"}}},
], ids=["a label of grants", "the switch", "the owner"])  # fmt: skip
async def test_the_fields_of_administrators_are_refused(api: Api, body: dict[str, Any]) -> None:
    """An operator cannot move a cluster with content into another grant."""
    before = await api.ok("GET", f"{TEAM}/{CLUSTERS}/cluster")
    answer = await patched(api, f"{TEAM}/{CLUSTERS}/cluster", body)
    assert answer.status_code == 403
    assert "only administrators of all clusters can change" in answer.json()["message"]
    assert await api.ok("GET", f"{TEAM}/{CLUSTERS}/cluster") == before


async def test_operators_do_not_change_bindings_and_roles(api: Api) -> None:
    """Neither their own nor those of others."""
    changes = [
        ("clusterrolebindings/alice", {"subjects": binding("x", "x", _SUBJECT)["subjects"]}),
        (f"clusterrolebindings/{OPERATORS}", {"roleRef": binding("x", "cluster-admin")["roleRef"]}),
        (f"clusterroles/{OPERATORS}", {"rules": [rule("*", "*", groups="*")]}),
    ]
    for path, body in changes:
        assert (await patched(api, f"{RBAC}/{path}", body)).status_code == 403
    await api.fails(403, "GET", f"{CORE}/secrets", token=OLGA)


async def test_a_deletion_brings_no_administrators_back(api: Api) -> None:
    """A cluster has locked out the administrators of all clusters. To delete the changed binding is to write the inherited one."""
    path = f"{RBAC}/clusterrolebindings/system:kcp:admin"
    assert (await patched(api, path, {"subjects": []}, token=ALICE)).status_code == 200
    await api.fails(403, "DELETE", path, token=OLGA)
    assert not (await api.ok("GET", path)).get("subjects")


async def test_a_cluster_can_lock_operators_out(api: Api) -> None:
    """By its own binding of the name. They see its LogicalCluster among all others, and nothing else."""
    assert (await patched(api, f"{RBAC}/clusterrolebindings/{OPERATORS}", {"subjects": []}, token=ALICE)).status_code == 200
    for method, path in (("GET", f"{TEAM}/api/v1/namespaces"), ("DELETE", f"{TEAM}/{CLUSTERS}/cluster")):
        await api.fails(403, method, path, token=OLGA)
    listed = await api.ok("GET", f"/clusters/*/{CLUSTERS}", token=OLGA)
    assert "team-a" in {one["metadata"]["annotations"]["kcp.io/cluster"] for one in listed["items"]}


@pytest.mark.parametrize("name", ["system:mine", "system:admin", "root"])
async def test_clusters_of_the_system_are_not_made(api: Api, name: str) -> None:
    """Their names belong to the server."""
    answer = await api("POST", f"/clusters/{name}/{CLUSTERS}", cluster(), token=OLGA)
    assert answer.status_code == (409 if name == "root" else 403)


async def test_no_one_in_a_cluster_becomes_an_operator(api: Api) -> None:
    """The administrator of a cluster cannot impersonate the group. To bind the role to a user counts in this cluster alone."""
    headers = {"Authorization": ALICE, "Impersonate-User": "x", "Impersonate-Group": OPERATORS}
    assert (await api("GET", f"{TEAM}/api/v1/namespaces", headers=headers)).status_code == 403
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("bob", OPERATORS, "User:bob", "User:alice"), token=ALICE)
    for path in (f"/clusters/team-b/{CLUSTERS}", f"/clusters/*/{CLUSTERS}"):
        await api.fails(403, "GET", path, token=ALICE)
