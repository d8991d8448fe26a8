"""The ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` of each namespace, as clients see them."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from kcp_py.serving.certificates import ensure_certificates
from kcp_py.storage.contract import Storage
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.sqlite import SQLiteStorage
from tests.server.handlers.conftest import Api, Watch, options
from tests.server.handlers.widgets import MERGE

pytestmark = pytest.mark.anyio

CORE = "/clusters/a/api/v1"
EVERYWHERE = "/clusters/*/api/v1"
CLUSTER = "/clusters/a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
DEFAULT_NAMESPACES = ["default", "kube-node-lease", "kube-public", "kube-system"]
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Kind(NamedTuple):
    """One of the two."""

    resource: str
    name: str

    def path(self, namespace: str = "x") -> str:
        return f"{CORE}/namespaces/{namespace}/{self.resource}/{self.name}"

    def within(self, namespace: str = "x") -> str:
        return f"{CORE}/namespaces/{namespace}/{self.resource}"

    @property
    def in_cluster(self) -> str:
        return f"{CORE}/{self.resource}"


ACCOUNT = Kind("serviceaccounts", "default")
ROOT_CA = Kind("configmaps", "kube-root-ca.crt")
BOTH = pytest.mark.parametrize("kind", [pytest.param(ACCOUNT, id="account"), pytest.param(ROOT_CA, id="root CA")])


@asynccontextmanager
async def server(root: Path, storage: Storage | None = None) -> AsyncIterator[Api]:
    """A server whose certificates are known, with the cluster `a` and in it the namespace `x`."""
    given = options(root, namespace_deletion_grace=0.0)
    ensure_certificates(given, now=dt.datetime.now(dt.UTC))
    async with ControlPlane(replace(given, root_ca_file=given.ca_file), storage=storage) as control_plane:
        transport = httpx.ASGITransport(app=control_plane.app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="https://test") as client:
            api = Api(client, control_plane)
            await api("POST", f"{CORE}/namespaces", {"metadata": {"name": "x"}})
            yield api


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A server on a store in memory."""
    async with server(tmp_path) as api:
        yield api


async def latest(api: Api) -> str:
    """The revision of the last write that was acknowledged."""
    return str(await api.control_plane.backend.access.storage.revision())


async def events(watch: Watch, count: int, *, of: str = "") -> list[tuple[str, str, str, int]]:
    """(type, namespace, uid, resourceVersion) of the next events, of one namespace or of all."""
    found: list[tuple[str, str, str, int]] = []
    while len(found) < count:
        event = await watch.next()
        assert event is not None
        assert event["type"] != "ERROR", event["object"]["message"]
        metadata = event["object"]["metadata"]
        if event["type"] != "BOOKMARK" and of in {"", metadata["namespace"]}:
            found.append((event["type"], metadata["namespace"], metadata["uid"], int(metadata["resourceVersion"])))
    return found


async def stored(api: Api) -> list[str]:
    """The keys of everything that is stored in the cluster but its own object."""
    found = await api.control_plane.backend.access.storage.range("/registry/core/", keys_only=True)
    return [item.key for item in found.items if "/a/" in item.key]


async def delete_namespace(api: Api, name: str = "x") -> None:
    """Delete a namespace, and wait for its end."""
    async with Watch(api, f"{CORE}/namespaces", fieldSelector=f"metadata.name%3D{name}", resourceVersion=await latest(api)) as watch:
        await api.ok("DELETE", f"{CORE}/namespaces/{name}")
        while (event := await watch.next()) is not None and event["type"] != "DELETED":
            pass


async def test_a_namespace_has_both_and_stores_neither(api: Api, tmp_path: Path) -> None:
    """They look as upstream's controllers make them; uid and time follow from the namespace, whose revision they have."""
    namespace = (await api.ok("GET", f"{CORE}/namespaces/x"))["metadata"]
    account, config_map = await api.ok("GET", ACCOUNT.path()), await api.ok("GET", ROOT_CA.path())
    for obj, kind in ((account, ACCOUNT), (config_map, ROOT_CA)):
        metadata = obj["metadata"]
        assert (metadata["name"], metadata["namespace"]) == (kind.name, "x")
        assert metadata["creationTimestamp"] == namespace["creationTimestamp"]
        assert metadata["resourceVersion"] == namespace["resourceVersion"]
    assert len({namespace["uid"], account["metadata"]["uid"], config_map["metadata"]["uid"]}) == 3
    assert (account["kind"], set(account)) == ("ServiceAccount", {"apiVersion", "kind", "metadata"})
    assert config_map["data"] == {"ca.crt": (tmp_path / "pki" / "ca.crt").read_text()}
    assert config_map["metadata"]["annotations"]["kubernetes.io/description"].startswith("Contains a CA bundle that can be used to verify")
    assert await stored(api) == ["/registry/core/namespaces/a/x"]


