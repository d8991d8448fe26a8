"""POST in the store: what the server fills in, and what may change between the decision to write and the write."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionChain, AdmissionPlugin, Attributes
from kcp_py.registry.clusterstate import StaleStateError
from kcp_py.registry.store.create import prepare_new
from kcp_py.storage.contract import Delete
from tests.client.registry import CONFIG_MAPS, CRDS, LOGICAL_CLUSTERS, NAMESPACES, WIDGETS, config_map, make_crd, namespace, widget
from tests.registry.store.conftest import CLUSTER_KEY, CRD_KEY, NAMESPACE_KEY, TEAM, World

pytestmark = pytest.mark.anyio

ONE = "/registry/core/configmaps/team-a/default/one"


async def test_only_the_server_says_what_the_server_says(world: World) -> None:
    """Metadata of the client's that is the server's is overwritten or dropped before anything is stored."""
    sent = config_map(
        "one",
        uid="mine",
        creationTimestamp="2001-01-01T00:00:00Z",
        deletionTimestamp="2001-01-01T00:00:00Z",
        deletionGracePeriodSeconds=5,
        generation=7,
        clusterName="other",
        selfLink="/x",
        annotations={"kcp.io/cluster": "other"},
    )
    written = await world.create(sent)
    stored = await world.stored(ONE)
    assert stored == written.obj
    assert set(written.obj["metadata"]) == {"name", "namespace", "uid", "creationTimestamp"}
    assert written.obj["metadata"]["uid"] != "mine"
    assert written.obj["metadata"]["creationTimestamp"] > "2001"
    assert written.created
    assert written.mod_revision == await world.storage.revision()


async def test_a_resource_version_is_an_error(world: World) -> None:
    """Tools that restore objects rely on the failure: 500 without a reason, as upstream."""
    with pytest.raises(StatusError) as caught:
        await world.create(config_map("one", resourceVersion="1"))
    assert (caught.value.code, caught.value.reason) == (500, "")
    assert caught.value.message == "resourceVersion should not be set on objects to be created"


async def test_status_is_dropped_and_generation_begins(world: World) -> None:
    """An object of a kind with `/status` begins without one, in its first generation."""
    crd = make_crd()
    crd["spec"]["versions"][0]["subresources"] = {"status": {}}
    await world.establish(crd)
    written = await world.create({**widget("one"), "status": {"ready": True}}, WIDGETS)
    assert "status" not in written.obj
    assert written.obj["metadata"]["generation"] == 1


async def test_the_same_name_is_taken_once(world: World) -> None:
    """409 AlreadyExists, which says so where the other one is on its way out."""
    await world.create(config_map("one", finalizers=["example.com/hold"]))
    with pytest.raises(StatusError) as caught:
        await world.create(config_map("one"))
    assert (caught.value.code, caught.value.reason, caught.value.message) == (409, "AlreadyExists", 'configmaps "one" already exists')
    await world.delete("one")
    with pytest.raises(StatusError) as caught:
        await world.create(config_map("one"), dry_run=True)
    assert caught.value.message == 'object is being deleted: configmaps "one" already exists'


async def test_the_later_of_two_creates_fails(world: World) -> None:
    """One that comes between is found by the store, not overwritten."""
    world.storage.before_write(lambda: world.create({**config_map("one"), "data": {"first": "yes"}}))
    with pytest.raises(StatusError) as caught:
        await world.create(config_map("one"))
    assert caught.value.reason == "AlreadyExists"
    assert (await world.stored(ONE) or {})["data"] == {"first": "yes"}


async def test_a_generated_name_that_is_taken_meanwhile_is_generated_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names run out only after upstream's eight attempts, with a word on when to try again."""
    names = iter(["a-taken", "a-free"])
    monkeypatch.setattr(sys.modules[prepare_new.__module__], "generate_name", lambda _base, _draw: next(names))
    world.storage.before_write(lambda: world.client.create(TEAM, CONFIG_MAPS, config_map("a-taken")))
    sent = config_map("")
    sent["metadata"] = {"generateName": "a-", "namespace": "default"}
    written = await world.create(sent)
    assert written.obj["metadata"]["name"] == "a-free"
    monkeypatch.setattr(sys.modules[prepare_new.__module__], "generate_name", lambda _base, _draw: "a-taken")
    with pytest.raises(StatusError) as caught:
        await world.create(sent)
    assert caught.value.message == ('configmaps "a-taken" already exists, the server was not able to generate a unique name for the object')
    assert caught.value.retry_after_seconds == 1


