"""PUT and PATCH in the store: optimistic locks, what an update cannot change, and what may happen in the middle of one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcp_py.apimachinery.errors import OBJECT_MODIFIED, StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.options import UpdateOptions
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionChain, AdmissionPlugin, Attributes
from kcp_py.registry.clusterstate import StaleStateError
from kcp_py.registry.store import Current, update
from kcp_py.registry.store.access import LOCK_ATTEMPTS
from kcp_py.storage.contract import Delete
from tests.client.registry import LOGICAL_CLUSTERS, NAMESPACES, WIDGETS, config_map, make_crd, widget
from tests.registry.store.conftest import CLUSTER_KEY, CRD_KEY, TEAM, World

pytestmark = pytest.mark.anyio

ONE = "/registry/core/configmaps/team-a/default/one"
WIDGET = "/registry/example.com/widgets/customresources/team-a/default/one"
LEASES = GroupVersionResource("coordination.k8s.io", "v1", "leases")
LEASE = "/registry/coordination.k8s.io/leases/team-a/default/lock"
MODIFIED = f'Operation cannot be fulfilled on configmaps "one": {OBJECT_MODIFIED}'


def data(**values: str) -> Any:
    """A change that sets keys of a config map."""
    return lambda obj: obj.setdefault("data", {}).update(values)


def sized(size: int) -> Any:
    """A change that sets the size of a widget."""
    return lambda obj: obj["spec"].update(size=size)


def status_crd() -> dict[str, Any]:
    crd = make_crd()
    crd["spec"]["versions"][0]["subresources"] = {"status": {}}
    return crd


async def test_only_the_latest_version_can_be_replaced(world: World) -> None:
    """A lock on another version is a conflict with upstream's text, and nothing is written."""
    first = await world.create(config_map("one"))
    second = await world.update("one", data(a="2"), lock=str(first.mod_revision))
    assert second.mod_revision > first.mod_revision
    with pytest.raises(StatusError) as caught:
        await world.update("one", data(a="3"), lock=str(first.mod_revision))
    assert (caught.value.code, caught.value.reason, caught.value.message) == (409, "Conflict", MODIFIED)
    assert (await world.stored(ONE) or {})["data"] == {"a": "2"}
    with pytest.raises(StatusError) as caught:
        await world.update("one", data(a="3"), lock="abc")
    assert caught.value.code == 422
    assert 'metadata.resourceVersion: Invalid value: "abc"' in caught.value.message


@pytest.mark.parametrize("lock", ["", "0"])
async def test_without_a_version_the_latest_is_replaced(world: World, lock: str) -> None:
    """Kinds that allow it take an update with no or a zero resourceVersion; the others name the resource in the refusal."""
    await world.create(config_map("one"))
    assert (await world.update("one", data(a="2"), lock=lock)).obj["data"] == {"a": "2"}
    await world.establish()
    await world.create(widget("one"), WIDGETS)
    with pytest.raises(StatusError) as caught:
        await world.update("one", lambda obj: obj["metadata"].update(resourceVersion=lock), WIDGETS)
    assert caught.value.message == (
        'widgets.example.com "one" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update'
    )


async def test_the_later_of_two_locked_updates_fails(world: World) -> None:
    """An update with a lock that another one overtakes is a conflict, not a retry."""
    created = await world.create(config_map("one"))
    world.storage.before_write(lambda: world.update("one", data(a="first")))
    with pytest.raises(StatusError) as caught:
        await world.update("one", data(a="second"), lock=str(created.mod_revision))
    assert caught.value.message == MODIFIED
    assert (await world.stored(ONE) or {})["data"] == {"a": "first"}


async def test_the_loser_of_two_unlocked_updates_is_worked_out_again(world: World) -> None:
    """Nothing of the first one is lost: the second is made from what the first has left."""
    await world.create(config_map("one"))
    world.storage.before_write(lambda: world.update("one", data(a="first", b="first")))
    written = await world.update("one", data(a="second"))
    assert written.obj["data"] == {"a": "second", "b": "first"}
    assert written.mod_revision == await world.storage.revision()


async def test_an_update_that_always_loses_is_a_conflict(world: World) -> None:
    """The number of attempts is bounded, where upstream has the request's time."""
    await world.create(config_map("one"))
    rivals = [lambda n=n: world.rewrite(ONE, data(rival=str(n))) for n in range(LOCK_ATTEMPTS)]
    world.storage.before_write(*rivals)
    with pytest.raises(StatusError) as caught:
        await world.update("one", data(a="second"))
    assert caught.value.message == MODIFIED
    assert (await world.stored(ONE) or {})["data"] == {"a": "b", "rival": str(LOCK_ATTEMPTS - 1)}


