"""Rules of all writes: options, missing bodies, name and kind of the object, and missing objects.

Source: apiserver `pkg/endpoints/handlers/{create,update,patch,delete}.go`, whose checks come in this order.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from kcp_py.apimachinery.serializer.yaml.codec import encode_yaml
from tests.server.handlers.conftest import Api, config_map, instance, make_crd
from tests.server.handlers.widgets import WIDGETS, install

pytestmark = pytest.mark.anyio

MAPS: Final = "/clusters/a/api/v1/namespaces/default/configmaps"
MAP, WIDGET = f"{MAPS}/one", f"{WIDGETS}/one"
STATUS, SCALE = f"{WIDGET}/status", f"{WIDGET}/scale"
ALL: Final = (MAP, WIDGET, STATUS, SCALE)
JSON_PATCH, MERGE = {"Content-Type": "application/json-patch+json"}, {"Content-Type": "application/merge-patch+json"}
STRATEGIC, APPLY = {"Content-Type": "application/strategic-merge-patch+json"}, {"Content-Type": "application/apply-patch+yaml"}
JSON, YAML = {"Content-Type": "application/json"}, {"Content-Type": "application/yaml"}
SCHEMA: Final = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}, "size": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    },
}


@pytest.fixture
async def filled(api: Api) -> Api:
    """A server with a config map and a widget."""
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    await install(api, make_crd(schema=SCHEMA, subresources={"status": {}, "scale": scale}))
    await api.ok("POST", MAPS, config_map("one", {"a": "b"}))
    await api.ok("POST", WIDGETS, instance("one", spec={"replicas": 2, "size": 1}))
    return api


def text(status: dict[str, Any]) -> str:
    """The message, without objects in it."""
    message: str = status["message"]
    head, shown, tail = message.partition("Invalid value: ")
    if not shown or head != ' "" is invalid: patch: ':
        return message
    return head + "…" + tail.rpartition('}": ')[2]


@pytest.mark.parametrize(
    ("params", "code", "message"),
    [
        ({"dryRun": "x"}, 422, '{} "" is invalid: dryRun: Unsupported value: ["x"]: supported values: "All"'),
        ({"fieldValidation": "x"}, 422, '{} "" is invalid: fieldValidation: Unsupported value: "x": supported values: "", "Ignore", '),
        ({"fieldManager": "x" * 129}, 422, '{} "" is invalid: fieldManager: Too long: may not be more than 128 bytes'),
        ({"fieldManager": "a\nb"}, 422, '{} "" is invalid: fieldManager: Invalid value: "a\\nb": invalid character U+000A (at position 1)'),
    ],
    ids=["dry run", "field validation", "long manager", "unprintable manager"],
)
async def test_options_are_checked_alike_by_every_write(filled: Api, params: dict[str, str], code: int, message: str) -> None:
    """422 of the verb's own options, before the body is looked at."""
    for path in ALL:
        for method, headers in (("PUT", JSON), ("PATCH", MERGE), ("PATCH", JSON_PATCH), ("PATCH", APPLY)):
            status = await filled.fails(code, method, path, content=b"}", headers=headers, params={"fieldManager": "m", **params})
            options = "UpdateOptions" if method == "PUT" else "PatchOptions"
            assert status["message"].startswith(message.format(f"{options}.meta.k8s.io"))
    for path in (MAPS, WIDGETS):
        status = await filled.fails(code, "POST", path, content=b"}", headers=JSON, params=params)
        assert status["message"].startswith(message.format("CreateOptions.meta.k8s.io"))
    if "dryRun" in params:
        status = await filled.fails(code, "DELETE", MAP, params=params)
        assert status["message"].startswith(message.format("DeleteOptions.meta.k8s.io"))


