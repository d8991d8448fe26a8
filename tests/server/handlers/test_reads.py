"""Lists and watches: revisions, pages, selectors, forms, and clusters (facts of the API's sections 3.7 and 3.8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcp_py.server.handlers.backend import RequestLimits
from tests.server.handlers.conftest import Api, Watch, config_map

pytestmark = pytest.mark.anyio

MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
PARTIAL = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}


async def fill(api: Api, count: int, cluster: str = "a") -> list[dict[str, Any]]:
    return [await api.ok("POST", MAPS.replace("/a/", f"/{cluster}/"), config_map(f"m{number:02}")) for number in range(count)]


async def test_a_list_is_in_key_order_with_the_revision_of_the_store(api: Api) -> None:
    """Items of typed lists carry no kind; an empty list has an empty array."""
    empty = await api.ok("GET", MAPS)
    assert (empty["kind"], empty["items"]) == ("ConfigMapList", [])
    objects = await fill(api, 3)
    await api.ok("POST", MAPS.replace("/a/", "/b/"), config_map("elsewhere"))
    listed = await api.ok("GET", MAPS)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["m00", "m01", "m02"]
    assert "kind" not in listed["items"][0]
    assert int(listed["metadata"]["resourceVersion"]) > int(objects[-1]["metadata"]["resourceVersion"])


async def test_a_path_that_does_not_fit_the_scope_of_its_resource(api: Api) -> None:
    """Cluster-scoped objects are not reached through a namespace, nor namespaced ones without it (CVE-2019-11247)."""
    for path in (
        "/api/v1/namespaces/default/namespaces",
        "/api/v1/namespaces/default/namespaces?fieldSelector=metadata.name=default",
        "/api/v1/namespaces/default/namespaces/default",
        "/api/v1/namespaces/default/namespaces/kube-system",
        "/api/v1/namespaces/namespaces/namespaces",
        "/apis/apiextensions.k8s.io/v1/namespaces/default/customresourcedefinitions",
        "/api/v1/configmaps/a",
    ):
        assert (await api("GET", f"/clusters/a{path}")).status_code == 404, path
    created = await api("POST", "/clusters/a/api/v1/namespaces/default/namespaces", {"metadata": {"name": "x"}})
    assert created.status_code == 404
    await api.ok("POST", "/clusters/a/api/v1/namespaces", {"metadata": {"name": "namespaces"}})
    assert (await api.ok("GET", "/clusters/a/api/v1/namespaces/namespaces"))["metadata"]["name"] == "namespaces"
    assert (await api.ok("GET", "/clusters/a/api/v1/namespaces/namespaces/status"))["metadata"]["name"] == "namespaces"


@pytest.mark.parametrize("method", ["FOO", "TRACE", "CONNECT", "PROPFIND", "LIST", "WATCH", "OPTIONS"])
async def test_a_method_that_no_resource_has(api: Api, method: str) -> None:
    """405 for resources, objects and their discovery, as kube-apiserver 1.37 answers; 404 where nothing is served."""
    for path in (
        "",
        "/v1",
        "/v1/namespaces",
        "/v1/namespaces/default",
        "/v1/namespaces/default/configmaps/x",
        "/v1/namespaces/default/configmaps?watch=1",
    ):
        failure = await api.fails(405, method, f"/clusters/a/api{path}")
        assert (failure["reason"], failure["message"]) == (
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    assert (await api(method, "/clusters/a/api/v1/nosuch")).status_code == 404


async def test_pages_of_one_revision(api: Api) -> None:
    """All pages have the revision of the first one and together hold the objects of that revision."""
    await fill(api, 7)
    first = await api.ok("GET", MAPS, params={"limit": "3"})
    assert first["metadata"]["remainingItemCount"] == 4
    await api.ok("POST", MAPS, config_map("m031"))
    await api.ok("DELETE", f"{MAPS}/m05")
    names = [item["metadata"]["name"] for item in first["items"]]
    page = first
    while page["metadata"].get("continue"):
        page = await api.ok("GET", MAPS, params={"limit": "3", "continue": page["metadata"]["continue"]})
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [item["metadata"]["name"] for item in page["items"]]
    assert names == [f"m{number:02}" for number in range(7)]
    assert "remainingItemCount" not in page["metadata"]


async def test_a_limit_below_zero_is_none(api: Api) -> None:
    """As upstream: neither an error nor an empty page that never ends."""
    await fill(api, 3)
    for path in (MAPS, "/clusters/*/api/v1/configmaps", "/clusters/a/api/v1/namespaces"):
        listed = await api.ok("GET", path, params={"limit": "-1"})
        assert len(listed["items"]) >= 3
        assert "continue" not in listed["metadata"]


async def test_a_continue_token_is_good_for_its_own_list_only(api: Api) -> None:
    """Another cluster, resource, namespace or a made-up token: 400, and nothing of another list."""
    await fill(api, 3)
    await fill(api, 3, cluster="b")
    token = (await api.ok("GET", MAPS, params={"limit": "1"}))["metadata"]["continue"]
    for path in (
        MAPS.replace("/a/", "/b/"),
        "/clusters/a/api/v1/namespaces/kube-system/configmaps",
        "/clusters/a/api/v1/secrets",
        "/clusters/*/api/v1/configmaps",
    ):
        status = await api.fails(400, "GET", path, params={"limit": "1", "continue": token})
        assert "continue" in status["message"]
    await api.fails(400, "GET", MAPS, params={"continue": token[:-2] + "xx"})
    status = await api.fails(400, "GET", MAPS, params={"continue": token, "resourceVersion": "3"})
    assert "specifying resource version is not allowed when using continue" in status["message"]


async def test_a_compacted_page_is_410_with_a_token_that_goes_on(api: Api) -> None:
    """The new token continues at the latest state."""
    await fill(api, 4)
    token = (await api.ok("GET", MAPS, params={"limit": "2"}))["metadata"]["continue"]
    await api.ok("DELETE", f"{MAPS}/m02")
    storage = api.control_plane.backend.access.storage
    await storage.compact(await storage.revision())
    status = await api.fails(410, "GET", MAPS, params={"limit": "2", "continue": token})
    assert status["reason"] == "Expired"
    rest = await api.ok("GET", MAPS, params={"limit": "2", "continue": status["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["m03"]


async def test_lists_at_revisions(api: Api) -> None:
    """Exact gives the past, not-older-than the present, the future is a timeout with its cause."""
    objects = await fill(api, 2)
    then = objects[0]["metadata"]["resourceVersion"]
    exact = await api.ok("GET", MAPS, params={"resourceVersion": then, "resourceVersionMatch": "Exact"})
    assert [item["metadata"]["name"] for item in exact["items"]] == ["m00"]
    assert exact["metadata"]["resourceVersion"] == then
    newer = await api.ok("GET", MAPS, params={"resourceVersion": then, "resourceVersionMatch": "NotOlderThan"})
    assert len(newer["items"]) == 2
    assert len((await api.ok("GET", MAPS, params={"resourceVersion": "0"}))["items"]) == 2
    status = await api.fails(504, "GET", MAPS, params={"resourceVersion": "999999"})
    assert status["details"]["causes"] == [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    await api.fails(422, "GET", MAPS, params={"resourceVersionMatch": "Exact"})
    await api.fails(422, "GET", MAPS, params={"resourceVersion": "0", "resourceVersionMatch": "Exact"})


async def test_selectors(api: Api) -> None:
    """By label and by field; what cannot be selected by is refused."""
    await api.ok("POST", MAPS, config_map("one", labels={"tier": "gold"}))
    await api.ok("POST", MAPS, config_map("two", labels={"tier": "tin"}))
    await api.ok("POST", MAPS, config_map("three"))

    async def names(**params: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await api.ok("GET", MAPS, params=params))["items"]]

    assert await names(labelSelector="tier in (gold, tin)") == ["one", "two"]
    assert await names(labelSelector="!tier") == ["three"]
    assert await names(fieldSelector="metadata.name=two") == ["two"]
    assert await names(fieldSelector="metadata.name=absent") == []
    assert await names(fieldSelector="metadata.name!=two", labelSelector="tier") == ["one"]
    assert await names(labelSelector="tier", limit="1") == ["one"]
    status = await api.fails(400, "GET", MAPS, params={"fieldSelector": "data.x=1"})
    assert "is not a known field selector" in status["message"]
    status = await api.fails(400, "GET", MAPS, params={"labelSelector": "a=(("})
    assert "unable to parse requirement" in status["message"]


async def test_tables_and_partial_metadata(api: Api) -> None:
    """Rows with the kind's columns, and objects reduced to their metadata; unknown parameters of Accept do not matter."""
    await api.ok("POST", MAPS, config_map("one", {"a": "1", "b": "2"}))
    table = await api.ok("GET", MAPS, headers=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert table["rows"][0]["cells"][:2] == ["one", 2]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    one = await api.ok("GET", f"{MAPS}/one", headers={"Accept": "application/json;as=Table;v=v1beta1;g=meta.k8s.io;profile=x"})
    assert (one["apiVersion"], len(one["rows"])) == ("meta.k8s.io/v1beta1", 1)
    with_object = await api.ok("GET", MAPS, headers=TABLE, params={"includeObject": "Object"})
    assert with_object["rows"][0]["object"]["data"] == {"a": "1", "b": "2"}
    partial = await api.ok("GET", f"{MAPS}/one", headers=PARTIAL)
    assert set(partial) == {"kind", "apiVersion", "metadata"}
    listed = await api.ok("GET", MAPS, headers={"Accept": PARTIAL["Accept"].replace("Metadata;", "MetadataList;")})
    assert (listed["kind"], listed["items"][0]["kind"]) == ("PartialObjectMetadataList", "PartialObjectMetadata")


async def test_a_watch_from_now_and_from_a_revision(api: Api) -> None:
    """Without a revision the present comes first; with one only what followed."""
    objects = await fill(api, 2)
    async with Watch(api, MAPS) as now, Watch(api, MAPS, resourceVersion=objects[0]["metadata"]["resourceVersion"]) as since:
        assert now.started["status"] == 200
        assert [await now.brief() for _ in range(2)] == [("ADDED", "m00"), ("ADDED", "m01")]
        assert await since.brief() == ("ADDED", "m01")
        changed = await api.ok("PATCH", f"{MAPS}/m00", {"data": {"x": "y"}}, headers={"Content-Type": "application/merge-patch+json"})
        await api.ok("DELETE", f"{MAPS}/m01")
        for watch in (now, since):
            event = await watch.next()
            assert event is not None
            assert (event["type"], event["object"]) == ("MODIFIED", changed)
            deleted = await watch.next()
            assert deleted is not None
            assert deleted["type"] == "DELETED"
            assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])
            assert deleted["object"]["kind"] == "ConfigMap"


