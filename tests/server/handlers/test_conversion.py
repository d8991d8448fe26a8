"""Objects of which a webhook converts between versions, as clients see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from kcp_py.controlplane import ControlPlane
from tests.egress.https import Certificate, HttpsServer, Request, http, issue
from tests.server.handlers.conftest import Api, Watch, options
from tests.server.handlers.converting import Change, conversion, converting, sent, webhook
from tests.server.handlers.widgets import CRD, MERGE, install

pytestmark = pytest.mark.anyio

KEY = "/registry/example.com/widgets/customresources/a/default/"
V1 = "/clusters/a/apis/example.com/v1/namespaces/default/widgets"
BETA = V1.replace("/v1/", "/v1beta1/")
V2 = V1.replace("/v1/", "/v2/")
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": {"replicas": 42}}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return issue(tmp_path_factory.mktemp("pki"), "127.0.0.1")


@pytest.fixture
async def hook(certificate: Certificate) -> AsyncIterator[HttpsServer]:
    """A webhook that converts well until a test has it do otherwise."""
    async with HttpsServer(certificate, webhook()) as server:
        yield server


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The administrator of a control plane that may call webhooks of this machine."""
    async with AsyncExitStack() as stack:
        control_plane = await stack.enter_async_context(ControlPlane(options(tmp_path, webhook_networks=("127.0.0.0/8",))))
        client = await stack.enter_async_context(
            httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test")
        )
        yield Api(client, control_plane)


def widget(name: str, version: str = "v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": name}, **more}


async def stored(api: Api, name: str) -> dict[str, Any]:
    item = await api.control_plane.backend.access.storage.get(f"{KEY}{name}")
    assert item is not None
    obj: dict[str, Any] = orjson.loads(item.value)
    return obj


async def test_an_object_is_one_in_every_version(api: Api, hook: HttpsServer) -> None:
    """Created in any, read in all, stored in one, and the webhook is asked only where versions differ."""
    await install(api, converting(hook))
    one = await api.ok("POST", V1, widget("one", content={"key": "k"}, defaults={}))
    assert hook.requests == []
    two = await api.ok("POST", V2, widget("two", "v2", contentV2={"key": "k"}, unknown=1, defaults={}))
    assert two["contentV2"] == {"key": "k"}
    assert two["defaults"] == {"v1": True, "v2": True}
    assert (await stored(api, "two"))["apiVersion"] == "example.com/v1"
    assert (await stored(api, "two"))["content"] == {"key": "k"}
    assert "unknown" not in await stored(api, "two")
    for name, created in (("one", one), ("two", two)):
        v1, v2 = await api.ok("GET", f"{V1}/{name}"), await api.ok("GET", f"{V2}/{name}")
        assert (v1["apiVersion"], v2["apiVersion"]) == ("example.com/v1", "example.com/v2")
        assert v1["metadata"] == v2["metadata"] == created["metadata"]
        assert v1["content"] == v2["contentV2"] == {"key": "k"}
        assert "contentV2" not in v1
        assert "content" not in v2


async def test_what_a_webhook_is_asked(api: Api, hook: HttpsServer) -> None:
    """A review as upstream writes it, of the stored object, in the first version that both know."""
    await install(api, converting(hook, reviews=("v9", "v1beta1", "v1")))
    await api.ok("POST", V1, widget("one", content={"key": "k"}))
    await api.ok("GET", f"{V2}/one")
    (request,) = hook.requests
    assert request.target == "/convert?timeout=30s"
    review = request.json()
    assert (review["apiVersion"], review["kind"]) == ("apiextensions.k8s.io/v1beta1", "ConversionReview")
    assert review["request"]["desiredAPIVersion"] == "example.com/v2"
    assert review["request"]["objects"] == [await stored(api, "one")]


