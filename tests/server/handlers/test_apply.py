"""Server-side apply, and who owns what after every kind of write."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.handlers.conftest import Api, config_map, instance, make_crd
from tests.server.handlers.widgets import MERGE, WIDGETS, install

pytestmark = pytest.mark.anyio

MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
ONE = f"{MAPS}/one"
APPLY = {"Content-Type": "application/apply-patch+yaml"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
PORTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
    "items": {
        "type": "object",
        "required": ["port"],
        "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"}},
    },
}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"replicas": {"type": "integer", "default": 1}, "ports": PORTS, "color": {"type": "string", "enum": ["red"]}},
        },
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
    },
}
SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
WIDGET = f"{WIDGETS}/one"


async def applied(api: Api, path: str, config: Any, manager: str = "m", **more: str) -> Any:
    return await api.ok("PATCH", path, config, headers=APPLY, params={"fieldManager": manager, **more})


async def refused(api: Api, code: int, path: str, config: Any, **params: str) -> Any:
    return await api.fails(code, "PATCH", path, config, headers=APPLY, params=params)


def entries(obj: Any) -> list[tuple[str, str, str, Any]]:
    return [
        (entry["manager"], entry["operation"], entry.get("subresource", ""), entry["fieldsV1"])
        for entry in obj["metadata"].get("managedFields", ())
    ]


async def installed(api: Api) -> None:
    await install(api, make_crd(schema=SCHEMA, subresources={"status": {}, "scale": SCALE}))


async def test_apply_creates_and_updates(api: Api) -> None:
    """201 for a new object, 200 afterwards. YAML and JSON are equal. Fields that are no longer applied are removed."""
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata:\n  a: '1'\n  b: '2'\n"
    response = await api("PATCH", ONE, content=text, headers=APPLY, params={"fieldManager": "m"})
    assert response.status_code == 201
    assert response.json()["data"] == {"a": "1", "b": "2"}
    assert entries(response.json()) == [("m", "Apply", "", {"f:data": {"f:a": {}, "f:b": {}}})]
    again = await applied(api, ONE, config_map("one", {"a": "1"}))
    assert again["data"] == {"a": "1"}
    assert await api.ok("GET", ONE) == again


async def test_apply_that_changes_nothing(api: Api) -> None:
    """Neither resourceVersion nor times move."""
    one = await applied(api, ONE, config_map("one", {"a": "1"}))
    api.control_plane.backend.access.clock = lambda: 2_000_000_000.0
    assert await applied(api, ONE, config_map("one", {"a": "1"})) == one
    assert await api.ok("PUT", ONE, one) == one


async def test_conflicts(api: Api) -> None:
    """409 with upstream's message and causes; force takes the field."""
    await api.ok("POST", MAPS, config_map("one", {"a": "1", "b": "1"}), params={"fieldManager": "creator"})
    status = await refused(api, 409, ONE, config_map("one", {"a": "2"}), fieldManager="m")
    assert status["reason"] == "Conflict"
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "creator" using v1: .data.a'
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "creator" using v1', "field": ".data.a"}
    assert status["details"]["causes"] == [cause]
    taken = await applied(api, ONE, config_map("one", {"a": "2"}), force="true")
    assert taken["data"] == {"a": "2", "b": "1"}
    assert entries(taken) == [("m", "Apply", "", {"f:data": {"f:a": {}}}), ("creator", "Update", "", {"f:data": {".": {}, "f:b": {}}})]


