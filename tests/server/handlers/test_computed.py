"""Resources that a user's class serves are resources like any other: requests, discovery, OpenAPI, tables, watches."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from kcp_py.apimachinery.meta.options import DeleteOptions
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import WILDCARD, Name
from kcp_py.registry.admission import AdmissionPlugin, Attributes
from kcp_py.registry.computed import ComputedResource
from kcp_py.registry.rest.storage import Object, ObjectEvent, ReadRequest, RestStorage
from kcp_py.registry.writerequest import WriteRequest
from kcp_py.storage.contract import UnavailableError
from tests.server.handlers.conftest import Api, Watch, config_map, options

pytestmark = pytest.mark.anyio

QUOTES = "/clusters/a/apis/example.com/v1/namespaces/default/quotes"


class Quotes(RestStorage):
    """Two quotes in each cluster, which know it, and changes that a test makes."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[ObjectEvent | Exception] = asyncio.Queue()
        self.closed = asyncio.Event()
        self.users: list[str] = []
        self.endless = False
        self.failing: dict[str, Exception] = {}

    async def list(self, request: ReadRequest) -> Sequence[Object]:
        self.users.append(request.context.user.name)
        if (failure := self.failing.get(request.target.cluster_state.name)) is not None:
            raise failure
        found = [quote(name, size, request.target.cluster_state.name) for name, size in (("long", 9), ("short", 1))]
        return [one for one in found if request.target.namespace in {"", "default"}]

    async def get(self, request: ReadRequest) -> Object:
        for found in await self.list(request):
            if found["metadata"]["name"] == request.target.name:
                return found
        raise errors.not_found(request.target.resource.group_resource, request.target.name)

    async def watch(self, request: ReadRequest) -> AsyncGenerator[ObjectEvent, None]:
        try:
            for found in await self.list(request):
                yield ObjectEvent("ADDED", found)
            while self.endless:
                yield ObjectEvent("MODIFIED", quote("long", 9, request.target.cluster_state.name))
            while True:
                change = await self.changes.get()
                if isinstance(change, Exception):
                    raise change
                yield change
        finally:
            self.closed.set()


class Encoding(RestStorage):
    """A subresource that takes a POST and answers with another kind."""

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        text = f"{request.target.name}: {obj['spec']['text']}"
        return {"status": {"encoded": base64.b64encode(text.encode()).decode()}}


def quote(name: str, size: int, cluster: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default", "labels": {"size": str(size)}}, "spec": {"size": size, "cluster": cluster}}


SCHEMA = {
    "type": "object",
    "description": "Something that was said.",
    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}, "cluster": {"type": "string"}}}},
}


@pytest.fixture
def quotes() -> Quotes:
    return Quotes()


class Refusing(AdmissionPlugin):
    """Adds a word to the text to be encoded, and refuses one text."""

    async def mutate(self, attributes: Attributes) -> None:
        if attributes.resource.resource == "quotes" and attributes.obj is not None:
            attributes.obj["spec"]["text"] += "!"

    async def validate(self, attributes: Attributes) -> None:
        if attributes.resource.resource == "quotes" and attributes.obj is not None and "rude" in attributes.obj["spec"]["text"]:
            detail = f"{attributes.user.name} must not {attributes.operation} {attributes.subresource} of {attributes.name}"
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, detail)


