"""DELETE in the store: preconditions, finalizers, and what may happen in the middle."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.errors import OBJECT_MODIFIED, StatusError
from kcp_py.registry.clusterstate import StaleStateError
from kcp_py.registry.store.access import LOCK_ATTEMPTS
from tests.client.registry import CRDS, LOGICAL_CLUSTERS, NAMESPACES, WIDGETS, config_map, widget
from tests.registry.store.conftest import CLUSTER_KEY, CRD_KEY, TEAM, World

pytestmark = pytest.mark.anyio

ONE = "/registry/core/configmaps/team-a/default/one"
WIDGET = "/registry/example.com/widgets/customresources/team-a/default/one"


def label(value: str) -> Any:
    return lambda obj: obj["metadata"].update(labels={"a": value})


async def test_without_finalizers_the_object_goes_at_once(world: World) -> None:
    """The answer holds the object as it was; a second delete finds nothing."""
    created = await world.create(config_map("one"))
    written = await world.delete("one")
    assert (written.deleted, written.obj) == (True, created.obj)
    assert written.mod_revision == await world.storage.revision() > created.mod_revision
    assert await world.stored(ONE) is None
    with pytest.raises(StatusError) as caught:
        await world.delete("one")
    assert (caught.value.code, caught.value.message) == (404, 'configmaps "one" not found')


async def test_with_finalizers_it_is_marked_once(world: World) -> None:
    """deletionTimestamp, no grace, one more generation; a second delete writes nothing."""
    await world.establish()
    await world.create(widget("one", finalizers=["a.b/one"]), WIDGETS)
    marked = await world.delete("one", WIDGETS)
    metadata = marked.obj["metadata"]
    assert (marked.deleted, metadata["deletionGracePeriodSeconds"], metadata["generation"]) == (False, 0, 2)
    assert metadata["deletionTimestamp"]
    again = await world.delete("one", WIDGETS)
    assert (again.obj, again.mod_revision) == (marked.obj, marked.mod_revision)


@pytest.mark.parametrize(
    ("before", "propagation", "after"),
    [
        pytest.param([], "Orphan", ["orphan"], id="orphan"),
        pytest.param([], "Foreground", ["foregroundDeletion"], id="foreground"),
        pytest.param(["orphan", "a.b/one"], "Foreground", ["a.b/one", "foregroundDeletion"], id="one wish replaces the other"),
        pytest.param(["orphan", "a.b/one"], "Background", ["a.b/one"], id="background takes both away"),
        pytest.param(["orphan"], "", ["orphan"], id="without a wish what is there stays"),
        pytest.param(["orphan"], "Background", None, id="with the last one the object goes"),
    ],
)
async def test_propagation_sets_the_finalizers_of_the_garbage_collector(
    world: World, before: list[str], propagation: str, after: list[str] | None
) -> None:
    """Whatever the object came with is brought in line with the wish of this delete."""
    await world.create(config_map("one", finalizers=before))
    written = await world.delete("one", propagation=propagation)
    stored = await world.stored(ONE)
    assert written.deleted is (after is None)
    assert (stored and stored["metadata"]["finalizers"]) == after


async def test_preconditions(world: World) -> None:
    """Uid and resourceVersion have to be those of the object: 409 with upstream's text otherwise, and nothing happens."""
    created = await world.create(config_map("one"))
    uid = created.obj["metadata"]["uid"]
    with pytest.raises(StatusError) as caught:
        await world.delete("one", uid="other")
    assert caught.value.message == (
        f'Operation cannot be fulfilled on ConfigMap "one": the UID in the precondition (other) does not match the UID in record ({uid}). '
        "The object might have been deleted and then recreated"
    )
    with pytest.raises(StatusError) as caught:
        await world.delete("one", uid=uid, resource_version="1")
    assert caught.value.message == (
        'Operation cannot be fulfilled on ConfigMap "one": the ResourceVersion in the precondition (1) does not match the '
        f"ResourceVersion in record ({created.mod_revision}). The object might have been modified"
    )
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    assert (await world.delete("one", uid=uid, resource_version=str(created.mod_revision))).deleted


async def test_an_update_in_the_middle_fails_the_precondition_of_the_version(world: World) -> None:
    """The client has not seen what it would delete."""
    created = await world.create(config_map("one"))
    world.storage.before_write(lambda: world.update("one", label("new")))
    with pytest.raises(StatusError) as caught:
        await world.delete("one", resource_version=str(created.mod_revision))
    assert "The object might have been modified" in caught.value.message
    assert (await world.stored(ONE) or {})["metadata"]["labels"] == {"a": "new"}


async def test_an_update_in_the_middle_does_not_matter_without_that_precondition(world: World) -> None:
    """The uid is the same: the delete is worked out again, with the finalizers that the update may have brought."""
    created = await world.create(config_map("one"))
    world.storage.before_write(lambda: world.update("one", label("new")))
    assert (await world.delete("one", uid=created.obj["metadata"]["uid"])).obj["metadata"]["labels"] == {"a": "new"}
    await world.create(config_map("one"))
    world.storage.before_write(lambda: world.update("one", lambda obj: obj["metadata"].update(finalizers=["a.b/one"])))
    assert not (await world.delete("one")).deleted
    assert (await world.stored(ONE) or {})["metadata"]["deletionTimestamp"]


