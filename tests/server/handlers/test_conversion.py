"""Objects of which a webhook converts between versions, as clients see them."""

from __future__ import annotations

import pytest

from tests.egress.https import HttpsServer
from tests.server.handlers.conftest import Api, Watch
from tests.server.handlers.convertedwidgets import (
    BETA,
    SCALE,
    V1,
    V2,
    api,
    certificate,
    hook,
    stored,
    widget,
)
from tests.server.handlers.converting import converting, sent
from tests.server.handlers.widgets import CRD, MERGE, install

__all__ = ["api", "certificate", "hook"]

pytestmark = pytest.mark.anyio


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
