"""What grants allow in single clusters, and who may write them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcp_py.authz.grants.index import GrantIndex
from tests.authz.conftest import ALICE, BOB, GROUP, OPERATOR, binding, rule
from tests.authz.grants.conftest import GRANTS, config_maps, everywhere, fill, grant, label, logical_cluster
from tests.server.handlers.conftest import Api, Watch

pytestmark = pytest.mark.anyio

CLUSTERS = ("team-a", "team-b", "team-c")
REVIEWS = "apis/authorization.k8s.io/v1"


@pytest.mark.parametrize(("clusters", "granted"), [
    ({"names": ["team-a", "team-c"]}, {"team-a", "team-c"}),
    ({"selector": {"matchLabels": {"tier": "gold"}}}, {"team-b"}),
    ({"selector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}}, {"team-a", "team-c"}),
    ({"all": True}, set(CLUSTERS)),
])  # fmt: skip
async def test_clusters_are_selected(api: Api, clusters: dict[str, Any], granted: set[str]) -> None:
    """By name, by label and all of them: the verbs of the rules are allowed there, and nothing else is."""
    await fill(api, *CLUSTERS)
    await label(api, "team-b", tier="gold")
    for cluster in CLUSTERS:
        await api.fails(403, "GET", config_maps(cluster), token=ALICE)
    await api.ok("POST", GRANTS, grant("maps", clusters))
    for cluster in CLUSTERS:
        response = await api("GET", config_maps(cluster), token=ALICE)
        assert (response.status_code == 200) is (cluster in granted)
        await api.fails(403, "POST", config_maps(cluster), {"metadata": {"name": "two"}}, token=ALICE)
        await api.fails(403, "GET", f"/clusters/{cluster}/api/v1/namespaces/default/secrets", token=ALICE)
        await api.fails(403, "GET", config_maps(cluster), token=BOB)
        await api.fails(403, "GET", logical_cluster(cluster), token=ALICE)


async def test_a_decision_is_never_behind_a_write(api: Api) -> None:
    """A grant, its change and its end, a label and the creation of a cluster count for the request that follows."""
    await fill(api, "team-a")
    await api.ok("POST", GRANTS, grant("maps", {"selector": {"matchLabels": {"tier": "gold"}}}))
    await api.fails(403, "GET", config_maps("team-a"), token=ALICE)
    for _ in range(3):
        await label(api, "team-a", tier="gold")
        await api.ok("GET", config_maps("team-a"), token=ALICE)
        await label(api, "team-a", tier=None)
        await api.fails(403, "GET", config_maps("team-a"), token=ALICE)
    await api.ok(
        "PATCH",
        f"{GRANTS}/maps",
        {"spec": {"clusters": {"selector": None, "all": True}}},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    await api.ok("GET", config_maps("team-a"), token=ALICE)
    await fill(api, "team-z")
    await api.ok("GET", config_maps("team-z"), token=ALICE)
    await api.ok("DELETE", f"{GRANTS}/maps")
    await api.fails(403, "GET", config_maps("team-a"), token=ALICE)


async def test_a_cluster_that_does_not_exist_is_refused(api: Api) -> None:
    """Grants of all clusters and of names allow nothing before the cluster exists: a write would create it."""
    await fill(api, "team-a")
    await api.ok("POST", GRANTS, grant("names", {"names": ["nowhere"]}, rule("*", "*", groups="*")))
    await api.ok("POST", GRANTS, grant("all", {"all": True}, rule("*", "*", groups="*")))
    refused = await api.fails(403, "POST", config_maps("nowhere"), {"metadata": {"name": "one"}}, token=ALICE)
    unknown = await api.fails(403, "POST", config_maps("nowhere"), {"metadata": {"name": "one"}}, token=BOB)
    assert refused["message"].replace("alice", "bob") == unknown["message"]


async def test_discovery_in_a_granted_cluster(api: Api) -> None:
    """Clients need it, whatever the bindings of the cluster say."""
    await fill(api, "team-a", "team-b")
    shadow = {**binding("system:discovery", "system:discovery"), "subjects": []}
    await api.ok("PUT", f"/clusters/team-a/apis/{GROUP}/v1/clusterrolebindings/system:discovery", shadow)
    await api.ok("POST", GRANTS, grant("maps", {"names": ["team-a"]}))
    for path in ("api", "apis", "api/v1", "apis/apps", "openapi/v2", "openapi/v3"):
        code = (await api("GET", f"/clusters/team-a/{path}", token=ALICE)).status_code
        assert code in {200, 404}, path
        await api.fails(403, "GET", f"/clusters/team-b/{path}", token=ALICE)
    await api.fails(403, "GET", "/clusters/team-a/debug", token=ALICE)


async def test_roles_of_a_granted_cluster_apply(api: Api) -> None:
    """A grantee may enter the cluster, so that bindings there can allow more."""
    await fill(api, "team-a")
    await api.ok("POST", f"/clusters/team-a/apis/{GROUP}/v1/clusterrolebindings", binding("alice", "edit", "User:alice"))
    await api.fails(403, "POST", config_maps("team-a"), {"metadata": {"name": "two"}}, token=ALICE)
    await api.ok("POST", GRANTS, grant("maps", {"names": ["team-a"]}))
    await api.ok("POST", config_maps("team-a"), {"metadata": {"name": "two"}}, token=ALICE)


async def test_access_reviews_know_grants(api: Api) -> None:
    """Of the caller, of another user, and the list of rules: in granted clusters, and not in others."""
    await fill(api, "team-a", "team-b")
    await api.ok("POST", GRANTS, grant("maps", {"names": ["team-a"]}, rule("get update", "configmaps databases/status", groups="- x.io")))
    asked = {"spec": {"resourceAttributes": {"verb": "update", "group": "x.io", "resource": "databases", "subresource": "status"}}}
    answer = await api.ok("POST", f"/clusters/team-a/{REVIEWS}/selfsubjectaccessreviews", asked, token=ALICE)
    assert answer["status"] == {"allowed": True, "reason": 'grant: allowed by ClusterAccessGrant "maps"'}
    for cluster, allowed in (("team-a", True), ("team-b", False)):
        of_alice = {"spec": {**asked["spec"], "user": "alice"}}
        answer = await api.ok("POST", f"/clusters/{cluster}/{REVIEWS}/subjectaccessreviews", of_alice)
        assert answer["status"]["allowed"] is allowed
    listed = await api.ok("POST", f"/clusters/team-a/{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, token=ALICE)
    granted = {"verbs": ["get", "update"], "apiGroups": ["", "x.io"], "resources": ["configmaps", "databases/status"]}
    assert granted in listed["status"]["resourceRules"]
    await api.fails(403, "POST", f"/clusters/team-b/{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, token=ALICE)


async def test_only_administrators_of_all_clusters_grant(api: Api) -> None:
    """An administrator of root alone cannot become one of every cluster."""
    await api.ok("POST", f"/clusters/root/apis/{GROUP}/v1/clusterrolebindings", binding("alice", "cluster-admin", "User:alice"))
    refused = await api.fails(403, "POST", GRANTS, grant("mine", {"all": True}), token=ALICE)
    assert refused["message"].endswith("only administrators of all clusters can grant permissions in several clusters")
    await api.ok("POST", GRANTS, grant("theirs", {"all": True}), token=OPERATOR)
    obj = await api.ok("GET", f"{GRANTS}/theirs", token=ALICE)
    await api.fails(403, "PUT", f"{GRANTS}/theirs", obj, token=ALICE)
    await api.ok("DELETE", f"{GRANTS}/theirs", token=ALICE)


@pytest.mark.parametrize("change", [
    {"clusters": None}, {"clusters": "all"}, {"clusters": {"names": [1]}}, {"clusters": {"selector": {"matchExpressions": [{"key": {}}]}}},
    {"subjects": [{"kind": "ServiceAccount", "name": [{}], "namespace": 1}]}, {"rules": [None]}, {"rules": [{"verbs": "get"}]},
])  # fmt: skip
async def test_a_malformed_grant_is_refused(api: Api, change: dict[str, Any]) -> None:
    """By the schema, and not by rules that expect its types; a missing field likewise."""
    made = grant("maps", {"all": True})
    spec = made["spec"] | change
    for malformed in (spec, {field: value for field, value in spec.items() if field not in change}):
        await api.fails(422, "POST", GRANTS, made | {"spec": malformed})


async def test_grants_are_served_in_root_alone(api: Api) -> None:
    """Other clusters neither show the group nor take objects."""
    await fill(api, "team-a")
    assert await api.ok("GET", "/clusters/root/apis/access.kcp-py.dev/v1alpha1")
    for method, path in (("GET", "/clusters/team-a/apis/access.kcp-py.dev/v1alpha1"), ("POST", GRANTS.replace("root", "team-a"))):
        assert (await api(method, path, grant("maps", {"all": True}) if method == "POST" else None)).status_code == 404


async def test_rules_for_urls_are_dropped(api: Api) -> None:
    """A grant holds no permissions for pages of the server: the field is not part of the kind."""
    obj = grant("maps", {"all": True}, {**rule("get", "configmaps"), "nonResourceURLs": ["/metrics"]})
    stored = await api.ok("POST", GRANTS, obj)
    assert "nonResourceURLs" not in stored["spec"]["rules"][0]
    await api.fails(403, "GET", "/metrics", token=ALICE)


async def test_accounts_of_a_later_cluster_are_other_subjects(api: Api) -> None:
    """A grant for an account does not count for the account of its name in a cluster that is created again, until it is written again."""
    core = "/clusters/ops/api/v1/namespaces/default"
    account = {"kind": "ServiceAccount", "cluster": "ops", "namespace": "default", "name": "robot"}
    await fill(api, "team-a", "team-b")

    async def token() -> str:
        await api.ok("POST", f"{core}/serviceaccounts", {"metadata": {"name": "robot"}})
        issued: str = (await api.ok("POST", f"{core}/serviceaccounts/robot/token", {}))["status"]["token"]
        return f"Bearer {issued}"

    async def reads(token: str) -> list[int]:
        paths = (config_maps("team-a"), config_maps("team-b"), everywhere())
        return [(await api("GET", path, token=token)).status_code for path in paths]

    first = await token()
    made = await api.ok("POST", GRANTS, grant("robots", {"names": ["team-a"]}, subjects=(account,)))
    assert await reads(first) == [200, 403, 200]
    async with Watch(api, everywhere(), {"Authorization": first}) as watch:
        assert await watch.brief() == ("ADDED", "one")
        await api.ok("DELETE", f"{logical_cluster('ops')}?gracePeriodSeconds=0")
        async with asyncio.timeout(60):
            while (await api("GET", logical_cluster("ops"))).status_code != 404:
                await asyncio.sleep(0)
            while await watch.next() is not None:
                pass
    second = await token()
    assert await reads(first) == [401, 401, 401]
    assert await reads(second) == [403, 403, 403]
    backend = api.control_plane.backend
    index = GrantIndex(backend.access, backend.fanout, "/registry")
    await index.refresh()
    assert not [*index.grants_of([("ServiceAccount", "ops:default:robot")])]
    made = await api.ok("GET", f"{GRANTS}/robots")
    await api.ok("PUT", f"{GRANTS}/robots", {**made, "metadata": {**made["metadata"], "labels": {"again": "true"}}})
    assert await reads(second) == [200, 403, 200]
