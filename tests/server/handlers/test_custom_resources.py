"""Custom resources as clients see them: validation, defaults, pruning and refusals."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from kcp_py.storage.contract import Put
from tests.server.handlers.conftest import Api, Watch, instance, make_crd
from tests.server.handlers.widgets import (
    MERGE,
    SCHEMA,
    WIDGETS,
    change_schema,
    install,
    spec_schema,
)

pytestmark = pytest.mark.anyio


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
    """Strict refuses all of them in one message, Warn is the default, Ignore is silent."""
    await install(api)
    sent = instance("one", spec={"size": 1, "extra": 1, "parts": [{}, {"more": 1}]}, other={})
    status = await api.fails(400, "POST", WIDGETS, sent, params={"fieldValidation": "Strict"})
    assert status["reason"] == "BadRequest"
    frame = 'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
    assert status["message"].startswith(frame)
    unknown = {'unknown field "spec.extra"', 'unknown field "spec.parts[1].more"', 'unknown field "other"'}
    assert set(status["message"].removeprefix(frame).split(", ")) == unknown
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
    """The main resource ignores the status, `/status` everything else; only changes of the desired state raise the generation."""
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
        'Widget.example.com "one" is invalid: status.ready: Invalid value: 4: ready in body should be less than or equal to 3'
    )
    emptied = await api.ok("PUT", path, {key: value for key, value in labelled.items() if key != "status"})
    assert "status" not in emptied
    await api.fails(404, "PUT", f"{WIDGETS}/two/status", instance("two", spec={"size": 1}))
    assert (await api("POST", path, instance("one"))).status_code == 405
    assert (await api("DELETE", path)).status_code == 405


async def test_without_the_subresource_the_status_is_data(api: Api) -> None:
    """It is stored on create, its changes raise the generation, and `/status` is not found."""
    await install(api, make_crd(schema=SCHEMA, subresources={}))
    created = await api.ok("POST", WIDGETS, instance("one", spec={"size": 1}, status={"ready": 1}))
    assert created["status"] == {"ready": 1}
    changed = await api.ok("PATCH", f"{WIDGETS}/one", {"status": {"ready": 2}}, headers=MERGE)
    assert (changed["status"], changed["metadata"]["generation"]) == ({"ready": 2}, 2)
    status = await api.fails(404, "GET", f"{WIDGETS}/one/status")
    assert status["message"] == 'widgets.example.com "one" not found'


async def test_updates_need_a_version_and_an_object(api: Api) -> None:
    """PUT without resourceVersion is 422 in upstream's words, to a missing name 404, and a stale one 409."""
    await install(api)
    created = await api.ok("POST", WIDGETS, instance("one", spec={"size": 1}))
    status = await api.fails(422, "PUT", f"{WIDGETS}/one", instance("one", spec={"size": 2}))
    fault = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
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
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
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


async def test_scopes(api: Api) -> None:
    """A cluster-scoped resource has no namespaces in its paths, a namespaced one is listed and watched without, and nothing else."""
    crd = make_crd("planets", schema=spec_schema(size={"type": "integer"}))
    crd["spec"]["scope"] = "Cluster"
    await install(api, crd)
    await install(api)
    planets = "/clusters/a/apis/example.com/v1/planets"
    planet = {"apiVersion": "example.com/v1", "kind": "Planet", "metadata": {"name": "one", "namespace": "default"}, "spec": {"size": 1}}
    created = await api.ok("POST", planets, planet)
    assert "namespace" not in created["metadata"]
    assert await api.ok("GET", f"{planets}/one") == created
    assert [item["metadata"]["name"] for item in (await api.ok("GET", "/clusters/*/apis/example.com/v1/planets"))["items"]] == ["one"]
    inside = "/clusters/a/apis/example.com/v1/namespaces/default/planets"
    without = "/clusters/a/apis/example.com/v1/widgets"
    for base in (inside, without):
        requests = [("POST", base), ("DELETE", base), *((method, f"{base}/one") for method in ("GET", "PUT", "PATCH", "DELETE"))]
        requests += [("GET", f"{base}/one/status")] + ([("GET", inside)] if base is inside else [])
        for method, path in requests:
            response = await api(method, path, planet if method in {"POST", "PUT"} else {} if method == "PATCH" else None, headers=MERGE)
            assert (response.status_code, response.text) == (404, "404 page not found\n"), f"{method} {path}"
    assert (await api.ok("GET", without))["items"] == []


async def test_selectable_fields_and_columns(api: Api) -> None:
    """What the definition declares can be selected by and is shown; other fields are refused in upstream's words."""
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1, "description": "how it looks"},
    ]
    crd = make_crd(schema=SCHEMA, selectableFields=[{"jsonPath": ".spec.color"}], additionalPrinterColumns=columns)
    await install(api, crd)
    for name, color in (("one", "red"), ("two", "blue"), ("three", "red")):
        await api.ok("POST", WIDGETS, instance(name, spec={"size": 1, "color": color}))
    listed = await api.ok("GET", WIDGETS, params={"fieldSelector": "spec.color=red"})
    assert [item["metadata"]["name"] for item in listed["items"]] == ["one", "three"]
    status = await api.fails(400, "GET", WIDGETS, params={"fieldSelector": "spec.size=1"})
    assert status["message"] == "field label not supported: spec.size"
    async with Watch(api, WIDGETS, resourceVersion=listed["metadata"]["resourceVersion"], fieldSelector="spec.color=blue") as watch:
        await api.ok("PATCH", f"{WIDGETS}/one", {"spec": {"color": "blue"}}, headers=MERGE)
        await api.ok("PATCH", f"{WIDGETS}/two", {"spec": {"color": "red"}}, headers=MERGE)
        assert [await watch.brief() for _ in range(2)] == [("ADDED", "one"), ("DELETED", "two")]
    table = await api.ok("GET", WIDGETS, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    assert [(column["name"], column["type"], column["priority"]) for column in table["columnDefinitions"]] == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("Color", "string", 1),
    ]
    assert [column["description"] for column in table["columnDefinitions"]][1:] == [
        "Custom resource definition column (in JSONPath format): .spec.size",
        "how it looks",
    ]
    assert [row["cells"] for row in table["rows"]] == [["one", 1, "blue"], ["three", 1, "red"], ["two", 1, "red"]]


