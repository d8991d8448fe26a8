"""`BackedStorage`: objects of another resource, with its uids and versions, what clients of each of them see, and races."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py import (
    BackedStorage,
    ComputedResource,
    ControlPlane,
    GroupVersionResource,
    StoredResource,
    WriteRequest,
    fielderrors,
    parse_name,
)
from tests.server.handlers.conftest import Api, Watch, config_map, established, make_crd, options

pytestmark = pytest.mark.anyio

INSTANCES = "/clusters/a/apis/admin.example.com/v1/namespaces/default/instances"
DATABASES = "/clusters/a/apis/catalog.example.com/v1/namespaces/default/databases"
EVERYWHERE = "/clusters/*/apis/catalog.example.com/v1/databases"
BACKING = GroupVersionResource("admin.example.com", "v1", "instances")
MERGE = {"headers": [("Content-Type", "application/merge-patch+json")]}
APPLY = {"headers": [("Content-Type", "application/apply-patch+yaml")]}
HIDDEN = "admin.example.com/rack"


class Databases(BackedStorage):
    """Sizes as text. Prices of administrators are not seen."""

    def to_facing(self, backing: dict[str, Any]) -> dict[str, Any]:
        metadata = backing["metadata"]
        labels = {name: text for name, text in (metadata.get("labels") or {}).items() if name != HIDDEN}
        return {**backing, "metadata": {**metadata, "labels": labels}, "spec": {"size": f"{backing['spec']['bytes']} B"}}

    def to_backing(self, facing: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
        made: dict[str, Any] = old or {"metadata": {"labels": {HIDDEN: "none"}}}
        made["spec"] = {**made.get("spec", {}), "bytes": int(facing["spec"]["size"].removesuffix(" B"))}
        return made

    async def validate(self, request: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None) -> Sequence[fielderrors.FieldError]:
        del old
        odd = int(obj["spec"]["size"].removesuffix(" B")) % 2
        return [fielderrors.forbidden("spec.size", f"{request.user.name} may not have odd sizes")] if odd else []


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", "properties": properties}}}


def database(name: str = "one", size: str = "2 B", **metadata: Any) -> dict[str, Any]:
    kind = {"apiVersion": "catalog.example.com/v1", "kind": "Database"}
    return {**kind, "metadata": {"name": name, **metadata}, "spec": {"size": size}}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A control plane with both resources."""
    instances = StoredResource(
        group="admin.example.com",
        version="v1",
        resource="instances",
        kind="Instance",
        schema=schema(bytes={"type": "integer", "maximum": 100}, price={"type": "string"}),
    )
    rest = Databases(lambda: control_plane.client, BACKING, fields={"spec.bytes": "spec.size"})
    databases = ComputedResource(
        group="catalog.example.com",
        version="v1",
        resource="databases",
        kind="Database",
        schema=schema(size={"type": "string", "pattern": r"^\d+ B$"}),
        rest=rest,
    )
    control_plane = ControlPlane(options(tmp_path), apis=[instances, databases])
    async with control_plane, httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client:
        one = Api(client, control_plane)
        for cluster in ("a", "b"):
            await one.ok("POST", f"/clusters/{cluster}/api/v1/namespaces/default/configmaps", config_map("one"))
        yield one


async def test_both_resources_have_the_object(api: Api) -> None:
    """uid, version and times are the same; content is translated both ways; fields that users do not see stay."""
    made = await api.ok("POST", DATABASES, database(labels={"team": "red"}))
    backing = await api.ok("GET", f"{INSTANCES}/one")
    for key in ("uid", "resourceVersion", "creationTimestamp", "generation"):
        assert made["metadata"][key] == backing["metadata"][key]
    assert (backing["spec"], backing["metadata"]["labels"]) == ({"bytes": 2}, {"team": "red", HIDDEN: "none"})
    assert (made["kind"], made["spec"], made["metadata"]["labels"]) == ("Database", {"size": "2 B"}, {"team": "red"})
    await api.ok("PATCH", f"{INSTANCES}/one", {"spec": {"price": "high"}, "metadata": {"labels": {HIDDEN: "r7"}}}, **MERGE)
    labels = {"team": "blue", HIDDEN: "r8"}
    await api.ok("PATCH", f"{DATABASES}/one", {"spec": {"size": "4 B"}, "metadata": {"labels": labels}}, **MERGE)
    backing = await api.ok("GET", f"{INSTANCES}/one")
    assert (backing["spec"], backing["metadata"]["labels"]) == ({"bytes": 4, "price": "high"}, {"team": "blue", HIDDEN: "r7"})
    assert len((await api.ok("GET", f"{DATABASES}?labelSelector=team=blue&fieldSelector=metadata.name=one"))["items"]) == 1
    assert (await api.ok("GET", f"{DATABASES}?labelSelector={HIDDEN}=r7"))["items"] == []
    assert (await api.ok("GET", DATABASES.replace("/a/", "/b/")))["items"] == []
    await api.ok("DELETE", f"{DATABASES}/one")
    await api.fails(404, "GET", f"{INSTANCES}/one")


