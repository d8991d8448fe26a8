"""`kube-root-ca.crt` for clients that look for it by its name, as kubelets, informers and `kubectl --field-selector` do.

Each test describes what clients of a kube-apiserver with its controllers see, for whom the ConfigMap is an ordinary object.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.server.handlers.conftest import Api, Watch
from tests.server.handlers.test_namespace_objects import (
    CORE,
    DEFAULT_NAMESPACES,
    EVERYWHERE,
    METADATA,
    ROOT_CA,
    TABLE,
    delete_namespace,
    events,
    latest,
    server,
)
from tests.server.handlers.widgets import MERGE

pytestmark = pytest.mark.anyio

NAMED: Final = "metadata.name=kube-root-ca.crt"
QUERY: Final = {"fieldSelector": NAMED}
WATCHED: Final = "metadata.name%3Dkube-root-ca.crt"
APPLY: Final = {"Content-Type": "application/apply-patch+yaml"}
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A server whose certificates are known."""
    async with server(tmp_path) as api:
        yield api


def watch(api: Api, path: str = ROOT_CA.within(), **params: str) -> Watch:
    """A watch of the name."""
    return Watch(api, path, None, fieldSelector=WATCHED, **params)


async def label(api: Api, namespace: str = "x") -> Any:
    """Store the ConfigMap of a namespace by a change."""
    return await api.ok("PATCH", ROOT_CA.path(namespace), {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)


@pytest.mark.parametrize("accept", ["application/json", METADATA, TABLE])
@pytest.mark.parametrize(
    "more", [{}, {"limit": "500"}, {"limit": "1"}, {"resourceVersion": "0"}, {"labelSelector": "!a"}, {"exact": "true"}]
)
async def test_a_list_of_the_name_shows_it(api: Api, accept: str, more: dict[str, str]) -> None:
    """In a namespace, whatever the form, the page and the version."""
    read = await api.ok("GET", ROOT_CA.path())
    if "exact" in more:
        more = {"resourceVersion": await latest(api), "resourceVersionMatch": "Exact"}
    found = await api.ok("GET", ROOT_CA.within(), headers={"Accept": accept}, params={**QUERY, **more})
    (one,) = found["items"] if "items" in found else [row["object"] for row in found["rows"]]
    assert (one["metadata"]["uid"], one["metadata"]["resourceVersion"]) == (read["metadata"]["uid"], read["metadata"]["resourceVersion"])
    assert not found["metadata"].get("continue")


async def test_a_list_of_the_name_in_all_namespaces(api: Api) -> None:
    """One in each namespace, stored or not, and in pages. Without the selector, and over all clusters, stored ones are shown."""
    changed = await label(api, "kube-public")
    await api.ok("POST", ROOT_CA.within("default"), {"metadata": {"name": "mine"}})
    for limit in (0, 1, 2, 500):
        found, token = [], ""
        while True:
            page = await api.ok("GET", ROOT_CA.in_cluster, params={**QUERY, **({"limit": str(limit), "continue": token} if limit else {})})
            found += [one["metadata"]["namespace"] for one in page["items"]]
            if not (token := page["metadata"].get("continue", "")):
                break
        assert found == [*DEFAULT_NAMESPACES, "x"]
    for path, params in ((ROOT_CA.in_cluster, {}), (f"{EVERYWHERE}/configmaps", QUERY)):
        listed = await api.ok("GET", path, params=params)
        stored = [one["metadata"]["uid"] for one in listed["items"] if one["metadata"]["name"] == ROOT_CA.name]
        assert stored == [changed["metadata"]["uid"]]
    selected = await api.ok("GET", ROOT_CA.in_cluster, params={**QUERY, "labelSelector": "a=b"})
    assert [one["metadata"]["namespace"] for one in selected["items"]] == ["kube-public"]
    none = await api.ok("GET", ROOT_CA.within("no-such"), params=QUERY)
    assert none["items"] == []


async def test_a_watch_of_the_name_begins_with_it(api: Api) -> None:
    """Without a version, and as a list by a watch."""
    uid = (await api.ok("GET", ROOT_CA.path()))["metadata"]["uid"]
    streamed = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    for params in ({}, streamed):
        async with watch(api, **params) as one:
            assert [event[:3] for event in await events(one, 1)] == [("ADDED", "x", uid)]
    async with watch(api, ROOT_CA.in_cluster) as all_of_them:
        assert [event[1] for event in await events(all_of_them, 5)] == [*DEFAULT_NAMESPACES, "x"]


async def test_a_watch_of_the_name_follows_its_namespaces(api: Api) -> None:
    """ADDED with the namespace, MODIFIED with its first change, DELETED with the end; live, and resumed from before."""
    start = await latest(api)
    async with (
        watch(api, ROOT_CA.in_cluster, resourceVersion=start) as live,
        Watch(api, ROOT_CA.in_cluster, resourceVersion=start) as other,
    ):
        await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "new"}})
        first = await api.ok("GET", ROOT_CA.path("new"))
        changed = await label(api, "new")
        await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "short"}})
        short = await api.ok("GET", ROOT_CA.path("short"))
        await delete_namespace(api, "short")
        await delete_namespace(api, "new")
        seen = await events(live, 5)
        # Without the selector it comes with its first change.
        assert [event[:2] for event in await events(other, 2)] == [("ADDED", "new"), ("DELETED", "new")]
    uid, uid_of_short = first["metadata"]["uid"], short["metadata"]["uid"]
    assert uid == changed["metadata"]["uid"]
    assert [event[:3] for event in seen] == [
        ("ADDED", "new", uid), ("MODIFIED", "new", uid), ("ADDED", "short", uid_of_short), ("DELETED", "short", uid_of_short),
        ("DELETED", "new", uid),
    ]  # fmt: skip
    async with watch(api, ROOT_CA.in_cluster, resourceVersion=start) as resumed:
        assert await events(resumed, 5) == seen
    async with watch(api, ROOT_CA.within("short"), resourceVersion=start) as resumed:
        assert await events(resumed, 2) == seen[2:4]