async def test_updates_patches_and_status_in_another_version(api: Api, hook: HttpsServer) -> None:
    """Generation and no-op are told by what the client wrote, after conversion; locks and subresources are as ever."""
    await install(api, converting(hook))
    created = await api.ok("POST", V1, widget("one", content={"key": "k"}))
    same = await api.ok("PUT", f"{V2}/one", await api.ok("GET", f"{V2}/one"))
    assert same["metadata"] == created["metadata"]
    changed = await api.ok("PUT", f"{V2}/one", {**same, "contentV2": {"key": "l"}})
    assert changed["metadata"]["generation"] == 2
    await api.fails(409, "PUT", f"{V2}/one", {**same, "contentV2": {"key": "m"}})
    patched = await api.ok("PATCH", f"{V2}/one", {"contentV2": {"key": "n", "x": 1}}, headers=MERGE)
    assert (patched["contentV2"], patched["metadata"]["generation"]) == ({"key": "n"}, 3)
    reported = await api.ok("PATCH", f"{V2}/one/status", {"status": {"ready": 1}, "contentV2": {"key": "o"}}, headers=MERGE)
    assert (reported["status"], reported["contentV2"]) == ({"ready": 1}, {"key": "n"})
    assert reported["metadata"]["generation"] == 3
    assert (await api.ok("GET", f"{V1}/one"))["content"] == {"key": "n"}
    scaled = await api.ok("PUT", f"{V2}/one/scale", SCALE)
    assert scaled["spec"] == {"replicas": 42}
    assert (await stored(api, "one"))["spec"] == {"replicas": 42}
    assert (await api.ok("DELETE", f"{V2}/one"))["status"] == "Success"


async def test_how_often_a_webhook_is_asked(api: Api, hook: HttpsServer) -> None:
    """As often as upstream asks: for the old object, for the stored object, for the answer."""
    await install(api, converting(hook))
    created = await api.ok("POST", V2, widget("one", "v2", contentV2={"key": "k"}))
    assert sent(hook) == [1, 1]
    await api.ok("PUT", f"{V2}/one", {**created, "contentV2": {"key": "l"}})
    assert sent(hook) == [1, 1, 1]
    await api.ok("PATCH", f"{V2}/one", {"contentV2": {"key": "m"}}, headers=MERGE)
    assert sent(hook) == [1, 1, 1]
    await api.ok("PATCH", f"{V2}/one/status", {"status": {"ready": 1}}, headers=MERGE)
    assert sent(hook) == [1, 1, 1]
    await api.ok("GET", f"{V2}/one")
    assert sent(hook) == [1]
    await api.ok("GET", f"{V1}/one")
    await api.ok("PATCH", f"{V1}/one", {"content": {"key": "n"}}, headers=MERGE)
    # The old and the new object, in the version in which other managers own fields.
    assert sent(hook) == [1, 1]
    await api.ok("DELETE", f"{V2}/one")
    assert sent(hook) == [1, 1]


async def test_selection_in_the_words_of_a_version(api: Api, hook: HttpsServer) -> None:
    """Fields are those of the version asked for, in lists, watches and deletes of collections."""
    crd = converting(hook)
    for version, content in zip(crd["spec"]["versions"], ("content", "content", "contentV2"), strict=True):
        version["selectableFields"] = [{"jsonPath": f".{content}.key"}]
    await install(api, crd)
    for name in ("one", "two"):
        await api.ok("POST", V1, widget(name, content={"key": name}))
    for path, field in ((V1, "content.key"), (V2, "contentV2.key")):
        listed = await api.ok("GET", path, params={"fieldSelector": f"{field}=two"})
        assert [item["metadata"]["name"] for item in listed["items"]] == ["two"]
    status = await api.fails(400, "GET", V2, params={"fieldSelector": "content.key=two"})
    assert status["message"] == "field label not supported: content.key"
    async with Watch(api, V2, fieldSelector="contentV2.key=two") as watch:
        assert await watch.brief() == ("ADDED", "two")
        await api.ok("PATCH", f"{V1}/two", {"content": {"key": "three"}}, headers=MERGE)
        assert await watch.brief() == ("DELETED", "two")
    deleted = await api.ok("DELETE", V2, params={"fieldSelector": "contentV2.key=one"})
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["one"]