async def test_locks_and_preconditions(api: Api) -> None:
    """An old version, another uid and a dry run change nothing. A PUT without a version takes the present one."""
    made = await api.ok("POST", DATABASES, database())
    await api.ok("PUT", f"{DATABASES}/one", database(size="4 B"))
    conflict = await api.fails(409, "PUT", f"{DATABASES}/one", {**made, "spec": {"size": "6 B"}})
    assert conflict["message"].startswith(
        'Operation cannot be fulfilled on databases.catalog.example.com "one": the object has been modified'
    )
    await api.fails(409, "PUT", f"{DATABASES}/one", database(size="6 B", uid="other"))
    await api.fails(409, "DELETE", f"{DATABASES}/one", {"preconditions": {"uid": "other"}})
    await api.fails(409, "PATCH", f"{DATABASES}/one", {"metadata": {"resourceVersion": "1"}}, **MERGE)
    await api.ok("PUT", f"{DATABASES}/one?dryRun=All", database(size="6 B"))
    await api.ok("DELETE", f"{DATABASES}/one?dryRun=All")
    await api.ok("POST", f"{DATABASES}?dryRun=All", database("two"))
    before = await api.ok("GET", f"{DATABASES}/one")
    assert before["spec"] == {"size": "4 B"}
    same = await api.ok("PUT", f"{DATABASES}/one", before)
    assert same["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_writers_at_the_same_time_lose_nothing(api: Api) -> None:
    """Administrators and users change different fields of one object; patches are tried again."""
    await api.ok("POST", DATABASES, database())
    users = [api.ok("PATCH", f"{DATABASES}/one", {"metadata": {"labels": {f"n{n}": "x"}}}, **MERGE) for n in range(4)]
    puts = [api.ok("PUT", f"{DATABASES}/one", database(labels={f"n{n}": "x" for n in range(4)})) for _ in range(2)]
    prices = [api.ok("PATCH", f"{INSTANCES}/one", {"spec": {"price": str(n)}}, **MERGE) for n in range(4)]
    await asyncio.gather(*users, *prices, *puts)
    backing = await api.ok("GET", f"{INSTANCES}/one")
    assert "price" in backing["spec"]
    assert set(backing["metadata"]["labels"]) == {"n0", "n1", "n2", "n3", HIDDEN}


async def test_errors_are_those_of_the_facing_type(api: Api) -> None:
    """Names, kinds and fields of the backing resource do not appear."""
    missing = await api.fails(404, "GET", f"{DATABASES}/none")
    assert missing["details"] == {"name": "none", "group": "catalog.example.com", "kind": "databases"}
    await api.fails(404, "PUT", f"{DATABASES}/none", database("none"))
    await api.fails(404, "DELETE", f"{DATABASES}/none")
    await api.ok("POST", DATABASES, database())
    taken = await api.fails(409, "POST", DATABASES, database())
    assert taken["message"] == 'databases.catalog.example.com "one" already exists'
    refused = [
        (database("two", "3 B"), "spec.size: Forbidden: shard-admin may not have odd sizes"),
        (database("two", "much"), "spec.size: Invalid value"),
        (database("two", "200 B"), "spec.size: Invalid value: 200"),
        (database("Not a name"), "metadata.name: Invalid value"),
    ]
    for body, text in refused:
        status = await api.fails(422, "POST", DATABASES, body)
        assert status["message"].startswith(f'Database.catalog.example.com "{body["metadata"]["name"]}" is invalid: {text}')
        assert status["details"]["kind"] == "Database"
        assert "nstance" not in str(status)
        assert "bytes" not in str(status)
    await api.fails(422, "PATCH", f"{DATABASES}/one", {"spec": {"size": "3 B"}}, **MERGE)
    gone = await api.fails(404, "POST", DATABASES.replace("default", "nowhere"), database())
    assert gone["details"]["name"] == "nowhere"


async def test_applies_have_owners_of_facing_fields(api: Api) -> None:
    """Conflicts and removals by facing fields; an apply without a change writes nothing; the backing object has owners of its own."""
    made = await api.ok("PATCH", f"{DATABASES}/one?fieldManager=a", database(labels={"x": "1"}), **APPLY)
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["apiVersion"]) == ("a", "catalog.example.com/v1")
    assert entry["fieldsV1"]["f:spec"] == {"f:size": {}}
    again = await api.ok("PATCH", f"{DATABASES}/one?fieldManager=a", database(labels={"x": "1"}), **APPLY)
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    conflict = await api.fails(409, "PATCH", f"{DATABASES}/one?fieldManager=b", database(size="4 B"), **APPLY)
    assert conflict["details"]["causes"][0]["field"] == ".spec.size"
    await api.ok("PATCH", f"{DATABASES}/one?fieldManager=b&force=true", database(size="4 B"), **APPLY)
    last = await api.ok("PATCH", f"{DATABASES}/one?fieldManager=a", {**database(), "spec": {}}, **APPLY)
    assert last["spec"] == {"size": "4 B"}
    assert "labels" not in last["metadata"]
    backing = await api.ok("GET", f"{INSTANCES}/one")
    assert backing["spec"] == {"bytes": 4}
    assert "f:bytes" in str(backing["metadata"]["managedFields"])
    assert "f:bytes" not in str(last["metadata"])
    assert "annotations" not in last["metadata"] or set(last["metadata"]["annotations"]) == {"kcp.io/cluster"}


