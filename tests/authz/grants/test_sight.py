"""Watches over all clusters of a caller who may see some of them."""

from __future__ import annotations

import pytest

from tests.authz.conftest import ALICE, rule
from tests.authz.grants.conftest import GRANTS, MERGE, config_maps, everywhere, fill, grant, label, logical_cluster, places
from tests.server.handlers.conftest import Api, Watch

pytestmark = pytest.mark.anyio

GOLD = {"selector": {"matchLabels": {"tier": "gold"}}}
AS_ALICE = {"Authorization": ALICE}


def watch(api: Api, path: str = "", headers: dict[str, str] | None = None, **params: str) -> Watch:
    """A watch of alice."""
    return Watch(api, path or everywhere(), {**AS_ALICE, **(headers or {})}, **params)


async def revision(api: Api) -> str:
    """That of a list of alice."""
    version: str = (await api.ok("GET", everywhere(), token=ALICE))["metadata"]["resourceVersion"]
    return version


async def place(watching: Watch) -> tuple[str, str]:
    """Type of the next event, and cluster and name of its object."""
    event = await watching.next()
    assert event is not None
    return event["type"], places({"items": [event["object"]]})[0]


async def test_events_of_granted_clusters(api: Api) -> None:
    """Those of others are not sent."""
    await fill(api, "team-a", "team-b")
    await api.ok("POST", GRANTS, grant("maps", {"names": ["team-b", "team-c"]}))
    async with watch(api) as watching:
        assert await place(watching) == ("ADDED", "team-b/one")
        await api.ok("DELETE", f"{config_maps('team-a')}/one")
        await fill(api, "team-c")
        await api.ok("DELETE", f"{config_maps('team-b')}/one")
        assert await place(watching) == ("ADDED", "team-c/one")
        assert await place(watching) == ("DELETED", "team-b/one")


async def test_clusters_that_come_and_go(api: Api) -> None:
    """By a label: the objects of a cluster that comes into sight are ADDED, and those of one that goes out of it DELETED."""
    await fill(api, "team-a", "team-b")
    await api.ok("POST", config_maps("team-b"), {"metadata": {"name": "two"}})
    await api.ok("POST", GRANTS, grant("maps", GOLD))
    async with watch(api, resourceVersion=await revision(api), allowWatchBookmarks="true") as watching:
        await label(api, "team-b", tier="gold")
        added = [await watching.next() for _ in range(2)]
        stored = (await api.ok("GET", config_maps("team-b")))["items"]
        assert [one and one["type"] for one in added] == ["ADDED", "ADDED"]
        assert [one and one["object"]["metadata"]["resourceVersion"] for one in added] == [
            one["metadata"]["resourceVersion"] for one in stored
        ]
        bookmark = await watching.next()
        labelled = await api.ok("GET", logical_cluster("team-b"))
        assert bookmark is not None
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["metadata"]["resourceVersion"] == labelled["metadata"]["resourceVersion"]
        await api.ok("DELETE", f"{config_maps('team-b')}/one")
        assert await place(watching) == ("DELETED", "team-b/one")
        await label(api, "team-b", tier=None)
        gone = await watching.next()
        labelled = await api.ok("GET", logical_cluster("team-b"))
        assert gone is not None
        assert gone["type"] == "DELETED"
        assert gone["object"]["metadata"]["name"] == "two"
        assert gone["object"]["metadata"]["resourceVersion"] == labelled["metadata"]["resourceVersion"]


async def test_grants_that_come_and_go(api: Api) -> None:
    """A watch follows new grants of its caller, their changes and their deletion."""
    await fill(api, "team-a", "team-b", "team-c")
    await api.ok("POST", GRANTS, grant("first", {"names": ["team-a"]}))
    async with watch(api, resourceVersion=await revision(api)) as watching:
        await api.ok("POST", GRANTS, grant("second", {"all": True}))
        assert [await place(watching) for _ in range(2)] == [("ADDED", "team-b/one"), ("ADDED", "team-c/one")]
        await api.ok("PATCH", f"{GRANTS}/second", {"spec": {"clusters": {"all": None, "names": ["team-c"]}}}, headers=MERGE)
        assert await place(watching) == ("DELETED", "team-b/one")
        await api.ok("PATCH", f"{GRANTS}/second", {"spec": {"rules": [rule("list", "configmaps")]}}, headers=MERGE)
        assert await place(watching) == ("DELETED", "team-c/one")
        await api.ok("DELETE", f"{GRANTS}/first")
        assert await place(watching) == ("DELETED", "team-a/one")
        await api.ok("POST", GRANTS, grant("third", {"names": ["team-c"]}))
        assert await place(watching) == ("ADDED", "team-c/one")