async def test_storage_versions_mix_until_objects_are_written_again(api: Api, hook: HttpsServer) -> None:
    """A list has them all in its version and has only those converted that need it; an empty patch rewrites, once."""
    crd = await install(api, converting(hook))
    for number in range(3):
        await api.ok("POST", V1, widget(f"old-{number}", content={"key": str(number)}))
    crd = await api.ok("GET", CRD)
    for version in crd["spec"]["versions"]:
        version["storage"] = version["name"] == "v2"
    crd = await api.ok("PUT", CRD, crd)
    assert crd["status"]["storedVersions"] == ["v1", "v2"]
    await api.ok("POST", V1, widget("new", content={"key": "new"}))
    assert (await stored(api, "new"))["apiVersion"] == "example.com/v2"
    for path, field, calls in ((V1, "content", [1]), (V2, "contentV2", [3]), (BETA, "content", [4])):
        sent(hook)
        items = (await api.ok("GET", path))["items"]
        assert [(item["metadata"]["name"], item[field]["key"]) for item in items] == [("new", "new")] + [
            (f"old-{number}", str(number)) for number in range(3)
        ]
        assert sent(hook) == calls
    before = await api.ok("GET", f"{V1}/old-0")
    after = await api.ok("PATCH", f"{V1}/old-0", {}, headers=MERGE)
    assert (await stored(api, "old-0"))["apiVersion"] == "example.com/v2"
    assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    again = await api.ok("PATCH", f"{V1}/old-0", {}, headers=MERGE)
    assert again["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]


def field(name: str, value: Any) -> Change:
    def change(asked: dict[str, Any], response: dict[str, Any]) -> None:
        del asked
        response[name] = value

    return change


def metadata(**changes: Any) -> Change:
    def change(asked: dict[str, Any], response: dict[str, Any]) -> None:
        del asked
        for obj in response["convertedObjects"]:
            obj["metadata"] = {**obj["metadata"], **changes}

    return change


def every(**changes: Any) -> Change:
    def change(asked: dict[str, Any], response: dict[str, Any]) -> None:
        del asked
        for obj in response["convertedObjects"]:
            obj.update(changes)

    return change


BAD_ANSWERS: dict[str, tuple[Change, str]] = {
    "wrong uid": (field("uid", "other"), ' failed: expected response.uid="'),
    "failure": (field("result", {"status": "Failure", "message": "custom words"}), " failed: custom words"),
    "no result": (field("result", None), " failed: response.result.status was '', not 'Success'"),
    "no objects": (field("convertedObjects", []), " returned 0 objects, expected 1"),
    "too many objects": (field("convertedObjects", [{}, {}]), " returned 2 objects, expected 1"),
    "objects that are none": (field("convertedObjects", [1]), " returned invalid object: json: cannot unmarshal number"),
    "wrong version": (every(apiVersion="example.com/v9"), " returned invalid object at index 0: invalid groupVersion (expected "),
    "wrong kind": (every(kind="Other"), " returned invalid object at index 0: invalid kind (expected Widget, received Other)"),
    "another name": (metadata(name="other"), " returned invalid object: must have the same name: one != other"),
    "another namespace": (metadata(namespace="x"), " returned invalid object: must have the same namespace: default != x"),
    "another uid": (metadata(uid="1"), " returned invalid object: must have the same UID: "),
    "bad labels": (metadata(labels={"a": "x y"}), ' returned invalid metadata: metadata.labels: Invalid value: "x y"'),
    "labels of numbers": (metadata(labels={"a": 1}), " returned invalid metadata: metadata.labels[a] must be a string, but is int64"),
    "no metadata": (every(metadata=None), " returned invalid object: must have the same name: one != "),
}


async def failing(api: Api, text: str) -> None:
    """Every verb fails in the version that is not stored, and works in the one that is."""
    current = await api.ok("GET", f"{V1}/one")
    for method, path, body, headers in (
        ("GET", f"{V2}/one", None, None),
        ("GET", V2, None, None),
        ("POST", V2, widget("one", "v2"), None),
        ("PUT", f"{V2}/one", {**current, "apiVersion": "example.com/v2"}, None),
        ("PATCH", f"{V2}/one", {"contentV2": {"key": "x"}}, MERGE),
        ("GET", f"{V2}/one/status", None, None),
        ("PUT", f"{V2}/one/status", {**current, "apiVersion": "example.com/v2"}, None),
        ("PATCH", f"{V2}/one/status", {"status": {"ready": 1}}, MERGE),
        ("GET", f"{V2}/one/scale", None, None),
        ("PUT", f"{V2}/one/scale", SCALE, None),
        ("PATCH", f"{V2}/one/scale", {"spec": {"replicas": 42}}, MERGE),
        ("DELETE", f"{V2}/one", None, None),
        ("DELETE", V2, None, None),
    ):
        if method == "POST" and " one " in text:
            continue
        status = await api.fails(500, method, path, body, headers=headers)
        assert status["reason"] == "InternalError", (method, path)
        assert status["message"].startswith("Internal error occurred: conversion webhook for example.com/v"), status["message"]
        assert text in status["message"], (method, path, status["message"])
    assert await api.ok("GET", f"{V1}/one") == current
    async with Watch(api, V2, resourceVersion="0") as watch:
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 500, "InternalError")
        assert text in event["object"]["message"]
        assert await watch.next() is None
    await api.ok("PATCH", f"{V1}/one", {"metadata": {"labels": {"seen": "yes"}}}, headers=MERGE)
    await api.ok("DELETE", f"{V1}/one")


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_bad_answers_fail_every_verb(api: Api, hook: HttpsServer, name: str) -> None:
    """With upstream's words, as an internal error, while the storage version goes on."""
    change, text = BAD_ANSWERS[name]
    await install(api, converting(hook))
    await api.ok("POST", V1, widget("one", content={"key": "k"}))
    hook.respond = webhook(change)
    await failing(api, text)