async def test_each_resource_has_its_finalizers_and_its_applied_configuration(api: Api) -> None:
    """Those of administrators are neither seen nor removed by users. A damaged annotation hurts nothing else."""
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    await api.ok("POST", DATABASES, database(annotations={applied: "mine"}, finalizers=["user.example.com/x"]))
    theirs = {"metadata": {"finalizers": ["user.example.com/x", "admin.example.com/x"], "annotations": {applied: "theirs"}}}
    await api.ok("PATCH", f"{INSTANCES}/one", theirs, **MERGE)
    seen = (await api.ok("GET", f"{DATABASES}/one"))["metadata"]
    assert (seen["finalizers"], seen["annotations"][applied]) == (["user.example.com/x"], "mine")
    deleted = await api.ok("DELETE", f"{DATABASES}/one")
    assert deleted["metadata"]["deletionTimestamp"]
    mine = {"metadata": {"finalizers": None, "annotations": {applied: None, "facing.kcp.io/state": "{"}}}
    await api.ok("PATCH", f"{DATABASES}/one", mine, **MERGE)
    backing = (await api.ok("GET", f"{INSTANCES}/one"))["metadata"]
    assert (backing["finalizers"], backing["annotations"][applied]) == (["admin.example.com/x"], "theirs")
    for text in ("{", "[]", '{"databases.catalog.example.com": 1}'):
        await api.ok("PATCH", f"{INSTANCES}/one", {"metadata": {"annotations": {"facing.kcp.io/state": text}}}, **MERGE)
        assert "finalizers" not in (await api.ok("GET", f"{DATABASES}/one"))["metadata"]
    await api.ok("PATCH", f"{INSTANCES}/one", {"metadata": {"finalizers": None}}, **MERGE)
    await api.fails(404, "GET", f"{DATABASES}/one")