async def test_a_new_object_of_the_name_is_not_the_one_that_was_meant(world: World) -> None:
    """With a uid, what takes the object's place in the middle of the delete stays."""
    created = await world.create(config_map("one"))

    async def replace() -> None:
        await world.delete("one")
        await world.create(config_map("one"))

    world.storage.before_write(replace)
    with pytest.raises(StatusError) as caught:
        await world.delete("one", uid=created.obj["metadata"]["uid"])
    assert "The object might have been deleted and then recreated" in caught.value.message
    assert await world.stored(ONE) is not None


async def test_two_deletes_at_once(world: World) -> None:
    """The second one finds nothing any more, or what the first has marked."""
    await world.create(config_map("one"))
    world.storage.before_write(lambda: world.delete("one"))
    with pytest.raises(StatusError) as caught:
        await world.delete("one")
    assert caught.value.code == 404
    await world.create(config_map("one", finalizers=["a.b/one"]))
    world.storage.before_write(lambda: world.delete("one"))
    second = await world.delete("one")
    assert not second.deleted
    assert (await world.stored(ONE) or {}) == second.obj


async def test_the_last_finalizer_goes_in_the_middle_of_the_delete(world: World) -> None:
    """Then the object goes with this delete: no controller would remove it later."""
    await world.create(config_map("one", finalizers=["a.b/one"]))
    world.storage.before_write(lambda: world.update("one", lambda obj: obj["metadata"].pop("finalizers")))
    assert (await world.delete("one")).deleted
    assert await world.stored(ONE) is None


async def test_a_delete_that_always_loses_is_a_conflict(world: World) -> None:
    """The number of attempts is bounded."""
    await world.create(config_map("one"))
    rivals = [lambda n=n: world.update("one", label(f"v{n}")) for n in range(LOCK_ATTEMPTS)]
    world.storage.before_write(*rivals)
    with pytest.raises(StatusError) as caught:
        await world.delete("one")
    assert caught.value.message == f'Operation cannot be fulfilled on configmaps "one": {OBJECT_MODIFIED}'


async def test_dry_run_writes_nothing(world: World) -> None:
    """Neither for an object that would go nor for one that would be marked; preconditions are checked all the same."""
    one = await world.create(config_map("one"))
    await world.create(config_map("two", finalizers=["a.b/one"]))
    before = world.storage.transactions
    assert (await world.delete("one", dry_run=True)).deleted
    marked = await world.delete("two", dry_run=True)
    assert marked.obj["metadata"]["deletionTimestamp"]
    with pytest.raises(StatusError):
        await world.delete("one", uid="other", dry_run=True)
    await world.delete("kube-node-lease", NAMESPACES, namespace="", dry_run=True)
    assert world.storage.transactions == before
    assert await world.stored(ONE) == one.obj


async def test_what_must_stay_stays(world: World) -> None:
    """Kinds can refuse a delete: 403 with the reason."""
    with pytest.raises(StatusError) as caught:
        await world.delete("default", NAMESPACES, namespace="")
    assert (caught.value.code, caught.value.message) == (403, 'namespaces "default" is forbidden: this namespace may not be deleted')


async def test_a_default_object_is_marked_in_the_life_of_the_cluster_that_it_comes_from(world: World) -> None:
    """Marking it stores it, which a cluster that ends or is another one meanwhile does not take."""
    world.storage.before_write(world.remake_cluster)
    with pytest.raises(StaleStateError) as stale:
        await world.delete("kube-node-lease", NAMESPACES, namespace="")
    assert stale.value.key == CLUSTER_KEY
    await world.client.delete(TEAM, LOGICAL_CLUSTERS, "", "cluster")
    with pytest.raises(StatusError) as caught:
        await world.delete("kube-node-lease", NAMESPACES, namespace="")
    assert caught.value.code == 403


async def test_a_mark_is_stored_under_the_schema_that_it_was_worked_out_by(world: World) -> None:
    """An object that was written after a definition changed counts as one that obeys it, so marking must not skip its defaults."""
    await world.establish()
    await world.create(widget("one", finalizers=["a.b/one"]), WIDGETS)

    def coloured(crd: dict[str, Any]) -> None:
        spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"]["color"] = {"type": "string", "default": "red"}

    world.storage.before_write(lambda: world.rewrite(CRD_KEY, coloured))
    await world.client.delete(TEAM, WIDGETS, "default", "one")
    assert (await world.client.get(TEAM, WIDGETS, "default", "one"))["spec"] == {"size": 1, "color": "red"}


async def test_objects_can_be_deleted_while_their_crd_terminates(world: World) -> None:
    """Of a custom resource that is on its way out, everything but new objects is served."""
    await world.establish()
    await world.create(widget("one", finalizers=["a.b/one"]), WIDGETS)
    await world.client.delete(TEAM, CRDS, "", "widgets.example.com")
    await world.client.delete(TEAM, WIDGETS, "default", "one")
    assert (await world.stored(WIDGET) or {})["metadata"]["deletionTimestamp"]
