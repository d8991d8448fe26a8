"""What roles and bindings allow, over HTTP, in one cluster and not in another."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.authz.rbac.authorizer import ACCESS_DENIED, RBACAuthorizer
from kcp_py.authz.rbac.indexes import RBACIndexes
from kcp_py.logicalcluster import WILDCARD, Name
from kcp_py.request.requestinfo import parse_request
from kcp_py.request.user import UserInfo
from tests.authz.conftest import ALICE, BOB, MAPS, OPERATOR, RBAC, binding, let_in, role, rule
from tests.server.handlers.conftest import Api, config_map

pytestmark = pytest.mark.anyio

ACCOUNT = UserInfo(
    "system:serviceaccount:default:bot", "", ("system:serviceaccounts",), {"authentication.kcp.io/cluster-name": ("team-a",)}
)


async def test_a_role_is_for_its_namespace(api: Api) -> None:
    """A RoleBinding gives what its role says in its namespace and nowhere else."""
    await let_in(api, "User:alice")
    await api.ok("POST", f"{RBAC}/namespaces/default/roles", role("maps", rule("get list create", "configmaps")))
    await api.ok("POST", f"{RBAC}/namespaces/default/rolebindings", binding("maps", "maps", "User:alice", kind="Role"))
    assert (await api("POST", MAPS, config_map("one"), token=ALICE)).status_code == 201
    assert (await api("GET", f"{MAPS}/one", token=ALICE)).status_code == 200
    refused = await api.fails(403, "DELETE", f"{MAPS}/one", token=ALICE)
    assert refused["message"] == (
        'configmaps "one" is forbidden: User "alice" cannot delete resource "configmaps" in API group "" in the namespace "default"'
    )
    for path in ("/clusters/team-a/api/v1/configmaps", MAPS.replace("default", "kube-system")):
        await api.fails(403, "GET", path, token=ALICE)


async def test_a_grant_is_for_its_cluster(api: Api) -> None:
    """An administrator of one cluster is a stranger in another one, whether that exists or not, and over all clusters."""
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("admins", "cluster-admin", "Group:dev"))
    await api.ok("POST", MAPS.replace("team-a", "team-b"), config_map("one"))
    assert (await api("POST", MAPS, config_map("one"), token=ALICE)).status_code == 201
    answers = {}
    for cluster in ("team-b", "team-x"):
        response = await api("GET", f"/clusters/{cluster}/api/v1/namespaces/default/configmaps/one", token=ALICE)
        answers[cluster] = (response.status_code, response.content, sorted(set(response.headers) - {"audit-id", "date"}))
    assert answers["team-b"] == answers["team-x"]
    assert answers["team-b"][0] == 403
    await api.fails(403, "GET", "/clusters/*/api/v1/configmaps", token=ALICE)
    # Naming a cluster that does not exist brings none into being.
    listed = await api.ok("GET", "/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters")
    assert "team-x" not in {one["metadata"]["annotations"]["kcp.io/cluster"] for one in listed["items"]}


async def test_nothing_is_allowed_without_access(api: Api) -> None:
    """Who has a role in a namespace, and not the permission to enter the cluster, does not get in: not even to discovery."""
    await api.ok("POST", f"{RBAC}/namespaces/default/rolebindings", binding("view", "view", "User:alice"))
    for path in (MAPS, "/clusters/team-a/api", "/clusters/team-a/apis", "/clusters/team-a/openapi/v3"):
        refused = await api.fails(403, "GET", path, token=ALICE)
        assert refused["message"].endswith(": access denied")
    await let_in(api, "User:alice")
    for path in (MAPS, "/clusters/team-a/api", "/clusters/team-a/apis", "/clusters/team-a/openapi/v3"):
        assert (await api("GET", path, token=ALICE)).status_code == 200


async def test_administrators_of_all_clusters(api: Api) -> None:
    """The group `system:kcp:admin` is inherited as administrator by every cluster; the wildcard is not in that."""
    assert (await api("POST", MAPS, config_map("one"))).status_code == 201
    assert (await api("GET", f"{MAPS}/one", token=OPERATOR)).status_code == 200
    await api.fails(403, "GET", "/clusters/*/api/v1/configmaps", token=OPERATOR)


async def test_a_change_counts_from_its_answer_on(api: Api) -> None:
    """A request after the answer to a write of a role or a binding is decided by the new state."""
    await let_in(api, "User:bob")
    await api.ok("POST", f"{RBAC}/clusterroles", role("maps", rule("list", "secrets")))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("maps", "maps", "User:bob"))
    for number in range(20):
        await api.ok("PUT", f"{RBAC}/clusterroles/maps", role("maps", rule("list", "configmaps" if number % 2 else "secrets")))
        assert (await api("GET", MAPS, token=BOB)).status_code == (200 if number % 2 else 403)
    await api.ok("DELETE", f"{RBAC}/clusterrolebindings/maps")
    await api.fails(403, "GET", MAPS, token=BOB)


async def test_a_missing_role_is_named(api: Api) -> None:
    """A denial says which roles of the caller's bindings do not exist."""
    await let_in(api, "User:bob")
    await api.ok("POST", f"{RBAC}/namespaces/default/rolebindings", binding("gone", "gone", "User:bob", kind="Role"))
    refused = await api.fails(403, "GET", MAPS, token=BOB)
    assert refused["message"].endswith('in the namespace "default": rbac: RBAC: role.rbac.authorization.k8s.io "gone" not found')


