"""Objects that are there without being stored, as informers see them: one revision everywhere, one end each, and none that is missed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from kcp_py.apis.upstream.crds import crds_named
from kcp_py.controlplane import ControlPlane
from kcp_py.storage.contract import Storage
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.sqlite import SQLiteStorage
from tests.server.handlers.conftest import Api, Watch, options
from tests.server.handlers.widgets import CRDS, MERGE, install

pytestmark = pytest.mark.anyio

Kinds = Literal["installed", "built in"]

IN_A = "/clusters/a/api/v1/namespaces/default/services"
PATH = f"{IN_A}/kubernetes"
EVERYWHERE = "/clusters/*/api/v1/services"
CRD = f"/clusters/a{CRDS}/services.core"
CLUSTER = "/clusters/a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
NOTHING: Mapping[str, str] = {}
SYNCED: Mapping[str, str] = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


@asynccontextmanager
async def server(root: Path, storage: Storage | None = None, kinds: Kinds = "installed") -> AsyncIterator[Api]:
    """A server with the kind in cluster `a`, or in every cluster."""
    more = {"builtin_kinds": ("services",)} if kinds == "built in" else {}
    async with ControlPlane(options(root, **more), storage=storage) as control_plane:
        transport = httpx.ASGITransport(app=control_plane.app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="https://test") as client:
            yield Api(client, control_plane)


@pytest.fixture(params=["installed", "built in"])
async def with_kind(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    """A server that serves Services in cluster `a`, which exists."""
    async with server(tmp_path, kinds=request.param) as api:
        await have_kind(api, request.param)
        yield api


async def have_kind(api: Api, kinds: Kinds) -> None:
    await api.ok("POST", "/clusters/a/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "first-"}})
    if kinds == "installed":
        await install(api, crds_named(["services"])[0], "a")


async def seen(watch: Watch, count: int) -> list[tuple[str, str, int]]:
    """(type, uid, resourceVersion) of the next events, each of which is of `kubernetes` in cluster `a`."""
    found: list[tuple[str, str, int]] = []
    while len(found) < count:
        event = await watch.next()
        assert event is not None
        assert event["type"] != "ERROR", event["object"]["message"]
        metadata = event["object"]["metadata"]
        if event["type"] != "BOOKMARK" and metadata["annotations"]["kcp.io/cluster"] == "a":
            found.append((event["type"], metadata["uid"], int(metadata["resourceVersion"])))
    return found


async def revisions(api: Api) -> set[str]:
    """The resourceVersions that all ways of reading give."""
    found = {(await api.ok("GET", PATH))["metadata"]["resourceVersion"]}
    for path, params in (
        (IN_A, {}),
        (IN_A, {"limit": "1"}),
        (IN_A, {"fieldSelector": "metadata.name=kubernetes"}),
        (IN_A, {"labelSelector": "component=apiserver"}),
        (EVERYWHERE, {}),
        (EVERYWHERE, {"labelSelector": "component=apiserver"}),
    ):
        listed = await api.ok("GET", path, params=params)
        found |= {one["metadata"]["resourceVersion"] for one in listed["items"] if one["metadata"]["annotations"]["kcp.io/cluster"] == "a"}
    for path in (IN_A, EVERYWHERE):
        for start in (NOTHING, SYNCED):
            async with Watch(api, path, None, **start) as watch:
                found.add(str((await seen(watch, 1))[0][2]))
    return found


@pytest.mark.parametrize("driver", ["memory", "sqlite"])
@pytest.mark.parametrize("kinds", ["installed", "built in"])
async def test_it_has_one_revision_everywhere(tmp_path: Path, driver: str, kinds: Kinds) -> None:
    """GET, lists, initial events and the ADDED of a running watch tell the same one, after a restart, too; an update with it succeeds."""
    storage = SQLiteStorage(tmp_path / "db") if driver == "sqlite" else MemoryStorage()
    async with server(tmp_path, storage, kinds) as api:
        if kinds == "installed":
            await install(api, crds_named(["services"])[0], "b")
        async with Watch(api, EVERYWHERE, resourceVersion=await latest(api)) as watch:
            await have_kind(api, kinds)
            ((kind, uid, watched),) = await seen(watch, 1)
        assert kind == "ADDED"
        assert await revisions(api) == {str(watched)}
        if driver == "memory":
            await update_with(api, uid, watched)
    if driver == "sqlite":
        async with server(tmp_path, SQLiteStorage(tmp_path / "db"), kinds) as api:
            assert await revisions(api) == {str(watched)}
            await update_with(api, uid, watched)


async def update_with(api: Api, uid: str, revision: int) -> None:
    """Replace the object as an informer does that has watched it."""
    obj = await api.ok("GET", PATH)
    obj["metadata"] |= {"uid": uid, "resourceVersion": str(revision), "labels": {"team": "x"}}
    await api.ok("PUT", PATH, obj)


async def latest(api: Api) -> str:
    """The revision of the last write that was acknowledged."""
    return str(await api.control_plane.backend.access.storage.revision())


async def test_a_write_of_its_definition_is_a_change_of_it(tmp_path: Path) -> None:
    """Watches, live and resumed, get it with the revision that reads give from then on, so that what they know can be updated."""
    async with server(tmp_path) as api:
        await have_kind(api, "installed")
        start = str((await api.ok("GET", EVERYWHERE))["metadata"]["resourceVersion"])
        async with Watch(api, EVERYWHERE, resourceVersion=start) as everywhere, Watch(api, IN_A, resourceVersion=start) as own:
            await api.ok("PATCH", CRD, {"metadata": {"labels": {"x": "y"}}}, headers=MERGE)
            events = [await seen(watch, 1) for watch in (everywhere, own)]
        async with Watch(api, EVERYWHERE, resourceVersion=start) as resumed:
            events.append(await seen(resumed, 1))
        obj = await api.ok("GET", PATH)
        assert events == [[("MODIFIED", obj["metadata"]["uid"], int(obj["metadata"]["resourceVersion"]))]] * 3
        assert await revisions(api) == {obj["metadata"]["resourceVersion"]}
        await api.ok("PUT", PATH, obj | {"metadata": obj["metadata"] | {"labels": {"a": "b"}}})


async def test_a_stored_copy_hides_it_from_writes_of_its_definition(tmp_path: Path) -> None:
    """Once it is stored, its own revision counts, and its definition's writes bring no events."""
    async with server(tmp_path) as api:
        await have_kind(api, "installed")
        await api.ok("PATCH", PATH, {"metadata": {"labels": {"x": "y"}}}, headers=MERGE)
        start = (await api.ok("GET", EVERYWHERE))["metadata"]["resourceVersion"]
        async with Watch(api, EVERYWHERE, resourceVersion=start) as watch:
            await api.ok("PATCH", CRD, {"metadata": {"labels": {"x": "y"}}}, headers=MERGE)
            changed = await api.ok("PATCH", PATH, {"metadata": {"labels": {"x": "z"}}}, headers=MERGE)
            assert await seen(watch, 1) == [("MODIFIED", changed["metadata"]["uid"], int(changed["metadata"]["resourceVersion"]))]