async def test_a_watch_with_initial_events_ends_them_with_a_bookmark(api: Api) -> None:
    """`sendInitialEvents` gives the present and the annotated bookmark, on an empty collection too."""
    params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with Watch(api, MAPS, None, **params) as empty:
        bookmark = await empty.next()
        assert bookmark is not None
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert bookmark["object"]["kind"] == "ConfigMap"
        await fill(api, 1)
        assert await empty.brief() == ("ADDED", "m00")
    async with Watch(api, MAPS, None, **params) as watch:
        assert [(await watch.brief())[0] for _ in range(2)] == ["ADDED", "BOOKMARK"]
    status = await api.fails(422, "GET", MAPS, params={"watch": "1", "sendInitialEvents": "true"})
    assert "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan" in status["message"]


async def test_labels_select_among_what_every_namespace_has(api: Api) -> None:
    """The service account of each namespace is selected as it would be read, whether it is stored or not, in any form and page."""
    merge = {"Content-Type": "application/merge-patch+json"}
    for name in ("n1", "n2"):
        await api.ok("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await api.ok("PATCH", "/api/v1/namespaces/n1/serviceaccounts/default", {"metadata": {"labels": {"tier": "gold"}}}, headers=merge)
    for name, labels in (("one", {"tier": "gold"}), ("two", {})):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "labels": labels}}
        await api.ok("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}

    async def places(**params: str) -> list[tuple[str, str]]:
        found = await api.ok("GET", "/api/v1/serviceaccounts", params=params)
        rows = (await api.ok("GET", "/api/v1/serviceaccounts", params=params, headers=table))["rows"]
        metadata = [item["metadata"] for item in found["items"]]
        assert [one["name"] for one in metadata] == [row["object"]["metadata"]["name"] for row in rows]
        token = found["metadata"].get("continue")
        rest = await places(**params | {"continue": token}) if token else []
        return [(one["namespace"], one["name"]) for one in metadata] + rest

    everything = await places()
    gold = [("default", "one"), ("n1", "default")]
    others = [place for place in everything if place not in gold]
    assert ("n2", "default") in others
    for page in ({}, {"limit": "1"}, {"limit": "2"}):
        assert await places(labelSelector="tier=gold", **page) == gold
        assert await places(labelSelector="!tier", **page) == others
        assert await places(labelSelector="tier=tin", **page) == []
        assert await places(labelSelector="tier!=tin", **page) == everything


async def test_selectors_turn_changes_into_arrivals_and_departures(api: Api) -> None:
    """Entering the selection is ADDED, leaving it DELETED with the last selected state."""
    merge = {"Content-Type": "application/merge-patch+json"}
    async with Watch(api, MAPS, labelSelector="tier%3Dgold") as watch:
        await api.ok("POST", MAPS, config_map("one", labels={"tier": "tin"}))
        await api.ok("PATCH", f"{MAPS}/one", {"metadata": {"labels": {"tier": "gold"}}}, headers=merge)
        assert await watch.brief() == ("ADDED", "one")
        await api.ok("PATCH", f"{MAPS}/one", {"data": {"x": "y"}}, headers=merge)
        assert await watch.brief() == ("MODIFIED", "one")
        left = await api.ok("PATCH", f"{MAPS}/one", {"metadata": {"labels": {"tier": None}}}, headers=merge)
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["metadata"]["labels"]) == ("DELETED", {"tier": "gold"})
        assert event["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_a_revision_that_is_gone_is_an_error_event(api: Api) -> None:
    """HTTP 200, one ERROR event with 410 Expired, the end."""
    objects = await fill(api, 3)
    storage = api.control_plane.backend.access.storage
    await storage.compact(await storage.revision())
    fanout = api.control_plane.backend.fanout
    await fanout.reached(await storage.revision())
    fanout._ring.floor = fanout.revision
    fanout._ring._events.clear()
    async with Watch(api, MAPS, resourceVersion=objects[0]["metadata"]["resourceVersion"]) as watch:
        assert watch.started["status"] == 200
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert event["object"]["message"].startswith("too old resource version: ")
        assert await watch.next() is None


async def test_bookmarks_and_timeouts(api: Api) -> None:
    """A quiet watch gets bookmarks if it allows them, and ends cleanly after its time."""
    api.control_plane.backend.limits = RequestLimits(bookmark_seconds=0.01)
    await fill(api, 1)
    async with Watch(api, MAPS, allowWatchBookmarks="true", resourceVersion="1", timeoutSeconds="1") as watch:
        kinds = []
        while (event := await watch.next()) is not None:
            kinds.append(event["type"])
        assert set(kinds) <= {"ADDED", "BOOKMARK", "ERROR"}
    await api.ok("POST", MAPS, config_map("later"))


async def test_watches_as_tables_and_partial_metadata(api: Api) -> None:
    """Only the first event of a table watch carries the columns."""
    await fill(api, 2)
    async with Watch(api, MAPS, TABLE) as table, Watch(api, MAPS, PARTIAL) as partial:
        first, second = await table.next(), await table.next()
        assert first is not None
        assert second is not None
        assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert second["object"]["columnDefinitions"] is None
        assert second["object"]["rows"][0]["cells"][0] == "m01"
        event = await partial.next()
        assert event is not None
        assert (event["object"]["kind"], set(event["object"])) == ("PartialObjectMetadata", {"kind", "apiVersion", "metadata"})


async def test_the_wildcard_sees_all_clusters_in_one_order(api: Api) -> None:
    """A wildcard list's revision resumes a wildcard watch without loss; new clusters join; each object says where it lives."""
    await fill(api, 1, cluster="a")
    await fill(api, 1, cluster="b")
    path = "/clusters/*/api/v1/configmaps"
    listed = await api.ok("GET", path)
    assert [(item["metadata"]["clusterName"], item["metadata"]["annotations"]["kcp.io/cluster"]) for item in listed["items"]] == [
        ("a", "a"),
        ("b", "b"),
    ]
    async with Watch(api, path, resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
        await fill(api, 1, cluster="c")
        await api.ok("DELETE", f"{MAPS}/m00")
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["metadata"]["clusterName"]) == ("ADDED", "c")
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["metadata"]["clusterName"]) == ("DELETED", "a")
    pages: list[str] = []
    params = {"limit": "1"}
    while True:
        page = await api.ok("GET", path, params=params)
        pages += [item["metadata"]["clusterName"] for item in page["items"]]
        if not page["metadata"].get("continue"):
            break
        params["continue"] = page["metadata"]["continue"]
    assert pages == ["b", "c"]
    for method in ("POST", "DELETE"):
        status = await api.fails(405, method, path, config_map("x") if method == "POST" else None)
        assert "in the `*` logical cluster" in status["message"]


