"""Saving, restoring and cloning logical clusters, through a whole control plane."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kcp_py import ControlPlane, GroupVersionResource, Options, errors, parse_name
from kcp_py.storage.contract import UnavailableError
from kcp_py.tenancy.snapshots import Snapshot, StoredKey

pytestmark = pytest.mark.anyio

MAPS = GroupVersionResource("", "v1", "configmaps")
NAMESPACES = GroupVersionResource("", "v1", "namespaces")
QUOTAS = GroupVersionResource("", "v1", "resourcequotas")
SECRETS = GroupVersionResource("", "v1", "secrets")
ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
SHIPS = GroupVersionResource("example.com", "v1", "ships")
CLUSTERS = GroupVersionResource("core.kcp.io", "v1alpha1", "logicalclusters")
A, B = parse_name("team-a"), parse_name("team-b")
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ships.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "ships", "kind": "Ship", "singular": "ship"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.fixture(params=["memory", "sqlite"])
async def plane(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """A control plane; on the storage `memory` several servers could write, on `sqlite` one does."""
    options = Options(storage=request.param, root_directory=tmp_path, namespace_deletion_grace=0.0)
    async with ControlPlane(options) as made:
        yield made


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


async def names(plane: ControlPlane, cluster: str = A, resource: GroupVersionResource = MAPS) -> set[str]:
    found = await plane.client.list(parse_name(cluster), resource)
    return {item["metadata"]["name"] for item in found.items if item["metadata"]["name"] not in {"kube-root-ca.crt", "default"}}


async def until(condition: Any) -> Any:
    """Wait for what a controller does."""
    async with asyncio.timeout(30):
        while not (found := await condition()):
            await asyncio.sleep(0.01)
    return found


async def define(plane: ControlPlane, cluster: str = A) -> None:
    await plane.client.create(parse_name(cluster), CRDS, CRD)

    async def established() -> bool:
        found = await plane.client.get(parse_name(cluster), CRDS, "", "ships.example.com")
        return any(one["type"] == "Established" and one["status"] == "True" for one in (found.get("status", {}).get("conditions") or ()))

    await until(established)


async def test_a_restore_brings_back_what_was_saved(plane: ControlPlane) -> None:
    """Created, changed and deleted objects, with uids, in the resources of the server and of the cluster."""
    client = plane.client
    await define(plane)
    kept = await client.create(A, MAPS, config_map("kept", a="1"))
    await client.create(A, MAPS, config_map("deleted"))
    ship = await client.create(A, SHIPS, {"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "argo"}, "crew": 50})
    saved = await plane.snapshots.save("team-a")
    await client.patch(A, MAPS, "default", "kept", document={"data": {"a": "2"}})
    await client.delete(A, MAPS, "default", "deleted")
    await client.create(A, MAPS, config_map("new"))
    await client.delete(A, SHIPS, "", "argo")
    done = await plane.snapshots.restore(saved)
    assert (done.written, done.deleted) == (3, 1)
    assert await names(plane) == {"kept", "deleted"}
    found = await client.get(A, MAPS, "default", "kept")
    assert (found["data"], found["metadata"]["uid"]) == ({"a": "1"}, kept["metadata"]["uid"])
    assert int(found["metadata"]["resourceVersion"]) == done.revision
    assert (await client.get(A, SHIPS, "", "argo"))["metadata"]["uid"] == ship["metadata"]["uid"]
    again = await plane.snapshots.restore(saved)
    assert again == (A, 0, 0, 0), "nothing differs any more"


async def test_watchers_see_a_restore(plane: ControlPlane) -> None:
    """As ordinary changes, in the cluster and over all clusters."""
    client = plane.client
    await client.create(A, MAPS, config_map("changed", a="1"))
    await client.create(A, MAPS, config_map("deleted"))
    saved = await plane.snapshots.save("team-a")
    await client.patch(A, MAPS, "default", "changed", document={"data": {"a": "2"}})
    await client.delete(A, MAPS, "default", "deleted")
    await client.create(A, MAPS, config_map("new"))
    version = (await client.list(A, MAPS)).resource_version
    watch = client.watch(A, MAPS, resource_version=version)
    seen = set()
    async with asyncio.timeout(30):
        await plane.snapshots.restore(saved)
        async for event in watch:
            seen.add((event.type, event.obj["metadata"]["name"]))
            if len(seen) == 3:
                break
    await watch.aclose()
    assert seen == {("MODIFIED", "changed"), ("ADDED", "deleted"), ("DELETED", "new")}


async def test_a_definition_goes_and_comes_with_a_restore(plane: ControlPlane) -> None:
    """The cluster serves what its content defines, at once."""
    empty = await plane.snapshots.restore(Snapshot(A, 0, {}))
    assert empty.written == 0
    await define(plane)
    await plane.client.create(A, SHIPS, {"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "argo"}})
    saved = await plane.snapshots.save("team-a")
    await plane.snapshots.restore(Snapshot(A, 0, {}))
    with pytest.raises(errors.StatusError, match="could not find the requested resource"):
        await plane.client.list(A, SHIPS)
    await plane.snapshots.restore(saved)
    assert await names(plane, resource=SHIPS) == {"argo"}


async def test_a_clone_has_objects_of_its_own(plane: ControlPlane) -> None:
    """New uids, owners among the copies, and nothing that leads back."""
    client = plane.client
    await define(plane)
    owner = await client.create(A, MAPS, config_map("owner"))
    dependent = config_map("dependent", text=f"owned by {owner['metadata']['uid']}")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    dependent["metadata"]["ownerReferences"] = [reference]
    await client.create(A, MAPS, dependent)
    await client.create(A, SHIPS, {"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "argo"}})
    before = await plane.snapshots.save("team-a")
    await plane.snapshots.clone("team-a", "team-b")
    copy = await client.get(B, MAPS, "default", "owner")
    assert copy["metadata"]["uid"] != owner["metadata"]["uid"]
    made = uuid.UUID(copy["metadata"]["uid"])
    assert (made.version, made.variant, str(made)) == (4, uuid.RFC_4122, copy["metadata"]["uid"])
    found = await client.get(B, MAPS, "default", "dependent")
    assert found["metadata"]["ownerReferences"][0]["uid"] == copy["metadata"]["uid"]
    assert found["data"]["text"] == f"owned by {copy['metadata']['uid']}"
    assert await names(plane, B, SHIPS) == {"argo"}
    assert (await plane.snapshots.save("team-a")).objects == before.objects
    # The garbage collector finds the owner in the same cluster.
    await client.delete(B, MAPS, "default", "owner")

    async def collected() -> bool:
        return await names(plane, B) == set()

    await until(collected)
    assert await names(plane, A) == {"owner", "dependent"}


async def test_a_clone_gets_tokens_of_its_own(plane: ControlPlane) -> None:
    """A token names its cluster and the uid of its account: that of the other cluster would be valid for the other tenant."""
    client = plane.client
    await client.create(A, ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ci", "namespace": "default"}})
    metadata = {"name": "token", "namespace": "default", "annotations": {"kubernetes.io/service-account.name": "ci"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": metadata}
    await client.create(A, SECRETS, secret)

    async def token(cluster: str) -> str | None:
        found = await client.get(parse_name(cluster), SECRETS, "default", "token")
        text = found.get("data", {}).get("token")
        return text if isinstance(text, str) else None

    first = await until(lambda: token(A))
    await plane.snapshots.clone("team-a", "team-b")
    second = await until(lambda: token(B))
    assert first != second
    account = await client.get(B, ACCOUNTS, "default", "ci")
    copied = await client.get(B, SECRETS, "default", "token")
    assert copied["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == account["metadata"]["uid"]


async def test_quotas_hold_after_a_restore_and_in_a_clone(plane: ControlPlane) -> None:
    """Their usage is that of the content, and the next write is charged."""
    client = plane.client
    await client.create(A, MAPS, config_map("one"))
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
    await client.create(A, QUOTAS, {**quota, "spec": {"hard": {"count/configmaps": "2"}}})
    saved = await plane.snapshots.save("team-a")
    await client.create(A, MAPS, config_map("two"))
    await plane.snapshots.restore(saved)
    await plane.snapshots.clone("team-a", "team-b")
    for cluster in (A, B):
        await client.create(cluster, MAPS, config_map("two"))
        with pytest.raises(errors.StatusError, match="exceeded quota: q"):
            await client.create(cluster, MAPS, config_map("three"))
    await plane.snapshots.restore(Snapshot(A, 0, {}))
    await client.create(A, MAPS, config_map("without"))


async def test_quotas_count_a_part_of_a_restore(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that fails meanwhile leaves neither a quota with old numbers nor a cluster that is taken for one with quotas."""
    client, snapshots = plane.client, plane.snapshots
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
    await client.create(A, QUOTAS, {**quota, "spec": {"hard": {"count/configmaps": "3"}}})
    empty = await snapshots.save(A)
    for name in ("one", "two"):
        await client.create(A, MAPS, config_map(name))
    full = await snapshots.save(A)
    await snapshots.restore(empty)
    monkeypatch.setattr("kcp_py.tenancy.snapshots._BATCH", 1)
    write, written = snapshots._write, 0

    async def failing(*arguments: Any) -> int:
        nonlocal written
        written += 1
        if written > len(full) - 1:
            raise UnavailableError("gone")
        return await write(*arguments)

    monkeypatch.setattr(snapshots, "_write", failing)
    with pytest.raises(errors.StatusError, match="cannot be reached"):
        await snapshots.restore(full)
    left = len(await names(plane))
    used = (await client.get(A, QUOTAS, "default", "q"))["status"]["used"]["count/configmaps"]
    assert used == str(left)