async def test_its_first_change_is_a_change(with_kind: Api) -> None:
    """Storing it is MODIFIED, and DELETED for watches that select by a label that it loses."""
    api = with_kind
    before = await api.ok("GET", PATH)
    start = await latest(api)
    async with (
        Watch(api, IN_A, resourceVersion=start) as watch,
        Watch(api, EVERYWHERE, resourceVersion=start, labelSelector="component%3Dapiserver") as selective,
    ):
        after = await api.ok("PATCH", PATH, {"metadata": {"labels": {"component": None}}}, headers=MERGE)
        revision = int(after["metadata"]["resourceVersion"])
        assert await seen(watch, 1) == [("MODIFIED", before["metadata"]["uid"], revision)]
        assert await seen(selective, 1) == [("DELETED", before["metadata"]["uid"], revision)]


async def test_a_first_change_that_brings_its_cluster_into_being_is_what_watches_end_with(tmp_path: Path) -> None:
    """The cluster and the changed object come in one revision: there is one ADDED, of the object as it is."""
    async with server(tmp_path, kinds="built in") as api:
        namespaces = "/clusters/*/api/v1/namespaces"
        start = await latest(api)
        async with Watch(api, EVERYWHERE, resourceVersion=start) as services, Watch(api, namespaces, resourceVersion=start) as others:
            changed = await api.ok("PATCH", PATH, {"metadata": {"labels": {"x": "y"}}}, headers=MERGE)
            event = await services.next()
            assert event is not None
            assert (event["type"], event["object"]) == ("ADDED", {**changed, "metadata": event["object"]["metadata"]})
            assert event["object"]["metadata"]["labels"]["x"] == "y"
            assert await others.brief() == ("ADDED", "default")
            await api.ok("PATCH", PATH, {"metadata": {"labels": {"x": "z"}}}, headers=MERGE)
            assert (await seen(services, 1))[0][0] == "MODIFIED"


@pytest.mark.parametrize("stored", [False, True], ids=["virtual", "stored"])
@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_a_deletion_is_an_end_and_a_beginning(with_kind: Api, propagation: str, *, stored: bool) -> None:
    """Watches get DELETED with the old uid and ADDED with the new one; who has heard of the end alone resumes before both."""
    api = with_kind
    if stored:
        await api.ok("PATCH", PATH, {"metadata": {"labels": {"x": "y"}}}, headers=MERGE)
    before = (await api.ok("GET", PATH))["metadata"]["uid"]
    start = await latest(api)
    async with Watch(api, IN_A, resourceVersion=start) as own, Watch(api, EVERYWHERE, resourceVersion=start) as everywhere:
        await api.ok("DELETE", PATH, {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation})
        marked = 1 if propagation == "Foreground" else 0
        events = await seen(own, 2 + marked)
        assert events == await seen(everywhere, 2 + marked)
    kinds = [(kind, uid == before) for kind, uid, _ in events]
    assert kinds == [("MODIFIED", True)] * marked + [("DELETED", True), ("ADDED", False)]
    numbers = [revision for _, _, revision in events]
    assert numbers == sorted(numbers)
    now = await api.ok("GET", PATH)
    assert (now["metadata"]["uid"], int(now["metadata"]["resourceVersion"])) == events[-1][1:]
    async with Watch(api, EVERYWHERE, resourceVersion=str(numbers[-2])) as resumed:
        found = await seen(resumed, 1)
        assert (found if found[-1][0] == "ADDED" else found + await seen(resumed, 1))[-1] == events[-1]


