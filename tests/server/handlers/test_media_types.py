"""Every answer in every media type: the same object, whatever it is written in."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import orjson
import pytest
import yaml

from kcp_py.apimachinery.serializer.protobuf import decode, decode_envelope, encode_object
from kcp_py.apis.upstream.crds import crds_named
from kcp_py.bootstrap.wire import message_of
from kcp_py.storage.contract import Put
from tests.server.handlers.conftest import Api, Watch, config_map, established, instance, make_crd
from tests.server.handlers.widgets import install

pytestmark = pytest.mark.anyio

PROTOBUF = "application/vnd.kubernetes.protobuf"
YAML = "application/yaml"
CLUSTER = "/clusters/root"
CONFIG_MAPS = f"{CLUSTER}/api/v1/namespaces/default/configmaps"
WIDGETS = f"{CLUSTER}/apis/example.com/v1/namespaces/default/widgets"
METADATA = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
STREAMS = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
ROUTED = f"406: Not Acceptable\n\nAvailable representations: {ACCEPTED}"


def content(response: httpx.Response) -> Any:
    """What an answer says, in the media type that it names."""
    match response.headers["content-type"].partition(";")[0]:
        case "application/json":
            return orjson.loads(response.content)
        case "application/yaml":
            return yaml.safe_load(response.content)
        case "application/vnd.kubernetes.protobuf":
            return message(response.content)
        case other:
            raise AssertionError(other)


def message(body: bytes) -> dict[str, Any]:
    """A message out of its envelope."""
    envelope = decode_envelope(body)
    versioned = {"apiVersion": envelope.api_version} if envelope.api_version else {}
    name = message_of()[envelope.api_version or "v1", envelope.kind]
    return {"kind": envelope.kind, **versioned, **decode(name, envelope.raw)}


def said(value: Any) -> Any:
    """A value without what says nothing: JSON leaves out, or writes as null, what protobuf has no word for.

    Nor has it one for the field by which kcp distinguishes clusters; the annotation has the same value.
    """
    if isinstance(value, dict):
        cleaned = {key: said(item) for key, item in value.items() if key != "clusterName"}
        return {key: item for key, item in cleaned.items() if item not in (None, "", 0, {}, [])}
    if isinstance(value, list):
        return [said(item) for item in value]
    return value


async def widgets(api: Api) -> None:
    await api.ok("POST", f"{CLUSTER}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", make_crd(**SCALE))
    await established(api, "root")


SCALE: dict[str, Any] = {
    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
}


@pytest.mark.parametrize("accept", [YAML, PROTOBUF])
async def test_verbs(api: Api, accept: str) -> None:
    """Create, get, update, patch, list and delete answer in the accepted media type, with the content of the JSON answer."""
    headers = {"Accept": accept}
    created = await api("POST", CONFIG_MAPS, config_map("a", {"k": "v"}, labels={"l": "1"}), headers=headers)
    assert (created.status_code, created.headers["content-type"]) == (201, accept)
    assert said(content(created)) == said(await api.ok("GET", f"{CONFIG_MAPS}/a"))
    got = await api("GET", f"{CONFIG_MAPS}/a", headers=headers)
    assert said(content(got)) == said(await api.ok("GET", f"{CONFIG_MAPS}/a"))
    updated = await api("PUT", f"{CONFIG_MAPS}/a", config_map("a", {"k": "w"}), headers=headers)
    assert content(updated)["data"] == {"k": "w"}
    merge = {**headers, "Content-Type": "application/merge-patch+json"}
    patched = await api("PATCH", f"{CONFIG_MAPS}/a", content=b'{"data":{"k":"x"}}', headers=merge)
    assert content(patched)["data"] == {"k": "x"}
    apply = {**headers, "Content-Type": "application/apply-patch+yaml"}
    applied = await api("PATCH", f"{CONFIG_MAPS}/a?fieldManager=m", content=orjson.dumps(config_map("a", {"m": "y"})), headers=apply)
    assert content(applied)["data"] == {"k": "x", "m": "y"}
    listed = await api("GET", CONFIG_MAPS, headers=headers)
    assert said(content(listed)) == said(await api.ok("GET", CONFIG_MAPS))
    deleted = await api("DELETE", f"{CONFIG_MAPS}/a", headers=headers)
    assert (content(deleted)["kind"], content(deleted)["status"]) == ("Status", "Success")
    missing = await api("GET", f"{CONFIG_MAPS}/a", headers=headers)
    assert (missing.status_code, missing.headers["content-type"], content(missing)["reason"]) == (404, accept, "NotFound")
    assert content(missing)["details"] == {"name": "a", "kind": "configmaps"} or accept == PROTOBUF


@pytest.mark.parametrize("accept", ["application/json", "application/json;pretty=1", YAML, PROTOBUF])
async def test_lists(api: Api, accept: str) -> None:
    """Pages, selections, all clusters and deleted collections are lists like any other."""
    headers = {"Accept": accept}
    for name in ("a", "b", "c"):
        await api.ok("POST", CONFIG_MAPS, config_map(name, {"text": "one\ntwo\n"}, labels={"name": name}))
        await api.ok("POST", CONFIG_MAPS.replace("root", "other"), config_map(name))
    page = content(await api("GET", CONFIG_MAPS, headers=headers, params={"limit": "2"}))
    assert [item["metadata"]["name"] for item in page["items"]] == ["a", "b"]
    assert page["metadata"]["remainingItemCount"] == 1
    rest = content(await api("GET", CONFIG_MAPS, headers=headers, params={"limit": "2", "continue": page["metadata"]["continue"]}))
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]
    assert rest["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]
    for query in ({"labelSelector": "name in (b,c)"}, {"labelSelector": "name=none"}, {"fieldSelector": "metadata.name=a"}):
        found = await api("GET", CONFIG_MAPS, headers=headers, params=query)
        assert said(content(found)) == said(await api.ok("GET", CONFIG_MAPS, params=query))
    wildcard = content(await api("GET", "/clusters/*/api/v1/configmaps", headers=headers))
    assert said(wildcard) == said(await api.ok("GET", "/clusters/*/api/v1/configmaps"))
    deleted = content(await api("DELETE", CONFIG_MAPS, headers=headers))
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["a", "b", "c"]
    assert deleted["kind"] == "ConfigMapList"


@pytest.mark.parametrize("accept", ["application/json", YAML])
async def test_tables(api: Api, accept: str) -> None:
    """A table is JSON or YAML, for lists, objects, and written or deleted objects."""
    headers = {"Accept": f"{accept};as=Table;g=meta.k8s.io;v=v1"}
    created = await api("POST", CONFIG_MAPS, config_map("a", {"k": "v"}), headers=headers)
    assert (created.status_code, created.headers["content-type"]) == (201, accept)
    assert content(created)["rows"][0]["cells"][:2] == ["a", 1]
    for answer in (await api("GET", f"{CONFIG_MAPS}/a", headers=headers), await api("GET", CONFIG_MAPS, headers=headers)):
        table = content(answer)
        assert (table["kind"], table["apiVersion"], len(table["rows"])) == ("Table", "meta.k8s.io/v1", 1)
        assert table["columnDefinitions"][0]["name"] == "Name"
    deleted = content(await api("DELETE", CONFIG_MAPS, headers=headers))
    assert (deleted["kind"], [row["cells"][0] for row in deleted["rows"]]) == ("Table", ["a"])


@pytest.mark.parametrize("media", ["application/json", YAML, PROTOBUF])
async def test_metadata(api: Api, media: str) -> None:
    """The metadata alone of any kind comes in every media type, protobuf of custom resources included."""
    await widgets(api)
    await api.ok("POST", CONFIG_MAPS, config_map("a", {"k": "v"}))
    await api.ok("POST", WIDGETS, instance("a"))
    for path in (CONFIG_MAPS, WIDGETS):
        one = await api("GET", f"{path}/a", headers={"Accept": f"{media};{METADATA}"})
        assert one.headers["content-type"] == media
        assert (content(one)["kind"], content(one)["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
        assert said(content(one)["metadata"]) == said((await api.ok("GET", f"{path}/a"))["metadata"])
        several = content(await api("GET", path, headers={"Accept": f"{media};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}))
        assert (several["kind"], [item["metadata"]["name"] for item in several["items"]]) == ("PartialObjectMetadataList", ["a"])
        of_list = await api("GET", path, headers={"Accept": f"{media};{METADATA}"})
        assert of_list.status_code == 406
        kind = "*core.ConfigMapList" if path is CONFIG_MAPS else "*unstructured.UnstructuredList"
        assert content(of_list)["message"] == f"you requested PartialObjectMetadata, but the requested object is a list ({kind})"


async def test_custom_resources_have_no_protobuf(api: Api) -> None:
    """Clients that would take JSON get it, all others 406, in protobuf."""
    await widgets(api)
    created = await api("POST", WIDGETS, instance("a", spec={"replicas": 2}), headers={"Accept": f"{PROTOBUF},application/json"})
    assert (created.status_code, created.headers["content-type"]) == (201, "application/json")
    for path in (f"{WIDGETS}/a", WIDGETS, f"{WIDGETS}/a/status", f"{WIDGETS}/a/scale", f"{WIDGETS}?watch=1"):
        refused = await api("GET", path, headers={"Accept": PROTOBUF})
        assert (refused.status_code, refused.headers["content-type"]) == (406, PROTOBUF)
        assert content(refused)["message"] == f"only the following media types are accepted: {ACCEPTED}"
    scale = await api("GET", f"{WIDGETS}/a/scale", headers={"Accept": YAML})
    assert (content(scale)["kind"], content(scale)["spec"]) == ("Scale", {"replicas": 2})
    alone = await api("GET", f"{WIDGETS}/a/scale", headers={"Accept": f"{PROTOBUF};{METADATA}"})
    assert content(alone)["metadata"]["name"] == "a"


async def test_known_kinds_in_protobuf(api: Api) -> None:
    """A kind that a cluster serves by a CRD of Kubernetes' own is sent and answered in protobuf, its Scale too."""
    (crd,) = crds_named(["deployments"])
    await install(api, crd)
    path = "/clusters/a/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = encode_object({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d"}, "spec": spec})
    both = {"Accept": PROTOBUF, "Content-Type": PROTOBUF}
    created = await api("POST", path, content=body, headers=both)
    assert (created.status_code, created.headers["content-type"]) == (201, PROTOBUF)
    assert said(content(created)) == said(await api.ok("GET", f"{path}/d"))
    assert content(await api("GET", path, headers=both))["kind"] == "DeploymentList"
    scale = content(await api("GET", f"{path}/d/scale", headers=both))
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 1})
    scale["spec"]["replicas"] = 3
    scaled = await api("PUT", f"{path}/d/scale", content=encode_object(scale), headers=both)
    assert (scaled.status_code, content(scaled)["spec"]) == (200, {"replicas": 3})
    async with Frames(api, path, {"Accept": PROTOBUF}) as watch:
        kind, obj = await watch.frame()
        assert (kind, obj["kind"], obj["spec"]["replicas"]) == ("ADDED", "Deployment", 3)


