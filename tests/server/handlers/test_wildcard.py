"""Lists and watches over all clusters, of which none can make a request fail for the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcp_py.registry.rest.conversions import WildcardConversions
from tests.egress.https import Certificate, HttpsServer, Request
from tests.server.handlers.conftest import Api, Watch, config_map, established, instance, make_crd
from tests.server.handlers.convertedwidgets import api, certificate
from tests.server.handlers.converting import converting, webhook
from tests.server.handlers.widgets import ALL_WIDGETS, CRDS, MERGE, install, spec_schema

__all__ = ["api", "certificate"]

pytestmark = pytest.mark.anyio

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
PARTIAL = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}


def cluster_scoped(**version: Any) -> dict[str, Any]:
    crd = make_crd(**version)
    crd["spec"]["scope"] = "Cluster"
    return crd


def named(items: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Cluster, namespace and name of objects."""
    found = [item["metadata"] for item in items]
    return [(one["annotations"]["kcp.io/cluster"], one.get("namespace", ""), one["name"]) for one in found]


async def both_scopes(api: Api) -> None:
    """Widgets are cluster-scoped in the clusters a and c, and namespaced in b and d."""
    for cluster in "abcd":
        namespaced = cluster in "bd"
        await install(api, make_crd() if namespaced else cluster_scoped(), cluster)
        place = "namespaces/default/widgets" if namespaced else "widgets"
        await api.ok("POST", f"/clusters/{cluster}/apis/example.com/v1/{place}", instance("one"))


EVERYWHERE = [("a", "", "one"), ("b", "default", "one"), ("c", "", "one"), ("d", "default", "one")]


@pytest.mark.parametrize("headers", [{}, PARTIAL, {"Accept": "application/yaml"}], ids=["objects", "metadata", "yaml"])
async def test_a_list_has_objects_of_both_scopes(api: Api, headers: dict[str, str]) -> None:
    """Each cluster's objects come as its own definition places them, also in pages, and by namespace where there are namespaces."""
    await both_scopes(api)
    if headers.get("Accept") == "application/yaml":
        assert (await api("GET", ALL_WIDGETS, headers=headers)).text.count("name: one") == 4
        return
    assert named((await api.ok("GET", ALL_WIDGETS, headers=headers))["items"]) == EVERYWHERE
    found: list[tuple[str, str, str]] = []
    token = ""
    while token or not found:
        page = await api.ok("GET", ALL_WIDGETS, headers=headers, params={"limit": "1", "continue": token})
        found += named(page["items"])
        token = page["metadata"].get("continue", "")
    assert found == EVERYWHERE
    inside = ALL_WIDGETS.replace("/widgets", "/namespaces/default/widgets")
    assert named((await api.ok("GET", inside, headers=headers))["items"]) == [EVERYWHERE[1], EVERYWHERE[3]]
    assert named((await api.ok("GET", ALL_WIDGETS, headers=headers, params={"fieldSelector": "metadata.namespace=default"}))["items"]) == [
        EVERYWHERE[1],
        EVERYWHERE[3],
    ]
    assert named((await api.ok("GET", ALL_WIDGETS, headers=headers, params={"fieldSelector": "metadata.name=one"}))["items"]) == EVERYWHERE


async def test_a_watch_has_objects_of_both_scopes(api: Api) -> None:
    """The state there is and every change, of a definition that comes with another scope while the watch is open, too."""
    await install(api)
    await api.ok("POST", "/clusters/a/apis/example.com/v1/namespaces/default/widgets", instance("one", spec={"size": 1}))
    inside = ALL_WIDGETS.replace("/widgets", "/namespaces/default/widgets")
    async with Watch(api, ALL_WIDGETS) as watch, Watch(api, inside) as of_namespace:
        assert await watch.brief() == await of_namespace.brief() == ("ADDED", "one")
        await install(api, cluster_scoped(), "b")
        await api.ok("POST", "/clusters/b/apis/example.com/v1/widgets", instance("two"))
        await api.ok("DELETE", "/clusters/b/apis/example.com/v1/widgets/two")
        await api.ok("DELETE", "/clusters/a/apis/example.com/v1/namespaces/default/widgets/one")
        assert [await watch.brief() for _ in range(3)] == [("ADDED", "two"), ("DELETED", "two"), ("DELETED", "one")]
        assert await of_namespace.brief() == ("DELETED", "one")