async def hang_up(request: Request) -> bytes:
    del request
    return b""


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (http(500, b"secret"), 'failed: an error on the server ("unknown") has prevented the request from succeeding'),
        (http(400), "failed: the server rejected our request for an unknown reason"),
        (http(307, b"", "Location: https://127.0.0.1/"), "failed: the server responded with the status code 307 but did not return"),
        (http(200), "failed: 0-length response with status code: 200"),
        (http(200, b"rubbish"), "failed: couldn't get version/kind; json parse error"),
        (http(200, b"{}"), "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind="),
        (http(200, b'"' + b"x" * 4_000_000 + b'"'), "http: response body too large"),
        (b"", ": EOF"),
    ],
    ids=["500", "400", "redirect", "empty", "rubbish", "other document", "too large", "hangs up"],
)
async def test_what_is_no_review_fails_every_verb(api: Api, hook: HttpsServer, answer: bytes, text: str) -> None:
    """As a bad answer does, and without a word of its content."""

    async def respond(request: Request) -> bytes:
        del request
        return answer

    await install(api, converting(hook))
    await api.ok("POST", V1, widget("one", content={"key": "k"}))
    hook.respond = respond
    await failing(api, text)


async def test_only_labels_and_annotations_may_be_changed(api: Api, hook: HttpsServer) -> None:
    """Everything else of the metadata stays, whatever the webhook says, and the cluster is not for it to say."""
    hook.respond = webhook(
        metadata(
            labels={"l": "1"},
            annotations={"a": "1", "kcp.io/cluster": "other"},
            generation=77,
            finalizers=["x.example.com/y"],
            ownerReferences=[{"a": "b"}],
            resourceVersion="1",
            deletionTimestamp="2020-01-01T00:00:00Z",
            garbage=1,
        )
    )
    await install(api, converting(hook))
    created = await api.ok("POST", V1, widget("one", content={"key": "k"}))
    expected = {**created["metadata"], "labels": {"l": "1"}, "annotations": {"kcp.io/cluster": "a", "a": "1"}}
    assert (await api.ok("GET", f"{V2}/one"))["metadata"] == expected
    assert (await api.ok("GET", V2))["items"][0]["metadata"] == expected
    two = await api.ok("POST", V2, widget("two", "v2"))
    assert two["metadata"]["generation"] == 1
    assert (await stored(api, "two"))["metadata"]["annotations"] == {"a": "1"}


async def test_what_a_webhook_adds_is_pruned(api: Api, hook: HttpsServer) -> None:
    """In the version that it converts to, also where the schemas of both are equal."""
    crd = converting(hook)
    for version in crd["spec"]["versions"]:
        version["schema"] = crd["spec"]["versions"][0]["schema"]
    hook.respond = webhook(every(unknown=1, numbers={"first": 1, "third": 3}))
    await install(api, crd)
    await api.ok("POST", V1, widget("one"))
    for path in (f"{V2}/one", f"{BETA}/one"):
        got = await api.ok("GET", path)
        assert got["numbers"] == {"first": 1}
        assert "unknown" not in got
    await api.ok("POST", V2, widget("two", "v2"))
    assert (await stored(api, "two"))["numbers"] == {"first": 1}