async def test_many_writers_of_an_object_take_turns(world: World) -> None:
    """None of them is refused, and few writes are worked out for no result, however many there are."""
    await world.create(config_map("one"))
    before, writers = world.storage.transactions, 2 * LOCK_ATTEMPTS
    await asyncio.gather(*(world.update("one", data(**{f"w{n}": "x"})) for n in range(writers)))
    assert len((await world.stored(ONE) or {})["data"]) == writers + 1
    assert world.storage.transactions - before < 3 * writers
    assert ONE not in world.registry.access.turns


async def test_a_refused_writer_gives_its_turn_back(world: World) -> None:
    """The object goes before its second attempt."""
    await world.create(config_map("one"))
    world.storage.before_write(lambda: world.delete("one"))
    with pytest.raises(StatusError) as caught:
        await world.update("one", data(a="c"))
    assert caught.value.code == 404
    assert ONE not in world.registry.access.turns


async def test_a_create_has_no_turn(world: World) -> None:
    """The object goes before the second attempt, which creates it: plugins may see that where they see no updates."""
    await world.update("lock", lambda obj: obj.update(spec={}), LEASES, may_create=True)
    seen: list[bool] = []

    async def look() -> None:
        seen.append(LEASE in world.registry.access.turns)

    world.storage.before_write(lambda: world.delete("lock", LEASES), look)
    written = await world.update("lock", lambda obj: obj.update(spec={"holderIdentity": "x"}), LEASES, may_create=True)
    assert written.created
    assert seen == [False]


async def test_a_write_that_plugins_see_waits_for_no_other(world: World) -> None:
    """A plugin may write the object itself before it answers: the write that waits for it does not hold the other one up."""

    class Writing(AdmissionPlugin):
        """Writes the object that it is asked about, once."""

        asked = 0

        async def validate(self, attributes: Attributes) -> None:
            del attributes
            self.asked += 1
            if self.asked in {1, 3}:
                await world.update("one", data(plugin=str(self.asked)))

    await world.create(config_map("one"))
    plugin = Writing()
    world.registry.access.admission = AdmissionChain((plugin,))
    async with asyncio.timeout(30):
        await world.update("one", data(a="c"))
    assert (await world.stored(ONE) or {})["data"] == {"a": "c", "plugin": "3"}


async def test_an_object_that_goes_in_the_middle_is_not_found(world: World) -> None:
    """And is not brought back."""
    await world.create(config_map("one"))
    world.storage.before_write(lambda: world.delete("one"))
    with pytest.raises(StatusError) as caught:
        await world.update("one", data(a="2"))
    assert caught.value.code == 404
    assert await world.stored(ONE) is None


async def test_an_object_that_is_replaced_in_the_middle_is_another_one(world: World) -> None:
    """An update that names a uid does not touch its successor of the same name; one that names none does."""
    created = await world.create(config_map("one"))
    uid = created.obj["metadata"]["uid"]

    async def replace() -> None:
        await world.delete("one")
        await world.create({**config_map("one"), "data": {"new": "yes"}})

    def change(obj: dict[str, Any]) -> None:
        obj["metadata"] = {"name": "one", "uid": uid}
        obj["data"] = {"mine": "yes"}

    world.storage.before_write(replace)
    with pytest.raises(StatusError) as caught:
        await world.update("one", change)
    other = (await world.stored(ONE) or {})["metadata"]["uid"]
    assert caught.value.code == 409
    assert caught.value.message.endswith(f"Precondition failed: UID in precondition: {uid}, UID in object meta: {other}")
    assert (await world.update("one", data(a="2"))).obj["data"] == {"new": "yes", "a": "2"}


async def test_a_uid_is_a_precondition_even_where_there_is_no_object(world: World) -> None:
    """PUT of an object that is gone, by its uid, is a conflict with an empty uid, for kinds that PUT creates, too."""
    for resource, suffix in ((LEASES, "leases.coordination.k8s.io"), (GroupVersionResource("", "v1", "configmaps"), "configmaps")):
        with pytest.raises(StatusError) as caught:
            await world.update("absent", lambda obj: obj["metadata"].update(uid="x"), resource, may_create=True)
        assert caught.value.message == (
            f'Operation cannot be fulfilled on {suffix} "absent": Precondition failed: UID in precondition: x, UID in object meta: '
        )


