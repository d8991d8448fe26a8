"""Custom resources as clients see them: what their definition says is served, checked, filled in, published, and ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.server.handlers.conftest import Api, Watch, definition, established, instance

pytestmark = pytest.mark.anyio

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"/clusters/a{DEFINITIONS}/widgets.example.com"
WIDGETS = "/clusters/a/apis/example.com/v1/namespaces/default/widgets"
ALL_WIDGETS = "/clusters/*/apis/example.com/v1/widgets"
MERGE = {"Content-Type": "application/merge-patch+json"}
AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 10},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "parts": {"type": "array", "items": {"type": "object", "properties": {"count": {"type": "integer", "default": 1}}}},
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"strict": {"type": "object", "properties": {"known": {"type": "string"}}}},
                },
            },
        },
        "status": {"type": "object", "properties": {"ready": {"type": "integer", "maximum": 3}}},
    },
}


def spec_schema(**properties: Any) -> dict[str, Any]:
    """A schema whose spec has these properties."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


async def install(api: Api, crd: Mapping[str, Any] | None = None, cluster: str = "a") -> dict[str, Any]:
    """Create a CRD and wait until it is established."""
    created: dict[str, Any] = await api.ok("POST", f"/clusters/{cluster}{DEFINITIONS}", crd or definition(schema=SCHEMA))
    await established(api, cluster, created["metadata"]["name"])
    return created


async def change_schema(api: Api, schema: Mapping[str, Any], path: str = CRD, version: int = 0) -> dict[str, Any]:
    """Give a version of a CRD another schema."""
    operations = [{"op": "replace", "path": f"/spec/versions/{version}/schema/openAPIV3Schema", "value": schema}]
    changed: dict[str, Any] = await api.ok("PATCH", path, operations, headers={"Content-Type": "application/json-patch+json"})
    return changed


async def gone(api: Api, path: str) -> None:
    """Wait, without a clock, until there is nothing at a path."""
    async with asyncio.timeout(30):
        while (await api("GET", path)).status_code != 404:
            await asyncio.sleep(0)


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
    await api.fails(404, "GET", f"/clusters/b{DEFINITIONS}/widgets.example.com")


async def test_what_the_schema_does_not_know_is_pruned_and_defaults_are_filled_in(api: Api) -> None:
    """On create, update, patch and status update alike, and before anything is stored."""
    await install(api)
    sent = instance(
        "one", spec={"size": 1, "extra": 1, "parts": [{"extra": 1}], "free": {"any": {"x": 1}, "strict": {"known": "k", "no": 1}}}, extra={}
    )
    created = await api.ok("POST", WIDGETS, sent)
    spec = {"size": 1, "color": "red", "parts": [{"count": 1}], "free": {"any": {"x": 1}, "strict": {"known": "k"}}}
    assert created["spec"] == spec
    assert "extra" not in created
    item = await api.control_plane.backend.access.storage.get("/registry/example.com/widgets/customresources/a/default/one")
    assert item is not None
    assert b"extra" not in item.value
    assert b'"color":"red"' in item.value
    changed = await api.ok("PUT", f"{WIDGETS}/one", {**created, "spec": {"size": 2, "extra": 1, "color": None}})
    assert changed["spec"] == {"size": 2, "color": "red"}
    patched = await api.ok("PATCH", f"{WIDGETS}/one", {"spec": {"color": None, "size": 3, "more": 1}}, headers=MERGE)
    assert patched["spec"] == {"size": 3, "color": "red"}
    reported = await api.ok("PATCH", f"{WIDGETS}/one/status", {"status": {"ready": 1, "extra": 1}}, headers=MERGE)
    assert reported["status"] == {"ready": 1}