async def test_wildcard_namespaces_include_those_that_are_not_stored(api: Api) -> None:
    """Each cluster's four namespaces are listed once, in pages too, and arrive in a running watch with a new cluster."""
    await fill(api, 1, cluster="a")
    await api.ok("POST", "/clusters/b/api/v1/namespaces", {"metadata": {"name": "extra"}})
    merge = {"Content-Type": "application/merge-patch+json"}
    await api.ok("PATCH", "/clusters/b/api/v1/namespaces/default", {"metadata": {"labels": {"x": "y"}}}, headers=merge)
    path = "/clusters/*/api/v1/namespaces"
    whole = await api.ok("GET", path)
    found = [(item["metadata"]["clusterName"], item["metadata"]["name"]) for item in whole["items"]]
    defaults = ["default", "kube-node-lease", "kube-public", "kube-system"]
    expected = (
        [("a", name) for name in defaults] + sorted(("b", name) for name in [*defaults, "extra"]) + [("root", name) for name in defaults]
    )
    assert found == expected
    for limit in ("1", "2", "3", "5", "7"):
        paged: list[tuple[str, str]] = []
        params = {"limit": limit}
        while True:
            page = await api.ok("GET", path, params=params)
            paged += [(item["metadata"]["clusterName"], item["metadata"]["name"]) for item in page["items"]]
            if not page["metadata"].get("continue"):
                break
            params["continue"] = page["metadata"]["continue"]
        assert paged == expected, limit
    async with Watch(api, path, resourceVersion=whole["metadata"]["resourceVersion"]) as watch:
        await fill(api, 1, cluster="c")
        assert [await watch.brief() for _ in range(4)] == [("ADDED", name) for name in defaults]


