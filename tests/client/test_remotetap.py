"""The tap over HTTP: what it shows, and that controllers work over it as over the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from kcp_py.aio.supervisor import Supervisor
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import CRDS, NAMESPACES, GroupVersionResource
from kcp_py.client import EVERYTHING, Holder, ObjectChange, ObjectFilter, StoredResource
from kcp_py.client.remote import RemoteClient
from kcp_py.client.remotetap import RemoteTap
from kcp_py.client.tapwire import filter_text
from kcp_py.client.transport import Transport
from kcp_py.controllers import start_controllers
from kcp_py.controlplane import ControlPlane
from kcp_py.kubeconfig import KubeconfigContext
from kcp_py.request.user import UserInfo
from kcp_py.storage.contract import Put
from kcp_py.storage.keys import resource_keys
from kcp_py.tenancy import LOGICAL_CLUSTER
from kcp_py.testing.client_objects import CONFIG_MAPS, OTHER, TEAM, WIDGETS, config_map, serve_widgets, widget, widget_crd
from tests.client.served import options_of, served

pytestmark = pytest.mark.anyio

MAPS = CONFIG_MAPS.group_resource


@dataclass
class Apart:
    """A server without controllers, and a client and a tap of another process."""

    control_plane: ControlPlane
    context: KubeconfigContext
    client: RemoteClient
    tap: RemoteTap
    supervisor: Supervisor

    async def until_gone(self, get: Callable[[], Awaitable[Any]]) -> None:
        """Wait until a get finds nothing."""
        async with asyncio.timeout(60):
            while True:
                revision = self.control_plane.backend.fanout.revision
                try:
                    await get()
                except StatusError as error:
                    if error.code != 404:
                        raise
                    return
                await self.control_plane.backend.fanout.reached(revision + 1)


@pytest.fixture
async def apart(tmp_path: Path) -> AsyncIterator[Apart]:
    async with (
        ControlPlane(options_of(tmp_path, controllers=("-*",))) as control_plane,
        served(control_plane) as context,
        RemoteClient(Transport(context)) as client,
        Supervisor(lambda *_: None) as supervisor,
    ):
        yield Apart(control_plane, context, client, RemoteTap(client.transport), supervisor)


async def test_changes_begin_with_what_is_wanted(apart: Apart) -> None:
    """Of the objects that exist only the wanted ones come, then every change; whole."""
    for name in ("one", "two"):
        await apart.client.create(TEAM, CONFIG_MAPS, config_map(name))
    changes = apart.tap.changes(CONFIG_MAPS, wanted=ObjectFilter(contains=((b'"two"',),)))
    first = await anext(changes)
    assert (first.name, b'"data":{"a":"b"}' in (first.value or b"")) == ("two", True)
    await apart.client.create(OTHER, CONFIG_MAPS, config_map("three"))
    await apart.client.delete(TEAM, CONFIG_MAPS, "default", "one")
    three, one = await anext(changes), await anext(changes)
    await changes.aclose()
    assert (three.cluster, three.name, three.value is None) == ("team-b", "three", False)
    assert (one.cluster, one.name, one.value) == ("team-a", "one", None)


async def test_observers_have_seen_what_reading_shows(apart: Apart) -> None:
    """When the objects of a cluster were read, observers were called with every change up to then."""
    seen: list[ObjectChange] = []
    end = apart.tap.observe(seen.append, concerned=EVERYTHING, missed=lambda: None)
    apart.supervisor.start("tap", apart.tap.run)
    assert [one async for one in apart.tap.stored_objects(TEAM, concerned=EVERYTHING, resource=MAPS)] == []
    for number in range(20):
        await apart.client.create(TEAM, CONFIG_MAPS, config_map(f"m{number}"))
    await apart.client.delete(TEAM, CONFIG_MAPS, "default", "m0")
    found = [one.name async for one in apart.tap.stored_objects(TEAM, concerned=EVERYTHING, resource=MAPS)]
    changes = [(one.name, one.value is None) for one in seen if one.resource == MAPS]
    end()
    assert sorted(found) == sorted(f"m{number}" for number in range(1, 20))
    assert changes == [*((f"m{number}", False) for number in range(20)), ("m0", True)]


async def test_reading_does_not_wait_for_a_stream_that_nothing_runs(apart: Apart) -> None:
    """Objects are read. Observers know as soon as the stream runs that they may have missed changes."""
    missed = asyncio.Event()
    apart.tap.observe(lambda _: None, concerned=EVERYTHING, missed=missed.set)
    await apart.client.create(TEAM, CONFIG_MAPS, config_map("one"))
    async with asyncio.timeout(60):
        found = [one.name async for one in apart.tap.stored_objects(TEAM, concerned=EVERYTHING, resource=MAPS)]
        assert (found, missed.is_set()) == (["one"], False)
        apart.supervisor.start("tap", apart.tap.run)
        await missed.wait()


async def test_a_stream_begins_again_after_two_cancellations(apart: Apart) -> None:
    """The second one comes while the stream is closed. Observers know that they have missed changes, and readers do not wait for ever."""
    missed = asyncio.Event()
    apart.tap.observe(lambda _: None, concerned=EVERYTHING, missed=missed.set)
    following = asyncio.create_task(apart.tap.run())
    async with asyncio.timeout(60):
        assert [one async for one in apart.tap.stored_objects(TEAM, concerned=EVERYTHING, resource=MAPS)] == []
        missed.clear()
        while not following.done():
            following.cancel()
            await asyncio.sleep(0)
        apart.supervisor.start("tap", apart.tap.run)
        await missed.wait()
        assert [one async for one in apart.tap.stored_objects(TEAM, concerned=EVERYTHING, resource=MAPS)] == []


class Stalled(Transport):
    """Gets no answer to requests for observations."""

    def __init__(self, context: KubeconfigContext) -> None:
        super().__init__(context)
        self.asked = asyncio.Event()

    @asynccontextmanager
    async def stream(self, path: str, **more: Any) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        if path.endswith("/observations"):
            self.asked.set()
            await asyncio.Event().wait()
        async with super().stream(path, **more) as lines:
            yield lines


async def test_reading_goes_on_when_the_last_observer_ends(apart: Apart) -> None:
    """It waits for the stream of the observers, and for nothing when there are none."""
    transport = Stalled(apart.context)
    async with aclosing(transport):
        tap = RemoteTap(transport)
        end = tap.observe(lambda _: None, concerned=EVERYTHING, missed=lambda: None)
        apart.supervisor.start("tap", tap.run)
        await apart.client.create(TEAM, CONFIG_MAPS, config_map("one"))
        async with asyncio.timeout(60):
            await transport.asked.wait()
            objects = tap.stored_objects(TEAM, concerned=EVERYTHING, resource=MAPS)
            reading = asyncio.ensure_future(anext(objects))
            await asyncio.sleep(0)
            assert not reading.done()
            end()
            assert (await reading).name == "one"
            await objects.aclose()


async def test_a_quota_is_counted_again(apart: Apart) -> None:
    """After its usage was changed in the store, as a restored copy of it would; a missing quota is not an error."""
    quotas = GroupVersionResource("", "v1", "resourcequotas")
    quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"count/secrets": "5"}}}
    await apart.client.create(TEAM, quotas, {"apiVersion": "v1", "kind": "ResourceQuota", **quota})
    access = apart.control_plane.backend.access
    key = resource_keys("/registry", "", "resourcequotas", namespaced=True).object_key(TEAM, "default", "q")
    stored = await access.storage.get(key)
    assert stored is not None
    await access.storage.transact((), [Put(key, stored.value.replace(b'"used":{"count/secrets":"0"}', b'"used":{"count/secrets":"4"}'))])
    assert (await apart.client.get(TEAM, quotas, "default", "q"))["status"]["used"] == {"count/secrets": "4"}
    await apart.tap.recount_quota(TEAM, "default", "q")
    assert (await apart.client.get(TEAM, quotas, "default", "q"))["status"]["used"] == {"count/secrets": "0"}
    await apart.tap.recount_quota(TEAM, "default", "none")


async def test_a_stream_that_is_cut_is_begun_again(apart: Apart) -> None:
    """Observers are called with changes after that, and know that they may have missed some."""
    missed, seen = asyncio.Event(), asyncio.Queue[str]()
    apart.tap.observe(lambda change: seen.put_nowait(change.name), concerned=ObjectFilter(contains=((b'"n"',),)), missed=missed.set)
    assert [one async for one in apart.tap.stored_objects(TEAM, concerned=ObjectFilter(contains=((b"\0",),)))] == []
    apart.supervisor.start("tap", apart.tap.run)
    async with asyncio.timeout(60):
        await missed.wait()  # of the time before the stream
        missed.clear()
        apart.control_plane.backend.fanout.end_watches()
        await missed.wait()
        await apart.client.create(TEAM, CONFIG_MAPS, config_map("n"))
        assert await seen.get() == "n"


@pytest.mark.parametrize("cluster", ["team-a", "root"])
async def test_no_cluster_has_a_tap_of_its_own(apart: Apart, cluster: str) -> None:
    """The paths are served in the wildcard, to privileged users, and nowhere else."""
    with pytest.raises(StatusError) as caught:
        await apart.client.transport.request("GET", f"/clusters/{cluster}/tap/v1/builtins")
    assert caught.value.code == 404
    with pytest.raises(StatusError) as caught:
        await apart.tap.acting_as(UserInfo("jane", groups=("admins",))).builtin_names()
    assert caught.value.code == 403


async def test_a_request_that_cannot_be_read_is_refused(apart: Apart) -> None:
    """With 400; an unknown path with 404."""
    for path, code in (("resources", 400), ("changes", 400), ("nothing", 404)):
        with pytest.raises(StatusError) as caught:
            await apart.client.transport.request("GET", f"/clusters/*/tap/v1/{path}")
        assert caught.value.code == code


DELETION: dict[str, Any] = {
    "cluster": "team-a",
    "group": "",
    "resource": "configmaps",
    "custom": False,
    "namespaced": True,
    "namespace": "",
    "settled": [],
    "holder": None,
}
REMOVAL: dict[str, Any] = {
    "cluster": "team-a",
    "resource": list(NAMESPACES),
    "namespace": "",
    "name": "one",
    "finalizer": "a.b/c",
    "uid": "1",
}
HOLDER: dict[str, Any] = {"resource": list(NAMESPACES), "name": "one", "uid": "1"}


WRONG_DELETIONS: list[dict[str, Any]] = [
    {"cluster": "No Name"},
    {"group": 5},
    {"resource": "a/b"},
    {"resource": "unknown"},
    {"custom": "yes"},
    {"namespace": "a/b"},
    {"settled": 5},
    {"settled": [5]},
    {"holder": []},
    {"holder": {**HOLDER, "resource": ["a"]}},
    {"holder": {**HOLDER, "name": ""}},
    {"holder": {**HOLDER, "resource": list(CONFIG_MAPS)}},
    {"resource": "namespaces", "namespace": "default"},
]
WRONG_REMOVALS: list[dict[str, Any]] = [
    {"cluster": None},
    {"resource": "a"},
    {"name": "a/b"},
    {"name": ""},
    {"uid": 1},
    {"namespace": "default"},
]


WRONG_RECOUNTS: list[dict[str, Any]] = [{"cluster": ""}, {"namespace": ""}, {"namespace": "a/b"}, {"name": ""}, {"name": 5}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *((path, body) for path in ("deletions", "finalizers", "recounts") for body in (b"", b"{", b"[]", b"{}", b"5")),
        *(("deletions", orjson.dumps({**DELETION, **wrong})) for wrong in WRONG_DELETIONS),
        *(("finalizers", orjson.dumps({**REMOVAL, **wrong})) for wrong in WRONG_REMOVALS),
        *(("recounts", orjson.dumps({"cluster": "team-a", "namespace": "default", "name": "q", **wrong})) for wrong in WRONG_RECOUNTS),
    ],
)
async def test_a_body_that_cannot_be_parsed_is_refused(apart: Apart, path: str, body: bytes) -> None:
    """With 400, whatever it asks for."""
    with pytest.raises(StatusError) as caught:
        await apart.client.transport.request("POST", f"/clusters/*/tap/v1/{path}", body=body)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("resources", {"cluster": "No Name"}),
        ("names", {"group": "a"}),
        ("changes", {"resource": "a/b", "filter": filter_text(EVERYTHING)}),
        ("changes", {"resource": "configmaps", "filter": "[]"}),
        ("observations", {}),
        ("objects", {"filter": filter_text(EVERYTHING), "limit": "many"}),
        ("objects", {"filter": filter_text(EVERYTHING), "cluster": "team-a", "group": "A", "resource": "b"}),
    ],
)
async def test_a_parameter_that_cannot_be_parsed_is_refused(apart: Apart, path: str, query: dict[str, str]) -> None:
    """With 400, before a stream begins."""
    with pytest.raises(StatusError) as caught:
        await apart.client.transport.request("GET", f"/clusters/*/tap/v1/{path}", query=tuple(query.items()))
    assert caught.value.code == 400


async def test_a_fault_of_the_server_is_not_the_fault_of_the_request(apart: Apart) -> None:
    """500 where the server fails on what it has stored: the holder of a collection has lost its uid."""
    key = f"/registry/rbac.authorization.k8s.io/clusterroles/{TEAM}/broken"
    await apart.control_plane.backend.access.storage.transact((), (Put(key, b'{"metadata":{"name":"broken"}}'),))
    holder = Holder(GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterroles"), "broken", "1")
    with pytest.raises(StatusError) as caught:
        await apart.tap.delete_stored(TEAM, StoredResource(MAPS, custom=False, namespaced=True), holder=holder)
    assert (caught.value.code, caught.value.reason) == (500, "InternalError")


async def test_names_and_stored_resources_are_those_of_the_server(apart: Apart) -> None:
    """As the tap of the same process gives them."""
    await apart.client.create(TEAM, CRDS, widget_crd())
    local = apart.control_plane.tap
    assert await apart.tap.builtin_names() == await local.builtin_names()
    assert await apart.tap.stored_resources(TEAM) == await local.stored_resources(TEAM)
    assert await apart.tap.held_names(TEAM, "example.com") == await local.held_names(TEAM, "example.com")


async def start(apart: Apart) -> None:
    """Run all controllers over HTTP."""
    apart.supervisor.start("tap", apart.tap.run)
    start_controllers(apart.supervisor, apart.client, apart.tap)


async def test_a_namespace_is_emptied(apart: Apart) -> None:
    """By controllers that reach the store over HTTP alone; its objects of a CRD and the namespace itself go."""
    await start(apart)
    await serve_widgets(apart.client, TEAM)
    await apart.client.create(TEAM, NAMESPACES, {"metadata": {"name": "shop"}})
    obj = widget("one", size=1)
    await apart.client.create(TEAM, WIDGETS, {**obj, "metadata": {"name": "one", "namespace": "shop"}})
    await apart.client.delete(TEAM, NAMESPACES, "", "shop")
    await apart.until_gone(lambda: apart.client.get(TEAM, NAMESPACES, "", "shop"))
    assert (await apart.client.list(TEAM, WIDGETS)).items == []


async def test_a_crd_takes_its_objects_along(apart: Apart) -> None:
    """They are gone when the CRD is."""
    await start(apart)
    await serve_widgets(apart.client, TEAM)
    await apart.client.create(TEAM, WIDGETS, widget("one", size=1))
    await apart.client.delete(TEAM, CRDS, "", "widgets.example.com")
    await apart.until_gone(lambda: apart.client.get(TEAM, CRDS, "", "widgets.example.com"))
    await serve_widgets(apart.client, TEAM)
    assert (await apart.client.list(TEAM, WIDGETS)).items == []


async def test_a_cluster_is_emptied(apart: Apart) -> None:
    """With everything in it; another cluster keeps its own."""
    await start(apart)
    for cluster in (TEAM, OTHER):
        await apart.client.create(cluster, CONFIG_MAPS, config_map("one"))
    await apart.client.delete(TEAM, LOGICAL_CLUSTER, "", "cluster")
    keys = f"/{TEAM}/"

    async def find() -> None:
        found = await apart.control_plane.backend.access.storage.range("/registry/", keys_only=True)
        if not any(keys in item.key for item in found.items):
            raise StatusError(404, "NotFound", "")

    await apart.until_gone(find)
    assert len((await apart.client.list(OTHER, CONFIG_MAPS, "default")).items) == 1


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_dependents_follow_their_owner(apart: Apart, propagation: str) -> None:
    """Or lose the reference to it, where they are orphaned."""
    await start(apart)
    owner = await apart.client.create(TEAM, CONFIG_MAPS, config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}
    for number in range(3):
        await apart.client.create(TEAM, CONFIG_MAPS, config_map(f"d{number}", ownerReferences=[reference]))
    await apart.client.delete(TEAM, CONFIG_MAPS, "default", "owner", propagation=propagation)
    await apart.until_gone(lambda: apart.client.get(TEAM, CONFIG_MAPS, "default", "owner"))
    if propagation == "Orphan":
        left = (await apart.client.list(TEAM, CONFIG_MAPS, "default")).items
        assert [("ownerReferences" in one["metadata"]) for one in left] == [False] * 3
    else:
        for number in range(3):
            name = f"d{number}"
            await apart.until_gone(lambda name=name: apart.client.get(TEAM, CONFIG_MAPS, "default", name))  # type: ignore[misc]


async def test_objects_of_an_unserved_resource_are_deleted(apart: Apart) -> None:
    """A CRD whose names are not accepted serves nothing; the objects that it once had go with it."""
    await start(apart)
    await serve_widgets(apart.client, TEAM)
    await apart.client.create(TEAM, WIDGETS, widget("one", size=1))
    crd = await apart.client.get(TEAM, CRDS, "", "widgets.example.com")
    crd["spec"]["versions"][0]["served"] = False
    await apart.client.update(TEAM, CRDS, crd)
    await apart.client.delete(TEAM, CRDS, "", "widgets.example.com")
    await apart.until_gone(lambda: apart.client.get(TEAM, CRDS, "", "widgets.example.com"))
    found = await apart.control_plane.backend.access.storage.range("/registry/example.com/", keys_only=True)
    assert not found.items