async def test_shared_fields(api: Api) -> None:
    """Equal values are owned together, and stay as long as one owner is left."""
    await applied(api, ONE, config_map("one", {"a": "1"}), "one")
    await applied(api, ONE, config_map("one", {"a": "1", "b": "2"}), "two")
    assert (await applied(api, ONE, config_map("one"), "one"))["data"] == {"a": "1", "b": "2"}
    assert (await applied(api, ONE, config_map("one", {"b": "2"}), "two"))["data"] == {"b": "2"}


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ({"apiVersion": "v2"}, 400, "invalid object type: /v2, Kind=ConfigMap"),
        ({"apiVersion": "a/v1", "kind": "B"}, 400, "invalid object type: a/v1, Kind=B"),
        ({"apiVersion": "a/b/v1"}, 400, "invalid object type: /, Kind="),
        ({"kind": "Secret"}, 400, "invalid object type: /v1, Kind=Secret"),
        ({"metadata": {"name": "one", "namespace": "x"}}, 400, "the namespace of the provided object does not match the namespace sent"),
        ({"metadata": {"managedFields": []}}, 400, "metadata.managedFields must be nil"),
        ({"metadata": {"name": "other"}}, 400, "the name of the object (other) does not match the name on the URL (one)"),
        ({"metadata": {"resourceVersion": "1"}}, 409, "the object has been modified; please apply"),
        ({"metadata": {"uid": "x"}}, 422, 'metadata.uid: Invalid value: "x": field is immutable'),
        ({"dat": {}}, 500, "failed to create typed patch object (/one; /v1, Kind=ConfigMap): .dat: field not declared in schema"),
        ({"data": "x"}, 500, "failed to create typed patch object (/one; /v1, Kind=ConfigMap): .data: expected map, got &{x}"),
        ({"data": {"a": 1}}, 500, ".data.a: expected string, got &value.valueUnstructured{Value:1}"),
    ],
)
async def test_refused_configurations(api: Api, change: dict[str, Any], code: int, text: str) -> None:
    """A body that is not a configuration of the object is refused in upstream's words."""
    await api.ok("POST", MAPS, config_map("one"))
    assert text in (await refused(api, code, ONE, {**config_map("one"), **change}, fieldManager="m"))["message"]


async def test_options(api: Api) -> None:
    """A manager has to be named for an apply; force is for applies alone."""
    status = await refused(api, 422, ONE, config_map("one"))
    assert "fieldManager: Required value: is required for apply patch" in status["message"]
    status = await api.fails(422, "PATCH", ONE, {}, headers=MERGE, params={"force": "true"})
    assert "force: Forbidden: may not be specified for non-apply patch" in status["message"]
    status = await refused(api, 422, ONE, config_map("one"), fieldManager="x" * 129)
    assert "fieldManager: Too long" in status["message"]


NO_MAP = "json: cannot unmarshal array into Go value of type map[string]interface {}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "invalid object type: /, Kind="),
        (b"{}", "invalid object type: /, Kind="),
        (b"a: b: c", "error encoding patch: yaml: "),
        (b"{a: b", "error decoding patch: error converting YAML to JSON: yaml: "),
        (
            b"- a",
            f"error decoding patch: error unmarshaling JSON: while decoding JSON: {NO_MAP}",
        ),
    ],
    ids=["nothing", "empty", "no YAML", "no JSON", "a list"],
)
async def test_bodies_that_are_no_configurations(api: Api, body: bytes, message: str) -> None:
    """400 in the words of the stage that cannot go on, whether or not there is an object."""
    status = await api.fails(400, "PATCH", ONE, content=body, headers=APPLY, params={"fieldManager": "m"})
    assert status["message"].startswith(message)


async def test_yaml_in_braces(api: Api) -> None:
    """What begins as JSON does may be YAML."""
    body = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {a: b}}"
    response = await api("PATCH", ONE, content=body, headers=APPLY, params={"fieldManager": "m"})
    assert (response.status_code, response.json()["data"]) == (201, {"a": "b"})