async def test_others_have_their_turns_during_a_large_clone(plane: ControlPlane) -> None:
    """Also on a store that waits for nothing."""
    for start in range(0, 2000, 100):
        await asyncio.gather(*(plane.client.create(A, MAPS, config_map(f"map-{start + one}")) for one in range(100)))
    seen = set()
    cloning = asyncio.create_task(plane.snapshots.clone(A, B))
    while not cloning.done():
        seen.add(await plane.backend.access.storage.revision())
        await asyncio.sleep(0)
    await cloning
    assert len(seen) > 3


async def test_a_clone_without_quotas_leaves_no_guard(plane: ControlPlane) -> None:
    """Nothing but its objects is stored for it, also where it had quotas before."""
    client = plane.client
    await client.create(A, MAPS, config_map("one"))
    await plane.snapshots.clone("team-a", "team-b")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
    await client.create(A, QUOTAS, {**quota, "spec": {"hard": {"count/configmaps": "2"}}})
    await plane.snapshots.restore(Snapshot(A, 0, {}))
    guards = await plane.backend.access.storage.range("/registry/.kcp-py/quotas/")
    assert [item.key for item in guards.items] == []
    for name in ("two", "three", "four"):
        await client.create(A, MAPS, config_map(name))


async def test_limits_of_the_cluster_stay_and_are_counted_again(plane: ControlPlane) -> None:
    """They belong to the cluster, not to its content. A restore may exceed them; then nothing can be created."""
    client = plane.client
    for index in range(5):
        await client.create(A, MAPS, config_map(f"m{index}"))
    saved = await plane.snapshots.save("team-a")
    await client.create(B, MAPS, config_map("one"))
    limit = {"metadata": {"annotations": {"core.kcp.io/max-total-objects": "8"}}}
    await client.patch(B, CLUSTERS, "", "cluster", document=limit)
    await plane.snapshots.clone(saved, "team-b")
    refused = []
    for index in range(10):
        try:
            await client.create(B, MAPS, config_map(f"n{index}"))
        except errors.StatusError as error:
            refused.append(error.message)
    assert refused
    assert all("has reached its limit of 8 objects" in message for message in refused)
    stored = len(await plane.snapshots.save("team-b"))
    assert 5 < stored <= 8