@pytest.fixture
async def api(tmp_path: Path, quotes: Quotes) -> AsyncIterator[Api]:
    resource = ComputedResource(
        group="example.com",
        version="v1",
        resource="quotes",
        kind="Quote",
        rest=quotes,
        schema=SCHEMA,
        columns=[{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        short_names=["qu"],
        subresources={"base64": Encoding()},
        subresource_kinds={"base64": GroupVersionKind("example.com", "v1", "Encoding")},
    )
    async with ControlPlane(options(tmp_path), apis=[resource], admission=[Refusing()]) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


async def test_an_object_is_got(api: Api) -> None:
    """With apiVersion, kind and the annotation of the cluster; 404 is the storage's."""
    found = await api.ok("GET", f"{QUOTES}/long")
    assert found["apiVersion"] == "example.com/v1"
    assert found["kind"] == "Quote"
    assert found["metadata"]["annotations"] == {"kcp.io/cluster": "a"}
    assert found["spec"] == {"size": 9, "cluster": "a"}
    assert (await api.fails(404, "GET", f"{QUOTES}/none"))["message"] == 'quotes.example.com "none" not found'


async def test_objects_are_listed_and_selected(api: Api, quotes: Quotes) -> None:
    """By labels and by name; the storage sees the user, and the cluster of each request alone."""
    listed = await api.ok("GET", QUOTES)
    assert (listed["kind"], listed["metadata"]["resourceVersion"].isdigit()) == ("QuoteList", True)
    assert [one["metadata"]["name"] for one in listed["items"]] == ["long", "short"]
    selected = await api.ok("GET", QUOTES, params={"labelSelector": "size=1"})
    assert [one["metadata"]["name"] for one in selected["items"]] == ["short"]
    named = await api.ok("GET", QUOTES, params={"fieldSelector": "metadata.name=long"})
    assert [one["metadata"]["name"] for one in named["items"]] == ["long"]
    other = await api.ok("GET", QUOTES.replace("/a/", "/b/", 1))
    assert {one["spec"]["cluster"] for one in other["items"]} == {"b"}
    assert (await api.ok("GET", QUOTES.replace("default", "other")))["items"] == []
    assert set(quotes.users) == {"shard-admin"}


async def test_objects_of_all_clusters(api: Api) -> None:
    """Those of each cluster that exists, with its name."""
    for cluster in ("a", "b"):
        await api.ok("POST", f"/clusters/{cluster}/api/v1/namespaces/default/configmaps", config_map("one"))
    listed = await api.ok("GET", "/clusters/*/apis/example.com/v1/quotes", params={"labelSelector": "size=1"})
    assert {one["metadata"]["clusterName"] for one in listed["items"]} == {"a", "b", "root"}
    assert all(one["spec"]["cluster"] == one["metadata"]["clusterName"] for one in listed["items"])


async def test_a_table(api: Api) -> None:
    """With the columns of the resource."""
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = await api.ok("GET", QUOTES, headers=headers)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size"]
    assert [row["cells"] for row in table["rows"]] == [["long", 9], ["short", 1]]
    one = await api.ok("GET", f"{QUOTES}/long", headers=headers)
    assert [row["cells"] for row in one["rows"]] == [["long", 9]]


async def test_discovery_and_openapi(api: Api) -> None:
    """The resource, its verbs and its subresource; the schema and the paths."""
    listed = await api.ok("GET", "/clusters/a/apis/example.com/v1")
    (entry, subresource) = listed["resources"]
    assert (entry["name"], entry["kind"], entry["shortNames"], entry["verbs"]) == ("quotes", "Quote", ["qu"], ["get", "list", "watch"])
    assert (subresource["name"], subresource["kind"], subresource["verbs"]) == ("quotes/base64", "Encoding", ["create"])
    assert "example.com" in {group["name"] for group in (await api.ok("GET", "/clusters/a/apis"))["groups"]}
    document = await api.ok("GET", "/clusters/a/openapi/v3/apis/example.com/v1")
    schemas = [schema for name, schema in document["components"]["schemas"].items() if name.endswith(".Quote")]
    assert schemas[0]["description"] == "Something that was said."
    assert "/apis/example.com/v1/namespaces/{namespace}/quotes" in document["paths"]


async def test_a_watch_shows_what_the_storage_tells(api: Api, quotes: Quotes) -> None:
    """The state first, then changes, as far as they are selected; the generator is closed with the watch."""
    async with Watch(api, QUOTES, labelSelector="size=1") as watch:
        assert await watch.brief() == ("ADDED", "short")
        quotes.changes.put_nowait(ObjectEvent("MODIFIED", quote("long", 10, "a")))
        quotes.changes.put_nowait(ObjectEvent("MODIFIED", quote("short", 1, "a")))
        quotes.changes.put_nowait(ObjectEvent("DELETED", quote("short", 1, "a")))
        assert await watch.brief() == ("MODIFIED", "short")
        assert await watch.brief() == ("DELETED", "short")
    await asyncio.wait_for(quotes.closed.wait(), 60)


async def test_a_watch_ends_with_the_error_of_its_storage(api: Api, quotes: Quotes) -> None:
    """As an ERROR event."""
    async with Watch(api, QUOTES) as watch:
        await watch.brief(), await watch.brief()
        quotes.changes.put_nowait(errors.expired("too old"))
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert await watch.next() is None


@pytest.mark.parametrize("failure", [KeyError("secret"), AttributeError("secret")])
async def test_a_watch_whose_generator_fails_ends_with_an_error(api: Api, quotes: Quotes, failure: Exception) -> None:
    """As an ERROR event that does not say what has failed, and the stream is complete."""
    async with Watch(api, QUOTES) as watch:
        await watch.brief(), await watch.brief()
        quotes.changes.put_nowait(failure)
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["code"]) == ("ERROR", 500)
        assert "secret" not in event["object"]["message"]
        assert await watch.next() is None


async def test_a_watch_shows_an_object_that_enters_or_leaves_the_selection(api: Api, quotes: Quotes) -> None:
    """As ADDED and as DELETED, as watches of stored objects do; one that was never shown is not shown as deleted."""
    async with Watch(api, QUOTES, labelSelector="size=1") as watch:
        assert await watch.brief() == ("ADDED", "short")
        quotes.changes.put_nowait(ObjectEvent("MODIFIED", quote("short", 2, "a")))
        assert await watch.brief() == ("DELETED", "short")
        quotes.changes.put_nowait(ObjectEvent("DELETED", quote("long", 1, "a")))
        quotes.changes.put_nowait(ObjectEvent("MODIFIED", quote("short", 1, "a")))
        assert await watch.brief() == ("ADDED", "short")


async def test_a_watch_cannot_begin_with_the_initial_events(api: Api) -> None:
    """422: clients that would wait for the bookmark at their end list instead."""
    params = {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    await api.fails(422, "GET", QUOTES, params=params)


async def test_a_watch_of_a_generator_that_never_waits_ends_in_time(api: Api, quotes: Quotes) -> None:
    """A stream of changes without a pause does not outlast `timeoutSeconds`."""
    quotes.endless = True
    async with Watch(api, QUOTES, timeoutSeconds="1") as watch:
        async with asyncio.timeout(30):
            while await watch.next() is not None:
                pass
    await asyncio.wait_for(quotes.closed.wait(), 60)


class Notes(RestStorage):
    """Takes writes, and keeps them for a look."""

    def __init__(self) -> None:
        self.deleted: list[DeleteOptions] = []

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        assert not request.dry_run
        return obj

    async def update(self, request: WriteRequest, obj: Object) -> Object:
        assert request.target.name == obj["metadata"]["name"]
        return obj

    async def delete(self, request: WriteRequest) -> None:
        assert isinstance(request.options, DeleteOptions)
        self.deleted.append(request.options)


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
async def writable(tmp_path: Path, notes: Notes) -> AsyncIterator[Api]:
    resource = ComputedResource(group="example.com", version="v1", resource="notes", kind="Note", rest=notes, subresources={"text": notes})
    async with ControlPlane(options(tmp_path), apis=[resource]) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


NOTE = GroupVersionResource("example.com", "v1", "notes")
NOTES = "/clusters/a/apis/example.com/v1/namespaces/default/notes"


async def test_the_options_in_the_body_of_a_deletion_count(writable: Api, notes: Notes) -> None:
    """Clients send them there: a dry run and preconditions reach the storage, and wrong ones are refused."""
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"], "preconditions": {"uid": "u"}}
    await writable.ok("DELETE", f"{NOTES}/n", body)
    (options_seen,) = notes.deleted
    assert options_seen.dry_run
    assert options_seen.preconditions is not None
    assert options_seen.preconditions.uid == "u"
    await writable.fails(422, "DELETE", f"{NOTES}/n", {**body, "dryRun": ["Some"]})
    assert len(notes.deleted) == 1


async def test_a_new_object_is_of_the_namespace_of_its_url(writable: Api) -> None:
    """400 for another one."""
    note = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "n", "namespace": "other"}}
    await writable.fails(400, "POST", NOTES, note)
    note["metadata"] = {"name": "n", "namespace": "default"}
    assert (await writable("POST", NOTES, note)).status_code == 201