async def test_watches_resume_and_select(api: Api) -> None:
    """Changes of either resource are events. An object that ceases to match is DELETED, also in a watch that resumes."""
    await api.ok("POST", DATABASES, database(labels={"team": "red"}))
    version = (await api.ok("GET", DATABASES))["metadata"]["resourceVersion"]
    selected = Watch(api, DATABASES, labelSelector="team%3Dred", resourceVersion=version)
    named = Watch(api, DATABASES, fieldSelector="metadata.name%3Done", resourceVersion=version)
    begins = Watch(api, DATABASES, sendInitialEvents="true", allowWatchBookmarks="true", resourceVersionMatch="NotOlderThan")
    async with selected, named, begins, Watch(api, EVERYWHERE, resourceVersion=version) as everywhere:
        assert await begins.brief() == ("ADDED", "one")
        assert (await begins.next() or {})["type"] == "BOOKMARK"
        await api.ok("PATCH", f"{INSTANCES}/one", {"spec": {"bytes": 8}, "metadata": {"labels": {"team": "blue"}}}, **MERGE)
        await api.ok("POST", DATABASES.replace("/a/", "/b/"), database("other"))
        assert await selected.brief() == ("DELETED", "one")
        event = await named.next()
        assert event is not None
        assert (event["type"], event["object"]["kind"], event["object"]["spec"]) == ("MODIFIED", "Database", {"size": "8 B"})
        assert {await everywhere.brief(), await everywhere.brief()} == {("MODIFIED", "one"), ("ADDED", "other")}
        await api.ok("DELETE", f"{INSTANCES}/one")
        assert await named.brief() == ("DELETED", "one")
        assert await begins.brief() == ("MODIFIED", "one")
        assert await begins.brief() == ("DELETED", "one")
    listed = await api.ok("GET", EVERYWHERE)
    assert [one["metadata"]["name"] for one in listed["items"]] == ["other"]
    assert int(listed["metadata"]["resourceVersion"]) >= int(version)
    async with Watch(api, DATABASES, resourceVersion="999999999") as future:
        assert (await future.next() or {})["object"]["code"] in {410, 504}