async def end_of_definition(api: Api) -> None:
    async with Watch(api, f"/clusters/a{CRDS}") as watch:
        await api.ok("DELETE", CRD)
        while (event := await watch.next()) is not None and event["type"] != "DELETED":
            pass


async def end_of_cluster(api: Api) -> None:
    async with Watch(api, "/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters") as watch:
        await api.ok("DELETE", CLUSTER)
        while (event := await watch.next()) is not None and event["type"] != "DELETED":
            pass


@pytest.mark.parametrize("copy", ["virtual", "changed", "deleted"])
@pytest.mark.parametrize(("ends", "kinds"), [("definition", "installed"), ("cluster", "installed"), ("cluster", "built in")])
async def test_it_ends_once(tmp_path: Path, ends: str, kinds: Kinds, copy: str) -> None:
    """With its definition or its cluster it gets one DELETED, whether it was stored or not, live and from the store's history."""
    async with server(tmp_path, kinds=kinds) as api:
        await have_kind(api, kinds)
        if copy == "changed":
            await api.ok("PATCH", PATH, {"metadata": {"labels": {"x": "y"}}}, headers=MERGE)
        elif copy == "deleted":
            await api.ok("DELETE", PATH)
        uid = (await api.ok("GET", PATH))["metadata"]["uid"]
        await api.ok("POST", IN_A, {"metadata": {"name": "other"}, "spec": {"ports": [{"port": 80}]}})
        start = await latest(api)
        async with Watch(api, EVERYWHERE, resourceVersion=start) as live:
            await (end_of_definition if ends == "definition" else end_of_cluster)(api)
            await have_kind(api, kinds)
            live_events = await until_added(live)
        assert live_events.count(("DELETED", uid)) == 1
        assert [kind for kind, _ in live_events].count("DELETED") == 2, "the other Service ends, too"
        async with Watch(api, EVERYWHERE, resourceVersion=start) as resumed:
            assert await until_added(resumed) == live_events


async def until_added(watch: Watch) -> list[tuple[str, str]]:
    """(type, uid) of what comes before the next ADDED of `kubernetes`."""
    found: list[tuple[str, str]] = []
    while (event := await watch.next()) is not None:
        metadata = event["object"]["metadata"]
        if (event["type"], metadata["name"]) == ("ADDED", "kubernetes"):
            return found
        found.append((event["type"], metadata["uid"]))
    raise AssertionError(f"the watch ended behind {found}")


async def test_default_namespaces_end_once_with_their_cluster(api: Api) -> None:
    """One that was stored because it was changed is not told to end twice."""
    await have_kind(api, "built in")
    await api.ok("PATCH", "/clusters/a/api/v1/namespaces/default", {"metadata": {"labels": {"x": "y"}}}, headers=MERGE)
    listed = await api.ok("GET", "/clusters/a/api/v1/namespaces")
    async with Watch(api, "/clusters/*/api/v1/namespaces", resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
        await end_of_cluster(api)
        ends: list[str] = []
        while len(ends) < 4:
            event = await watch.next()
            assert event is not None
            if event["type"] == "DELETED":
                ends.append(event["object"]["metadata"]["name"])
        assert sorted(ends) == ["default", "kube-node-lease", "kube-public", "kube-system"]


async def test_a_default_namespace_that_is_deleted_begins_again_as_another_one(api: Api) -> None:
    """As upstream's control plane creates it again: watches get its end and its beginning, with the uid that reads give."""
    path = "/clusters/a/api/v1/namespaces/kube-node-lease"
    await api.ok("POST", "/clusters/a/api/v1/namespaces/default/configmaps", {"metadata": {"name": "first"}})
    before = (await api.ok("GET", path))["metadata"]["uid"]
    async with Watch(api, "/clusters/a/api/v1/namespaces", resourceVersion=await latest(api)) as watch:
        await api.ok("DELETE", path)
        events: list[dict[str, Any]] = []
        while not events or events[-1]["type"] != "ADDED":
            event = await watch.next()
            assert event is not None
            events.append(event)
    assert [(event["type"], event["object"]["metadata"]["uid"] == before) for event in events[-2:]] == [("DELETED", True), ("ADDED", False)]
    again = await api.ok("GET", path)
    assert again["metadata"] == events[-1]["object"]["metadata"]
    assert again["status"] == {"phase": "Active"}