async def test_a_cluster_made_explicitly_says_where_it_is(api: Api) -> None:
    """The object of a cluster that was asked for looks like that of one which began with its first write."""
    path = "/apis/core.kcp.io/v1alpha1/logicalclusters"
    kind = {"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster"}
    forged = {**kind, "metadata": {"name": "cluster"}, "status": {"URL": "https://elsewhere", "phase": "Deleting"}}
    made = await api.ok("POST", f"/clusters/made{path}", forged)
    await api.ok("POST", MAPS.replace("/a/", "/used/"), config_map("m"))
    used = await api.ok("GET", f"/clusters/used{path}/cluster")
    assert made["status"] == {"phase": "Ready", "URL": used["status"]["URL"].replace("/used", "/made")}
    assert used["status"]["URL"].endswith(":6443/clusters/used")


async def test_a_cluster_that_is_switched_off(api: Api) -> None:
    """Only its own object, which can switch it on again, and OpenAPI are served; its watches end (kcp: core.kcp.io/inactive)."""
    cluster = "/clusters/a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    await fill(api, 1)
    merge = {"Content-Type": "application/merge-patch+json"}
    async with Watch(api, MAPS) as watch:
        assert await watch.brief() == ("ADDED", "m00")
        off = {"metadata": {"annotations": {"core.kcp.io/inactive": "true"}}}
        assert (await api.ok("PATCH", cluster, off, headers=merge))["status"]["phase"] == "Inactive"
        assert await watch.next() is None
    for path in (MAPS, "/clusters/a/apis", "/clusters/a/api/v1/namespaces"):
        status = await api.fails(403, "GET", path)
        assert status["message"] == 'logicalclusters.core.kcp.io "a" is forbidden: logical cluster is marked inactive'
    await api.ok("GET", "/clusters/a/openapi/v3")
    assert (await api.ok("GET", cluster))["status"]["phase"] == "Inactive"
    on = {"metadata": {"annotations": {"core.kcp.io/inactive": None}}}
    assert (await api.ok("PATCH", cluster, on, headers=merge))["status"]["phase"] == "Ready"
    assert len((await api.ok("GET", MAPS))["items"]) == 1