async def test_unknown_fields_are_told_as_the_client_asks(api: Api) -> None:
    """Strict refuses all of them in one message without the kind, Warn is the default, Ignore is silent."""
    await install(api)
    sent = instance("one", spec={"size": 1, "extra": 1, "parts": [{}, {"more": 1}]}, other={})
    status = await api.fails(400, "POST", WIDGETS, sent, params={"fieldValidation": "Strict"})
    assert status["reason"] == "BadRequest"
    assert status["message"].startswith("strict decoding error: ")
    unknown = {'unknown field "spec.extra"', 'unknown field "spec.parts[1].more"', 'unknown field "other"'}
    assert set(status["message"].removeprefix("strict decoding error: ").split(", ")) == unknown
    response = await api("POST", WIDGETS, sent, params={"dryRun": "All"})
    warnings = {warning.removeprefix('299 - "').removesuffix('"').replace("\\", "") for warning in response.headers.get_list("warning")}
    assert warnings == unknown
    response = await api("POST", WIDGETS, sent, params={"fieldValidation": "Ignore"})
    assert response.status_code == 201
    assert "warning" not in response.headers


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        pytest.param({}, [("FieldValueRequired", "Required value", "spec.size")], id="required"),
        pytest.param(
            {"size": 11},
            [("FieldValueInvalid", "Invalid value: 11: spec.size in body should be less than or equal to 10", "spec.size")],
            id="maximum",
        ),
        pytest.param(
            {"size": 1, "color": "green"},
            [("FieldValueNotSupported", 'Unsupported value: "green": supported values: "red", "blue"', "spec.color")],
            id="enum",
        ),
        pytest.param(
            {"size": 1, "code": "A1"},
            [("FieldValueInvalid", "Invalid value: \"A1\": spec.code in body should match '^[a-z]+$'", "spec.code")],
            id="pattern",
        ),
        pytest.param(
            {"size": "1"},
            [("FieldValueTypeInvalid", 'Invalid value: "string": spec.size in body must be of type integer: "string"', "spec.size")],
            id="type",
        ),
        pytest.param(
            {"code": "abcdef", "parts": [{"count": 1}, {"count": "x"}]},
            [
                ("FieldValueRequired", "Required value", "spec.size"),
                ("FieldValueTooLong", "Too long: may not be more than 5 bytes", "spec.code"),
                (
                    "FieldValueTypeInvalid",
                    'Invalid value: "string": spec.parts[1].count in body must be of type integer: "string"',
                    "spec.parts[1].count",
                ),
            ],
            id="all of them at once",
        ),
    ],
)
async def test_every_fault_of_an_object_is_a_cause(api: Api, spec: dict[str, Any], causes: list[tuple[str, str, str]]) -> None:
    """422 with the kind's name, one cause per fault, and all of them in the message; nothing is stored."""
    await install(api)
    status = await api.fails(422, "POST", WIDGETS, instance("one", spec=spec))
    details = status["details"]
    assert (status["reason"], details["name"], details["group"], details["kind"]) == ("Invalid", "one", "example.com", "Widget")
    found = {(cause["reason"], cause["message"], cause["field"]) for cause in details["causes"]}
    assert found == set(causes)
    assert status["message"].startswith('Widget.example.com "one" is invalid: ')
    for _, message, field in causes:
        assert f"{field}: {message}" in status["message"]
    await api.fails(404, "GET", f"{WIDGETS}/one")