async def test_a_new_object_has_to_be_named(api: Api) -> None:
    """The URL alone names no new object; for one that is there it does."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    status = await refused(api, 400, ONE, config, fieldManager="m")
    assert status["message"] == "the name of the object (one based on URL) was undeterminable: name must be provided"
    status = await refused(api, 400, ONE, {**config, "metadata": {"generateName": "x-"}}, fieldManager="m")
    assert status["message"] == "the name of the object (one based on URL) was undeterminable: name must be provided"
    await api.ok("POST", MAPS, config_map("one"))
    assert (await applied(api, ONE, config))["data"]["a"] == "b"


async def test_a_uid_without_an_object(api: Api) -> None:
    """409: the object that was meant is gone."""
    status = await refused(api, 409, ONE, config_map("one", uid="x"), fieldManager="m")
    assert "uid mismatch: the provided object specified uid x, and no existing object was found" in status["message"]


async def test_dry_run(api: Api) -> None:
    """The answer is that of the real thing, and nothing is stored."""
    assert (await applied(api, ONE, config_map("one", {"a": "1"}), dryRun="All"))["data"] == {"a": "1"}
    await api.fails(404, "GET", ONE)
    await applied(api, ONE, config_map("one", {"a": "1"}))
    assert (await applied(api, ONE, config_map("one", {"a": "2"}), dryRun="All"))["data"] == {"a": "2"}
    assert (await api.ok("GET", ONE))["data"] == {"a": "1"}


async def test_repeated_keys(api: Api) -> None:
    """They cause warnings, are refused under Strict, and are ignored under Ignore."""
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata:\n  a: '1'\n  a: '2'\n"
    for validation, code in (("Strict", 400), ("Warn", 201), ("Ignore", 200)):
        response = await api("PATCH", ONE, content=text, headers=APPLY, params={"fieldManager": "m", "fieldValidation": validation})
        assert response.status_code == code
        assert response.headers.get("warning") == (r'299 - "line 6: key \"a\" already set in map"' if validation == "Warn" else None)
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"a":"1","a":"2"}}'
    strict = {"fieldManager": "m", "fieldValidation": "Strict"}
    status = await api.fails(400, "PATCH", ONE, content=body, headers=APPLY, params=strict)
    problem = 'yaml: unmarshal errors:\n  line 1: key "a" already set in map'
    assert status["message"] == f"error strict decoding patch: error converting YAML to JSON: {problem}"


async def test_managers_of_other_writes(api: Api) -> None:
    """The parameter, else the client's name, else `unknown`; each kind of write takes what it changes."""
    agent = {"User-Agent": "tool/v1 (linux)"}
    one = await api.ok("POST", MAPS, config_map("one", {"a": "1"}), headers=agent)
    assert entries(one) == [("tool", "Update", "", {"f:data": {".": {}, "f:a": {}}})]
    await api.ok("PUT", ONE, {**one, "data": {"a": "2"}}, headers={"User-Agent": ""})
    patched = await api.ok("PATCH", ONE, {"metadata": {"labels": {"x": "y"}}}, headers={**MERGE, **agent}, params={"fieldManager": "p"})
    assert [name for name, *_ in sorted(entries(patched))] == ["p", "tool", "unknown"]
    assert ("unknown", "Update", "", {"f:data": {"f:a": {}}}) in entries(patched)
    assert ("p", "Update", "", {"f:metadata": {"f:labels": {".": {}, "f:x": {}}}}) in entries(patched)


@pytest.mark.parametrize("given", [[], [{}]])
async def test_reset(api: Api, given: Any) -> None:
    """An empty list forgets all owners; the next apply meets the owners from before the first apply."""
    one = await api.ok("POST", MAPS, config_map("one", {"a": "1"}))
    one["metadata"]["managedFields"] = given
    assert entries(await api.ok("PUT", ONE, one)) == []
    status = await refused(api, 409, ONE, config_map("one", {"a": "2"}), fieldManager="m")
    assert '"before-first-apply"' in status["message"]