async def test_fields_that_only_some_clusters_select_by(api: Api) -> None:
    """A selector finds objects where their definition has the field, and is refused only where no definition has it."""
    schema = spec_schema(color={"type": "string"})
    await install(api, make_crd(schema=schema), "a")
    await install(api, make_crd(schema=schema, selectableFields=[{"jsonPath": ".spec.color"}]), "b")
    for cluster in "ab":
        path = f"/clusters/{cluster}/apis/example.com/v1/namespaces/default/widgets"
        await api.ok("POST", path, instance("one", spec={"color": "red"}))
    listed = await api.ok("GET", ALL_WIDGETS, params={"fieldSelector": "spec.color=red"})
    assert named(listed["items"]) == [("b", "default", "one")]
    assert (await api.ok("GET", ALL_WIDGETS, params={"fieldSelector": "spec.color=blue"}))["items"] == []
    async with Watch(api, ALL_WIDGETS, fieldSelector="spec.color=red") as watch:
        assert await watch.brief() == ("ADDED", "one")
        for cluster in "ab":
            path = f"/clusters/{cluster}/apis/example.com/v1/namespaces/default/widgets"
            await api.ok("POST", path, instance(f"two-{cluster}", spec={"color": "red"}))
        assert await watch.brief() == ("ADDED", "two-b")
    refused = await api.fails(400, "GET", ALL_WIDGETS, params={"fieldSelector": "spec.size=1"})
    assert refused["message"] == "field label not supported: spec.size"


async def test_the_warnings_of_one_cluster_are_not_for_all(api: Api) -> None:
    """A deprecated version warns in its own cluster."""
    await install(api, make_crd(deprecated=True, deprecationWarning="words of a tenant"), "a")
    assert "words of a tenant" in (await api("GET", "/clusters/a/apis/example.com/v1/widgets")).headers["Warning"]
    assert "Warning" not in (await api("GET", ALL_WIDGETS)).headers


async def test_definitions_in_every_state(api: Api) -> None:
    """Other kinds, definitions that are not established or are being deleted, and versions that are not served leave others alone."""
    other = make_crd(schema=spec_schema(size={"type": "integer"}))
    other["spec"]["names"].update(kind="Other", listKind="OtherThings")
    await install(api, other, "b")
    await api.ok("POST", "/clusters/b/apis/example.com/v1/namespaces/default/widgets", {**instance("other"), "kind": "Other"})
    await install(api, make_crd(), "c")
    held = instance("held")
    held["metadata"]["finalizers"] = ["example.com/held"]
    await api.ok("POST", "/clusters/c/apis/example.com/v1/namespaces/default/widgets", held)
    await api.ok("DELETE", f"/clusters/c{CRDS}/widgets.example.com")
    unserved = make_crd(served=False)
    await api.ok("POST", f"/clusters/a{CRDS}", unserved)
    conflicting = make_crd("gadgets")
    conflicting["spec"]["names"].update(kind="Widget", singular="widget")
    await install(api, make_crd(), "d")
    await api.ok("POST", f"/clusters/d{CRDS}", conflicting)
    await api.ok("POST", "/clusters/d/apis/example.com/v1/namespaces/default/widgets", instance("one"))
    listed = await api.ok("GET", ALL_WIDGETS)
    assert [(item["kind"], item["metadata"]["name"]) for item in listed["items"]] == [
        ("Other", "other"),
        ("Widget", "held"),
        ("Widget", "one"),
    ]
    assert (await api("GET", "/clusters/*/apis/example.com/v1/gadgets")).status_code == 404
    assert len((await api.ok("GET", ALL_WIDGETS, headers=TABLE))["rows"]) == 3


async def hanging(request: Request) -> bytes:
    """A webhook that never answers."""
    del request
    await asyncio.Event().wait()
    raise AssertionError


async def failing(request: Request) -> bytes:
    """A webhook that answers nonsense."""
    del request
    return b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("respond", [hanging, failing], ids=["hanging", "failing"])