async def test_patches_of_other_types(api: Api) -> None:
    """415 in the words of the router of built-in kinds, and of the handler of custom resources."""
    await widgets(api)
    await api.ok("POST", WIDGETS, instance("a"))
    refused = await api.fails(415, "PATCH", f"{CONFIG_MAPS}/a", content=b"{}", headers={"Content-Type": YAML})
    assert (refused["message"], refused["details"]) == ("415: Unsupported Media Type", {})
    refused = await api.fails(415, "PATCH", f"{WIDGETS}/a", content=b"{}", headers={"Content-Type": YAML})
    types = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    assert refused["message"] == f"the body of the request was in an unknown format - accepted media types include: {types}"


async def test_status_in_protobuf(api: Api) -> None:
    """Subresources of built-in kinds answer like the kinds themselves."""
    path = f"{CLUSTER}/api/v1/namespaces/default/status"
    assert said(content(await api("GET", path, headers={"Accept": PROTOBUF}))) == said(await api.ok("GET", path))


@pytest.mark.parametrize(
    ("path", "accept", "text"),
    [
        pytest.param(CONFIG_MAPS, "text/html", f"{ROUTED}, {STREAMS}", id="list"),
        pytest.param(f"{CONFIG_MAPS}?watch=1", "text/html", f"{ROUTED}, {STREAMS}", id="watch"),
        pytest.param(f"{CONFIG_MAPS}/a", "text/html", ROUTED, id="object"),
        pytest.param(f"{CONFIG_MAPS}/a", "application/*", ROUTED, id="half a wildcard"),
        pytest.param(
            f"{CONFIG_MAPS}?watch=1",
            f"{YAML}, application/json",
            f"only the following media types are accepted: {STREAMS}",
            id="YAML watch",
        ),
        pytest.param(f"{CLUSTER}/apis", "text/html", f"only the following media types are accepted: {ACCEPTED}", id="discovery"),
    ],
)
async def test_not_acceptable(api: Api, path: str, accept: str, text: str) -> None:
    """406 with upstream's words, in an acceptable media type, else in indented JSON."""
    refused = await api("GET", path, headers={"Accept": accept})
    assert refused.status_code == 406
    assert (content(refused)["reason"], content(refused)["message"]) == ("NotAcceptable", text)
    if accept == "text/html":
        assert refused.content.startswith(b'{\n  "kind": "Status"')
    elif YAML in accept:
        assert refused.headers["content-type"] == YAML