async def test_requests_see_the_old_definition_or_the_new_one(api: Api) -> None:
    """While a definition changes again and again nothing fails, and no answer mixes two of its states."""

    def state(number: int) -> dict[str, Any]:
        return spec_schema(size={"type": "integer"}, **{name: {"type": "integer", "default": number} for name in ("one", "two")})

    await install(api, make_crd(schema=spec_schema(size={"type": "integer"})))
    for name in ("a", "b", "c"):
        await api.ok("POST", WIDGETS, instance(name, spec={"size": 1}))
    changing = True
    seen: set[int] = set()

    def same(specs: list[dict[str, Any]]) -> None:
        (shown,) = {spec.get(name, 0) for spec in specs for name in ("one", "two")}
        seen.add(shown)

    async def traffic(writer: str) -> None:
        count = 0
        while changing or not count:
            count += 1
            path = f"{WIDGETS}/{writer}-{count}"
            same([(await api.ok("POST", WIDGETS, instance(f"{writer}-{count}", spec={"size": 1})))["spec"]])
            await api.ok("PATCH", path, {"spec": {"size": count}}, headers=MERGE)
            same([(await api.ok("GET", f"{WIDGETS}/a"))["spec"]])
            same([item["spec"] for item in (await api.ok("GET", WIDGETS, params={"limit": "3"}))["items"]])
            await api.ok("DELETE", path)
            # Nothing of a control plane in memory waits for anything.
            await asyncio.sleep(0)

    tasks = [asyncio.ensure_future(traffic(writer)) for writer in ("x", "y")]
    for number in range(1, 11):
        await change_schema(api, state(number))
        async with asyncio.timeout(30):
            while number not in seen:
                await asyncio.sleep(0)
                assert not any(task.done() for task in tasks), tasks
    changing = False
    await asyncio.gather(*tasks)
    assert seen >= set(range(1, 11))


async def test_what_others_stored_can_be_read_and_repaired(api: Api) -> None:
    """Metadata of the wrong types is left out and goes with the next write; wrong values are shown, and refused when written again."""
    await install(api, make_crd(schema=spec_schema(size={"type": "integer"})))
    storage = api.control_plane.backend.access.storage
    for name, labels in (("types", {"a": 42}), ("values", {"a": "x y"})):
        await api.ok("POST", WIDGETS, instance(name, spec={"size": 1}))
        key = f"/registry/example.com/widgets/customresources/a/default/{name}"
        item = await storage.get(key)
        assert item is not None
        obj = orjson.loads(item.value)
        await storage.transact((), [Put(key, orjson.dumps({**obj, "metadata": {**obj["metadata"], "labels": labels}}))])
    await change_schema(api, spec_schema(size={"type": "integer"}, more={"type": "integer"}))
    found = await api.ok("GET", f"{WIDGETS}/types")
    assert "labels" not in found["metadata"]
    await api.ok("PUT", f"{WIDGETS}/types", {**found, "spec": {"size": 2}})
    await api.ok("DELETE", f"{WIDGETS}/types")
    (found,) = (await api.ok("GET", WIDGETS))["items"]
    assert found["metadata"]["labels"] == {"a": "x y"}
    status = await api.fails(422, "PUT", f"{WIDGETS}/values", {**found, "spec": {"size": 2}})
    assert status["details"]["causes"][0]["field"] == "metadata.labels"
    await api.ok("DELETE", f"{WIDGETS}/values")


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"name": "one", "labels": 1}, "number into Go struct field ObjectMeta.labels of type map[string]string"),
        ({"name": "one", "labels": {"a": True}}, "bool into Go struct field ObjectMeta.labels of type string"),
        ({"name": 1}, "number into Go struct field ObjectMeta.name of type string"),
        (1, "number into Go value of type v1.ObjectMeta"),
    ],
)
async def test_metadata_of_the_wrong_type(api: Api, metadata: Any, problem: str) -> None:
    """The metadata of custom resources are decoded separately, and messages name their fields without a parent path."""
    await install(api)
    status = await api.fails(400, "POST", WIDGETS, {**instance("one"), "metadata": metadata})
    assert status["message"] == f'Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal {problem}'


@pytest.mark.parametrize(
    ("sent", "answered"),
    [(b"1e3", b"1000"), (b"1E2", b"100"), (b"1.00", b"1"), (b"1e0", b"1"), (b"-0.0", b"0"), (b"1.5e1", b"15"), (b"15e-1", b"1.5")],
)
async def test_whole_numbers_are_answered_as_go_writes_them(api: Api, sent: bytes, answered: bytes) -> None:
    """Clients that decode into integers can read what others wrote with an exponent, in the answer of the create and from then on."""
    await install(api)
    obj = orjson.dumps(instance("one", spec={"size": 1, "free": {"any": {"n": "N"}}})).replace(b'"N"', sent)
    created = await api("POST", WIDGETS, content=obj, headers={"Content-Type": "application/json"})
    assert created.status_code == 201, created.text
    for response in (created, await api("GET", f"{WIDGETS}/one"), await api("GET", WIDGETS)):
        assert b'"any":{"n":%b}' % answered in response.content