async def test_the_client_of_the_process_writes_computed_objects(writable: Api, notes: Notes) -> None:
    """Through their code and admission, as HTTP does; what the code does not offer is 405."""
    client = writable.control_plane.client
    made = await client.create(Name("a"), NOTE, {"metadata": {"name": "n", "namespace": "default"}})
    assert (made["apiVersion"], made["kind"], made["metadata"]["annotations"]) == ("example.com/v1", "Note", {"kcp.io/cluster": "a"})
    assert (await client.update(Name("a"), NOTE, {**made, "text": "x"}))["text"] == "x"
    await client.delete(Name("a"), NOTE, "default", "n", uid="u")
    assert [one.preconditions and one.preconditions.uid for one in notes.deleted] == ["u"]
    for call in (
        client.get(Name("a"), NOTE, "default", "n"),
        client.patch(Name("a"), NOTE, "default", "n", document={}),
        client.delete_collection(Name("a"), NOTE, "default"),
    ):
        with pytest.raises(errors.StatusError) as refused:
            await call
        assert refused.value.code in {405, 415}


async def test_the_client_of_the_process_reads_computed_objects(api: Api, quotes: Quotes) -> None:
    """By name, in lists with selectors of one cluster and of all, by watch, and it posts to subresources."""
    client, resource = api.control_plane.client, GroupVersionResource("example.com", "v1", "quotes")
    assert (await client.get(Name("a"), resource, "default", "long"))["spec"]["size"] == 9
    listed = await client.list(Name("a"), resource, "default", label_selector="size=1")
    assert [one["metadata"]["name"] for one in listed.items] == ["short"]
    everywhere = await client.list(WILDCARD, resource, metadata_only=True)
    assert {(one["kind"], one["metadata"]["clusterName"]) for one in everywhere.items} == {("PartialObjectMetadata", "root")}
    async with aclosing(client.watch(Name("a"), resource, resource_version=listed.resource_version, label_selector="size=1")) as events:
        assert (await anext(events)).obj["metadata"]["name"] == "short"
        quotes.changes.put_nowait(ObjectEvent("MODIFIED", quote("short", 2, "a")))
        assert (await anext(events)).type == "DELETED"
    await asyncio.wait_for(quotes.closed.wait(), 60)
    body = {"metadata": {"namespace": "default"}, "spec": {"text": "x"}}
    encoded = await client.create(Name("a"), resource, body, name="long", subresource="base64")
    assert encoded["kind"] == "Encoding"