async def test_a_cluster_that_is_being_deleted_takes_nothing(plane: ControlPlane) -> None:
    """And one that does not exist cannot be saved."""
    client = plane.client
    await client.create(
        A, MAPS, {**config_map("held"), "metadata": {"name": "held", "namespace": "default", "finalizers": ["example.com/hold"]}}
    )
    saved = await plane.snapshots.save("team-a")
    await client.delete(A, CLUSTERS, "", "cluster")
    with pytest.raises(errors.StatusError, match="is being deleted"):
        await plane.snapshots.restore(saved)
    with pytest.raises(errors.StatusError, match='"nothing" not found'):
        await plane.snapshots.save("nothing")
    with pytest.raises(errors.StatusError, match="clone of itself"):
        await plane.snapshots.clone("team-a", "team-a")


async def test_a_large_cluster(plane: ControlPlane) -> None:
    """More objects than fit into one transaction, from one control plane to another."""
    await asyncio.gather(*(plane.client.create(A, MAPS, config_map(f"m{index}")) for index in range(1_000)))
    saved = Snapshot.from_bytes((await plane.snapshots.save("team-a")).to_bytes())
    async with ControlPlane(Options(storage="memory", controllers=())) as other:
        done = await other.snapshots.restore(saved, "elsewhere")
        assert done.written == len(saved)
        assert len(await names(other, "elsewhere")) == 1_000