async def test_status_and_the_rest_are_written_apart(api: Api) -> None:
    """The main resource ignores the status, `/status` everything else; only what is wanted raises the generation."""
    await install(api)
    created = await api.ok("POST", WIDGETS, instance("one", spec={"size": 1}, status={"ready": 3}))
    assert "status" not in created
    assert created["metadata"]["generation"] == 1
    path = f"{WIDGETS}/one/status"
    sent = {**created, "spec": {"size": 9}, "status": {"ready": 1}}
    sent["metadata"] = {**created["metadata"], "labels": {"a": "b"}, "generation": 7}
    reported = await api.ok("PUT", path, sent)
    assert (reported["spec"], reported["status"]) == (created["spec"], {"ready": 1})
    assert "labels" not in reported["metadata"]
    assert reported["metadata"]["generation"] == 1
    assert await api.ok("GET", path) == await api.ok("GET", f"{WIDGETS}/one") == reported
    changed = await api.ok("PUT", f"{WIDGETS}/one", {**reported, "spec": {"size": 2}, "status": {"ready": 3}})
    assert (changed["status"], changed["metadata"]["generation"]) == ({"ready": 1}, 2)
    labelled = await api.ok("PATCH", f"{WIDGETS}/one", {"metadata": {"labels": {"a": "b"}}, "status": None}, headers=MERGE)
    assert (labelled["status"], labelled["metadata"]["generation"]) == ({"ready": 1}, 2)
    status = await api.fails(422, "PATCH", path, {"status": {"ready": 4}}, headers=MERGE)
    assert status["message"] == (
        'Widget.example.com "one" is invalid: status.ready: Invalid value: 4: status.ready in body should be less than or equal to 3'
    )
    emptied = await api.ok("PUT", path, {key: value for key, value in labelled.items() if key != "status"})
    assert "status" not in emptied
    await api.fails(404, "PUT", f"{WIDGETS}/two/status", instance("two", spec={"size": 1}))
    assert (await api("POST", path, instance("one"))).status_code == 405
    assert (await api("DELETE", path)).status_code == 405


async def test_without_the_subresource_the_status_is_data(api: Api) -> None:
    """It is stored on create, its changes raise the generation, and `/status` is an unknown path."""
    await install(api, definition(schema=SCHEMA, subresources={}))
    created = await api.ok("POST", WIDGETS, instance("one", spec={"size": 1}, status={"ready": 1}))
    assert created["status"] == {"ready": 1}
    changed = await api.ok("PATCH", f"{WIDGETS}/one", {"status": {"ready": 2}}, headers=MERGE)
    assert (changed["status"], changed["metadata"]["generation"]) == ({"ready": 2}, 2)
    assert (await api("GET", f"{WIDGETS}/one/status")).text == "404 page not found\n"


async def test_updates_need_a_version_and_an_object(api: Api) -> None:
    """PUT without resourceVersion is 422 in upstream's words, to a missing name 404, and a stale one 409."""
    await install(api)
    created = await api.ok("POST", WIDGETS, instance("one", spec={"size": 1}))
    status = await api.fails(422, "PUT", f"{WIDGETS}/one", instance("one", spec={"size": 2}))
    fault = "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"
    assert status["message"] == f'widgets.example.com "one" is invalid: {fault}'
    assert status["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": fault.partition(": ")[2], "field": "metadata.resourceVersion"}
    ]
    await api.fails(404, "PUT", f"{WIDGETS}/two", instance("two", spec={"size": 2}))
    await api.ok("PUT", f"{WIDGETS}/one", {**created, "spec": {"size": 2}})
    status = await api.fails(409, "PUT", f"{WIDGETS}/one", {**created, "spec": {"size": 3}})
    assert status["message"].startswith('Operation cannot be fulfilled on widgets.example.com "one": the object has been modified')
    assert (await api.ok("PATCH", f"{WIDGETS}/one", {"spec": {"size": 3}}, headers=MERGE))["spec"]["size"] == 3