async def test_a_cluster_made_again_is_another_one(api: Api) -> None:
    """Old pages and old revisions do not reach the new life of a name."""
    await fill(api, 3)
    listed = await api.ok("GET", MAPS, params={"limit": "1"})
    cluster = "/clusters/a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    before = await api.ok("GET", cluster)
    async with Watch(api, MAPS, resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
        await api.ok("DELETE", cluster)
        while (await api("GET", cluster)).status_code == 200:
            await asyncio.sleep(0)
        await fill(api, 1)
        kinds = []
        while (event := await watch.next()) is not None:
            kinds.append((event["type"], event["object"]["metadata"]["name"]))
        assert kinds == [("DELETED", "m00"), ("DELETED", "m01"), ("DELETED", "m02")]
    after = await api.ok("GET", cluster)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert [item["metadata"]["name"] for item in (await api.ok("GET", MAPS))["items"]] == ["m00"]
    await api.fails(400, "GET", MAPS, params={"continue": listed["metadata"]["continue"]})
    async with Watch(api, MAPS, resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
        event = await watch.next()
        assert event is not None
        assert event["object"]["reason"] == "Expired"


async def test_the_watch_path_of_one_name_is_a_watch_of_that_name(api: Api) -> None:
    """The deprecated paths below `/watch/` are served, and a name in them selects as a field selector does."""
    await fill(api, 3)
    path = MAPS.replace("/namespaces/", "/watch/namespaces/")
    async with Watch(api, f"{path}/m01", watch="") as watch:
        assert await watch.brief() == ("ADDED", "m01")
        await api.ok("DELETE", f"{MAPS}/m02")
        await api.ok("DELETE", f"{MAPS}/m01")
        assert await watch.brief() == ("DELETED", "m01")


@pytest.mark.parametrize(
    "initial", [{}, {"sendInitialEvents": "1", "resourceVersionMatch": "NotOlderThan"}], ids=["changes", "initial events"]
)
@pytest.mark.parametrize("path", [MAPS, "/clusters/*/api/v1/configmaps"], ids=["one cluster", "all clusters"])
async def test_a_watch_from_the_future_is_told(api: Api, path: str, initial: dict[str, Any]) -> None:
    """HTTP 200, one ERROR event as a real server sends it for initial events, the end: the client lists again."""
    await fill(api, 1)
    async with Watch(api, path, resourceVersion="1000000", allowWatchBookmarks="1", **initial) as watch:
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 504, "Timeout")
        assert event["object"]["message"].startswith("Timeout: Too large resource version: 1000000, current: ")
        assert event["object"]["details"]["causes"] == [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        assert await watch.next() is None


@pytest.mark.parametrize("name", ["../b/one", "x" * 300, "\x00"], ids=["path", "long", "control character"])
@pytest.mark.parametrize("path", [MAPS, "/clusters/*/api/v1/configmaps"], ids=["one cluster", "all clusters"])
async def test_a_selected_name_that_no_object_can_have_selects_nothing(api: Api, path: str, name: str) -> None:
    """Lists are empty, deletions delete nothing, and watches begin with nothing and go on."""
    await fill(api, 1)
    selector = {"fieldSelector": f"metadata.name={name}"}
    assert (await api.ok("GET", path, params=selector))["items"] == []
    if path == MAPS:
        assert (await api.ok("DELETE", path, params=selector))["items"] == []
    first = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with Watch(api, path, None, **selector, **first) as watch:
        event = await watch.next()
    assert event is not None
    assert event["type"] == "BOOKMARK"


@pytest.mark.parametrize("name", ["a%25b", "x" * 300], ids=["escape", "long"])
async def test_a_watch_of_what_cannot_be_a_namespace_is_refused_as_a_list_is(api: Api, name: str) -> None:
    """Both are 404; the answer to the watch is not cut after its headers."""
    path = f"/clusters/a/api/v1/namespaces/{name}/configmaps"
    await api.fails(404, "GET", path)
    await api.fails(404, "GET", path, params={"watch": "true"})
