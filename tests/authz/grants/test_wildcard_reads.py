"""What a caller who may see some clusters reads over all of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.authz.conftest import ALICE, BOB, rule
from tests.authz.grants.conftest import ALICE as SUBJECT
from tests.authz.grants.conftest import GRANTS, MERGE, config_maps, everywhere, fill, grant, label, logical_cluster, places
from tests.server.handlers.conftest import Api, established, make_crd

pytestmark = pytest.mark.anyio

PARTIAL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PROTOBUF = "application/vnd.kubernetes.protobuf"
DATABASES = "apis/example.com/v1/widgets"


async def see(api: Api, *clusters: str, rules: tuple[dict[str, Any], ...] = (), name: str = "maps") -> None:
    """Let alice see clusters."""
    await api.ok("POST", GRANTS, grant(name, {"names": list(clusters)}, *rules))


async def test_a_list_shows_granted_clusters_alone(api: Api) -> None:
    """In every form, and with selectors; a caller without a grant gets nothing."""
    await fill(api, "team-a", "team-b", "team-c")
    await api.fails(403, "GET", everywhere(), token=ALICE)
    await see(api, "team-a", "team-c", "nowhere")
    await api.fails(403, "GET", everywhere(), token=BOB)
    for path in (everywhere(), everywhere("api/v1/namespaces/default/configmaps")):
        listed = await api.ok("GET", path, token=ALICE)
        assert places(listed) == ["team-a/one", "team-c/one"]
        assert listed["metadata"].keys() == {"resourceVersion"}
    for accept in (PARTIAL, TABLE, PROTOBUF):
        response = await api("GET", everywhere(), headers={"Accept": accept}, token=ALICE)
        assert response.status_code == 200
        assert b"team-a" in response.content
        assert b"team-b" not in response.content
    for selector in ({"fieldSelector": "metadata.name=one"}, {"labelSelector": "!x"}):
        assert places(await api.ok("GET", everywhere(), params=selector, token=ALICE)) == ["team-a/one", "team-c/one"]
    await api.fails(403, "GET", everywhere("api/v1/secrets"), token=ALICE)


async def test_default_objects_of_granted_clusters(api: Api) -> None:
    """Namespaces that no cluster stores are listed for the clusters in sight, in pages as well."""
    await fill(api, "team-a", "team-b")
    await see(api, "team-a", rules=(rule("list", "namespaces"),))
    await api.ok("POST", GRANTS, grant("label", {"selector": {"matchLabels": {"tier": "gold"}}}, rule("list", "namespaces")))
    whole = places(await api.ok("GET", everywhere("api/v1/namespaces"), token=ALICE))
    assert whole
    assert all(place.startswith("team-a/") for place in whole)
    found: list[str] = []
    token = ""
    while True:
        page = await api.ok("GET", everywhere("api/v1/namespaces"), params={"limit": "2", "continue": token}, token=ALICE)
        found += places(page)
        if not (token := page["metadata"].get("continue", "")):
            break
    assert found == whole


GOLD = [f"team-{at}" for at in range(0, 90, 3)]


@pytest.mark.parametrize("selection", [{"names": GOLD}, {"selector": {"matchLabels": {"tier": "gold"}}}])
async def test_pages_contain_visible_objects_alone(api: Api, selection: dict[str, Any]) -> None:
    """However the clusters are read: pages are full, count nothing, and none follows the last visible object."""
    await fill(api, *(f"team-{at}" for at in range(90)))
    for cluster in GOLD:
        await label(api, cluster, tier="gold")
    await api.ok("POST", GRANTS, grant("maps", selection))
    found: list[str] = []
    sizes = []
    token = ""
    while True:
        page = await api.ok("GET", everywhere(), params={"limit": "7", "continue": token}, token=ALICE)
        assert "remainingItemCount" not in page["metadata"]
        found += places(page)
        sizes.append(len(page["items"]))
        if not (token := page["metadata"].get("continue", "")):
            break
    assert found == sorted(f"{cluster}/one" for cluster in GOLD)
    assert sizes == [7, 7, 7, 7, 2]


async def test_a_full_last_page_has_no_token(api: Api) -> None:
    """That further objects follow, which the caller does not see, is not said."""
    await fill(api, "team-a", "team-b", "team-z")
    await see(api, "team-a", "team-b")
    page = await api.ok("GET", everywhere(), params={"limit": "2"}, token=ALICE)
    assert page["metadata"].keys() == {"resourceVersion"}


async def test_page_tokens_are_for_one_caller(api: Api) -> None:
    """The token of another caller is refused, and so is a token after a change of sight."""
    await fill(api, "team-a", "team-b")
    bob = {"kind": "User", "name": "bob"}
    await api.ok("POST", GRANTS, grant("maps", {"names": ["team-a", "team-b"]}, subjects=(SUBJECT, bob)))
    page = await api.ok("GET", everywhere(), params={"limit": "1"}, token=ALICE)
    rest = {"limit": "1", "continue": page["metadata"]["continue"]}
    await api.fails(400, "GET", everywhere(), params=rest, token=BOB)
    await api.fails(400, "GET", everywhere(), params=rest)
    assert places(await api.ok("GET", everywhere(), params=rest, token=ALICE)) == ["team-b/one"]
    await api.ok("PATCH", f"{GRANTS}/maps", {"spec": {"clusters": {"names": ["team-a"]}}}, headers=MERGE)
    expired = await api.fails(410, "GET", everywhere(), params=rest, token=ALICE)
    assert "continue" not in expired.get("metadata", {})


async def test_an_exact_list_from_before_a_change_is_refused(api: Api) -> None:
    """What the caller saw then it may not see now, and the other way round."""
    await fill(api, "team-a", "team-b")
    await see(api, "team-a")
    then = (await api.ok("GET", everywhere(), token=ALICE))["metadata"]["resourceVersion"]
    exact = {"resourceVersion": then, "resourceVersionMatch": "Exact"}
    await fill(api, "team-c")
    assert places(await api.ok("GET", everywhere(), params=exact, token=ALICE)) == ["team-a/one"]
    await see(api, "team-b", name="more")
    await api.fails(410, "GET", everywhere(), params=exact, token=ALICE)


async def test_single_objects(api: Api) -> None:
    """Clusters out of sight have none, do not make a name ambiguous, and cannot be named."""
    await fill(api, "team-a", "team-b")
    await see(api, "team-a")
    found = await api.ok("GET", everywhere("api/v1/namespaces/default/configmaps/one"), token=ALICE)
    assert found["metadata"]["annotations"]["kcp.io/cluster"] == "team-a"
    for cluster in ("team-b", "nowhere"):
        path = everywhere("api/v1/namespaces/default/configmaps/one")
        missing = await api.fails(404, "GET", path, params={"cluster": cluster}, token=ALICE)
        assert missing["message"] == 'configmaps "one" not found'
    await fill(api, "team-c")
    await see(api, "team-c", name="more")
    ambiguous = await api.fails(409, "GET", everywhere("api/v1/namespaces/default/configmaps/one"), token=ALICE)
    assert "team-a, team-c" in ambiguous["message"]


async def test_crds_out_of_sight_do_not_show(api: Api) -> None:
    """Neither in discovery, nor as a resource, nor by the columns of a Table."""
    column = {"name": "Hidden", "type": "string", "jsonPath": ".spec.hidden"}
    for cluster, plural, columns in (("team-a", "widgets", []), ("team-b", "widgets", [column]), ("team-b", "gadgets", [])):
        crd = make_crd(plural, additionalPrinterColumns=columns) if columns else make_crd(plural)
        await api.ok("POST", f"/clusters/{cluster}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        await established(api, cluster, f"{plural}.example.com")
    rules = (rule("get list watch", "widgets gadgets", groups="example.com"),)
    await api.fails(403, "GET", everywhere("apis"), token=ALICE)
    await see(api, "team-a", rules=rules)
    shown = await api.ok("GET", everywhere("apis/example.com/v1"), token=ALICE)
    assert [one["name"] for one in shown["resources"] if "/" not in one["name"]] == ["widgets"]
    for headers in ({}, {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}):
        assert "gadgets" not in (await api("GET", everywhere("apis"), headers=headers, token=ALICE)).text
    assert "access.kcp-py.dev" not in (await api("GET", everywhere("apis"), token=ALICE)).text
    assert (await api("GET", everywhere("apis/example.com/v1/gadgets"), token=ALICE)).status_code == 404
    table = await api.ok("GET", everywhere(DATABASES), headers={"Accept": TABLE}, token=ALICE)
    assert "Hidden" not in {one["name"] for one in table["columnDefinitions"]}
    table = await api.ok("GET", everywhere(DATABASES), headers={"Accept": TABLE})
    assert "Hidden" in {one["name"] for one in table["columnDefinitions"]}
    await see(api, "team-b", rules=rules, name="more")
    assert "gadgets" in (await api("GET", everywhere("apis/example.com/v1"), token=ALICE)).text


async def test_nothing_but_reads(api: Api) -> None:
    """Whatever the rules say, over all clusters there are no writes, no subresources, no impersonation and no other pages."""
    await fill(api, "team-a")
    await api.ok("POST", GRANTS, grant("all", {"all": True}, rule("*", "*", groups="*")))
    path = everywhere("api/v1/namespaces/default/configmaps")
    await api.fails(403, "POST", path, {"metadata": {"name": "two"}}, token=ALICE)
    await api.fails(403, "DELETE", path, token=ALICE)
    await api.fails(403, "GET", everywhere("apis/core.kcp.io/v1alpha1/logicalclusters/cluster/status"), token=ALICE)
    await api.fails(403, "GET", path, headers={"Impersonate-User": "bob"}, token=ALICE)
    for page in ("tap/v1/changes", "metrics", "debug"):
        assert (await api("GET", everywhere(page), token=ALICE)).status_code in {403, 501}
    assert places(await api.ok("GET", path, token=ALICE)) == ["team-a/one"]
    assert (await api("GET", everywhere("openapi/v3"), token=ALICE)).status_code == 404


async def test_logical_clusters_are_read_like_other_objects(api: Api) -> None:
    """A grantee lists those of granted clusters where a rule says so."""
    await fill(api, "team-a", "team-b")
    await see(api, "team-a")
    path = everywhere("apis/core.kcp.io/v1alpha1/logicalclusters")
    await api.fails(403, "GET", path, token=ALICE)
    await see(api, "team-a", rules=(rule("get list", "logicalclusters", groups="core.kcp.io"),), name="clusters")
    assert places(await api.ok("GET", path, token=ALICE)) == ["team-a/cluster"]
    await api.ok("GET", logical_cluster("team-a"), token=ALICE)


async def test_computed_resources(api: Api) -> None:
    """Figures of clusters out of sight are left out."""
    await fill(api, "team-a", "team-b")
    usages = {**rule("get list", "clusterusages"), "apiGroups": ["metrics.kcp-py.dev"]}
    await see(api, "team-a", rules=(usages,))
    assert places(await api.ok("GET", everywhere("apis/metrics.kcp-py.dev/v1alpha1/clusterusages"), token=ALICE)) == ["team-a/cluster"]


async def test_resource_names(api: Api) -> None:
    """A rule for one name allows lists that select it."""
    for cluster in ("team-a", "team-b"):
        await fill(api, cluster)
        await api.ok("POST", config_maps(cluster), {"metadata": {"name": "two"}})
    await see(api, "team-a", rules=(rule("get list watch", "configmaps", names="two"),))
    await api.fails(403, "GET", everywhere(), token=ALICE)
    assert places(await api.ok("GET", everywhere(), params={"fieldSelector": "metadata.name=two"}, token=ALICE)) == ["team-a/two"]
