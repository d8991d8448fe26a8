"""What a CustomResourceDefinition serves, publishes and shows of older objects, and what ends with it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.registry.store.conftest import InterleavingStorage
from tests.server.handlers.conftest import Api, Watch, instance, make_crd
from tests.server.handlers.widgets import (
    ALL_WIDGETS,
    CRD,
    CRDS,
    MERGE,
    SCHEMA,
    WIDGETS,
    change_schema,
    gone,
    install,
    spec_schema,
    two_versions,
)

pytestmark = pytest.mark.anyio

AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}


async def test_a_definition_is_established_and_served_in_its_own_cluster_only(api: Api) -> None:
    """In every other cluster the path is unknown, in plain text, and discovery does not know the group."""
    await install(api)
    crd = await api.ok("GET", CRD)
    assert {condition["type"] for condition in crd["status"]["conditions"]} == {"NamesAccepted", "Established"}
    assert crd["status"]["acceptedNames"] == crd["spec"]["names"]
    assert crd["status"]["storedVersions"] == ["v1"]
    created = await api.ok("POST", WIDGETS, instance("one", spec={"size": 1}))
    assert await api.ok("GET", f"{WIDGETS}/one") == created
    listed = await api.ok("GET", WIDGETS)
    assert (listed["kind"], listed["apiVersion"], listed["items"]) == ("WidgetList", "example.com/v1", [created])
    other = WIDGETS.replace("/a/", "/b/")
    for method, path in (("GET", other), ("GET", f"{other}/one"), ("POST", other), ("DELETE", f"{other}/one"), ("DELETE", other)):
        response = await api(method, path, instance("one", spec={"size": 1}) if method == "POST" else None)
        assert (response.status_code, response.text) == (404, "404 page not found\n")
    assert (await api("GET", "/clusters/b/apis/example.com")).status_code == 404
    await api.fails(404, "GET", f"/clusters/b{CRDS}/widgets.example.com")


async def test_two_versions_without_conversion(api: Api) -> None:
    """An object is the same in both but for its apiVersion and what each version's schema prunes; defaults are those of the request's
    version and of the storage version."""
    await install(api, two_versions())
    beta = WIDGETS.replace("v1", "v1beta1")
    sent = {**instance("one", spec={"size": 1, "new": "x", "old": "y"}), "apiVersion": "example.com/v1beta1"}
    created = await api.ok("POST", beta, sent)
    # The storage version does not know `old`.
    assert (created["apiVersion"], created["spec"]) == ("example.com/v1beta1", {"size": 1})
    assert await api.ok("GET", f"{beta}/one") == created
    stable = await api.ok("GET", f"{WIDGETS}/one")
    assert (stable["apiVersion"], stable["spec"]) == ("example.com/v1", {"size": 1, "new": "n"})
    assert stable["metadata"] == created["metadata"]
    assert (await api.ok("GET", beta))["items"] == [created]
    assert (await api.ok("GET", WIDGETS))["items"] == [stable]
    status = await api.fails(400, "POST", WIDGETS, {**sent, "metadata": {"name": "two"}})
    assert "does not match the expected API version (example.com/v1)" in status["message"]
    for path, obj in ((WIDGETS, stable), (beta, created)):
        async with Watch(api, path) as watch:
            assert await watch.next() == {"type": "ADDED", "object": obj}


async def test_another_storage_version_is_written_with_the_next_write(api: Api) -> None:
    """Even by a patch that changes nothing; until then objects of both versions are read and listed together."""
    crd = await install(api, two_versions())
    for name in ("one", "two"):
        await api.ok("POST", WIDGETS, instance(name, spec={"size": 1, "new": "x"}))
    for version in crd["spec"]["versions"]:
        version["storage"] = not version["storage"]
    latest = await api.ok("GET", CRD)
    changed = await api.ok("PUT", CRD, {**latest, "spec": crd["spec"]})
    assert changed["status"]["storedVersions"] == ["v1", "v1beta1"]
    before = await api.ok("GET", f"{WIDGETS}/one")
    assert before["spec"] == {"size": 1, "new": "x"}
    assert (await api.ok("GET", f"{WIDGETS.replace('v1', 'v1beta1')}/one"))["spec"] == {"size": 1}
    touched = await api.ok("PATCH", f"{WIDGETS}/one", {}, headers=MERGE)
    assert touched["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    storage = api.control_plane.backend.access.storage
    stored = await storage.range("/registry/example.com/widgets/customresources/a/")
    assert [item.value.startswith(b'{"apiVersion":"example.com/v1beta1"') for item in stored.items] == [True, False]
    for path in (WIDGETS, WIDGETS.replace("v1", "v1beta1")):
        items = (await api.ok("GET", path))["items"]
        assert [item["metadata"]["name"] for item in items] == ["one", "two"]
        assert len({item["apiVersion"] for item in items}) == 1
    # What only the version knows in which it was stored is lost with the write, and not before.
    assert [item["spec"] for item in (await api.ok("GET", WIDGETS))["items"]] == [{"size": 1}, {"size": 1, "new": "x"}]


async def test_a_version_that_is_no_longer_served_is_an_unknown_path(api: Api) -> None:
    """Its objects are there in the other version."""
    crd = await install(api, two_versions())
    await api.ok("POST", WIDGETS.replace("v1", "v1beta1"), {**instance("one"), "apiVersion": "example.com/v1beta1"})
    crd["spec"]["versions"][1]["served"] = False
    latest = await api.ok("GET", CRD)
    await api.ok("PUT", CRD, {**latest, "spec": crd["spec"]})
    assert (await api("GET", WIDGETS.replace("v1", "v1beta1"))).status_code == 404
    assert (await api.ok("GET", f"{WIDGETS}/one"))["apiVersion"] == "example.com/v1"


async def test_a_changed_schema_is_seen_in_old_objects(api: Api) -> None:
    """New defaults appear in get, list and watch without a write and go again with the schema, unless something stored them."""
    plain = spec_schema(size={"type": "integer"}, gone={"type": "string"})
    await install(api, make_crd(schema=plain))
    for name in ("one", "two"):
        await api.ok("POST", WIDGETS, instance(name, spec={"size": 1, "gone": "x"}))
    before = await api.ok("GET", f"{WIDGETS}/one")
    await change_schema(api, spec_schema(size={"type": "integer"}, color={"type": "string", "default": "red"}))
    spec = {"size": 1, "color": "red"}
    read = await api.ok("GET", f"{WIDGETS}/one")
    assert (read["spec"], read["metadata"]) == (spec, before["metadata"])
    for params in ({}, {"resourceVersion": "0"}, {"limit": "1"}, {"fieldSelector": "metadata.name=one"}):
        assert (await api.ok("GET", WIDGETS, params=params))["items"][0] == read
    assert (await api.ok("GET", f"{WIDGETS}/one", params={"resourceVersion": "0"})) == read
    async with Watch(api, WIDGETS) as watch:
        assert await watch.next() == {"type": "ADDED", "object": read}
    written = await api.ok("PATCH", f"{WIDGETS}/one", {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
    assert written["spec"] == spec
    await change_schema(api, spec_schema(size={"type": "integer"}, color={"type": "string"}))
    assert [item["spec"] for item in (await api.ok("GET", WIDGETS))["items"]] == [spec, {"size": 1}]
    await change_schema(api, spec_schema(size={"type": "integer", "maximum": 0}))
    assert (await api.ok("GET", f"{WIDGETS}/two"))["spec"] == {"size": 1}
    assert (await api("POST", WIDGETS, instance("three", spec={"size": 1}))).status_code == 422


async def test_watches_end_when_their_definition_changes(api: Api) -> None:
    """Cleanly, so that clients look again; not those of other clusters, nor those over all clusters, nor for a mere label on the CRD."""
    for cluster in ("a", "b"):
        await install(api, cluster=cluster)
    other = WIDGETS.replace("/a/", "/b/")
    async with Watch(api, WIDGETS) as here, Watch(api, other) as there, Watch(api, ALL_WIDGETS) as everywhere:
        await api.ok("PATCH", CRD, {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
        await api.ok("POST", WIDGETS, instance("one", spec={"size": 1}))
        assert await here.brief() == await everywhere.brief() == ("ADDED", "one")
        await change_schema(api, {**SCHEMA, "description": "another one"})
        assert await here.next() is None
        await api.ok("POST", WIDGETS, instance("two", spec={"size": 1}))
        await api.ok("POST", other, instance("three", spec={"size": 1}))
        assert [await everywhere.brief() for _ in range(2)] == [("ADDED", "two"), ("ADDED", "three")]
        assert await there.brief() == ("ADDED", "three")


async def test_the_wildcard_shows_each_object_by_its_own_schema(api: Api) -> None:
    """Same resource, different definitions: full objects, each defaulted and pruned as in its cluster; a version that a cluster does
    not serve is left out."""
    await install(api, make_crd(schema=spec_schema(size={"type": "integer"})), "a")
    await install(api, make_crd(schema=spec_schema(size={"type": "string"})), "b")
    crd = two_versions()
    crd["spec"]["versions"][0]["served"] = False
    crd["spec"]["versions"][0]["storage"], crd["spec"]["versions"][1]["storage"] = False, True
    await install(api, crd, "c")
    await api.ok("POST", WIDGETS, instance("one", spec={"size": 1}))
    await api.ok("POST", WIDGETS.replace("/a/", "/b/"), instance("two", spec={"size": "large"}))
    beta = WIDGETS.replace("/a/", "/c/").replace("v1", "v1beta1")
    await api.ok("POST", beta, {**instance("three", spec={"size": 3}), "apiVersion": "example.com/v1beta1"})
    path = f"/clusters/b{CRDS}/widgets.example.com"
    await change_schema(api, spec_schema(size={"type": "string"}, color={"type": "string", "default": "red"}), path)
    listed = await api.ok("GET", ALL_WIDGETS)
    found = [(item["metadata"]["clusterName"], item["metadata"]["name"], item["spec"]) for item in listed["items"]]
    assert found == [("a", "one", {"size": 1}), ("b", "two", {"size": "large", "color": "red"})]
    async with Watch(api, ALL_WIDGETS, resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
        await api.ok("PATCH", f"{WIDGETS}/one", {"spec": {"size": 2}}, headers=MERGE)
        await api.ok("PATCH", f"{beta}/three", {"spec": {"size": 2}}, headers=MERGE)
        await api.ok("PATCH", WIDGETS.replace("/a/", "/b/") + "/two", {"spec": {"size": "small"}}, headers=MERGE)
        events = [await watch.next() for _ in range(2)]
    assert [(event or {})["object"]["spec"] for event in events] == [{"size": 2}, {"size": "small", "color": "red"}]
    only = await api.ok("GET", ALL_WIDGETS.replace("v1", "v1beta1"))
    assert [(item["metadata"]["clusterName"], item["apiVersion"]) for item in only["items"]] == [("c", "example.com/v1beta1")]


async def test_a_definition_can_bring_a_kind_of_the_core_group(api: Api) -> None:
    """Called `<plural>.core`, it is served under /api, in discovery together with the built-in kinds, in its cluster only."""
    crd = make_crd("pods", "core", schema=spec_schema(nodeName={"type": "string"}))
    crd["spec"]["group"] = ""
    await install(api, crd)
    pods = "/clusters/a/api/v1/namespaces/default/pods"
    created = await api.ok(
        "POST", pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"nodeName": "n", "x": 1}}
    )
    assert (created["apiVersion"], created["spec"]) == ("v1", {"nodeName": "n"})
    assert [item["metadata"]["name"] for item in (await api.ok("GET", "/clusters/*/api/v1/pods"))["items"]] == ["one"]
    for cluster, served in (("a", True), ("b", False)):
        names = {resource["name"] for resource in (await api.ok("GET", f"/clusters/{cluster}/api/v1"))["resources"]}
        assert "configmaps" in names
        assert ({"pods", "pods/status"} <= names, "pods" in names) == (served, served)
    status = await api.fails(
        422,
        "POST",
        f"/clusters/a{CRDS}",
        {**make_crd("configmaps", "core"), "spec": {**crd["spec"], "names": make_crd("configmaps")["spec"]["names"]}},
    )
    assert "is a built-in resource" in status["message"]
    async with Watch(api, pods, resourceVersion=created["metadata"]["resourceVersion"]) as watch:
        await api.ok("DELETE", f"/clusters/a{CRDS}/pods.core")
        while (event := await watch.next()) is not None:
            assert event["object"]["metadata"]["name"] == "one"
    await gone(api, pods)
    assert (await api.ok("GET", "/clusters/*/api/v1/configmaps"))["kind"] == "ConfigMapList"


async def documents(api: Api, cluster: str = "a") -> dict[str, Any]:
    """The published documents about widgets in a cluster: everything by which clients find them."""
    base = f"/clusters/{cluster}"
    groups = [group["name"] for group in (await api.ok("GET", f"{base}/apis"))["groups"]]
    version = await api("GET", f"{base}/apis/example.com/v1")
    aggregated = await api.ok("GET", f"{base}/apis", headers=AGGREGATED)
    index = (await api.ok("GET", f"{base}/openapi/v3"))["paths"]
    found: dict[str, Any] = {
        "group": "example.com" in groups,
        "resources": sorted(resource["name"] for resource in version.json()["resources"]) if version.status_code == 200 else [],
        "aggregated": [
            resource["resource"]
            for group in aggregated["items"]
            if group["metadata"]["name"] == "example.com"
            for one in group["versions"]
            for resource in one["resources"]
        ],
    }
    if "apis/example.com/v1" in index:
        url = index["apis/example.com/v1"]["serverRelativeURL"]
        third = await api.ok("GET", url if url.startswith("/clusters/") else f"{base}{url}")
        found["v3"] = sorted(third["components"]["schemas"]["com.example.v1.Widget"]["properties"]["spec"]["properties"])
    second = (await api.ok("GET", f"{base}/openapi/v2"))["definitions"]
    if "com.example.v1.Widget" in second:
        found["v2"] = sorted(second["com.example.v1.Widget"]["properties"]["spec"]["properties"])
    return found


async def test_discovery_and_openapi_follow_the_definitions(api: Api) -> None:
    """A served resource is published at once, in its cluster only, and changes and goes with the definition."""
    nothing = {"group": False, "resources": [], "aggregated": []}
    assert await documents(api) == nothing
    await install(api, make_crd(schema=spec_schema(size={"type": "integer"})))
    served = {"group": True, "resources": ["widgets", "widgets/status"], "aggregated": ["widgets"]}
    assert await documents(api) == {**served, "v3": ["size"], "v2": ["size"]}
    assert await documents(api, "b") == nothing
    await change_schema(api, spec_schema(color={"type": "string"}))
    assert await documents(api) == {**served, "v3": ["color"], "v2": ["color"]}
    await api.ok("DELETE", CRD)
    await gone(api, CRD)
    assert await documents(api) == nothing


async def test_the_objects_of_a_definition_go_with_it(api: Api) -> None:
    """In its own cluster; a definition that comes again under the same name begins without any."""
    for cluster in ("a", "b"):
        await install(api, cluster=cluster)
        for name in ("one", "two"):
            await api.ok("POST", WIDGETS.replace("/a/", f"/{cluster}/"), instance(name, spec={"size": 1}))
    listed = await api.ok("GET", WIDGETS)
    async with Watch(api, ALL_WIDGETS, resourceVersion=listed["metadata"]["resourceVersion"]) as everywhere:
        await api.ok("DELETE", CRD)
        await gone(api, CRD)
        ends = [await everywhere.next() for _ in range(2)]
        assert [((event or {})["type"], (event or {})["object"]["metadata"]["clusterName"]) for event in ends] == [("DELETED", "a")] * 2
    assert (await api("GET", WIDGETS)).text == "404 page not found\n"
    assert len((await api.ok("GET", ALL_WIDGETS))["items"]) == 2
    await install(api)
    again = await api.ok("GET", WIDGETS)
    assert again["items"] == []
    assert (await api("GET", f"{WIDGETS}/one")).status_code == 404
    assert (await api.ok("POST", WIDGETS, instance("one", spec={"size": 1})))["metadata"]["generation"] == 1


async def test_a_definition_waits_for_finalizers_of_its_objects(api: Api) -> None:
    """Meanwhile they are read, changed and deleted, nothing new is taken, and with the last one the definition goes."""
    await install(api)
    held = instance("one", spec={"size": 1})
    held["metadata"]["finalizers"] = ["example.com/hold"]
    created = await api.ok("POST", WIDGETS, held)
    uid = created["metadata"]["uid"]
    marked = await api.ok("DELETE", f"{WIDGETS}/one", {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}})
    assert (marked["metadata"]["generation"], marked["metadata"]["deletionGracePeriodSeconds"]) == (2, 0)
    deleted = await api.ok("DELETE", CRD)
    assert deleted["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    for params in ({}, {"dryRun": "All"}):
        status = await api.fails(403, "POST", WIDGETS, instance("two", spec={"size": 1}), params=params)
        assert "create not allowed while custom resource definition is terminating" in status["message"]
    (resource, *_) = (await api.ok("GET", "/clusters/a/apis/example.com/v1"))["resources"]
    assert resource["verbs"] == ["delete", "deletecollection", "get", "list", "watch"]
    assert (await api.ok("GET", f"{WIDGETS}/one"))["metadata"]["uid"] == uid
    final = await api.ok("PATCH", f"{WIDGETS}/one", {"metadata": {"finalizers": []}}, headers=MERGE)
    assert final["metadata"]["uid"] == uid
    await gone(api, CRD)
    assert (await api("GET", WIDGETS)).status_code == 404


@pytest.mark.parametrize(
    ("version", "warning"),
    [
        pytest.param({}, "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget", id="default text"),
        pytest.param({"deprecationWarning": "move on"}, "move on", id="own text"),
    ],
)
async def test_a_deprecated_version_warns_with_every_answer(api: Api, version: dict[str, Any], warning: str) -> None:
    """Reads, writes and refusals in that version alone."""
    crd = two_versions()
    crd["spec"]["versions"][1].update(deprecated=True, **version)
    await install(api, crd)
    beta = WIDGETS.replace("v1", "v1beta1")
    sent = {**instance("one"), "apiVersion": "example.com/v1beta1"}
    for method, path, body in (
        ("POST", beta, sent),
        ("GET", beta, None),
        ("GET", f"{beta}/one", None),
        ("GET", f"{beta}/two", None),
        ("PATCH", f"{beta}/one", {}),
        ("GET", f"{beta}/one/status", None),
        ("PATCH", f"{beta}/one/status", {}),
        ("POST", f"{beta}/one", sent),
        ("DELETE", f"{beta}/one", None),
        ("DELETE", beta, None),
    ):
        response = await api(method, path, body, headers=MERGE if method == "PATCH" else None)
        assert response.headers.get_list("warning") == [f'299 - "{warning}"'], f"{method} {path}"
    async with Watch(api, beta) as watch:
        assert (b"warning", f'299 - "{warning}"'.encode()) in watch.started["headers"]
    assert "warning" not in (await api("GET", WIDGETS)).headers


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "message"),
    [
        pytest.param("PATCH", CRD, "stricter", 422, "spec.size in body should be less than or equal to 0", id="schema changes"),
        pytest.param("PATCH", CRD, "laxer", 201, "", id="schema changes without consequences"),
        pytest.param("DELETE", CRD, None, 403, "create not allowed while custom resource definition is terminating", id="definition ends"),
        pytest.param(
            "DELETE",
            "/clusters/a/api/v1/namespaces/game",
            None,
            403,
            "unable to create new content in namespace game because it is being terminated",
            id="namespace ends",
        ),
        pytest.param(
            "DELETE",
            "/clusters/a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster",
            None,
            403,
            "unable to create new content in logical cluster a because it is being terminated",
            id="cluster ends",
        ),
    ],
)
async def test_a_create_that_loses_its_ground_is_worked_out_again(
    api: Api, *, method: str, path: str, body: str | None, code: int, message: str
) -> None:
    """What happens between the checks and the write decides, as if it had happened before, and warnings are given once."""
    await install(api, make_crd(schema=SCHEMA, deprecated=True))
    await api.ok("POST", "/clusters/a/api/v1/namespaces", {"metadata": {"name": "game"}})
    widgets = WIDGETS.replace("default", "game")
    held = instance("held", spec={"size": 0})
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await api.ok("POST", widgets, held)
    schemas = {
        "stricter": spec_schema(size={"type": "integer", "maximum": 0}),
        "laxer": spec_schema(size={"type": "integer"}, more={"type": "string"}),
    }
    access = api.control_plane.backend.access
    access.storage = storage = InterleavingStorage(access.storage)

    async def meanwhile() -> None:
        if body is None:
            await api.ok(method, path)
        else:
            await change_schema(api, schemas[body], path)

    storage.before_write(meanwhile, touching="/a/game/one")
    response = await api("POST", widgets, instance("one", spec={"size": 1, "unknown": 1}))
    assert not storage.pending
    assert response.status_code == code, response.text
    if message:
        assert message in response.json()["message"]
        assert (await api("GET", f"{widgets}/one")).status_code == 404
    warnings = response.headers.get_list("warning")
    assert len(warnings) == len(set(warnings))
    assert any("is deprecated" in warning for warning in warnings)