async def test_what_an_update_leaves_out_stays(world: World) -> None:
    """Identity and deletion are the server's; what the client sends in their place is checked or dropped."""
    created = await world.create(config_map("one", labels={"a": "b"}))

    def bare(obj: dict[str, Any]) -> None:
        obj["metadata"] = {
            "name": "one",
            "generation": 7,
            "creationTimestamp": "2001-01-01T00:00:00Z",
            "annotations": {"kcp.io/cluster": "other"},
        }

    written = await world.update("one", bare)
    assert written.obj["metadata"] == {key: value for key, value in created.obj["metadata"].items() if key != "labels"}

    with pytest.raises(StatusError) as caught:
        await world.update("one", lambda obj: obj["metadata"].update(deletionTimestamp="2001-01-01T00:00:00Z"))
    assert "metadata.deletionTimestamp: Invalid value" in caught.value.message
    assert "field is immutable" in caught.value.message


async def test_an_update_that_changes_nothing_writes_nothing(world: World) -> None:
    """The order of members does not count; but 1 and 1.0 are different texts, and true is not a number."""
    created = await world.create(config_map("one", labels={"a": "1", "b": "2"}))
    before = world.storage.transactions

    def turned(obj: dict[str, Any]) -> None:
        obj["metadata"] = dict(reversed(obj["metadata"].items()))

    assert (await world.update("one", turned)).mod_revision == created.mod_revision
    assert world.storage.transactions == before


async def test_dry_run_writes_nothing(world: World) -> None:
    """The answer is what would have been stored, with the version that is; the checks are those of a real update."""
    created = await world.create(config_map("one"))
    before = world.storage.transactions
    written = await world.update("one", data(a="2"), dry_run=True)
    assert (written.obj["data"], written.mod_revision) == ({"a": "2"}, created.mod_revision)
    with pytest.raises(StatusError):
        await world.update("one", data(a="2"), lock="1", dry_run=True)
    assert (await world.update("lock", lambda obj: obj.update(spec={}), LEASES, may_create=True, dry_run=True)).created
    await world.update("default", lambda obj: obj["metadata"].update(labels={"x": "y"}), NAMESPACES, namespace="", dry_run=True)
    assert world.storage.transactions == before


async def test_a_change_that_keeps_the_length_is_stored(world: World) -> None:
    """An object whose stored form has as many bytes as before is compared, with its generation or without one."""
    first = await world.create(config_map("one"))
    counted = [first.mod_revision]
    for value in ("1", "2", "2"):
        counted.append((await world.update("one", data(a=value))).mod_revision)
        assert (await world.stored(ONE) or {})["data"] == {"a": value}
    await world.establish()
    revision = (await world.create(widget("one"), WIDGETS)).mod_revision
    for size in (4, 5, 5):
        found = await world.update("one", sized(size), WIDGETS, lock=str(revision))
        revision = found.mod_revision
        counted.append(revision)
        assert (await world.stored(WIDGET) or {})["spec"] == {"size": size}
    assert sorted(counted) == counted
    assert (counted[2] == counted[3], counted[5] == counted[6]) == (True, True)
    assert len(set(counted)) == 5


async def test_generation_counts_what_is_wanted(world: World) -> None:
    """It rises with the spec, not with metadata or the status; `/status` changes the status alone, and nothing else the status."""
    await world.establish(status_crd())
    await world.create(widget("one"), WIDGETS)

    def everything(obj: dict[str, Any]) -> None:
        obj["metadata"]["labels"] = {"a": "b"}
        obj["spec"]["size"] = 2
        obj["status"] = {"ready": True}

    through_status = (await world.update("one", everything, WIDGETS, subresource="status")).obj
    assert (through_status["metadata"]["generation"], through_status["spec"], through_status["status"]) == (1, {"size": 1}, {"ready": True})
    assert "labels" not in through_status["metadata"]
    labelled = (await world.update("one", lambda obj: obj["metadata"].update(labels={"a": "b"}), WIDGETS)).obj
    assert labelled["metadata"]["generation"] == 1

    def everything_but_the_status(obj: dict[str, Any]) -> None:
        everything(obj)
        del obj["status"]

    whole = (await world.update("one", everything_but_the_status, WIDGETS)).obj
    assert (whole["metadata"]["generation"], whole["spec"], whole["status"]) == (2, {"size": 2}, {"ready": True})