async def test_objects_that_a_webhook_does_not_convert_are_left_out(api: Api, certificate: Certificate, respond: Any) -> None:
    """Lists and watches of all others go on; a warning names the cluster, the end of its objects is told, and its metadata is listed."""
    if respond is hanging:
        api.control_plane.backend.conversions = WildcardConversions(longest_seconds=3)
    everywhere = "/clusters/*/apis/example.com/v2/widgets"
    async with HttpsServer(certificate, webhook()) as good, HttpsServer(certificate, respond) as bad:
        for cluster, server in (("a", bad), ("b", good)):
            await api.ok("POST", f"/clusters/{cluster}{CRDS}", converting(server))
            await established(api, cluster)
            path = f"/clusters/{cluster}/apis/example.com/v1/namespaces/default/widgets"
            await api.ok("POST", path, instance("one", content={"key": cluster}))
        listed = await api("GET", everywhere)
        assert named(listed.json()["items"]) == [("b", "default", "one")]
        assert "objects of the logical cluster a are left out" in listed.headers["Warning"]
        for headers in (TABLE, {"Accept": "application/yaml"}):
            answer = await api("GET", everywhere, headers=headers)
            assert (answer.status_code, answer.text.count("kcp.io/cluster")) == (200, 1)
        selected = await api.ok("GET", everywhere, params={"fieldSelector": "metadata.name=one"})
        assert named(selected["items"]) == [("b", "default", "one")]
        assert len((await api.ok("GET", everywhere, headers=PARTIAL))["items"]) == 2
        async with Watch(api, everywhere) as watch:
            assert await watch.brief() == ("ADDED", "one")
            for cluster in "ab":
                path = f"/clusters/{cluster}/apis/example.com/v1/namespaces/default/widgets"
                await api.ok("PATCH", f"{path}/one", {"content": {"key": "new"}}, headers=MERGE)
                await api.ok("DELETE", f"{path}/one")
            events = [await watch.next() for _ in range(3)]
        seen = [((event or {})["type"], (event or {})["object"]["metadata"]["annotations"]["kcp.io/cluster"]) for event in events]
        assert seen == [("DELETED", "a"), ("MODIFIED", "b"), ("DELETED", "b")]
        (end, *_) = events
        assert end is not None
        assert (end["object"]["apiVersion"], "content" in end["object"]) == ("example.com/v2", False)


def coloured(**properties: str) -> dict[str, Any]:
    """A definition that prints columns."""
    columns = [{"name": name, "type": kind, "jsonPath": f".spec.{name.lower()}"} for name, kind in properties.items()]
    schema = spec_schema(**{name.lower(): {"type": kind} for name, kind in properties.items()})
    return make_crd(schema=schema, additionalPrinterColumns=columns)


def columns_of(table: dict[str, Any]) -> list[str] | None:
    """The names of the columns of a Table."""
    found = table["columnDefinitions"]
    return None if found is None else [column["name"] for column in found]