async def test_permissions_are_those_for_the_facing_resource(api: Api) -> None:
    """A role for it is enough, and gives no access to the other one."""
    rbac = "/clusters/a/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": ["catalog.example.com"], "resources": ["databases"], "verbs": ["*"]}
    access = {"nonResourceURLs": ["/"], "verbs": ["access"]}
    await api.ok("POST", f"{rbac}/clusterroles", {"metadata": {"name": "user"}, "rules": [rule, access]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "user"}
    jane = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
    await api.ok("POST", f"{rbac}/clusterrolebindings", {"metadata": {"name": "jane"}, "roleRef": role, "subjects": [jane]})
    await api.ok("POST", DATABASES, database(), token="Bearer user")
    await api.ok("PUT", f"{DATABASES}/one", database(size="4 B"), token="Bearer user")
    await api.fails(403, "GET", f"{INSTANCES}/one", token="Bearer user")
    await api.fails(403, "GET", f"{DATABASES.replace('/a/', '/b/')}/one", token="Bearer user")
    await api.ok("DELETE", f"{DATABASES}/one", token="Bearer user")


async def test_the_backing_resource_may_be_that_of_a_crd(tmp_path: Path) -> None:
    """Clusters without the CRD answer with 503, and do not disturb lists over all clusters."""
    rest = Databases(lambda: control_plane.client, GroupVersionResource("example.com", "v1", "widgets"))
    databases = ComputedResource(group="catalog.example.com", version="v1", resource="databases", kind="Database", rest=rest)
    control_plane = ControlPlane(options(tmp_path), apis=[databases])
    async with control_plane, httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client:
        api = Api(client, control_plane)
        await api.ok("POST", "/clusters/b/api/v1/namespaces/default/configmaps", config_map("one"))
        await api.ok("POST", "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", make_crd())
        await established(api, "a")
        await api.ok("POST", DATABASES, database())
        widget = await api.ok("GET", "/clusters/a/apis/example.com/v1/namespaces/default/widgets/one")
        assert widget["spec"] == {"bytes": 2}
        for method, path in (("GET", DATABASES), ("GET", f"{DATABASES}/one"), ("DELETE", f"{DATABASES}/one")):
            refused = await api.fails(503, method, path.replace("/a/", "/b/"))
            assert "databases.catalog.example.com are not available" in refused["message"]
        everywhere = await api.ok("GET", EVERYWHERE)
        assert [one["metadata"]["name"] for one in everywhere["items"]] == ["one"]
        await api.ok("DELETE", f"{DATABASES}/one")


async def made(api: Api, *names: str, cluster: str = "a", **metadata: Any) -> None:
    """Make databases."""
    for name in names:
        await api.ok("POST", DATABASES.replace("/a/", f"/{cluster}/"), database(name, **metadata))


async def names_of(api: Api, path: str) -> list[str]:
    return [one["metadata"]["name"] for one in (await api.ok("GET", path))["items"]]


async def test_deletecollection(api: Api) -> None:
    """Selectors choose by the facing labels; the answer lists the deleted objects; other clusters and other objects stay."""
    await made(api, "a", "b", labels={"team": "red"})
    await made(api, "c", labels={"team": "blue"})
    await made(api, "a", cluster="b", labels={"team": "red"})
    entries = (await api.ok("GET", "/clusters/a/apis/catalog.example.com/v1"))["resources"]
    assert "deletecollection" in entries[0]["verbs"]
    dry = await api.ok("DELETE", f"{DATABASES}?dryRun=All")
    assert (dry["kind"], [one["metadata"]["name"] for one in dry["items"]]) == ("DatabaseList", ["a", "b", "c"])
    assert await names_of(api, DATABASES) == ["a", "b", "c"]
    assert (await api.ok("DELETE", f"{DATABASES}?labelSelector={HIDDEN}%3Dnone"))["items"] == []
    gone = await api.ok("DELETE", f"{DATABASES}?labelSelector=team%3Dred")
    assert [(one["metadata"]["name"], one["spec"]) for one in gone["items"]] == [("a", {"size": "2 B"}), ("b", {"size": "2 B"})]
    assert gone["metadata"]["resourceVersion"]
    assert await names_of(api, DATABASES) == await names_of(api, INSTANCES) == ["c"]
    assert await names_of(api, DATABASES.replace("/a/", "/b/")) == ["a"]
    await api.ok("DELETE", f"{DATABASES}?fieldSelector=metadata.name%3Dc")
    assert await names_of(api, INSTANCES) == []


async def test_deletecollection_in_parts(api: Api) -> None:
    """A limit deletes so many; a token of a list that is read page by page deletes the next page of that."""
    await made(api, *"abcdef")
    first = await api.ok("GET", f"{DATABASES}?limit=2")
    second = await api.ok("DELETE", f"{DATABASES}?limit=2&continue={first['metadata']['continue']}")
    assert [one["metadata"]["name"] for one in second["items"]] == ["c", "d"]
    some = await api.ok("DELETE", f"{DATABASES}?limit=3")
    assert [one["metadata"]["name"] for one in some["items"]] == ["a", "b", "e"]
    assert await names_of(api, INSTANCES) == ["f"]
    await api.fails(400, "DELETE", f"{DATABASES}?limit=2&continue=unknown")
    assert await names_of(api, INSTANCES) == ["f"]


async def test_deletecollection_with_finalizers_and_refusals(api: Api) -> None:
    """Objects that finalizers hold are marked and stay; preconditions refuse; all clusters at once are refused."""
    await made(api, "held", finalizers=["example.com/wait"])
    await made(api, "free")
    await api.fails(409, "DELETE", DATABASES, {"preconditions": {"uid": "other"}})
    assert await names_of(api, DATABASES) == ["free", "held"]
    answer = await api.ok("DELETE", DATABASES)
    assert [(one["metadata"]["name"], "deletionTimestamp" in one["metadata"]) for one in answer["items"]] == [
        ("free", False),
        ("held", True),
    ]
    assert await names_of(api, DATABASES) == ["held"]
    await api.fails(405, "DELETE", EVERYWHERE)
    await api.fails(403, "DELETE", DATABASES, token="Bearer user")
    assert await names_of(api, EVERYWHERE) == ["held"]


async def test_deletecollection_races_with_other_clients(api: Api) -> None:
    """Two deletions of a collection and those of its objects: each is answered, and nothing is left."""
    await made(api, *"abcdefgh")
    single = [api("DELETE", f"{DATABASES}/{name}") for name in "aceg"]
    answers = await asyncio.gather(api("DELETE", DATABASES), api("DELETE", DATABASES), *single)
    assert {one.status_code for one in answers[:2]} == {200}
    assert {one.status_code for one in answers[2:]} <= {200, 404}
    assert await names_of(api, INSTANCES) == []


async def test_deletecollection_in_the_process(api: Api) -> None:
    """The client of the process offers it, too."""
    await made(api, "a", "b", labels={"team": "red"})
    cluster = parse_name("a")
    databases = GroupVersionResource("catalog.example.com", "v1", "databases")
    await api.control_plane.client.delete_collection(cluster, databases, "default", field_selector="metadata.name=a")
    assert await names_of(api, INSTANCES) == ["b"]