async def test_a_dry_run_of_anything_changes_nothing(filled: Api) -> None:
    """Every write answers as the real one would, with the resourceVersion that there is, and nothing is stored."""
    before = [await filled.ok("GET", path) for path in ALL]
    dry = {"dryRun": "All", "fieldManager": "m"}
    for path, found in zip(ALL, before, strict=True):
        changed = {**found, "spec": {"replicas": 7}} if path != MAP else {**found, "data": {"a": "c"}}
        part = {"spec": changed["spec"]} if path != MAP else {"data": {"a": "c"}}
        operations = [{"op": "replace", "path": "/metadata/labels", "value": {"a": "b"}}]
        config = {**part, "apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": {"name": "one"}}
        for method, headers, body in (
            ("PUT", JSON, changed),
            ("PATCH", MERGE, part),
            ("PATCH", JSON_PATCH, operations),
            ("PATCH", APPLY, config),
        ):
            params = {**dry, "force": "true"} if headers == APPLY else dry
            answer = await filled.ok(method, path, content=json.dumps(body).encode(), headers=headers, params=params)
            assert answer["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    for path, obj in ((MAPS, config_map("two")), (WIDGETS, instance("two"))):
        answer = await filled.ok("POST", path, obj, params=dry)
        assert answer["metadata"]["uid"]
        assert not answer["metadata"].get("resourceVersion")
        await filled.fails(404, "GET", f"{path}/two")
    for path in (MAP, WIDGET):
        await filled.ok("DELETE", path, params={"dryRun": "All"})
    assert [await filled.ok("GET", path) for path in ALL] == before


@pytest.mark.parametrize(
    ("headers", "body", "message"),
    [
        (MERGE, b"", "invalid JSON patch"),
        (JSON_PATCH, b"", "invalid JSON patch"),
        (MERGE, b"\xef\xbb\xbf{}", "invalid JSON patch"),
        (MERGE, b'{"a":"\xff"}', "invalid JSON patch"),
        (MERGE, b'{"a":1}{"b":2}', "invalid JSON patch"),
        (MERGE, b'{"a":' * 1000 + b"1" + b"}" * 1000, "invalid JSON patch"),
        (MERGE, b"null", "Invalid JSON Patch"),
        (MERGE, b"[]", "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (JSON_PATCH, b"{}", "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (JSON_PATCH, b"[1]", "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
    ],
    ids=["nothing", "no operations", "byte order mark", "no UTF-8", "two", "depth", "null", "list", "no list", "no operation"],
)
async def test_bodies_that_are_no_patches(filled: Api, headers: dict[str, str], body: bytes, message: str) -> None:
    """400 in upstream's words, for objects and subresources alike."""
    for path in ALL:
        assert (await filled.fails(400, "PATCH", path, content=body, headers=headers))["message"] == message


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ({"metadata": {"name": "x"}}, 400, "the name of the object (x) does not match the name on the URL (one)"),
        ({"metadata": {"name": None}}, 400, "the name of the object (one based on URL) was undeterminable: name must be provided"),
        ({"metadata": None}, 400, "the name of the object (one based on URL) was undeterminable: name must be provided"),
        (
            {"metadata": {"namespace": "x"}},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        ({"metadata": {"namespace": None}}, 200, ""),
        ({"metadata": {"uid": None, "creationTimestamp": None}}, 200, ""),
        ({"metadata": {"resourceVersion": "1"}}, 409, "the object has been modified; please apply your changes to the latest version"),
    ],
    ids=["name", "no name", "no metadata", "namespace", "no namespace", "no uid", "version"],
)
async def test_patches_of_identity(filled: Api, patch: dict[str, Any], code: int, message: str) -> None:
    """Name and namespace stay those of the URL; missing ones are filled in; a resourceVersion locks."""
    for path in ALL:
        response = await filled("PATCH", path, patch, headers=MERGE)
        assert response.status_code == code, (path, response.text)
        assert message in response.json().get("message", "")


@pytest.mark.parametrize(
    ("path", "patch", "message"),
    [
        (MAP, {"kind": "Foo"}, ' "" is invalid: patch: …no kind "Foo" is registered for version "v1" in scheme "kcp-py"'),
        (MAP, {"apiVersion": "a/v1"}, ' "" is invalid: patch: …no kind "ConfigMap" is registered for version "a/v1" in scheme "kcp-py"'),
        (SCALE, {"kind": "Foo"}, ' "" is invalid: patch: …no kind "Foo" is registered for version "autoscaling/v1" in scheme "kcp-py"'),
        (WIDGET, {"kind": "Foo"}, 'Foo.example.com "one" is invalid: kind: Invalid value: "Foo": must be Widget'),
        (MAP, {"metadata": {"uid": "x"}}, 'ConfigMap "one" is invalid: metadata.uid: Invalid value: "x": field is immutable'),
        (WIDGET, {"metadata": {"uid": "x"}}, 'Widget.example.com "one" is invalid: metadata.uid: Invalid value: "x": field is immutable'),
        (
            MAP,
            {"metadata": {"resourceVersion": 5}},
            "patch: …json: cannot unmarshal number into Go struct field ObjectMeta.metadata.resourceVersion of type string",
        ),
        (MAP, {"metadata": 5}, "patch: …json: cannot unmarshal number into Go struct field ConfigMap.metadata of type v1.ObjectMeta"),
        (WIDGET, {"metadata": {"resourceVersion": None}}, "metadata.resourceVersion: Invalid value: 0: must be specified for an update"),
    ],
    ids=["kind", "version", "scale's kind", "custom kind", "uid", "custom uid", "type", "metadata", "no version"],
)
async def test_patches_that_make_invalid_objects(filled: Api, path: str, patch: dict[str, Any], message: str) -> None:
    """422, of the patch itself where the result is not even an object of the kind."""
    assert text(await filled.fails(422, "PATCH", path, patch, headers=MERGE)).endswith(message)


async def test_a_custom_resource_has_to_keep_its_kind(filled: Api) -> None:
    """A decoder that knows no type is lost without it, and shows what it got."""
    for member, shown in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        status = await filled.fails(422, "PATCH", WIDGET, {member: None}, headers=MERGE)
        assert f"\": Object '{shown}' is missing in '{{" in status["message"]
    await filled.ok("PATCH", MAP, {"kind": None, "apiVersion": None}, headers=MERGE)


async def test_writes_of_what_is_not_there(filled: Api) -> None:
    """404, once the body is known to be a patch, whatever else is wrong with it; an apply makes objects, but no subresources."""
    for path in (f"{MAPS}/none", f"{WIDGETS}/none", f"{WIDGETS}/none/status", f"{WIDGETS}/none/scale"):
        await filled.fails(404, "PATCH", path, {}, headers=MERGE)
        await filled.fails(404, "PATCH", path, {"no": "operations"}, headers=JSON_PATCH)
        await filled.fails(400, "PATCH", path, content=b"{", headers=MERGE)
    for path in (f"{WIDGETS}/none/status", f"{WIDGETS}/none/scale"):
        await filled.fails(404, "PATCH", path, instance("other"), headers=APPLY, params={"fieldManager": "m"})
    status = await filled.fails(400, "PATCH", f"{MAPS}/none", config_map("one"), headers=APPLY, params={"fieldManager": "m"})
    assert status["message"] == "the name of the object (one) does not match the name on the URL (none)"


@pytest.mark.parametrize("media", ["application/json", "application/yaml", "text/plain", "", "application/apply-patch+cbor"])
async def test_other_media_types_are_no_patches(filled: Api, media: str) -> None:
    """415 names those that a custom resource takes; the router of built-in kinds names none. Parameters do not matter."""
    named = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    for path in ALL:
        status = await filled.fails(415, "PATCH", path, content=b"{", headers={"Content-Type": media}, params={"dryRun": "x"})
        words = "415: Unsupported Media Type" if path == MAP else f"accepted media types include: {named}"
        assert status["message"].endswith(words)
        await filled.ok("PATCH", path, content=b"{}", headers={"Content-Type": f"{MERGE['Content-Type']}; charset=utf-8"})
        if path != MAP:
            await filled.fails(415, "PATCH", path, {}, headers=STRATEGIC)


@pytest.mark.parametrize("path", [MAPS, WIDGETS], ids=["typed", "custom"])
@pytest.mark.parametrize("headers", [JSON, YAML], ids=["json", "yaml"])
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_strictness(filled: Api, method: str, headers: dict[str, str], path: str) -> None:
    """Unknown or repeated fields are refused, warned about or ignored, as requested. A struct has no place for unknown fields."""
    obj = await filled.ok("GET", f"{path}/one") if method == "PUT" else (config_map("two") if path == MAPS else instance("two"))
    sent = {**obj, "metadata": {**obj["metadata"], "nope": 1}, "more": 1}
    body = encode_yaml(sent) + b"more: 1\n" if headers == YAML else json.dumps(sent).encode()[:-1] + b',"more":1}'
    line = body.count(b"\n")
    twice = f'line {line}: key "more" already set in map' if headers == YAML else 'duplicate field "more"'
    unknown = ['unknown field "metadata.nope"', 'unknown field "more"']
    repeated = [] if (path, headers) == (MAPS, JSON) else [twice]
    target = path if method == "POST" else f"{path}/one"
    status = await filled.fails(400, method, target, content=body, headers=headers, params={"fieldValidation": "Strict"})
    kind = "ConfigMap" if path == MAPS else "Widget"
    issues = [f"yaml: unmarshal errors:\n  {twice}"] if headers == YAML else repeated
    frame = f'{kind} in version "v1" cannot be handled as a {kind}: strict decoding error: '
    assert status["message"] == frame + ", ".join([*issues, *unknown])
    for validation in ("Warn", ""):
        params = {"dryRun": "All", **({"fieldValidation": validation} if validation else {})}
        response = await filled(method, target, content=body, headers=headers, params=params)
        said = [warning.removeprefix('299 - "').removesuffix('"').replace("\\", "") for warning in response.headers.get_list("warning")]
        assert (response.status_code < 300, said) == (True, [*repeated, *unknown])
    response = await filled(method, target, content=body, headers=headers, params={"dryRun": "All", "fieldValidation": "Ignore"})
    assert (response.status_code < 300, response.headers.get("warning")) == (True, None)


async def test_strict_decoding_tells_in_the_order_of_the_document(filled: Api) -> None:
    """Typed kinds: unknown and repeated fields, each once; nothing below an unknown field or in a part that is decoded separately."""
    body = (
        b'{"zoo":1,"zoo":2,"apiVersion":"v1","metadata":{"b":{"c":1,"c":2},"name":"two","a":1,"name":"two","labels":{"x":"1","x":"2"},'
        b'"managedFields":[{"manager":"m","more":1,"fieldsV1":{"f:a":{},"f:a":{}}}]},"kind":"ConfigMap","data":{"k":"1","k":"2"},"bar":1,"data":{}}'
    )
    told = [
        'unknown field "zoo"',
        'unknown field "metadata.b"',
        'unknown field "metadata.a"',
        'duplicate field "metadata.name"',
        'duplicate field "metadata.labels.x"',
        'unknown field "metadata.managedFields[0].more"',
        'duplicate field "data.k"',
        'unknown field "bar"',
        'duplicate field "data"',
    ]
    status = await filled.fails(400, "POST", MAPS, content=body, headers=JSON, params={"fieldValidation": "Strict"})
    assert status["message"] == 'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: ' + ", ".join(told)
    yaml = b"kind: ConfigMap\nzoo: 1\nmetadata: {zoo: 1, name: two, ape: 1}\nbar: 1\n"
    status = await filled.fails(400, "POST", MAPS, content=yaml, headers=YAML, params={"fieldValidation": "Strict"})
    sorted_fields = [f'unknown field "{name}"' for name in ("bar", "metadata.ape", "metadata.zoo", "zoo")]
    assert status["message"].endswith("strict decoding error: " + ", ".join(sorted_fields))


async def test_strict_decoding_tells_of_custom_resources_in_the_order_of_the_pruning(filled: Api) -> None:
    """Repeated fields as they stand, then those that the metadata and then those that the schema does not know, both sorted."""
    body = (
        b'{"apiVersion":"example.com/v1","kind":"Widget","spec":{"z":1,"size":1,"size":2},"zoo":1,"bar":{"a":1,"a":2},'
        b'"metadata":{"y":1,"name":"two","ownerReferences":[{"apiVersion":"v1","kind":"a","name":"a","uid":"u","bar":1}],'
        b'"managedFields":[{"foo":1}],"name":"two","a":1}}'
    )
    told = [f'duplicate field "{name}"' for name in ("spec.size", "bar.a", "metadata.name")]
    told += [f'unknown field "metadata.{name}"' for name in ("a", "managedFields[0].foo", "ownerReferences[0].bar", "y")]
    told += [f'unknown field "{name}"' for name in ("bar", "spec.z", "zoo")]
    status = await filled.fails(400, "POST", WIDGETS, content=body, headers=JSON, params={"fieldValidation": "Strict"})
    assert status["message"] == 'Widget in version "v1" cannot be handled as a Widget: strict decoding error: ' + ", ".join(told)


async def test_strictness_of_patches(filled: Api) -> None:
    """422 of the patch with everything that is wrong with it and its result, sorted as upstream comes by it."""
    strict = {"fieldValidation": "Strict"}
    body = b'{"zoo":1,"spec":{"nope":1,"size":1,"size":2},"more":1}'
    status = await filled.fails(422, "PATCH", WIDGET, content=body, headers=MERGE, params=strict)
    unknown = ", ".join(f'unknown field "{path}"' for path in ("more", "spec.nope", "zoo"))
    assert text(status) == f' "" is invalid: patch: …strict decoding error: duplicate field "spec.size", {unknown}'
    status = await filled.fails(422, "PATCH", MAP, content=b'{"more":{"$patch":"replace"},"zoo":1}', headers=STRATEGIC, params=strict)
    assert status["message"] == (
        ' "" is invalid: patch: Invalid value: "map[more:map[$patch:replace] zoo:1]": strict decoding error: unknown field "zoo"'
    )


async def test_owned_fields_are_written_in_order(api: Api) -> None:
    """Of a create, of an update and of an apply, however the request has them."""
    sent = config_map("one", {"z": "1", "a": "1", "m": "1"}, labels={"y": "1", "b": "1"})
    await api.ok("POST", MAPS, sent)
    await api.ok("PATCH", f"{MAPS}/one", {"data": {"m": "2", "c": "2"}}, headers=MERGE, params={"fieldManager": "second"})
    config = {"data": {"q": "3", "d": "3"}, "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    headers = {"Content-Type": "application/apply-patch+yaml"}
    applied = await api.ok("PATCH", f"{MAPS}/one", config, headers=headers, params={"fieldManager": "third"})

    def check(fields: dict[str, Any]) -> int:
        assert list(fields) == sorted(fields)
        return 1 + sum(map(check, fields.values()))

    assert sum(check(entry["fieldsV1"]) for entry in applied["metadata"]["managedFields"]) > 15