async def test_created_and_deleted_clusters_are_seen_by_their_own_events(api: Api) -> None:
    """A cluster that is created in sight needs no second list, even for a watch that resumes before its creation."""
    await fill(api, "team-a")
    await api.ok("POST", GRANTS, grant("maps", {"selector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}}))
    before = await revision(api)
    await fill(api, "team-b")
    async with watch(api, resourceVersion=before) as watching:
        assert await place(watching) == ("ADDED", "team-b/one")
        await api.ok("DELETE", logical_cluster("team-b"))
        assert await place(watching) == ("DELETED", "team-b/one")
        await fill(api, "team-c")
        assert await place(watching) == ("ADDED", "team-c/one")
    async with watch(api, resourceVersion=before) as watching:
        assert [await place(watching) for _ in range(3)] == [("ADDED", "team-b/one"), ("DELETED", "team-b/one"), ("ADDED", "team-c/one")]


async def test_a_resume_from_before_a_change_is_refused(api: Api) -> None:
    """410: the client does not know what came into sight since, so it lists again."""
    await fill(api, "team-a", "team-b")
    await api.ok("POST", GRANTS, grant("maps", GOLD))
    before = await revision(api)
    await label(api, "team-b", tier="gold")
    async with watch(api, resourceVersion=before) as watching:
        event = await watching.next()
        assert event is not None
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    async with watch(api, resourceVersion=await revision(api)) as watching:
        await api.ok("DELETE", f"{config_maps('team-b')}/one")
        assert await place(watching) == ("DELETED", "team-b/one")


@pytest.mark.parametrize("accept", [
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json",
])  # fmt: skip
async def test_forms_and_selectors(api: Api, accept: str) -> None:
    """Objects that come into sight have the form and pass the selectors of the watch."""
    await fill(api, "team-a")
    await api.ok("POST", config_maps("team-a"), {"metadata": {"name": "two", "labels": {"x": "y"}}})
    await api.ok("POST", config_maps("team-a", "kube-public"), {"metadata": {"name": "three", "labels": {"x": "y"}}})
    await api.ok("POST", GRANTS, grant("maps", GOLD))
    path = everywhere("api/v1/namespaces/default/configmaps")
    async with watch(api, path, {"Accept": accept}, resourceVersion=await revision(api), labelSelector="x=y") as watching:
        for value, kind in (("gold", "ADDED"), (None, "DELETED"), ("gold", "ADDED")):
            await label(api, "team-a", tier=value)
            event = await watching.next()
            assert event is not None
            obj = event["object"]["rows"][0]["object"] if event["object"]["kind"] == "Table" else event["object"]
            assert (event["type"], obj["metadata"]["name"]) == (kind, "two")


async def test_initial_events(api: Api) -> None:
    """A watch that begins with the state sends that of the clusters in sight, then the bookmark, then changes of sight."""
    await fill(api, "team-a", "team-b")
    await label(api, "team-b", tier="gold")
    await api.ok("POST", GRANTS, grant("maps", GOLD))
    async with watch(api, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true") as watching:
        assert await place(watching) == ("ADDED", "team-b/one")
        bookmark = await watching.next()
        assert bookmark is not None
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await label(api, "team-a", tier="gold")
        assert await place(watching) == ("ADDED", "team-a/one")


async def test_default_objects_come_and_go_with_sight(api: Api) -> None:
    """Namespaces that are not stored, too; inherited roles are shown in no request over all clusters."""
    await fill(api, "team-a")
    rules = (rule("get list watch", "namespaces clusterroles", groups="- rbac.authorization.k8s.io"),)
    await api.ok("POST", GRANTS, grant("maps", GOLD, *rules))
    since = (await api.ok("GET", everywhere("api/v1/namespaces"), token=ALICE))["metadata"]["resourceVersion"]
    roles = "apis/rbac.authorization.k8s.io/v1/clusterroles"
    async with (
        watch(api, everywhere("api/v1/namespaces"), resourceVersion=since) as watching,
        watch(api, everywhere(roles), resourceVersion=since) as watching_roles,
    ):
        await label(api, "team-a", tier="gold")
        names = {await place(watching) for _ in range(4)}
        assert ("ADDED", "team-a/default") in names
        await api.ok("POST", f"/clusters/team-a/{roles}", {"metadata": {"name": "own"}, "rules": []})
        assert await place(watching_roles) == ("ADDED", "team-a/own")
        await label(api, "team-a", tier=None)
        assert {await place(watching) for _ in range(4)} == {("DELETED", name) for _, name in names}


async def test_logical_clusters_come_and_go_with_sight(api: Api) -> None:
    """The objects of the clusters themselves, whose labels are the reason."""
    await fill(api, "team-a", "team-b")
    path = everywhere("apis/core.kcp.io/v1alpha1/logicalclusters")
    await api.ok("POST", GRANTS, grant("maps", GOLD, rule("get list watch", "logicalclusters", groups="core.kcp.io")))
    since = (await api.ok("GET", path, token=ALICE))["metadata"]["resourceVersion"]
    async with watch(api, path, resourceVersion=since) as watching:
        await label(api, "team-a", tier="gold")
        assert await place(watching) == ("ADDED", "team-a/cluster")
        await label(api, "team-a", tier="gold", other="x")
        assert await place(watching) == ("MODIFIED", "team-a/cluster")
        await label(api, "team-a", tier="silver")
        assert await place(watching) == ("DELETED", "team-a/cluster")
        await label(api, "team-b", tier="gold")
        assert await place(watching) == ("ADDED", "team-b/cluster")
        await api.ok("DELETE", logical_cluster("team-b"))
        while (event := await place(watching))[0] != "DELETED":
            assert event == ("MODIFIED", "team-b/cluster")
        assert event == ("DELETED", "team-b/cluster")