class ReplacingMetadata(AdmissionPlugin):
    """Puts new dicts into objects instead of changing those that are there."""

    async def mutate(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        attributes.obj["metadata"] = {**attributes.obj["metadata"], "labels": {"seen": "yes"}}


async def test_a_name_is_generated_again_where_a_plugin_replaces_the_metadata(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second attempt has the second name."""
    names = iter(["a-taken", "a-free"])
    monkeypatch.setattr(sys.modules[prepare_new.__module__], "generate_name", lambda _base, _draw: next(names))
    await world.client.create(TEAM, CONFIG_MAPS, config_map("a-taken"))
    world.registry.access.admission = AdmissionChain((ReplacingMetadata(),))
    sent = config_map("")
    sent["metadata"] = {"generateName": "a-", "namespace": "default"}
    written = await world.create(sent)
    assert (written.obj["metadata"]["name"], written.obj["metadata"]["labels"]) == ("a-free", {"seen": "yes"})


async def test_every_fault_is_reported(world: World) -> None:
    """Metadata, schema and the kind's own rules are checked together."""
    await world.establish()
    bad = widget("Upper", labels={"a b": "c"})
    bad["spec"]["size"] = "big"
    with pytest.raises(StatusError) as caught:
        await world.create(bad, WIDGETS)
    assert caught.value.code == 422
    assert [cause["field"] for cause in (caught.value.details or {})["causes"]] == ["metadata.name", "metadata.labels", "spec.size"]


async def test_a_missing_namespace_comes_before_what_else_is_wrong(world: World) -> None:
    """As upstream, whose NamespaceLifecycle admission runs before validation."""
    with pytest.raises(StatusError) as caught:
        await world.create(config_map("Upper", "absent"))
    assert (caught.value.code, caught.value.message) == (404, 'namespaces "absent" not found')


async def test_dry_run_writes_nothing(world: World) -> None:
    """Not even the object of a cluster that the write would bring into being."""
    before = world.storage.transactions
    written = await world.create(config_map("one"), dry_run=True)
    assert written.obj["metadata"]["uid"]
    assert written.mod_revision == 0
    fresh = Name("fresh")
    cluster_state = world.registry.clusters.uncreated(fresh)
    await world.create(config_map("one"), cluster_state=cluster_state, dry_run=True)
    assert world.storage.transactions == before
    assert await world.registry.keys("fresh") == []
    await world.create(config_map("one"), cluster_state=cluster_state)
    assert len(await world.registry.keys("fresh")) == 2


async def test_a_cluster_is_created_with_its_first_object_and_once(world: World) -> None:
    """Of two first writers the second one works in the cluster that the first has made."""
    fresh = Name("fresh")
    world.storage.before_write(lambda: world.client.create(fresh, CONFIG_MAPS, config_map("one")))
    await world.client.create(fresh, CONFIG_MAPS, config_map("two"))
    revisions = [(await world.client.get(fresh, CONFIG_MAPS, "default", name))["metadata"]["resourceVersion"] for name in ("one", "two")]
    cluster = await world.client.get(fresh, LOGICAL_CLUSTERS, "", "cluster")
    assert cluster["metadata"]["resourceVersion"] == revisions[0] != revisions[1]


def terminate_cluster(world: World) -> Awaitable[None]:
    return world.client.delete(TEAM, LOGICAL_CLUSTERS, "", "cluster")


def change_crd(world: World) -> Awaitable[None]:
    return world.rewrite(CRD_KEY, lambda crd: crd["spec"]["names"].update(shortNames=["wd"]))


def terminate_crd(world: World) -> Awaitable[None]:
    return world.client.delete(TEAM, CRDS, "", "widgets.example.com")


def remove_crd(world: World) -> Awaitable[int]:
    return world.storage.transact((), (Delete(CRD_KEY),))


def terminate_namespace(world: World) -> Awaitable[None]:
    return world.client.delete(TEAM, NAMESPACES, "", "game")


def remove_namespace(world: World) -> Awaitable[int]:
    return world.storage.transact((), (Delete(NAMESPACE_KEY),))


def change_namespace(world: World) -> Awaitable[None]:
    return world.rewrite(NAMESPACE_KEY, lambda obj: obj["metadata"]["labels"].update(tier="gold"))


RACES = [
    pytest.param(
        terminate_cluster, CLUSTER_KEY, (403, "unable to create new content in logical cluster team-a because it is being terminated"),
        id="cluster terminates",
    ),
    pytest.param(World.remake_cluster, CLUSTER_KEY, None, id="cluster is another one"),
    pytest.param(change_crd, CRD_KEY, None, id="definition changes"),
    pytest.param(
        terminate_crd, CRD_KEY, (403, "create not allowed while custom resource definition is terminating"),
        id="definition terminates",
    ),
    pytest.param(remove_crd, CRD_KEY, (404, "the server could not find the requested resource"), id="definition goes"),
    pytest.param(
        terminate_namespace, NAMESPACE_KEY, (403, "unable to create new content in namespace game because it is being terminated"),
        id="namespace terminates",
    ),
    pytest.param(remove_namespace, NAMESPACE_KEY, (404, 'namespaces "game" not found'), id="namespace goes"),
    pytest.param(change_namespace, NAMESPACE_KEY, None, id="namespace changes"),
]  # fmt: skip


@pytest.mark.parametrize(("meanwhile", "key", "refusal"), RACES)
async def test_nothing_is_stored_on_what_has_changed_meanwhile(
    world: World, meanwhile: Callable[[World], Awaitable[object]], key: str, refusal: Any
) -> None:
    """The store refuses the write and says why, and a client that tries again gets the error that holds now, or succeeds."""
    await world.establish()
    await world.client.create(TEAM, NAMESPACES, namespace("game"))
    world.storage.before_write(lambda: meanwhile(world))
    cluster_state, served = await world.state(), await world.served(WIDGETS)
    with pytest.raises(StaleStateError) as stale:
        await world.create(widget("one", "game"), cluster_state=cluster_state, served=served)
    assert stale.value.key == key
    assert await world.storage.get("/registry/example.com/widgets/customresources/team-a/game/one") is None
    if refusal is None:
        assert (await world.client.create(TEAM, WIDGETS, widget("one", "game")))["metadata"]["uid"]
        return
    with pytest.raises(StatusError) as caught:
        await world.client.create(TEAM, WIDGETS, widget("one", "game"))
    assert caught.value.code == refusal[0]
    assert refusal[1] in caught.value.message


@pytest.mark.parametrize(("meanwhile", "key", "refusal"), RACES)
async def test_clients_never_see_the_race(world: World, meanwhile: Callable[[World], Awaitable[object]], key: str, refusal: Any) -> None:
    """In one call, the write is worked out again and ends as it would have, had it come later."""
    del key
    await world.establish()
    await world.client.create(TEAM, NAMESPACES, namespace("game"))
    await world.state()
    await world.served(WIDGETS)
    world.storage.before_write(lambda: meanwhile(world))
    if refusal is None:
        await world.client.create(TEAM, WIDGETS, widget("one", "game"))
        return
    with pytest.raises(StatusError) as caught:
        await world.client.create(TEAM, WIDGETS, widget("one", "game"))
    assert caught.value.code == refusal[0]
    assert refusal[1] in caught.value.message


async def test_a_crd_that_never_stops_changing_refuses_the_write(world: World) -> None:
    """After a bounded number of attempts the client is asked to come again."""
    await world.establish()
    world.storage.before_write(*[lambda: change_size(world)] * 8)
    with pytest.raises(StatusError) as caught:
        await world.client.create(TEAM, WIDGETS, widget("one"))
    assert (caught.value.code, caught.value.retry_after_seconds) == (503, 1)


async def change_size(world: World) -> None:
    def change(crd: dict[str, Any]) -> None:
        crd["metadata"]["generation"] += 1

    await world.rewrite(CRD_KEY, change)


async def test_an_object_obeys_the_schema_under_which_it_is_stored(world: World) -> None:
    """A schema that becomes stricter in the middle of a create is the one that decides."""
    await world.establish()

    def stricter(crd: dict[str, Any]) -> None:
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["minimum"] = 5

    world.storage.before_write(lambda: world.rewrite(CRD_KEY, stricter))
    with pytest.raises(StatusError) as caught:
        await world.client.create(TEAM, WIDGETS, widget("one"))
    assert "spec.size in body should be greater than or equal to 5" in caught.value.message


async def test_default_namespaces_are_there_without_being_stored(world: World) -> None:
    """Creating one is AlreadyExists; one that was deleted takes nothing new until it is gone."""
    with pytest.raises(StatusError) as caught:
        await world.create(namespace("default"), NAMESPACES)
    assert caught.value.reason == "AlreadyExists"
    await world.create(config_map("one", "kube-node-lease"))
    await world.client.delete(TEAM, NAMESPACES, "", "kube-node-lease")
    with pytest.raises(StatusError) as caught:
        await world.create(config_map("two", "kube-node-lease"))
    assert caught.value.code == 403
    await world.storage.transact((), (Delete("/registry/core/namespaces/team-a/kube-node-lease"),))
    world.storage.before_write(lambda: world.client.delete(TEAM, NAMESPACES, "", "kube-node-lease"))
    with pytest.raises(StaleStateError):
        await world.create(config_map("two", "kube-node-lease"))