async def test_migration_by_json_patch(api: Api) -> None:
    """kubectl moves what client-side apply has set to another manager, with the resourceVersion as a condition."""
    one = await api.ok("POST", MAPS, config_map("one", {"a": "1"}), params={"fieldManager": "kubectl-client-side-apply"})
    moved = [{**one["metadata"]["managedFields"][0], "manager": "kubectl", "operation": "Apply"}]
    patch = [
        {"op": "replace", "path": "/metadata/managedFields", "value": moved},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": one["metadata"]["resourceVersion"]},
    ]
    patched = await api.ok("PATCH", ONE, patch, headers=JSON_PATCH)
    assert [(name, operation) for name, operation, *_ in entries(patched)] == [("kubectl", "Apply")]
    await api.fails(409, "PATCH", ONE, patch, headers=JSON_PATCH)


async def test_custom_resources(api: Api) -> None:
    """Lists are merged by key, defaults included. A field that is left out afterwards gets its default again."""
    await installed(api)
    one = await applied(api, WIDGET, instance("one", spec={"replicas": 3, "ports": [{"port": 80, "name": "http"}]}), "one")
    assert one["spec"]["ports"] == [{"port": 80, "name": "http", "protocol": "TCP"}]
    two = await applied(api, WIDGET, instance("one", spec={"ports": [{"port": 53, "protocol": "UDP"}]}), "two")
    assert [port["port"] for port in two["spec"]["ports"]] == [80, 53]
    three = await applied(api, WIDGET, instance("one", spec={"ports": []}), "one")
    assert three["spec"] == {"replicas": 1, "ports": [{"port": 53, "protocol": "UDP"}]}
    assert three["metadata"]["generation"] == 3