async def test_a_deleted_cluster_takes_its_permissions_along(api: Api) -> None:
    """A cluster that gets the name of a deleted one begins without grants."""
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("admins", "cluster-admin", "Group:dev"))
    assert (await api("GET", MAPS, token=ALICE)).status_code == 200
    await api.ok("DELETE", "/clusters/team-a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
    async with asyncio.timeout(30):
        while (await api("POST", MAPS, config_map("one"))).status_code != 201:
            await asyncio.sleep(0)
    await api.fails(403, "GET", MAPS, token=ALICE)


async def test_the_first_object_of_a_cluster_can_be_a_binding(api: Api) -> None:
    """Also where a caller was refused in the cluster before it existed."""
    await api.fails(403, "GET", MAPS, token=ALICE)
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("admins", "cluster-admin", "User:alice"))
    assert (await api("GET", MAPS, token=ALICE)).status_code == 200


async def test_service_accounts_live_in_their_cluster(api: Api) -> None:
    """They need no permission to be where they are, and have none to be elsewhere."""
    backend = api.control_plane.backend
    authorizer = RBACAuthorizer(RBACIndexes(backend.access, backend.fanout, "/registry"))
    discovery = parse_request("GET", "/api", {})
    in_group = ACCOUNT._replace(groups=(*ACCOUNT.groups, "system:authenticated"))
    for cluster, allowed in ((Name("team-a"), True), (Name("team-b"), False)):
        decision = await authorizer.authorize(in_group, cluster, discovery)
        assert decision is not None
        assert decision.allowed is allowed
    assert await authorizer.authorize(in_group, WILDCARD, discovery) is None


async def test_decisions_are_kept_within_bounds(api: Api) -> None:
    """One for each user and request, not for users and objects with long names, nor for reviews; a change of a binding outdates it.

    Those about parts of impersonated users displace no others.
    """
    backend = api.control_plane.backend
    authorizer = RBACAuthorizer(RBACIndexes(backend.access, backend.fanout, "/registry"))
    read = parse_request("GET", "/api/v1/namespaces/default/configmaps/one", {})
    named = parse_request("GET", "/api/v1/configmaps", {"fieldSelector": ["metadata.name=" + 1000 * "x"]})
    member, cluster = UserInfo("alice", "", ("dev",)), Name("team-a")
    for user, info in (
        (UserInfo(1000 * "x"), read),
        (UserInfo("alice", "", (500 * "x", 500 * "y")), read),
        (member, named),
        (member, read._replace(path="")),
    ):
        await authorizer.authorize(user, cluster, info)
        assert len(authorizer._decided) == 0
    for _ in range(2):
        assert await authorizer.authorize(member, cluster, read) == ACCESS_DENIED
        assert len(authorizer._decided) == 1
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("admins", "cluster-admin", "Group:dev"))
    decision = await authorizer.authorize(member, cluster, read)
    assert decision is not None
    assert decision.allowed
    await authorizer.authorize(member, cluster, read._replace(path="", verb="impersonate"))
    assert (len(authorizer._decided), len(authorizer._impersonations)) == (1, 1)


async def test_only_permissions_are_recalled(api: Api) -> None:
    """Of the asked cluster, for the present roles and bindings; a refusal and a request that was not decided before are not."""
    backend = api.control_plane.backend
    authorizer = RBACAuthorizer(backend_indexes := RBACIndexes(backend.access, backend.fanout, "/registry"))
    read = parse_request("GET", "/api/v1/namespaces/default/configmaps/one", {})
    write = parse_request("PUT", "/api/v1/namespaces/default/configmaps/one", {})
    member, cluster = UserInfo("alice", "", ("dev",)), Name("team-a")
    await authorizer.authorize(member, cluster, read)
    assert authorizer.recall(member, cluster, read) is None
    await let_in(api, "Group:dev")
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("viewers", "view", "Group:dev"))
    assert authorizer.recall(member, cluster, read) is None
    allowed = await authorizer.authorize(member, cluster, read)
    assert allowed is not None
    assert allowed.allowed
    assert authorizer.recall(member, cluster, read) is allowed
    await authorizer.authorize(member, cluster, write)
    for user, where, info in (
        (member, cluster, write),
        (member, Name("team-b"), read),
        (member, WILDCARD, read),
        (member._replace(name="bob"), cluster, read),
        (member._replace(groups=()), cluster, read),
    ):
        assert authorizer.recall(user, where, info) is None
    await api.ok("DELETE", f"{RBAC}/clusterrolebindings/viewers")
    assert authorizer.recall(member, cluster, read) is None
    assert backend_indexes.current(Name("team-b")) is None