async def test_a_put_names_the_object_of_its_url(writable: Api) -> None:
    """Also of a subresource: 400 for another name or namespace."""
    for path in (f"{NOTES}/n", f"{NOTES}/n/text"):
        note = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "n"}}
        assert (await writable.ok("PUT", path, note))["metadata"]["name"] == "n"
        for wrong in ({"name": "other"}, {}, {"name": "n", "namespace": "other"}):
            await writable.fails(400, "PUT", path, {**note, "metadata": wrong})


@pytest.mark.parametrize(
    "failure", [errors.internal("no quotes today"), KeyError("secret"), UnavailableError("down")], ids=lambda one: type(one).__name__
)
async def test_a_cluster_that_fails_is_left_out_of_a_list_of_all(api: Api, quotes: Quotes, failure: Exception) -> None:
    """With a warning that names it, and hides what a client must not see; the others are listed."""
    for cluster in ("a", "b"):
        await api.ok("POST", f"/clusters/{cluster}/api/v1/namespaces/default/configmaps", config_map("one"))
    quotes.failing["b"] = failure
    answer = await api("GET", "/clusters/*/apis/example.com/v1/quotes")
    assert {one["metadata"]["clusterName"] for one in answer.json()["items"]} == {"a", "root"}
    (warning,) = answer.headers.get_list("warning")
    assert "objects of the logical cluster b are left out" in warning
    assert "secret" not in warning
    assert (await api("GET", QUOTES.replace("/a/", "/b/", 1))).status_code >= 500