async def test_the_last_finalizer_takes_the_object_along(world: World) -> None:
    """While it is being deleted, finalizers can only go, and the update that takes the last one is the removal."""
    await world.create(config_map("one", finalizers=["a.b/one", "a.b/two"]))
    await world.delete("one")
    with pytest.raises(StatusError) as caught:
        await world.update("one", lambda obj: obj["metadata"]["finalizers"].append("a.b/three"))
    assert (
        'no new finalizers can be added if the object is being deleted, found new finalizers []string{"a.b/three"}' in caught.value.message
    )
    assert not (await world.update("one", lambda obj: obj["metadata"]["finalizers"].remove("a.b/one"))).deleted
    gone = await world.update("one", lambda obj: obj["metadata"].pop("finalizers"), dry_run=True)
    assert gone.deleted
    assert await world.stored(ONE) is not None
    assert (await world.update("one", lambda obj: obj["metadata"].pop("finalizers"))).deleted
    assert await world.stored(ONE) is None


async def test_a_delete_in_the_middle_of_taking_the_last_finalizer(world: World) -> None:
    """The update is worked out again on the marked object, and removes it: nothing waits for a finalizer that is gone."""
    await world.create(config_map("one", finalizers=["a.b/one"]))
    world.storage.before_write(lambda: world.delete("one"))
    assert (await world.update("one", lambda obj: obj["metadata"].pop("finalizers", None))).deleted
    assert await world.stored(ONE) is None


async def test_put_creates_what_is_not_there_where_the_kind_allows(world: World) -> None:
    """The second writer updates the object of the first one."""
    created = await world.update("lock", lambda obj: obj.update(spec={"holderIdentity": "me"}), LEASES, may_create=True)
    assert created.created
    await world.delete("lock", LEASES)
    role = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterroles")
    world.storage.before_write(lambda: world.update("r", lambda obj: obj.update(rules=[]), role, namespace="", may_create=True))
    rule = {"verbs": ["get"], "nonResourceURLs": ["/x"]}
    second = await world.update("r", lambda obj: obj.update(rules=[rule]), role, namespace="", may_create=True)
    assert not second.created
    assert second.obj["rules"] == [rule]
    for more in ({"may_create": True}, {"may_create": True, "subresource": "status"}, {}):
        with pytest.raises(StatusError) as caught:
            await world.update("absent", data(a="b"), **more)
        assert caught.value.code == 404


async def test_a_crd_that_changes_in_the_middle_is_looked_up_again(world: World) -> None:
    """An object that was checked by the old schema is not stored under the new one."""
    await world.establish()
    created = await world.client.create(TEAM, WIDGETS, widget("one"))

    def stricter(crd: dict[str, Any]) -> None:
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["maximum"] = 5

    world.storage.before_write(lambda: world.rewrite(CRD_KEY, stricter))
    before = await world.stored(WIDGET)
    with pytest.raises(StaleStateError) as stale:
        await world.update("one", lambda obj: obj["spec"].update(size=7), WIDGETS)
    assert stale.value.key == CRD_KEY
    assert await world.stored(WIDGET) == before
    with pytest.raises(StatusError) as caught:
        await world.client.update(TEAM, WIDGETS, {**created, "spec": {"size": 7}})
    assert "spec.size in body should be less than or equal to 5" in caught.value.message
    world.storage.before_write(lambda: world.storage.transact((), (Delete(CRD_KEY),)))
    with pytest.raises(StatusError) as caught:
        await world.client.update(TEAM, WIDGETS, {**created, "spec": {"size": 3}})
    assert (caught.value.code, caught.value.message) == (404, "the server could not find the requested resource")


async def test_objects_stay_writable_while_their_cluster_ends(world: World) -> None:
    """Finalizers have to be taken away; only what would be new is refused."""
    await world.create(config_map("one", finalizers=["a.b/one"]))
    await world.client.delete(TEAM, LOGICAL_CLUSTERS, "", "cluster")
    await world.update("one", data(a="2"))
    with pytest.raises(StatusError) as caught:
        await world.update("default", lambda obj: obj["metadata"].update(labels={"x": "y"}), NAMESPACES, namespace="")
    assert caught.value.code == 403


async def test_a_default_object_is_stored_in_the_life_of_the_cluster_that_it_comes_from(world: World) -> None:
    """Its first change is a create: refused where the cluster is another one by then."""
    world.storage.before_write(world.remake_cluster)
    with pytest.raises(StaleStateError) as stale:
        await world.update("default", lambda obj: obj["metadata"]["labels"].update(x="y"), NAMESPACES, namespace="")
    assert stale.value.key == CLUSTER_KEY
    fresh = Name("fresh")
    cluster_state = world.registry.clusters.uncreated(fresh)
    served = await world.served(NAMESPACES)

    async def transform(current: Current | None) -> dict[str, Any]:
        assert current is not None
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"x": "y"}}}

    written = await update(world.registry.access, world.request(cluster_state, served, UpdateOptions, "", "default"), transform)
    assert written.mod_revision
    assert len(await world.registry.keys("fresh")) == 2
