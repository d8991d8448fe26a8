"""Resources that a user's class serves are patched and applied like any other: by JSON patch, merge patch and server-side apply."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from kcp_py.apimachinery.meta.options import CreateOptions, PatchOptions
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionPlugin, Attributes
from kcp_py.registry.computed import ComputedResource
from kcp_py.registry.rest.patch import JSON_PATCH
from kcp_py.registry.rest.storage import Object, ReadRequest, RestStorage
from kcp_py.registry.writerequest import WriteRequest
from tests.server.handlers.conftest import Api, options
from tests.server.handlers.kept import Kept

pytestmark = pytest.mark.anyio

NOTES = "/clusters/a/apis/example.com/v1/namespaces/default/notes"
NOTE = GroupVersionResource("example.com", "v1", "notes")
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "size": {"type": "integer"},
                "color": {"type": "string", "default": "white"},
                "tags": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                    },
                },
            },
        }
    },
}


class Lamp(RestStorage):
    """A subresource of a kind of its own, which is got and updated."""

    on = False

    async def get(self, request: ReadRequest) -> Object:
        return {"metadata": {"name": request.target.name, "namespace": request.target.namespace}, "spec": {"on": self.on}}

    async def update(self, request: WriteRequest, obj: Object) -> Object:
        self.on = obj["spec"]["on"]
        return {**obj, "metadata": {**obj["metadata"], "name": request.target.name}}


class Sizes(AdmissionPlugin):
    """Refuses updates that make a text larger, and writes down what it saw."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    async def validate(self, attributes: Attributes) -> None:
        if attributes.resource.resource != "notes" or attributes.obj is None or attributes.subresource:
            return
        old = attributes.old and attributes.old["spec"].get("size")
        self.seen.append((attributes.operation, old))
        if old and attributes.obj["spec"].get("size", 0) > old:
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, "too large")


@pytest.fixture
def sizes() -> Sizes:
    return Sizes()


Serve = Callable[[RestStorage], AbstractAsyncContextManager[Api]]


@pytest.fixture
def serve(tmp_path: Path, sizes: Sizes) -> Serve:
    """A control plane whose notes a class serves."""

    @asynccontextmanager
    async def served(rest: RestStorage) -> AsyncIterator[Api]:
        resource = ComputedResource(
            group="example.com",
            version="v1",
            resource="notes",
            kind="Note",
            rest=rest,
            schema=SCHEMA,
            subresources={"lamp": Lamp()},
            subresource_kinds={"lamp": GroupVersionKind("example.com", "v1", "Lamp")},
        )
        async with ControlPlane(options(tmp_path), apis=[resource], admission=[sizes]) as control_plane:
            transport = httpx.ASGITransport(control_plane.app)
            async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
                yield Api(client, control_plane)

    return served


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
async def api(serve: Serve, kept: Kept) -> AsyncIterator[Api]:
    async with serve(kept) as api:
        yield api


async def patch(api: Api, path: str, body: Any, kind: str = "merge-patch+json", **more: Any) -> httpx.Response:
    headers = {"Content-Type": f"application/{kind}"}
    return await api("PATCH", path, headers=headers, content=orjson.dumps(body), **more)


async def apply(api: Api, name: str, spec: Any, *, manager: str = "one", code: int = 200, **params: str) -> dict[str, Any]:
    config = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": name}, "spec": spec}
    answer = await patch(api, f"{NOTES}/{name}", config, "apply-patch+yaml", params={"fieldManager": manager, **params})
    assert answer.status_code == code, answer.text
    found: dict[str, Any] = answer.json()
    return found