async def test_a_changed_webhook_is_asked_at_once(api: Api, hook: HttpsServer, certificate: Certificate) -> None:
    """A request after the change does not meet the old one, and without webhook the version alone changes."""
    await install(api, converting(hook))
    await api.ok("POST", V1, widget("one", content={"key": "k"}))
    assert "contentV2" in await api.ok("GET", f"{V2}/one")
    async with HttpsServer(certificate, webhook(every(numbers={"first": 9}))) as other:
        await api.ok("PATCH", CRD, {"spec": {"conversion": conversion(other)}}, headers=MERGE)
        assert (await api.ok("GET", f"{V2}/one"))["numbers"] == {"first": 9}
    await api.ok("PATCH", CRD, {"spec": {"conversion": {"strategy": "None", "webhook": None}}}, headers=MERGE)
    assert {"contentV2", "numbers"} & (await api.ok("GET", f"{V2}/one")).keys() == set()


async def test_tables_metadata_and_collections(api: Api, hook: HttpsServer) -> None:
    """All are of the version that is asked for, one call for each page."""
    crd = converting(hook)
    crd["spec"]["versions"][2]["additionalPrinterColumns"] = [{"name": "Key", "type": "string", "jsonPath": ".contentV2.key"}]
    await install(api, crd)
    for number in range(5):
        await api.ok("POST", V1, widget(f"w{number}", content={"key": str(number)}))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = await api.ok("GET", V2, headers={"Accept": accept})
    assert [row["cells"] for row in table["rows"]] == [[f"w{number}", str(number)] for number in range(5)]
    assert sent(hook) == [5]
    partial = await api.ok("GET", V2, headers={"Accept": accept.replace("Table", "PartialObjectMetadataList")})
    assert len(partial["items"]) == 5
    assert sent(hook) == [5]
    pages, token = [], ""
    while True:
        page = await api.ok("GET", V2, params={"limit": "2", "continue": token})
        pages.append(len(page["items"]))
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert (pages, sent(hook)) == ([2, 2, 1], [2, 2, 1])
    chosen = await api.ok("GET", V2, params={"fieldSelector": "metadata.name!=w0"})
    assert [item["contentV2"]["key"] for item in chosen["items"]] == ["1", "2", "3", "4"]
    assert sent(hook) == [5]
    deleted = await api.ok("DELETE", V2)
    assert [item["contentV2"]["key"] for item in deleted["items"]] == ["0", "1", "2", "3", "4"]
    assert (await api.ok("GET", V1))["items"] == []


async def test_watches_in_another_version(api: Api, hook: HttpsServer) -> None:
    """Every event is converted, the end of an object too."""
    await install(api, converting(hook))
    await api.ok("POST", V1, widget("one", content={"key": "k"}))
    async with Watch(api, V2, resourceVersion="0") as watch:
        for kind, key in (("ADDED", "k"), ("MODIFIED", "l"), ("DELETED", "l")):
            event = await watch.next()
            assert event is not None
            assert (event["type"], event["object"]["apiVersion"], event["object"]["contentV2"]["key"]) == (kind, "example.com/v2", key)
            if kind == "ADDED":
                await api.ok("PATCH", f"{V1}/one", {"content": {"key": "l"}}, headers=MERGE)
            elif kind == "MODIFIED":
                await api.ok("DELETE", f"{V1}/one")


async def test_watchers_share_the_conversion_of_an_event(api: Api, hook: HttpsServer) -> None:
    """However many there are, the webhook is asked once."""
    await install(api, converting(hook))
    async with AsyncExitStack() as stack:
        watches = [await stack.enter_async_context(Watch(api, V2)) for _ in range(5)]
        for watch in watches:
            assert watch.started["status"] == 200
        hub = api.control_plane.backend.fanout._hubs
        while len(getattr(hub.get("/registry/example.com/widgets/customresources/"), "by_cluster", {}).get("a", ())) < 5:
            await asyncio.sleep(0)
        sent(hook)
        await api.ok("POST", V1, widget("one", content={"key": "k"}))
        for watch in watches:
            event = await watch.next()
            assert event is not None
            assert event["object"]["contentV2"] == {"key": "k"}
        assert sent(hook) == [1]