def test_a_snapshot_survives_its_file() -> None:
    """Byte for byte."""
    key = StoredKey("/core/configmaps/", "default", "one")
    value = b'{"metadata":{"name":"one","namespace":"default"},"data":{"text":"\\u2028\xc3\xa9"}}'
    made = Snapshot(A, 7, {key: value}, {"ip:10.0.0.1": b"default/one"})
    assert Snapshot.from_bytes(made.to_bytes()) == Snapshot(A, 7, {key: value.replace(b"\\u2028", "\u2028".encode())}, made.claims)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[]\n[]\n", id="other JSON"),
        pytest.param(b"no json", id="no JSON"),
        pytest.param(Snapshot(A, 1, {}).to_bytes().replace(b'"version":1', b'"version":2'), id="later version"),
        pytest.param(Snapshot(A, 1, {StoredKey("/a/b/", "", "x"): b'{"metadata":{"name":"y"}}'}).to_bytes(), id="other name"),
        pytest.param(Snapshot(A, 1, {StoredKey("/a/b/", "", "x"): b'{"metadata":{"name":"x"}}'}).to_bytes()[:-12], id="cut off"),
    ],
)
def test_files_that_are_no_snapshots(data: bytes) -> None:
    """Each is refused as a whole."""
    with pytest.raises(ValueError, match=r"."):
        Snapshot.from_bytes(data)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(StoredKey("/core.kcp.io/logicalclusters/", "", "cluster"), id="the cluster itself"),
        pytest.param(StoredKey("/.kcp-py/usage/", "", "x"), id="internal"),
        pytest.param(StoredKey("/core/configmaps/team-b/", "default", "x"), id="another cluster"),
        pytest.param(StoredKey("/core/configmaps/", "a/b", "x"), id="segments"),
        pytest.param(StoredKey("/", "", "x"), id="no resource"),
        pytest.param(StoredKey("//core/configmaps/", "default", ".."), id="dots"),
    ],
)
async def test_a_forged_snapshot_stays_in_its_cluster(plane: ControlPlane, key: StoredKey) -> None:
    """Nothing is written."""
    forged = Snapshot(A, 1, {key: b'{"metadata":{"name":"x"}}'})
    revision = (await plane.client.list(A, MAPS)).resource_version
    with pytest.raises(errors.StatusError, match="the snapshot cannot be restored"):
        await plane.snapshots.restore(forged)
    assert (await plane.client.list(A, MAPS)).resource_version == revision
