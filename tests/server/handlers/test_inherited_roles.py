"""The roles and bindings that every cluster has without storing them, as clients see them."""

from __future__ import annotations

import pytest

from tests.server.handlers.conftest import Api, Watch, config_map

pytestmark = pytest.mark.anyio

ROLES = "/clusters/team-a/apis/rbac.authorization.k8s.io/v1/clusterroles"
EVERYWHERE = "/clusters/*/apis/rbac.authorization.k8s.io/v1/clusterroles"
OWN = {"metadata": {"name": "own"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
MERGE = {"Content-Type": "application/merge-patch+json"}


async def create_clusters(api: Api, *clusters: str) -> None:
    for cluster in clusters:
        await api.ok("POST", f"/clusters/{cluster}/api/v1/namespaces/default/configmaps", config_map("one"))


async def names_of(api: Api, path: str) -> list[str]:
    return [one["metadata"]["name"] for one in (await api.ok("GET", path))["items"]]


async def test_every_cluster_has_them(api: Api) -> None:
    """They are read, listed in the order of names, and paged like stored ones, each cluster's with uids of its own."""
    await create_clusters(api, "team-a", "team-b")
    view = await api.ok("GET", f"{ROLES}/view")
    other = await api.ok("GET", f"{ROLES.replace('team-a', 'team-b')}/view")
    assert view["rules"] == other["rules"] != []
    assert view["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
    assert view["metadata"]["uid"] != other["metadata"]["uid"]
    await api.ok("POST", ROLES, OWN)
    listed = await names_of(api, ROLES)
    assert listed == sorted(listed)
    assert {"admin", "cluster-admin", "edit", "own", "system:discovery", "view"} <= set(listed)
    paged: list[str] = []
    token = ""
    while True:
        page = await api.ok("GET", ROLES, params={"limit": "7", **({"continue": token} if token else {})})
        paged += [one["metadata"]["name"] for one in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert paged == listed
    tables = await api.ok("GET", ROLES, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    assert [row["cells"][0] for row in tables["rows"]] == listed


async def test_over_all_clusters_there_are_stored_ones_alone(api: Api) -> None:
    """A list over thousands of clusters does not repeat the policy of each."""
    await create_clusters(api, "team-a", "team-b")
    assert await names_of(api, EVERYWHERE) == []
    await api.ok("POST", ROLES, OWN)
    await api.ok("PATCH", f"{ROLES}/view", {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
    assert await names_of(api, EVERYWHERE) == ["own", "view"]


async def test_a_watch_in_a_cluster(api: Api) -> None:
    """A change of an inherited role is a modification; the deletion of the stored one brings the inherited one back."""
    await create_clusters(api, "team-a")
    count = len(await names_of(api, ROLES))
    async with Watch(api, ROLES) as watch:
        assert [(await watch.brief())[0] for _ in range(count)] == ["ADDED"] * count
        await api.ok("PATCH", f"{ROLES}/view", {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
        assert await watch.brief() == ("MODIFIED", "view")
        await api.ok("DELETE", f"{ROLES}/view")
        assert [await watch.brief(), await watch.brief()] == [("DELETED", "view"), ("ADDED", "view")]
    assert "a" not in (await api.ok("GET", f"{ROLES}/view"))["metadata"]["labels"]


async def test_a_watch_over_all_clusters(api: Api) -> None:
    """An object that hides an inherited role is an addition there; its deletion stores one with another uid. Creations make no events."""
    await create_clusters(api, "team-a")
    async with Watch(api, EVERYWHERE) as watch:
        await api.ok("PATCH", f"{ROLES}/view", {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
        assert await watch.brief() == ("ADDED", "view")
        await api.ok("DELETE", f"{ROLES}/view")
        await create_clusters(api, "team-c")
        await api.ok("POST", ROLES, OWN)
        assert [await watch.brief() for _ in range(3)] == [("DELETED", "view"), ("ADDED", "view"), ("ADDED", "own")]


async def test_the_creation_of_a_cluster_ends_its_watches(api: Api) -> None:
    """What it inherits has other uids from then on: clients list again."""
    before = (await api.ok("GET", f"{ROLES}/view"))["metadata"]["uid"]
    async with Watch(api, ROLES, fieldSelector="metadata.name=view") as watch:
        assert await watch.brief() == ("ADDED", "view")
        await create_clusters(api, "team-a")
        assert await watch.next() is None
    assert (await api.ok("GET", f"{ROLES}/view"))["metadata"]["uid"] != before


async def test_an_inherited_name_is_taken(api: Api) -> None:
    """A create is refused, and an update stores the object."""
    assert (await api.fails(409, "POST", ROLES, {**OWN, "metadata": {"name": "view"}}))["reason"] == "AlreadyExists"
    view = await api.ok("GET", f"{ROLES}/view")
    stored = await api.ok("PUT", f"{ROLES}/view", {**view, "rules": []})
    assert stored["metadata"]["uid"] == (await api.ok("GET", f"{ROLES}/view"))["metadata"]["uid"]