async def test_a_table_has_the_cluster_and_the_columns_of_all_definitions(api: Api) -> None:
    """The cluster comes first; a cell is empty where a definition has no such column, and a column has one place."""
    assert columns_of(await api.ok("GET", "/clusters/*/api/v1/configmaps", headers=TABLE)) == ["Cluster", "Name", "Data", "Age"]
    await install(api, coloured(Size="integer", Color="string"), "a")
    await install(api, coloured(Color="string", Engine="string"), "b")
    await install(api, make_crd(), "c")
    for cluster, spec in (("a", {"size": 1, "color": "red"}), ("b", {"color": "blue", "engine": "x"}), ("c", {"size": 2})):
        await api.ok("POST", f"/clusters/{cluster}/apis/example.com/v1/namespaces/default/widgets", instance("one", spec=spec))
    table = await api.ok("GET", ALL_WIDGETS, headers=TABLE)
    assert columns_of(table) == ["Cluster", "Name", "Size", "Color", "Engine", "Age"]
    rows = [row["cells"] for row in table["rows"]]
    assert rows[:2] == [["a", "one", 1, "red", None, None], ["b", "one", None, "blue", "x", None]]
    assert rows[2][:5] == ["c", "one", None, None, None]
    page = await api.ok("GET", ALL_WIDGETS, headers=TABLE, params={"limit": "1"})
    assert columns_of(page) == columns_of(table)
    await install(api, coloured(Cluster="string"), "0")
    await api.ok("POST", "/clusters/0/apis/example.com/v1/namespaces/default/widgets", instance("one", spec={"cluster": "b"}))
    pretended = await api.ok("GET", ALL_WIDGETS, headers=TABLE)
    assert columns_of(pretended) == columns_of(table)
    assert pretended["rows"][0]["cells"][:2] == ["0", "one"]
    await api.ok("DELETE", "/clusters/0/apis/example.com/v1/namespaces/default/widgets/one")
    alone = await api.ok("GET", "/clusters/a/apis/example.com/v1/widgets", headers=TABLE)
    assert columns_of(alone) == ["Name", "Size", "Color"]
    async with Watch(api, ALL_WIDGETS, TABLE) as watch, Watch(api, ALL_WIDGETS, TABLE, sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true") as streamed:  # fmt: skip
        for one in (watch, streamed):
            first, second, third = [((await one.next()) or {})["object"] for _ in range(3)]
            assert (columns_of(first), columns_of(second), columns_of(third)) == (columns_of(table), None, None)
            assert [row["cells"][:5] for row in (*first["rows"], *second["rows"], *third["rows"])] == [cells[:5] for cells in rows]
        bookmark = ((await streamed.next()) or {})["object"]
        assert len(bookmark["rows"][0]["cells"]) == 6
        await install(api, coloured(Weight="integer"), "d")
        await api.ok("POST", "/clusters/d/apis/example.com/v1/namespaces/default/widgets", instance("two", spec={"weight": 3}))
        later = ((await watch.next()) or {})["object"]
        assert columns_of(later) == ["Cluster", "Name", "Size", "Color", "Engine", "Weight", "Age"]
        assert later["rows"][0]["cells"] == ["d", "two", None, None, None, 3, None]


async def test_one_object_by_its_name(api: Api) -> None:
    """It is answered where one cluster has it or the query says which; otherwise the clusters are named."""
    maps = "/api/v1/namespaces/default/configmaps"
    for cluster, name in (("a", "only"), ("a", "both"), ("b", "both")):
        await api.ok("POST", f"/clusters/{cluster}{maps}", config_map(name, {"from": cluster}))
    found = await api.ok("GET", f"/clusters/*{maps}/only")
    assert (found["data"], found["metadata"]["clusterName"]) == ({"from": "a"}, "a")
    assert found["metadata"]["annotations"]["kcp.io/cluster"] == "a"
    table = await api.ok("GET", f"/clusters/*{maps}/only", headers=TABLE)
    assert (columns_of(table), table["rows"][0]["cells"][:2]) == (["Cluster", "Name", "Data", "Age"], ["a", "only"])
    status = await api.fails(409, "GET", f"/clusters/*{maps}/both")
    assert (status["reason"], [cause["message"] for cause in status["details"]["causes"]]) == ("Conflict", ["a", "b"])
    assert "exists in several logical clusters: a, b" in status["message"]
    assert (await api.ok("GET", f"/clusters/*{maps}/both", params={"cluster": "b"}))["data"] == {"from": "b"}
    await api.fails(404, "GET", f"/clusters/*{maps}/both", params={"cluster": "nowhere"})
    await api.fails(404, "GET", f"/clusters/*{maps}/neither")
    await api.fails(400, "GET", f"/clusters/*{maps}/both", params={"cluster": "../b"})
    refused = await api.fails(403, "GET", f"/clusters/*{maps}/both", token="Bearer user")
    assert "a, b" not in refused["message"]
    for method, path in (("DELETE", "both"), ("PATCH", "both"), ("PUT", "both")):
        assert (await api(method, f"/clusters/*{maps}/{path}", {})).status_code == 405
    assert (await api.fails(409, "GET", "/clusters/*/api/v1/namespaces/kube-system"))["details"]["name"] == "kube-system"


async def test_one_custom_resource_by_its_name(api: Api) -> None:
    """Of the definitions those count whose scope the path has."""
    await both_scopes(api)
    await api.ok("DELETE", "/clusters/c/apis/example.com/v1/widgets/one")
    found = await api.ok("GET", "/clusters/*/apis/example.com/v1/widgets/one")
    assert found["metadata"]["clusterName"] == "a"
    inside = "/clusters/*/apis/example.com/v1/namespaces/default/widgets/one"
    assert (await api.fails(409, "GET", inside))["message"].count("b, d") == 1
    assert (await api.ok("GET", inside, params={"cluster": "d"}))["metadata"]["clusterName"] == "d"


async def test_pages_say_how_many_objects_follow(api: Api) -> None:
    """Each page of a list over all clusters has the number at the revision of the list, also when a page is fetched again."""
    for cluster in "abcde":
        await install(api, make_crd(), cluster)
        await api.ok("POST", f"/clusters/{cluster}/apis/example.com/v1/namespaces/default/widgets", instance("one"))
    first = await api.ok("GET", ALL_WIDGETS, params={"limit": "1"})
    await api.ok("POST", "/clusters/e/apis/example.com/v1/namespaces/default/widgets", instance("two"))
    await api.ok("DELETE", "/clusters/c/apis/example.com/v1/namespaces/default/widgets/one")
    tokens = [first["metadata"]["continue"]]
    remaining = [first["metadata"]["remainingItemCount"]]
    for _ in range(3):
        page = await api.ok("GET", ALL_WIDGETS, params={"limit": "1", "continue": tokens[-1]})
        tokens.append(page["metadata"]["continue"])
        remaining.append(page["metadata"]["remainingItemCount"])
    assert remaining == [4, 3, 2, 1]
    again = await api.ok("GET", ALL_WIDGETS, params={"limit": "2", "continue": tokens[0]})
    assert (again["metadata"]["remainingItemCount"], len(again["items"])) == (2, 2)
    last = await api.ok("GET", ALL_WIDGETS, params={"limit": "1", "continue": tokens[-1]})
    assert ("remainingItemCount" in last["metadata"], len(last["items"])) == (False, 1)


async def of_each(api: Api, clusters: list[str]) -> list[dict[str, Any]]:
    """What the list over all clusters has, by the lists of the clusters. A cluster that does not serve widgets has none."""
    found: list[dict[str, Any]] = []
    for cluster in clusters:
        answer = await api("GET", f"/clusters/{cluster}/apis/example.com/v1/widgets")
        for item in answer.json()["items"] if answer.status_code == 200 else ():
            item["metadata"]["clusterName"] = cluster
            found.append(item)
    return found


async def test_a_list_is_the_lists_of_all_clusters(api: Api) -> None:
    """With equal definitions and different ones, whose bytes may have been seen in another cluster, while they change."""
    red, blue = (spec_schema(color={"type": "string", "default": color}) for color in ("red", "blue"))
    forms = [make_crd, lambda: make_crd(schema=red), lambda: make_crd(schema=blue), lambda: cluster_scoped(schema=red)]
    clusters = [f"c{number:02}" for number in range(16)]
    for number, cluster in enumerate(clusters):
        await install(api, forms[number % 4](), cluster)
        place = "widgets" if number % 4 == 3 else "namespaces/default/widgets"
        await api.ok("POST", f"/clusters/{cluster}/apis/example.com/v1/{place}", instance("one", spec={}))
        held = instance("two", spec={})
        held["metadata"]["finalizers"] = ["example.com/x"]
        await api.ok("POST", f"/clusters/{cluster}/apis/example.com/v1/{place}", held)

    async def check() -> None:
        expected = await of_each(api, clusters)
        for _ in range(3):
            assert (await api.ok("GET", ALL_WIDGETS))["items"] == expected
        found: list[dict[str, Any]] = []
        page: dict[str, Any] = {"metadata": {"continue": ""}}
        while "continue" in page["metadata"]:
            page = await api.ok("GET", ALL_WIDGETS, params={"limit": "5", "continue": page["metadata"]["continue"]})
            found += page["items"]
            assert page["metadata"].get("remainingItemCount", 0) == len(expected) - len(found)
        assert found == expected

    await check()
    for cluster, schema in (("c00", red), ("c01", blue), ("c02", red), ("c05", spec_schema(color={"type": "string", "default": "green"}))):
        definition = f"/clusters/{cluster}{CRDS}/widgets.example.com"
        present = await api.ok("GET", definition)
        present["spec"]["versions"][0]["schema"] = make_crd(schema=schema)["spec"]["versions"][0]["schema"]
        await api.ok("PUT", definition, present)
        await check()
    for cluster in ("c04", "c07", "c15"):
        await api.ok("DELETE", f"/clusters/{cluster}{CRDS}/widgets.example.com")
    await api.ok("DELETE", "/clusters/c06/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
    async with asyncio.timeout(10):
        while len(items := (await api.ok("GET", ALL_WIDGETS))["items"]) > 32 - 4:
            await asyncio.sleep(0.01)
    assert [item["metadata"]["name"] for item in items if item["metadata"]["clusterName"] in {"c04", "c06", "c07", "c15"}] == ["two"] * 4
    await check()