@pytest.mark.parametrize("accept", [YAML, PROTOBUF])
@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/coordination.k8s.io", "/api/v1", "/apis/coordination.k8s.io/v1"])
async def test_discovery(api: Api, path: str, accept: str) -> None:
    """The documents of discovery come in every media type, those of the core group without a version."""
    answer = await api("GET", CLUSTER + path, headers={"Accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, accept)
    assert said(content(answer)) == said(await api.ok("GET", CLUSTER + path))


@pytest.mark.parametrize("media", ["application/json", YAML, PROTOBUF])
async def test_aggregated_discovery(api: Api, media: str) -> None:
    """The aggregated form too, with one entity tag."""
    aggregated = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    plain = await api("GET", f"{CLUSTER}/apis", headers={"Accept": f"application/json{aggregated}"})
    answer = await api("GET", f"{CLUSTER}/apis", headers={"Accept": media + aggregated})
    assert answer.headers["content-type"] == media + aggregated
    assert (answer.headers["etag"], answer.headers["vary"]) == (plain.headers["etag"], "Accept")
    assert said(content(answer)) == said(content(plain))
    known = {"Accept": media + aggregated, "If-None-Match": answer.headers["etag"]}
    unchanged = await api("GET", f"{CLUSTER}/apis", headers=known)
    assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", answer.headers["etag"])
    assert "content-type" not in unchanged.headers


@pytest.mark.parametrize("accept", [YAML, PROTOBUF, "application/json;pretty=1", "application/json;as=Table;g=meta.k8s.io;v=v1"])
async def test_large_lists_take_turns(api: Api, accept: str) -> None:
    """While a large list is written, others get their turns."""
    body = orjson.dumps(config_map("a", {f"k{number}": "v" * 40 for number in range(20)}))
    storage = api.control_plane.backend.access.storage
    await api.ok("POST", CONFIG_MAPS, content=body, headers={"Content-Type": "application/json"})
    key = "/registry/core/configmaps/root/default/a"
    stored = await storage.get(key)
    assert stored is not None
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    for start in range(0, 2000, 500):
        await storage.transact([], [Put(f"{key}{number}", stored.value) for number in range(start, start + 500)])
    counting = asyncio.create_task(count())
    listed = await api("GET", CONFIG_MAPS, headers={"Accept": accept})
    counting.cancel()
    assert listed.status_code == 200
    assert turns > 5, turns


async def test_compression(api: Api) -> None:
    """Large answers are compressed for those who ask, in every media type and for every verb; streams are not."""
    large = config_map("a", {"k": "v" * 200_000})
    for accept in ("application/json", YAML, PROTOBUF):
        headers = {"Accept": accept, "Accept-Encoding": "gzip"}
        made = await api("POST", CONFIG_MAPS, large, headers=headers)
        assert (made.headers["content-encoding"], made.headers["vary"]) == ("gzip", "Accept-Encoding")
        assert content(made)["data"] == large["data"]
        listed = await api("GET", CONFIG_MAPS, headers=headers)
        assert listed.headers["content-encoding"] == "gzip"
        plain = await api("GET", CONFIG_MAPS, headers={"Accept": accept, "Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.content == listed.content
        await api.ok("DELETE", f"{CONFIG_MAPS}/a")


async def test_head(api: Api) -> None:
    """Built-in kinds have no routes for HEAD; of custom resources it is a GET without a body."""
    await widgets(api)
    assert (await api("HEAD", CONFIG_MAPS)).status_code == 405
    answer = await api("HEAD", WIDGETS)
    assert (answer.status_code, answer.content) == (200, b"")


class Frames(Watch):
    """A watch in protobuf."""

    async def frame(self) -> tuple[str, dict[str, Any]]:
        """Type and object of the next event."""
        while len(self._buffer) < 4 or len(self._buffer) < 4 + int.from_bytes(self._buffer[:4], "big"):
            received = await asyncio.wait_for(self._messages.get(), 60)
            assert received.get("more_body"), "the stream has ended"
            self._buffer += received.get("body", b"")
        end = 4 + int.from_bytes(self._buffer[:4], "big")
        frame, self._buffer = self._buffer[4:end], self._buffer[end:]
        kind, rest = delimited(frame)
        extension, nothing = delimited(rest)
        assert not nothing
        return kind.decode(), message(delimited(extension)[0])


def delimited(body: bytes) -> tuple[bytes, bytes]:
    """The first field of a message, which has a length, and what follows it."""
    size, at, shift = 0, 1, 0
    while True:
        size |= (body[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if body[at - 1] < 128:
            return body[at : at + size], body[at + size :]


INITIAL = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


@pytest.mark.parametrize("transform", ["", f";{METADATA}"])
async def test_watch_in_protobuf(api: Api, transform: str) -> None:
    """Initial events, bookmarks, changes and errors in protobuf say what the same watch says in JSON."""
    await api.ok("POST", CONFIG_MAPS, config_map("a", {"k": "v"}))
    json_form = {"Accept": f"application/json{transform}"}
    async with (
        Frames(api, CONFIG_MAPS, {"Accept": PROTOBUF + transform}, **INITIAL) as watch,
        Watch(api, CONFIG_MAPS, json_form, **INITIAL) as other,
    ):
        assert dict(watch.started["headers"])[b"content-type"] == b"application/vnd.kubernetes.protobuf;stream=watch"
        for change in (None, None, "POST", "PUT", "DELETE"):
            match change:
                case "POST":
                    await api.ok("POST", CONFIG_MAPS, config_map("b", {"k": "1"}))
                case "PUT":
                    await api.ok("PUT", f"{CONFIG_MAPS}/b", config_map("b", {"k": "2"}))
                case "DELETE":
                    await api.ok("DELETE", f"{CONFIG_MAPS}/b")
            kind, obj = await watch.frame()
            event = await other.next()
            assert event is not None
            assert (kind, said(obj)) == (event["type"], said(event["object"]))
    younger = CONFIG_MAPS.replace("root", "younger")
    await api.ok("POST", younger, config_map("a"))
    async with Frames(api, younger, {"Accept": PROTOBUF + transform}, resourceVersion="1") as watch:
        kind, obj = await watch.frame()
        assert (kind, obj["kind"], obj["reason"]) == ("ERROR", "Status", "Expired")


async def test_metadata_watch_of_custom_resources(api: Api) -> None:
    """Metadata informers watch custom resources in protobuf."""
    await widgets(api)
    accept = {"Accept": f"{PROTOBUF};{METADATA},application/json;{METADATA},application/json"}
    async with Frames(api, "/clusters/*/apis/example.com/v1/widgets", accept, **INITIAL) as watch:
        kind, obj = await watch.frame()
        assert (kind, obj["kind"]) == ("BOOKMARK", "PartialObjectMetadata")
        await api.ok("POST", WIDGETS, instance("a"))
        kind, obj = await watch.frame()
        assert (kind, obj["kind"], obj["metadata"]["name"]) == ("ADDED", "PartialObjectMetadata", "a")
        assert obj["metadata"]["annotations"] == {"kcp.io/cluster": "root"}


async def test_forms_are_not_mixed(api: Api) -> None:
    """Watchers of one event in different forms share nothing but the event."""
    forms = {
        "plain": {"Accept": "application/json"},
        "metadata": {"Accept": f"application/json;{METADATA}"},
        "table": {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"},
    }
    async with (
        Watch(api, CONFIG_MAPS, forms["plain"]) as plain,
        Watch(api, CONFIG_MAPS, forms["metadata"]) as metadata,
        Watch(api, CONFIG_MAPS, forms["table"]) as table,
        Watch(api, "/clusters/*/api/v1/configmaps", forms["plain"]) as wildcard,
        Frames(api, CONFIG_MAPS, {"Accept": PROTOBUF}) as protobuf,
        Frames(api, CONFIG_MAPS, {"Accept": f"{PROTOBUF};{METADATA}"}) as protobuf_metadata,
    ):
        await api.ok("POST", CONFIG_MAPS, config_map("a", {"k": "v"}))
        kinds = [(await watch.next() or {})["object"] for watch in (plain, metadata, table, wildcard)]
        assert [obj["kind"] for obj in kinds] == ["ConfigMap", "PartialObjectMetadata", "Table", "ConfigMap"]
        assert ["clusterName" in obj["metadata"] for obj in kinds] == [False, False, False, True]
        assert (await protobuf.frame())[1]["kind"] == "ConfigMap"
        assert (await protobuf_metadata.frame())[1]["kind"] == "PartialObjectMetadata"