async def test_invalid_results(api: Api) -> None:
    """What an apply makes is validated as any update; a list's items have to have their keys, once."""
    await installed(api)
    status = await refused(api, 422, WIDGET, instance("one", spec={"color": "green"}), fieldManager="m")
    assert "spec.color: Unsupported value" in status["message"]
    twice = instance("one", spec={"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]})
    status = await refused(api, 500, WIDGET, twice, fieldManager="m")
    assert status["message"].endswith('.spec.ports: duplicate entries for key [port=80,protocol="TCP"]')
    status = await refused(api, 422, WIDGET, instance("one", spec={"ports": [{"name": "x"}]}), fieldManager="m")
    assert status["message"].endswith("spec.ports[0].port: Required value")
    status = await refused(api, 500, WIDGET, instance("one", spec={"replicas": "3"}), fieldManager="m")
    assert status["message"] == (
        "failed to create typed patch object (/one; example.com/v1, Kind=Widget): "
        ".spec.replicas: expected numeric (int or float), got string"
    )
    status = await refused(api, 500, WIDGET, instance("one", spec={"a": 1, "b": 2}), fieldManager="m")
    assert status["message"].endswith("errors:\n  .spec.a: field not declared in schema\n  .spec.b: field not declared in schema")


async def test_nulls(api: Api) -> None:
    """An explicit null is stored where the schema allows it, and refused where it does not."""
    part = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = {"type": "object", "properties": {"free": {**part, "nullable": True}, "strict": part}}
    await install(api, make_crd(schema=schema))
    assert (await applied(api, WIDGET, {**instance("one"), "free": None}))["free"] is None
    status = await refused(api, 422, WIDGET, {**instance("one"), "strict": None}, fieldManager="m")
    assert "must be of type object" in status["message"]


async def test_status(api: Api) -> None:
    """A status has owners of its own. No manager owns a status through the object, or the object through a status."""
    await installed(api)
    await applied(api, WIDGET, {**instance("one", spec={"replicas": 2}), "status": {"ready": False}})
    one = await applied(api, f"{WIDGET}/status", {**instance("one", spec={"replicas": 9}), "status": {"ready": True}}, "ctl")
    assert (one["spec"], one["status"]) == ({"replicas": 2}, {"ready": True})
    assert sorted(entries(one)) == [
        ("ctl", "Apply", "status", {"f:status": {"f:ready": {}}}),
        ("m", "Apply", "", {"f:spec": {"f:replicas": {}}}),
    ]
    await refused(api, 404, f"{WIDGETS}/two/status", instance("two"), fieldManager="m")


async def test_scale(api: Api) -> None:
    """Replicas that are set through /scale are owned under its name, in the object's own field."""
    await installed(api)
    await applied(api, WIDGET, instance("one", spec={"replicas": 2}))
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": {"replicas": 5}}
    await api.ok("PATCH", f"{WIDGET}/scale", {"spec": {"replicas": 4}}, headers=MERGE, params={"fieldManager": "hand"})
    assert ("hand", "Update", "scale", {"f:spec": {"f:replicas": {}}}) in entries(await api.ok("GET", WIDGET))
    status = await refused(api, 409, WIDGET, instance("one", spec={"replicas": 2}), fieldManager="m")
    assert 'conflict with "hand" with subresource "scale" using example.com/v1: .spec.replicas' in status["message"]
    status = await refused(api, 409, f"{WIDGET}/scale", scale, fieldManager="hpa")
    assert status["message"] == (
        'Apply failed with 1 conflict: conflict with "hand" with subresource "scale" using autoscaling/v1: .spec.replicas'
    )
    for spec, problem in (
        ({"size": 1}, ".spec.size: field not declared in schema"),
        ({"replicas": "5"}, ".spec.replicas: expected numeric (int or float), got string"),
    ):
        status = await refused(api, 500, f"{WIDGET}/scale", {**scale, "spec": spec}, fieldManager="hpa")
        assert status["message"] == f"failed to create typed patch object (/one; autoscaling/v1, Kind=Scale): {problem}"
    await applied(api, f"{WIDGET}/scale", scale, "hpa", force="true")
    one = await api.ok("GET", WIDGET)
    assert one["spec"]["replicas"] == 5
    assert entries(one) == [("hpa", "Apply", "scale", {"f:spec": {"f:replicas": {}}})]


async def test_terminating_definitions(api: Api) -> None:
    """An apply creates nothing where nothing can be created any more."""
    await install(api, make_crd(schema=SCHEMA))
    await api.ok("POST", WIDGETS, {**instance("kept"), "metadata": {"name": "kept", "finalizers": ["a.b/c"]}})
    await api.ok("DELETE", "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com")
    status = await refused(api, 403, WIDGET, instance("one"), fieldManager="m")
    assert "create not allowed while custom resource definition is terminating" in status["message"]
    await applied(api, f"{WIDGETS}/kept", instance("kept", spec={"replicas": 3}))


async def test_other_versions(api: Api) -> None:
    """Fields that were applied in another version are still theirs; versions that are gone own nothing."""
    crd = make_crd(schema=SCHEMA)
    crd["spec"]["versions"].append({**crd["spec"]["versions"][0], "name": "v2", "storage": False})
    await install(api, crd)
    await applied(api, WIDGET, instance("one", spec={"replicas": 3}), "one")
    two = {**instance("one", spec={"replicas": 4}), "apiVersion": "example.com/v2"}
    path = WIDGET.replace("/v1/", "/v2/")
    status = await refused(api, 409, path, two, fieldManager="two")
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "one": .spec.replicas'
    one = await applied(api, path, {**two, "spec": {"color": "red"}}, "one")
    assert one["spec"] == {"color": "red", "replicas": 1}
    assert [entry["apiVersion"] for entry in one["metadata"]["managedFields"]] == ["example.com/v2"]


async def test_schemaless(api: Api) -> None:
    """Without a schema maps are merged and lists replaced."""
    await install(api, make_crd(schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True}))
    await applied(api, WIDGET, {**instance("one"), "spec": {"a": {"b": 1}, "l": [1, 2]}}, "one")
    two = await applied(api, WIDGET, {**instance("one"), "spec": {"a": {"c": 2}}}, "two")
    assert two["spec"] == {"a": {"b": 1, "c": 2}, "l": [1, 2]}
    await refused(api, 409, WIDGET, {**instance("one"), "spec": {"l": [3]}}, fieldManager="two")