def owners(obj: dict[str, Any]) -> dict[tuple[str, str], list[str]]:
    """Manager and operation -> the members of the spec that it owns."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in obj["metadata"]["managedFields"]:
        found[entry["manager"], entry["operation"]] = sorted(entry["fieldsV1"].get("f:spec", {}).keys() - {"."})
    return found


async def test_a_json_patch_and_a_merge_patch_change_the_object(api: Api, kept: Kept) -> None:
    """What the class keeps is pruned and has defaults, without the annotation that the server adds; a patch can test and keep that."""
    kept.put("a", "n", text="x", size=3)
    test = {"op": "test", "path": "/metadata/annotations/kcp.io~1cluster", "value": "a"}
    answer = await patch(api, f"{NOTES}/n", [test, {"op": "replace", "path": "/spec/text", "value": "y"}], "json-patch+json")
    assert answer.status_code == 200
    assert (answer.json()["spec"], answer.json()["metadata"]["annotations"]) == (
        {"text": "y", "size": 3, "color": "white"},
        {"kcp.io/cluster": "a"},
    )
    answer = await patch(api, f"{NOTES}/n", {"metadata": {"labels": {"l": "1"}}, "spec": {"size": None, "unknown": 1}})
    assert "spec.unknown" in answer.headers["warning"]
    found = kept.objects["a", "default", "n"]
    assert (found["spec"], found["metadata"]["labels"]) == ({"text": "y", "color": "white"}, {"l": "1"})
    assert not found["metadata"].get("annotations")
    assert isinstance(kept.requests[-1].options, PatchOptions)


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        ({"kind": "Other"}, "merge-patch+json", 422),
        ({"metadata": {"name": "other"}}, "merge-patch+json", 400),
        ({"metadata": {"uid": "other"}}, "merge-patch+json", 422),
        ([{"op": "test", "path": "/spec/text", "value": "other"}], "json-patch+json", 422),
        ([], "merge-patch+json", 400),
        ({"$patch": "unknown"}, "strategic-merge-patch+json", 400),
        ({}, "json", 415),
    ],
)
async def test_a_patch_is_refused_as_for_other_resources(api: Api, kept: Kept, body: Any, kind: str, code: int) -> None:
    """Another kind, name or uid, and types of patches that the kind does not take; the class is not asked to update."""
    kept.put("a", "n", text="x")
    assert (await patch(api, f"{NOTES}/n", body, kind)).status_code == code
    assert kept.requests == []


async def test_a_patch_of_an_object_that_is_not_there(api: Api, kept: Kept) -> None:
    """404; of another cluster, too."""
    kept.put("b", "n", text="x")
    answer = await patch(api, f"{NOTES}/n", {"spec": {"text": "y"}})
    assert (answer.status_code, answer.json()["message"]) == (404, 'notes.example.com "n" not found')


async def test_a_patch_is_computed_again_when_the_object_has_changed(api: Api, kept: Kept) -> None:
    """The other change stays; a patch that names a resourceVersion fails with 409 instead."""
    kept.put("a", "n", text="x", size=1)

    async def interfere() -> None:
        kept.put("a", "n", text="other", size=1)

    kept.before_update = interfere
    answer = await patch(api, f"{NOTES}/n", {"spec": {"size": 0}})
    assert answer.json()["spec"] == {"text": "other", "size": 0, "color": "white"}
    version = answer.json()["metadata"]["resourceVersion"]
    kept.before_update = interfere
    answer = await patch(api, f"{NOTES}/n", {"metadata": {"resourceVersion": version}, "spec": {"size": 0}})
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    assert (await patch(api, f"{NOTES}/n", {"metadata": {"resourceVersion": "1"}})).status_code == 409


async def test_a_patch_of_an_object_that_always_changes_ends(serve: Serve) -> None:
    """With the conflict of the class, after six attempts."""

    class Refusing(Kept):
        attempts = 0

        async def update(self, request: WriteRequest, obj: Object) -> Object:
            self.attempts += 1
            raise errors.conflict(request.target.resource.group_resource, obj["metadata"]["name"], "always")

    refusing = Refusing()
    refusing.put("a", "n")
    async with serve(refusing) as api:
        answer = await patch(api, f"{NOTES}/n", {"spec": {"size": 1}})
    assert (answer.status_code, refusing.attempts) == (409, 6)
    assert "always" in answer.json()["message"]


async def test_admission_sees_a_patch_with_the_object_before(api: Api, kept: Kept, sizes: Sizes) -> None:
    """As an UPDATE that it can compare, and refuse; a PUT has the object before, too."""
    kept.put("a", "n", text="x", size=2)
    answer = await patch(api, f"{NOTES}/n", {"spec": {"size": 3}})
    assert (answer.status_code, "too large" in answer.json()["message"]) == (403, True)
    assert (await patch(api, f"{NOTES}/n", {"spec": {"size": 1}})).status_code == 200
    await api.ok("PUT", f"{NOTES}/n", {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "n"}, "spec": {"size": 1}})
    assert sizes.seen == [("UPDATE", 2), ("UPDATE", 2), ("UPDATE", 1)]


async def test_a_dry_run_reaches_the_class(api: Api, kept: Kept) -> None:
    """It answers with the patched object and keeps the one that it has."""
    kept.put("a", "n", text="x")
    answer = await patch(api, f"{NOTES}/n", {"spec": {"text": "y"}}, params={"dryRun": "All"})
    assert answer.json()["spec"]["text"] == "y"
    assert kept.objects["a", "default", "n"]["spec"]["text"] == "x"


async def test_discovery_and_openapi_have_patch(api: Api) -> None:
    """For classes and subresources with `get` and `update`; the document names the types of patches."""
    (entry, lamp) = (await api.ok("GET", "/clusters/a/apis/example.com/v1"))["resources"]
    assert entry["verbs"] == ["create", "delete", "get", "list", "patch", "update", "watch"]
    assert lamp["verbs"] == ["get", "patch", "update"]
    document = await api.ok("GET", "/clusters/a/openapi/v3/apis/example.com/v1")
    operation = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/notes/{name}"]["patch"]
    assert {"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"} <= set(
        operation["requestBody"]["content"]
    )


async def test_a_subresource_of_its_own_kind_is_patched(api: Api) -> None:
    """By JSON and merge patches; an apply, which would need a type, is 415."""
    answer = await patch(api, f"{NOTES}/n/lamp", {"spec": {"on": True}})
    assert (answer.status_code, answer.json()["kind"], answer.json()["spec"]) == (200, "Lamp", {"on": True})
    assert (await api.ok("GET", f"{NOTES}/n/lamp"))["spec"] == {"on": True}
    body = {"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "n"}, "spec": {"on": False}}
    answer = await patch(api, f"{NOTES}/n/lamp", body, "apply-patch+yaml", params={"fieldManager": "one"})
    assert answer.status_code == 415
    assert "apply" not in answer.json()["message"]


async def test_an_apply_creates_and_changes(api: Api, kept: Kept) -> None:
    """201 with CreateOptions and no name in the target, as a POST has them; then 200. Lists merge by the keys of the schema."""
    made = await apply(api, "n", {"text": "x", "tags": [{"name": "a", "value": "1"}]}, code=201)
    assert (made["spec"]["color"], owners(made)) == ("white", {("one", "Apply"): ["f:tags", "f:text"]})
    (create,) = kept.requests
    assert (type(create.options), create.target.name) == (CreateOptions, "")
    changed = await apply(api, "n", {"tags": [{"name": "b", "value": "2"}]}, manager="two")
    assert [tag["name"] for tag in changed["spec"]["tags"]] == ["a", "b"]
    assert owners(changed) == {("one", "Apply"): ["f:tags", "f:text"], ("two", "Apply"): ["f:tags"]}
    # A field that its only owner no longer applies goes.
    again = await apply(api, "n", {"tags": [{"name": "a", "value": "1"}]})
    assert "text" not in again["spec"]
    assert [tag["name"] for tag in again["spec"]["tags"]] == ["a", "b"]


async def test_an_apply_conflicts_with_other_owners(api: Api, kept: Kept) -> None:
    """Of an apply, a PUT and a patch, which own what they have changed; `force` takes the fields."""
    made = await apply(api, "n", {"text": "x"}, code=201)
    await api.ok("PUT", f"{NOTES}/n", {**made, "spec": {"text": "x", "size": 5}}, params={"fieldManager": "putter"})
    answer = await patch(api, f"{NOTES}/n", {"spec": {"color": "red"}}, params={"fieldManager": "patcher"})
    assert owners(answer.json()) == {
        ("one", "Apply"): ["f:text"],
        ("putter", "Update"): ["f:size"],
        ("patcher", "Update"): ["f:color"],
    }
    for spec in ({"text": "y"}, {"size": 4}, {"color": "blue"}):
        refused = await apply(api, "n", spec, manager="two", code=409)
        assert refused["details"]["causes"][0]["reason"] == "FieldManagerConflict"
    assert kept.objects["a", "default", "n"]["spec"]["text"] == "x"
    forced = await apply(api, "n", {"text": "y"}, manager="two", force="true")
    assert owners(forced)["two", "Apply"] == ["f:text"]
    created = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "m"}, "spec": {"text": "x"}}
    posted = await api.ok("POST", NOTES, created, params={"fieldManager": "poster"})
    assert owners(posted)["poster", "Update"] == ["f:color", "f:text"]


async def test_an_apply_is_computed_again_when_the_object_has_changed(api: Api, kept: Kept) -> None:
    """Also where another client was faster to create it."""
    await apply(api, "n", {"text": "x"}, code=201)

    async def interfere() -> None:
        answer = await patch(api, f"{NOTES}/n", {"spec": {"size": 7}}, params={"fieldManager": "other"})
        assert answer.status_code == 200

    kept.before_update = interfere
    found = await apply(api, "n", {"text": "y"})
    assert (found["spec"]["text"], found["spec"]["size"]) == ("y", 7)


async def test_an_apply_to_a_class_without_create(serve: Serve) -> None:
    """404 where the object is not there; an object that is there is changed."""

    class Fixed(RestStorage):
        text = "x"

        async def get(self, request: ReadRequest) -> Object:
            if request.target.name != "n":
                raise errors.not_found(request.target.resource.group_resource, request.target.name)
            return {"metadata": {"name": "n", "namespace": "default"}, "spec": {"text": self.text}}

        async def update(self, request: WriteRequest, obj: Object) -> Object:
            self.text = obj["spec"]["text"]
            return await self.get(ReadRequest(request.context, request.target))

    async with serve(Fixed()) as api:
        await apply(api, "other", {"text": "y"}, code=404)
        assert (await apply(api, "n", {"text": "y"}, force="true"))["spec"]["text"] == "y"


async def test_a_class_that_drops_owners(serve: Serve) -> None:
    """Each apply is the first one then: it must be forced to change a value, and removes nothing."""
    async with serve(Kept(keeps_owners=False)) as api:
        made = await apply(api, "n", {"text": "x", "size": 1}, code=201)
        assert "managedFields" not in made["metadata"]
        refused = await apply(api, "n", {"text": "y"}, code=409)
        assert 'conflict with "before-first-apply"' in refused["message"]
        assert (await apply(api, "n", {"text": "y"}, force="true"))["spec"] == {"text": "y", "size": 1, "color": "white"}


async def test_an_apply_that_names_what_is_not_there(api: Api, kept: Kept) -> None:
    """A uid without an object is 409, an unknown field 500 in upstream's words, another kind 400."""
    config = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "n", "uid": "u"}}
    params = {"fieldManager": "one"}
    answer = await patch(api, f"{NOTES}/n", config, "apply-patch+yaml", params=params)
    assert (answer.status_code, "uid mismatch" in answer.json()["message"]) == (409, True)
    assert "failed to create typed patch object" in (await apply(api, "n", {"unknown": 1}, code=500))["message"]
    answer = await patch(api, f"{NOTES}/n", {**config, "kind": "Other"}, "apply-patch+yaml", params=params)
    assert answer.status_code == 400
    assert kept.objects == {}


async def test_the_client_of_the_process_patches_and_applies(api: Api, kept: Kept) -> None:
    """As HTTP does, strategic merge patches among them; types that the kind does not take are 415."""
    client, cluster = api.control_plane.client, Name("a")
    metadata = {"name": "n", "namespace": "default"}
    made = await client.apply(cluster, NOTE, {"apiVersion": "example.com/v1", "kind": "Note", "metadata": metadata, "spec": {"size": 1}})
    assert made["metadata"]["managedFields"][0]["operation"] == "Apply"
    changed = await client.patch(
        cluster, NOTE, "default", "n", document=[{"op": "add", "path": "/spec/text", "value": "x"}], patch_type=JSON_PATCH
    )
    assert (changed["spec"]["text"], changed["metadata"]["annotations"]) == ("x", {"kcp.io/cluster": "a"})
    with pytest.raises(errors.StatusError) as refused:
        await client.patch(cluster, NOTE, "default", "n", document={}, patch_type="application/json")
    assert refused.value.code == 415
    assert set(kept.objects) == {("a", "default", "n")}