async def test_a_namespace_that_comes_again_has_another_one(api: Api) -> None:
    """A client that knows the old one gets its end, and the new one."""
    async with watch(api) as one:
        (old,) = await events(one, 1)
        await delete_namespace(api)
        await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "x"}})
        ended, added = await events(one, 2)
        assert (ended[0], ended[2], added[0]) == ("DELETED", old[2], "ADDED")
        assert added[2] == (await api.ok("GET", ROOT_CA.path()))["metadata"]["uid"] != old[2]


async def test_a_watch_of_the_name_sees_a_deletion(api: Api) -> None:
    """DELETED, and ADDED with another uid: of one that nothing is stored of, and of a stored one."""
    async with watch(api) as one:
        known = (await events(one, 1))[0][2]
        for _ in range(2):
            await api.ok("DELETE", ROOT_CA.path())
            ended, added = await events(one, 2)
            assert (ended[0], ended[2], added[0]) == ("DELETED", known, "ADDED")
            assert (known := added[2]) != ended[2]


async def test_the_end_of_a_watch_is_the_end_of_its_events(api: Api) -> None:
    """Events are made while the name is watched in the cluster. Other clusters do not count."""
    fanout = api.control_plane.backend.fanout
    prefix = "/registry/core/configmaps/"

    def named(cluster: str) -> bool:
        return fanout.is_named(prefix, cluster, ROOT_CA.name)

    async with watch(api) as one, watch(api, ROOT_CA.in_cluster) as other:
        await events(one, 1)
        await events(other, 5)
        assert (named("a"), named("b")) == (True, False)
    assert not named("a")


async def test_every_verb_of_one_that_is_not_stored(api: Api, tmp_path: Path) -> None:
    """Dry runs change nothing. An apply, an update and a patch store it, and the data stay those of the server."""
    bundle = (tmp_path / "pki" / "ca.crt").read_text()
    before = await api.ok("GET", ROOT_CA.path())
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": ROOT_CA.name, "labels": {"by": "apply"}}, "data": {"x": "y"}}
    dry = {"dryRun": "All"}
    apply = {"fieldManager": "me", "force": "true"}
    await api.ok("PATCH", ROOT_CA.path(), applied, headers=APPLY, params={**apply, **dry})
    await api.ok("PUT", ROOT_CA.path(), {**before, "data": {"x": "y"}}, params=dry)
    await api.ok("PATCH", ROOT_CA.path(), {"data": {"x": "y"}}, headers=MERGE, params=dry)
    await api.ok("DELETE", ROOT_CA.path(), params=dry)
    await api.ok("DELETE", ROOT_CA.within(), params={**QUERY, **dry})
    await api.fails(409, "POST", ROOT_CA.within(), {"metadata": {"name": ROOT_CA.name}}, params=dry)
    assert await api.ok("GET", ROOT_CA.path()) == before
    assert (await api.ok("GET", ROOT_CA.in_cluster))["items"] == []
    written = await api.ok("PATCH", ROOT_CA.path(), applied, headers=APPLY, params=apply)
    assert (written["metadata"]["uid"], written["metadata"]["labels"]) == (before["metadata"]["uid"], {"by": "apply"})
    assert written["data"] == {"ca.crt": bundle}
    written = await api.ok("PUT", ROOT_CA.path("default"), {"metadata": {"name": ROOT_CA.name}, "data": {"x": "y"}})
    assert written["data"] == {"ca.crt": bundle}
    table = await api.ok("GET", ROOT_CA.path("kube-public"), headers={"Accept": TABLE})
    assert table["rows"][0]["cells"][:2] == [ROOT_CA.name, 1]
    raw = await api("GET", ROOT_CA.path("kube-public"), headers={"Accept": PROTOBUF, "Authorization": "Bearer secret"})
    assert (raw.status_code, raw.content[:4], bundle.encode() in raw.content) == (200, b"k8s\x00", True)


async def test_a_deletion_of_the_collection_by_the_name(api: Api) -> None:
    """It comes back with another uid. A deletion of all ConfigMaps leaves one that nothing is stored of as it is."""
    before = await api.ok("GET", ROOT_CA.path())
    await api.ok("DELETE", ROOT_CA.within())
    assert await api.ok("GET", ROOT_CA.path()) == before
    await api.ok("DELETE", ROOT_CA.within(), params=QUERY)
    after = await api.ok("GET", ROOT_CA.path())
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["data"] == before["data"]


async def test_in_a_namespace_that_terminates(api: Api) -> None:
    """It is gone from reads, lists and watches as soon as the deletion is answered, and cannot be written."""
    await api.ok("POST", ROOT_CA.within(), {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}})
    async with watch(api) as one:
        (known,) = await events(one, 1)
        await api.ok("DELETE", f"{CORE}/namespaces/x")
        ((kind, _, uid, _),) = await events(one, 1)
        assert (kind, uid) == ("DELETED", known[2])
    await api.fails(404, "GET", ROOT_CA.path())
    assert (await api.ok("GET", ROOT_CA.within(), params=QUERY))["items"] == []
    await api.fails(404, "PATCH", ROOT_CA.path(), {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
    await api.fails(403, "POST", ROOT_CA.within(), {"metadata": {"name": ROOT_CA.name}})