async def test_each_cluster_has_its_own_webhook(api: Api, hook: HttpsServer, certificate: Certificate) -> None:
    """A list of all clusters asks each one for its own objects."""
    wildcard = "/clusters/*/apis/example.com/v2/widgets"
    async with HttpsServer(certificate, webhook(every(numbers={"first": 2}))) as other:
        for cluster, server in (("a", hook), ("b", other)):
            await install(api, converting(server), cluster)
            for name in ("one", "two"):
                await api.ok("POST", V1.replace("/a/", f"/{cluster}/"), widget(name, content={"key": cluster}))
        listed = await api.ok("GET", wildcard)
        found = [(item["metadata"]["annotations"]["kcp.io/cluster"], item["contentV2"]["key"]) for item in listed["items"]]
        assert found == [("a", "a"), ("a", "a"), ("b", "b"), ("b", "b")]
        assert [item.get("numbers") for item in listed["items"]] == [None, None, {"first": 2}, {"first": 2}]
        assert (sent(hook), sent(other)) == ([2], [2])
        accept = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
        partial = await api.ok("GET", wildcard, headers=accept)
        assert [item["metadata"]["name"] for item in partial["items"]] == ["one", "two"] * 2
        async with Watch(api, wildcard, {"Accept": accept["Accept"].replace("List", "")}, resourceVersion="0") as watch:
            assert [await watch.brief() for _ in range(4)] == [("ADDED", "one"), ("ADDED", "two")] * 2
            await api.ok("DELETE", f"{V1}/one")
            assert await watch.brief() == ("DELETED", "one")
        assert (sent(hook), sent(other)) == ([], [])
        other.respond = webhook(field("result", {"message": "x" * 100_000}))
        answer = await api("GET", wildcard)
        assert [item["metadata"]["annotations"]["kcp.io/cluster"] for item in answer.json()["items"]] == ["a"]
        assert len(answer.headers["Warning"]) < 1_000
        assert len((await api.ok("GET", wildcard, headers=accept))["items"]) == 3


async def test_a_webhook_that_fails_hides_nothing_that_it_need_not_convert(api: Api, hook: HttpsServer) -> None:
    """Over all clusters, lists and watches in the stored version have every object, after a list in another one has failed."""
    await install(api, converting(hook))
    await api.ok("POST", V1, widget("one", content={"key": "k"}, metadata={"name": "one", "labels": {"x": "y"}}))
    hook.respond = webhook(field("result", {"message": "broken"}))
    wildcard = "/clusters/*/apis/example.com/{}/widgets"
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    assert (await api.ok("GET", wildcard.format("v2")))["items"] == []
    assert len((await api.ok("GET", wildcard.format("v1"), headers=table))["rows"]) == 1
    selector = {"labelSelector": "x=y"}
    assert [item["metadata"]["name"] for item in (await api.ok("GET", wildcard.format("v1"), params=selector))["items"]] == ["one"]
    async with Watch(api, wildcard.format("v1"), None, **selector) as watch:
        assert await watch.brief() == ("ADDED", "one")


async def test_a_webhook_that_hangs_keeps_no_large_requests_waiting(tmp_path: Path, certificate: Certificate) -> None:
    """While one object waits for its webhook, another large one is created, though there is room to work on only one at a time."""
    asked, answer = asyncio.Event(), asyncio.Event()
    convert = webhook()

    async def respond(request: Request) -> bytes:
        asked.set()
        await answer.wait()
        return await convert(request)

    given = options(tmp_path, webhook_networks=("127.0.0.0/8",), max_body_bytes_in_flight=1024 * 1024)
    async with (
        HttpsServer(certificate, respond) as server,
        ControlPlane(given) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api = Api(client, control_plane)
        await install(api, converting(server))
        large = {"key": "k" * 300_000}
        waiting = asyncio.create_task(api.ok("POST", V2, widget("one", "v2", contentV2=large)))
        await asked.wait()
        await api.ok("POST", V1, widget("two", content=large))
        assert not waiting.done()
        answer.set()
        assert (await waiting)["contentV2"] == large


async def test_webhooks_of_the_operators_networks_are_not_called(tmp_path: Path, hook: HttpsServer) -> None:
    """Unless the operator says so."""
    async with ControlPlane(options(tmp_path)) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            await install(api, converting(hook))
            await api.ok("POST", V1, widget("one", content={"key": "k"}))
            await failing(api, "127.0.0.1 is in no network that webhooks may reach")
    assert hook.connections == 0


async def test_services_that_nobody_resolves_are_not_found(api: Api) -> None:
    """With the URL that upstream shows."""
    crd = converting(None)
    client = {"service": {"namespace": "team", "name": "convert", "path": "/x"}}
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    await install(api, crd)
    await api.ok("POST", V1, widget("one", content={"key": "k"}))
    await failing(api, 'failed: Post "https://convert.team.svc:443/x?timeout=30s": service "convert" not found')