async def test_strategic_merge_patches_are_for_typed_kinds(api: Api) -> None:
    """415 with the types that are accepted, for the object and its status, whether or not the object exists."""
    await install(api)
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    for path in (f"{WIDGETS}/one", f"{WIDGETS}/one/status"):
        status = await api.fails(415, "PATCH", path, {}, headers=headers)
        assert status["reason"] == "UnsupportedMediaType"
        accepted = "application/json-patch+json, application/merge-patch+json"
        assert status["message"].startswith(f"the body of the request was in an unknown format - accepted media types include: {accepted}")
        assert "strategic" not in status["message"]


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        pytest.param(
            {"apiVersion": "example.com/v2"},
            400,
            "the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)",
            id="version",
        ),
        pytest.param({"kind": "Other"}, 422, 'Other.example.com "one" is invalid: kind: Invalid value: "Other": must be Widget', id="kind"),
        pytest.param({"kind": None}, 400, "Object 'Kind' is missing in '", id="no kind"),
        pytest.param({"apiVersion": None}, 400, "Object 'apiVersion' is missing in '", id="no version"),
        pytest.param(
            {"metadata": {"name": "one", "labels": {"a": 42}}},
            400,
            'Widget in version "v1" cannot be handled as a Widget: '
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
            id="metadata of the wrong type",
        ),
        pytest.param({"metadata": {"name": "Upper"}}, 422, 'metadata.name: Invalid value: "Upper"', id="name"),
    ],
)
async def test_bodies_of_another_kind_or_version(api: Api, change: dict[str, Any], code: int, message: str) -> None:
    """Each is refused with upstream's code and words, by POST and by PUT."""
    await install(api)
    sent = {key: value for key, value in {**instance("one", spec={"size": 1}), **change}.items() if value is not None}
    assert message in (await api.fails(code, "POST", WIDGETS, sent))["message"]
    if "name" not in change.get("metadata", {}) or change["metadata"]["name"] == "one":
        assert message in (await api.fails(code, "PUT", f"{WIDGETS}/one", sent))["message"]


def two_versions(storage: str = "v1") -> dict[str, Any]:
    """A CRD with v1 and v1beta1 that differ in their schemas, and no conversion."""
    crd = definition(schema=spec_schema(size={"type": "integer"}, new={"type": "string", "default": "n"}))
    (first,) = crd["spec"]["versions"]
    old = spec_schema(size={"type": "integer"}, old={"type": "string", "default": "o"})
    second = {**first, "name": "v1beta1", "schema": {"openAPIV3Schema": old}}
    for version in (first, second):
        version["storage"] = version["name"] == storage
    crd["spec"]["versions"] = [first, second]
    return crd


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
    await install(api, definition(schema=plain))
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
    await install(api, definition(schema=spec_schema(size={"type": "integer"})), "a")
    await install(api, definition(schema=spec_schema(size={"type": "string"})), "b")
    crd = two_versions()
    crd["spec"]["versions"][0]["served"] = False
    crd["spec"]["versions"][0]["storage"], crd["spec"]["versions"][1]["storage"] = False, True
    await install(api, crd, "c")
    await api.ok("POST", WIDGETS, instance("one", spec={"size": 1}))
    await api.ok("POST", WIDGETS.replace("/a/", "/b/"), instance("two", spec={"size": "large"}))
    beta = WIDGETS.replace("/a/", "/c/").replace("v1", "v1beta1")
    await api.ok("POST", beta, {**instance("three", spec={"size": 3}), "apiVersion": "example.com/v1beta1"})
    path = f"/clusters/b{DEFINITIONS}/widgets.example.com"
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
    """Called `<plural>.core`, it is served under /api, in discovery beside the built-in kinds, in its cluster only."""
    crd = definition("pods", "core", schema=spec_schema(nodeName={"type": "string"}))
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
        f"/clusters/a{DEFINITIONS}",
        {**definition("configmaps", "core"), "spec": {**crd["spec"], "names": definition("configmaps")["spec"]["names"]}},
    )
    assert "is a built-in resource" in status["message"]
    async with Watch(api, pods, resourceVersion=created["metadata"]["resourceVersion"]) as watch:
        await api.ok("DELETE", f"/clusters/a{DEFINITIONS}/pods.core")
        while (event := await watch.next()) is not None:
            assert event["object"]["metadata"]["name"] == "one"
    await gone(api, pods)
    assert (await api.ok("GET", "/clusters/*/api/v1/configmaps"))["kind"] == "ConfigMapList"


async def documents(api: Api, cluster: str = "a") -> dict[str, Any]:
    """What is published of the widgets in a cluster: everything that clients find them by."""
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
    """What is served is published at once, in its cluster only, and changes and goes with the definition."""
    nothing = {"group": False, "resources": [], "aggregated": []}
    assert await documents(api) == nothing
    await install(api, definition(schema=spec_schema(size={"type": "integer"})))
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