async def test_a_watch_ends_with_its_cluster(api: Api, quotes: Quotes) -> None:
    """And with the server."""
    await api.ok("POST", "/clusters/a/api/v1/namespaces/default/configmaps", config_map("one"))
    async with Watch(api, QUOTES) as watch:
        await watch.brief(), await watch.brief()
        await api.ok("DELETE", "/clusters/a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
        assert await watch.next() is None
    await asyncio.wait_for(quotes.closed.wait(), 60)


async def test_a_subresource_takes_a_post(api: Api) -> None:
    """And answers with its own kind; admission sees it, it has no other verb, and its body is of its kind."""
    body = {"apiVersion": "example.com/v1", "kind": "Encoding", "spec": {"text": "x"}}
    answer = await api("POST", f"{QUOTES}/long/base64", body)
    assert answer.status_code == 201
    assert answer.json() == {
        "apiVersion": "example.com/v1",
        "kind": "Encoding",
        "status": {"encoded": base64.b64encode(b"long: x!").decode()},
    }
    refused = await api.fails(403, "POST", f"{QUOTES}/long/base64", {**body, "spec": {"text": "rude"}})
    assert "shard-admin must not CREATE base64 of long" in refused["message"]
    await api.fails(405, "GET", f"{QUOTES}/long/base64")
    await api.fails(400, "POST", f"{QUOTES}/long/base64", {**body, "apiVersion": "v2"})
    assert (await api("POST", f"{QUOTES}/long/other", body)).status_code == 404


@pytest.mark.parametrize(("method", "path"), [("POST", ""), ("PUT", "/long"), ("PATCH", "/long"), ("DELETE", "/long"), ("DELETE", "")])
async def test_verbs_that_are_not_there(api: Api, method: str, path: str) -> None:
    """405, and nothing is stored."""
    body: dict[str, Any] = quote("long", 1, "a")
    headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else None
    assert (await api(method, f"{QUOTES}{path}", body, headers=headers)).status_code == 405


async def test_a_cluster_with_computed_resources_is_deleted(api: Api) -> None:
    """Nothing of them is stored."""
    await api.ok("POST", "/clusters/a/api/v1/namespaces/default/configmaps", config_map("one"))
    path = "/clusters/a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    await api.ok("DELETE", path)
    async with asyncio.timeout(30):
        while (await api("GET", path)).status_code != 404:
            await asyncio.sleep(0)


async def test_a_definition_cannot_take_the_name(api: Api) -> None:
    """A CRD of the same resource is not served in its place."""
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "quotes.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "quotes", "kind": "Quote"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }
    await api("POST", "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    assert (await api.ok("GET", f"{QUOTES}/long"))["spec"]["size"] == 9


@pytest.mark.parametrize(
    ("group", "resource", "kind"),
    [("", "configmaps", "Other"), ("", "others", "ConfigMap"), ("metrics.kcp-py.dev", "clusterusages", "Other"), ("a.b", "notes", "Note")],
)
async def test_a_resource_cannot_take_the_place_of_another(tmp_path: Path, group: str, resource: str, kind: str) -> None:
    """Neither of a built-in one nor of another computed one, by name or by kind."""
    version = "v1alpha1" if resource == "clusterusages" else "v1"
    taken = ComputedResource(group=group, version=version, resource=resource, kind=kind, rest=Notes())
    notes = ComputedResource(group="a.b", version="v1", resource="notes", kind="Note", rest=Notes())
    with pytest.raises(ValueError, match="of another resource"):
        async with ControlPlane(options(tmp_path), apis=[taken, notes]):
            pass


async def test_a_storage_need_not_be_hashable(tmp_path: Path) -> None:
    """As dataclasses are not: it is listed page by page, too."""

    @dataclass
    class Days(RestStorage):
        names: Sequence[str]

        async def list(self, request: ReadRequest) -> Sequence[Object]:
            del request
            return [{"metadata": {"name": name}} for name in self.names]

    rest = Days(["friday", "monday"])
    resource = ComputedResource(
        group="example.com", version="v1", resource="days", kind="Day", rest=rest, namespaced=False, schema={"type": "object"}
    )
    async with (
        ControlPlane(options(tmp_path), apis=[resource]) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api, days = Api(client, control_plane), "/clusters/a/apis/example.com/v1/days"
        first = await api.ok("GET", f"{days}?limit=1")
        second = await api.ok("GET", f"{days}?limit=1&continue={first['metadata']['continue']}")
        assert [page["items"][0]["metadata"]["name"] for page in (first, second)] == ["friday", "monday"]


async def test_a_computed_owner_keeps_its_dependents(tmp_path: Path) -> None:
    """The garbage collector asks the resource's code whether an owner exists; a dependent of one that is gone is collected."""

    class Owners(RestStorage):
        async def get(self, request: ReadRequest) -> Object:
            if request.target.name != "here":
                raise errors.not_found(request.target.resource.group_resource, request.target.name)
            return {"metadata": {"name": "here", "namespace": "default", "uid": "u-here"}}

    owners = ComputedResource(group="a.b", version="v1", resource="owners", kind="Owner", rest=Owners())
    maps = "/clusters/a/api/v1/namespaces/default/configmaps"
    async with ControlPlane(options(tmp_path), apis=[owners]) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            for name in ("here", "gone"):
                dependent = config_map(name)
                reference = {"apiVersion": "a.b/v1", "kind": "Owner", "name": name, "uid": f"u-{name}"}
                dependent["metadata"]["ownerReferences"] = [reference]
                since = (await api.ok("POST", maps, dependent))["metadata"]["resourceVersion"]
            async with Watch(api, maps, fieldSelector="metadata.name=gone", resourceVersion=since) as watch:
                assert await watch.brief() == ("DELETED", "gone")
            await api.ok("GET", f"{maps}/here")
        served = GroupVersionResource("a.b", "v1", "owners")
        found = await control_plane.client.get(Name("a"), served, "default", "here", metadata_only=True)
        assert found["metadata"]["uid"] == "u-here"