async def test_lists_show_one_in_each_namespace(api: Api) -> None:
    """In the cluster and in a namespace, whole and in pages, as tables and metadata, in the order of keys, with one revision."""
    # The slash of a key sorts behind the hyphen.
    await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "x-y"}})
    await api.ok("POST", ACCOUNT.within("kube-public"), {"metadata": {"name": "mine"}})
    await api.ok("PATCH", ACCOUNT.path("default"), {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
    names = [("default", ACCOUNT.name), ("kube-node-lease", ACCOUNT.name), ("kube-public", ACCOUNT.name), ("kube-public", "mine")]
    names = [*sorted(names), ("kube-system", ACCOUNT.name), ("x-y", ACCOUNT.name), ("x", ACCOUNT.name)]
    for headers in ({}, {"Accept": METADATA}):
        listed = await api.ok("GET", ACCOUNT.in_cluster, headers=headers)
        assert [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in listed["items"]] == names
    for one in listed["items"]:
        read = await api.ok("GET", ACCOUNT.path(one["metadata"]["namespace"]).replace(ACCOUNT.name, one["metadata"]["name"]))
        assert read["metadata"]["resourceVersion"] == one["metadata"]["resourceVersion"]
    table = await api.ok("GET", ACCOUNT.in_cluster, headers={"Accept": TABLE})
    assert [row["cells"][0] for row in table["rows"]] == [name for _, name in names]
    for limit in range(1, len(names) + 1):
        for headers in ({}, {"Accept": METADATA}):
            assert await paged(api, ACCOUNT.in_cluster, limit, headers) == names
    for namespace, own in (("x", [ACCOUNT.name]), ("kube-public", sorted([ACCOUNT.name, "mine"])), ("no-such", [])):
        listed = await api.ok("GET", ACCOUNT.within(namespace))
        assert [one["metadata"]["name"] for one in listed["items"]] == own
    selected = await api.ok("GET", ACCOUNT.in_cluster, params={"labelSelector": "a=b"})
    assert [one["metadata"]["namespace"] for one in selected["items"]] == ["default"]


async def paged(api: Api, path: str, limit: int, headers: dict[str, str]) -> list[tuple[str, str]]:
    """What a list shows in pages, each of which counts the rest."""
    pages, token = [], ""
    while True:
        page = await api.ok("GET", path, headers=headers, params={"limit": str(limit), "continue": token})
        pages.append((page["items"], page["metadata"].get("remainingItemCount", 0)))
        token = page["metadata"].get("continue", "")
        if not token:
            break
    found = [(one["metadata"]["namespace"], one["metadata"]["name"]) for items, _ in pages for one in items]
    behind = len(found)
    for items, remaining in pages:
        assert len(items) <= limit
        behind -= len(items)
        assert remaining == behind
    return found


async def test_a_long_list_that_is_kept_follows_its_namespaces(tmp_path: Path) -> None:
    """The bytes of stored objects are kept between lists; what namespaces come and go with is right in each of them."""
    async with server(tmp_path, SQLiteStorage(tmp_path / "db")) as api:
        for number in range(60):
            await api.ok("POST", ACCOUNT.within("kube-public"), {"metadata": {"name": f"m{number}"}})

        async def namespaces() -> list[str]:
            listed = await api.ok("GET", ACCOUNT.in_cluster)
            found = [one for one in listed["items"] if one["metadata"]["name"] == ACCOUNT.name]
            assert len(listed["items"]) == 60 + len(found)
            return [one["metadata"]["namespace"] for one in found]

        assert await namespaces() == await namespaces() == [*DEFAULT_NAMESPACES, "x"]
        await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "kube-a"}})
        assert await namespaces() == ["default", "kube-a", *DEFAULT_NAMESPACES[1:], "x"]
        await delete_namespace(api)
        assert await namespaces() == ["default", "kube-a", *DEFAULT_NAMESPACES[1:]]
        await api.ok("PATCH", ACCOUNT.path("kube-a"), {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
        assert await namespaces() == ["default", "kube-a", *DEFAULT_NAMESPACES[1:]]


async def test_accounts_are_shown_over_all_clusters_and_root_certificates_where_they_are_stored(api: Api) -> None:
    """ServiceAccounts like default namespaces. The certificates are equal in all clusters, and would be most of each list of ConfigMaps."""
    await api.ok("POST", "/clusters/b/api/v1/namespaces", {"metadata": {"name": "y"}})
    for limit in (0, 1, 3, 4, 5):
        found, token = [], ""
        while True:
            page = await api.ok("GET", f"{EVERYWHERE}/serviceaccounts", params={"limit": str(limit), "continue": token} if limit else {})
            found += [(one["metadata"]["annotations"]["kcp.io/cluster"], one["metadata"]["namespace"]) for one in page["items"]]
            if not (token := page["metadata"].get("continue", "")):
                break
        expected = {"a": [*DEFAULT_NAMESPACES, "x"], "b": [*DEFAULT_NAMESPACES, "y"], "root": DEFAULT_NAMESPACES}
        assert found == [(cluster, namespace) for cluster, namespaces in expected.items() for namespace in namespaces]
    in_namespace = await api.ok("GET", f"{EVERYWHERE}/namespaces/y/serviceaccounts")
    assert [one["metadata"]["annotations"]["kcp.io/cluster"] for one in in_namespace["items"]] == ["b"]
    assert (await api.ok("GET", f"{EVERYWHERE}/configmaps"))["items"] == []
    changed = await api.ok("PATCH", ROOT_CA.path(), {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
    assert [one["metadata"]["uid"] for one in (await api.ok("GET", f"{EVERYWHERE}/configmaps"))["items"]] == [changed["metadata"]["uid"]]


async def test_root_certificates_are_read_by_name_until_they_are_stored(api: Api) -> None:
    """Lists and watches of ConfigMaps begin empty, so that they show what clients have made. A change stores one, and it is shown."""
    for path in (ROOT_CA.within(), ROOT_CA.in_cluster):
        assert (await api.ok("GET", path))["items"] == []
    async with Watch(api, ROOT_CA.within(), resourceVersion=await latest(api)) as watch:
        await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "x-y"}})
        changed = await api.ok("PATCH", ROOT_CA.path(), {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
        ((event, namespace, uid, revision),) = await events(watch, 1)
        assert (event, namespace, uid, str(revision)) == (
            "ADDED", "x", changed["metadata"]["uid"], changed["metadata"]["resourceVersion"],
        )  # fmt: skip
    assert [one["metadata"]["uid"] for one in (await api.ok("GET", ROOT_CA.in_cluster))["items"]] == [changed["metadata"]["uid"]]
    deleted = await api.ok("GET", ROOT_CA.path("x-y"))
    await api.ok("DELETE", ROOT_CA.path("x-y"))
    assert (await api.ok("GET", ROOT_CA.path("x-y")))["metadata"]["uid"] != deleted["metadata"]["uid"]


async def test_watches_follow_namespaces(api: Api) -> None:
    """ADDED with the namespace, DELETED when it begins to terminate; live, resumed and from the store's history."""
    start = await latest(api)
    async with (
        Watch(api, ACCOUNT.in_cluster, resourceVersion=start) as cluster,
        Watch(api, ACCOUNT.within("new"), resourceVersion=start) as own,
    ):
        created = await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "new"}})
        added = await api.ok("GET", ACCOUNT.path("new"))
        await delete_namespace(api, "new")
        seen = await events(cluster, 2)
        assert seen == await events(own, 2)
    uid, revision = added["metadata"]["uid"], int(created["metadata"]["resourceVersion"])
    assert seen[0] == ("ADDED", "new", uid, revision)
    assert (seen[1][:3], seen[1][3] > revision) == (("DELETED", "new", uid), True)
    async with Watch(api, ACCOUNT.in_cluster, resourceVersion=start) as resumed:
        assert await events(resumed, 2) == seen
    assert [event for event in seen if event[0] == "DELETED"] == seen[1:]
    await api.fails(404, "GET", ACCOUNT.path("new"))
    again = await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "new"}})
    assert (await api.ok("GET", ACCOUNT.path("new")))["metadata"]["uid"] != uid
    assert again["metadata"]["uid"] != created["metadata"]["uid"]


async def test_its_first_change_is_stored_and_a_change_for_watches(api: Api) -> None:
    """MODIFIED with the same uid, under the lock of the revision that was read; a stale one is refused."""
    before = await api.ok("GET", ACCOUNT.path())
    async with Watch(api, ACCOUNT.in_cluster, resourceVersion=await latest(api)) as watch:
        obj = {**before, "metadata": {**before["metadata"], "labels": {"a": "b"}}}
        after = await api.ok("PUT", ACCOUNT.path(), obj)
        assert await events(watch, 1) == [("MODIFIED", "x", before["metadata"]["uid"], int(after["metadata"]["resourceVersion"]))]
    assert f"/registry/core/{ACCOUNT.resource}/a/x/{ACCOUNT.name}" in await stored(api)
    await api.fails(409, "PUT", ACCOUNT.path(), obj)
    await api.fails(409, "POST", ACCOUNT.within(), {"metadata": {"name": ACCOUNT.name}})
    await delete_namespace(api)
    assert await stored(api) == []


@pytest.mark.parametrize(("kind", "copy"), [(ACCOUNT, "virtual"), (ACCOUNT, "stored"), (ROOT_CA, "stored")])
async def test_a_deleted_one_comes_back_at_once(api: Api, kind: Kind, copy: str) -> None:
    """With another uid, so that a client that waits for the end sees it: DELETED, then ADDED, with the revision that reads give."""
    if copy == "stored":
        await api.ok("PATCH", kind.path(), {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
    before = await api.ok("GET", kind.path())
    async with Watch(api, kind.within(), resourceVersion=await latest(api)) as watch:
        deleted = await api.ok("DELETE", kind.path())
        seen = await events(watch, 2)
    now = await api.ok("GET", kind.path())
    assert "labels" not in now["metadata"]
    assert [(event, uid) for event, _, uid, _ in seen] == [("DELETED", before["metadata"]["uid"]), ("ADDED", now["metadata"]["uid"])]
    assert now["metadata"]["uid"] != before["metadata"]["uid"]
    assert str(seen[1][3]) == now["metadata"]["resourceVersion"]
    assert kind is ROOT_CA or deleted["metadata"]["uid"] == before["metadata"]["uid"]
    await api.ok("PUT", kind.path(), now)


@BOTH
async def test_every_create_is_of_one_that_exists(api: Api, kind: Kind) -> None:
    """409 in a namespace; 404 where there is no such namespace, 403 where it terminates, and nothing is stored."""
    body = {"metadata": {"name": kind.name}}
    assert (await api.fails(409, "POST", kind.within(), body))["reason"] == "AlreadyExists"
    await api.fails(404, "POST", kind.within("no-such"), body)
    await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "held"}})
    await api.ok("POST", ACCOUNT.within("held"), {"metadata": {"name": "holds", "finalizers": ["example.com/x"]}})
    await api.ok("DELETE", f"{CORE}/namespaces/held")
    await api.fails(404, "GET", kind.path("held"))
    assert (await api.fails(403, "POST", kind.within("held"), body))["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    await api.fails(404, "PATCH", kind.path("held"), {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
    assert not [key for key in await stored(api) if key.endswith(f"/{kind.name}")]


async def test_a_root_certificate_cannot_be_changed(api: Api) -> None:
    """Whatever is written, the data are set back and the description returns; labels and further annotations stay."""
    data = (await api.ok("GET", ROOT_CA.path()))["data"]
    for patch in (
        {"data": {"ca.crt": "forged"}},
        {"data": {"more": "x"}},
        {"data": None, "metadata": {"annotations": None, "labels": {"a": "b"}}},
    ):
        written = await api.ok("PATCH", ROOT_CA.path(), patch, headers=MERGE)
        assert written["data"] == data
        assert written["metadata"]["annotations"]["kubernetes.io/description"]
        assert await api.ok("GET", ROOT_CA.path()) == written
    assert written["metadata"]["labels"] == {"a": "b"}
    other = await api.ok("POST", ROOT_CA.within(), {"metadata": {"name": "other"}, "data": {"ca.crt": "mine"}})
    assert other["data"] == {"ca.crt": "mine"}


@BOTH
async def test_default_namespaces_have_one_before_and_after_they_are_stored(api: Api, kind: Kind) -> None:
    """One object with one revision, and no event."""
    before = await api.ok("GET", kind.path("kube-public"))
    async with Watch(api, kind.in_cluster, resourceVersion=await latest(api)) as watch:
        await api.ok("PATCH", f"{CORE}/namespaces/kube-public", {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
        assert await api.ok("GET", kind.path("kube-public")) == before
        await api.ok("POST", kind.within(), {"metadata": {"name": "marker"}})
        assert (await events(watch, 1))[0][:2] == ("ADDED", "x")


async def test_a_default_namespace_that_comes_again_has_another_one(api: Api) -> None:
    """Events never go back, and each tells the revision that reads give."""
    before = await api.ok("GET", ACCOUNT.path("kube-node-lease"))
    async with Watch(api, ACCOUNT.in_cluster, resourceVersion=await latest(api)) as watch:
        await api.ok("DELETE", f"{CORE}/namespaces/kube-node-lease")
        seen = await events(watch, 2)
        now = await api.ok("GET", ACCOUNT.path("kube-node-lease"))
        assert [(event, uid) for event, _, uid, _ in seen] == [("DELETED", before["metadata"]["uid"]), ("ADDED", now["metadata"]["uid"])]
        assert now["metadata"]["uid"] != before["metadata"]["uid"]
        assert seen[0][3] < seen[1][3] == int(now["metadata"]["resourceVersion"])
        await api.ok("PATCH", f"{CORE}/namespaces/kube-node-lease", {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
        changed = await api.ok("GET", ACCOUNT.path("kube-node-lease"))
        assert await events(watch, 1) == [
            ("MODIFIED", "kube-node-lease", now["metadata"]["uid"], int(changed["metadata"]["resourceVersion"]))
        ]


async def test_they_begin_and_end_with_their_cluster(api: Api) -> None:
    """A watch in a cluster without an object gets its creation; all of them end when the cluster begins to terminate."""
    path = ACCOUNT.in_cluster.replace("/a/", "/new/")
    start = await latest(api)
    async with Watch(api, path, resourceVersion=start) as own, Watch(api, f"{EVERYWHERE}/serviceaccounts", resourceVersion=start) as all_:
        await api.ok("POST", "/clusters/new/api/v1/namespaces", {"metadata": {"name": "y"}})
        added = await events(own, 5)
        assert sorted(event[:2] for event in added) == [("ADDED", namespace) for namespace in (*DEFAULT_NAMESPACES, "y")]
        assert sorted(event[:2] for event in await events(all_, 5)) == sorted(event[:2] for event in added)
        listed = await api.ok("GET", path)
        assert {one["metadata"]["uid"]: int(one["metadata"]["resourceVersion"]) for one in listed["items"]} == {
            uid: revision for _, _, uid, revision in added
        }
        await api.ok("DELETE", CLUSTER.replace("/a/", "/new/"))
        ended = await events(own, 5)
        assert sorted(event[:3] for event in ended) == sorted(("DELETED", namespace, uid) for _, namespace, uid, _ in added)
        numbers = [revision for _, _, _, revision in ended]
        assert numbers == sorted(numbers)
        assert [event[0] for event in await events(all_, 5)] == ["DELETED"] * 5


async def test_they_are_equal_on_all_servers_and_after_a_restart(tmp_path: Path) -> None:
    """Two servers on one store, one after the other, and the first again: uid, time and revision follow from the stored namespace."""
    found: list[list[Any]] = []
    for _ in range(2):
        async with server(tmp_path, SQLiteStorage(tmp_path / "db")) as api:
            objects = [await api.ok("GET", kind.path(namespace)) for kind in (ACCOUNT, ROOT_CA) for namespace in ("default", "x")]
            found.append([*objects, (await api.ok("GET", ACCOUNT.in_cluster))["items"]])
    assert found[0] == found[1]


async def test_without_a_certificate_no_namespace_has_one(tmp_path: Path) -> None:
    """A control plane that is served without TLS, or by other means, knows no authority; the name is free."""
    async with ControlPlane(options(tmp_path), storage=MemoryStorage()) as control_plane:
        transport = httpx.ASGITransport(app=control_plane.app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="https://test") as client:
            api = Api(client, control_plane)
            await api.fails(404, "GET", ROOT_CA.path("default"))
            created = await api.ok("POST", ROOT_CA.within("default"), {"metadata": {"name": ROOT_CA.name}, "data": {"ca.crt": "mine"}})
            assert created["data"] == {"ca.crt": "mine"}
            assert (await api.ok("GET", ACCOUNT.path("default")))["metadata"]["name"] == "default"
