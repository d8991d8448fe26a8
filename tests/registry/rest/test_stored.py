"""The verbs of stored objects, as HTTP and the in-process client call them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.continue_token import ContinueTokens
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.options import DeleteOptions, FieldValidation, ListOptions, UpdateOptions
from kcp_py.apimachinery.meta.selectors import parse_label_selector
from kcp_py.client import LocalClient
from kcp_py.logicalcluster import WILDCARD, Name
from kcp_py.registry.admission import AdmissionChain, AdmissionPlugin, Attributes
from kcp_py.registry.catalog.wildcard import WildcardTables
from kcp_py.registry.clusterstate import StaleStateError
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.rest.storage import ReadRequest
from kcp_py.registry.rest.verbs import Verbs
from kcp_py.registry.writerequest import Decoding, Resolved, WriteRequest
from kcp_py.request.context import RequestContext
from kcp_py.request.requestinfo import UNPARSED
from kcp_py.request.sight import EVERY_CLUSTER
from kcp_py.request.user import LOOPBACK
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import CONFIG_MAPS, NAMESPACES, config_map, open_registry
from tests.client.registry import Registry as World

pytestmark = pytest.mark.anyio

TEAM, OTHER = Name("team-a"), Name("team-b")
CONTEXT = RequestContext("", WILDCARD, True, UNPARSED, LOOPBACK, [], {})


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Three config maps in one cluster, one of which another cluster has, too."""
    async with open_registry(MemoryStorage()) as opened:
        for name in ("one", "two", "three"):
            await opened.client.create(TEAM, CONFIG_MAPS, config_map(name, labels={"size": str(len(name))}))
        await opened.client.create(OTHER, CONFIG_MAPS, config_map("one"))
        yield opened


def registry_of(world: World) -> Registry:
    wildcard = WildcardTables(world.storage, world.fanout, world.tables)
    tokens = ContinueTokens(b"k" * 16)
    return Registry(
        access=world.access, tables=world.tables, wildcard=wildcard, clusters=world.clusters, fanout=world.fanout, tokens=tokens
    )


async def target(world: World, cluster: Name | None, name: str = "", resource: GroupVersionResource = CONFIG_MAPS) -> Resolved:
    served = world.tables.builtin(*resource)
    assert served is not None
    return Resolved(await world.clusters.state(cluster) if cluster else None, served, "default", name, sight=EVERY_CLUSTER)


async def test_a_read_object_is_bytes_or_an_object(world: World) -> None:
    """Both say the same: with the resourceVersion and the annotation of the cluster."""
    verbs = Verbs(registry_of(world))
    where = await target(world, TEAM, "one")
    found = await verbs.stored.get(ReadRequest(CONTEXT, where))
    spliced = found.spliced()
    assert spliced is not None
    assert orjson.loads(spliced) == await found.decoded()
    assert found.metadata()["metadata"] == (await found.decoded())["metadata"]
    assert verbs.of(where) is verbs.stored


@pytest.mark.parametrize(("subresource", "verb", "code"), [("scale", "get", 404), ("finalize", "get", 405)])
async def test_a_subresource_is_found_with_its_verbs(world: World, subresource: str, verb: str, code: int) -> None:
    """Callers without a URL get 404 for a subresource that the resource does not have, and 405 for a verb that it does not have."""
    where = (await target(world, TEAM, "one", NAMESPACES))._replace(subresource=subresource)
    with pytest.raises(StatusError) as refused:
        Verbs(registry_of(world)).find(where, verb)
    assert refused.value.code == code


async def test_an_object_of_all_clusters_is_that_of_the_named_one(world: World) -> None:
    """Or of the only one; 409 where several have it, and 404 where none has."""
    stored = Verbs(registry_of(world)).stored
    found = await stored.get(ReadRequest(CONTEXT, await target(world, None, "two")))
    assert (found.target.cluster_state.name, (await found.decoded())["metadata"]["clusterName"]) == (TEAM, TEAM)
    named = await stored.get(ReadRequest(CONTEXT, await target(world, None, "one"), in_cluster="team-b"))
    assert named.target.cluster_state.name == OTHER
    for name, code in (("one", 409), ("none", 404)):
        with pytest.raises(StatusError) as refused:
            await stored.get(ReadRequest(CONTEXT, await target(world, None, name)))
        assert refused.value.code == code


async def test_a_write_has_one_cluster(world: World) -> None:
    """405 over all clusters, for any verb that asks for the cluster."""
    with pytest.raises(StatusError) as refused:
        await Verbs(registry_of(world)).stored.delete(WriteRequest(CONTEXT, await target(world, None, "one"), DeleteOptions()))
    assert refused.value.code == 405


def odd(name: str, namespace: str = "default") -> dict[str, Any]:
    """A decoded body with a field that the kind does not have, and with an owner twice."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "uid": "1"}
    return {**config_map(name, namespace, ownerReferences=[owner, owner]), "colour": "red"}


async def request_of(world: World, verb: str, name: str, validation: FieldValidation) -> WriteRequest:
    """A create or an update with a list of warnings of its own. Its body has one key twice."""
    where, options = await target(world, TEAM, name if verb == "update" else ""), UpdateOptions(field_validation=validation)
    return WriteRequest(CONTEXT._replace(warnings=[]), where, options, decoding=Decoding(repeated=['key "a" already set in map']))


@pytest.mark.parametrize("verb", ["create", "update"])
async def test_unknown_fields_are_reported_by_the_verb(world: World, verb: str) -> None:
    """They are dropped. Ignore reports repeated owners alone, Warn unknown fields and repeated keys, too; Strict refuses the write."""
    write, seen = getattr(Verbs(registry_of(world)).stored, verb), {}
    validations: Sequence[FieldValidation] = ("Ignore", "Warn")
    for validation in validations:
        name = f"new-{validation.lower()}" if verb == "create" else "one"
        request = await request_of(world, verb, name, validation)
        obj = await (await write(request, odd(name))).decoded()
        assert ("colour" in obj, len(obj["metadata"]["ownerReferences"])) == (False, 1)
        seen[validation] = [warning.partition(";")[0] for warning in request.warnings]
    repeated_owner = ".metadata.ownerReferences contains duplicate entries"
    assert seen["Ignore"] == [repeated_owner]
    assert seen["Warn"] == ['key "a" already set in map', 'unknown field "colour"', repeated_owner]
    with pytest.raises(StatusError) as refused:
        await write(await request_of(world, verb, "one", "Strict"), odd("one"))
    problems = 'strict decoding error: key "a" already set in map, unknown field "colour"'
    assert (refused.value.code, refused.value.message) == (
        400,
        f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {problems}',
    )


@pytest.mark.parametrize("verb", ["create", "update"])
async def test_fields_are_checked_before_the_place_of_an_object(world: World, verb: str) -> None:
    """As upstream, which decodes the body first: metadata of wrong types, then unknown fields, then another namespace than the URL's."""
    write = getattr(Verbs(registry_of(world)).stored, verb)
    mistaken = odd("one", "elsewhere")
    mistaken["metadata"]["labels"] = 5
    expected = [
        (mistaken, "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels"),
        (odd("one", "elsewhere"), 'unknown field "colour"'),
        (config_map("one", "elsewhere"), "the namespace of the provided object does not match the namespace sent on the request"),
    ]
    for obj, message in expected:
        with pytest.raises(StatusError) as refused:
            await write((await request_of(world, verb, "one", "Strict"))._replace(decoding=Decoding()), obj)
        assert (refused.value.code, message in refused.value.message) == (400, True), refused.value.message


class Overtaken(AdmissionPlugin):
    """Lets another update be faster, once."""

    def __init__(self, client: LocalClient) -> None:
        self._client = client
        self.overtaken = False

    async def validate(self, attributes: Attributes) -> None:
        """Change the object that the update has read."""
        if attributes.operation == "UPDATE" and not self.overtaken:
            self.overtaken = True
            await self._client.patch(TEAM, CONFIG_MAPS, "default", attributes.name, document={"data": {"a": "faster"}})


async def test_a_body_that_is_decoded_again_is_checked_again(world: World) -> None:
    """An update that another one overtook takes the body anew: unknown fields are dropped, and nothing is reported twice."""
    request = await request_of(world, "update", "one", "Warn")

    async def again() -> dict[str, Any]:
        return odd("one")

    plugin = Overtaken(world.client)
    world.access.admission = AdmissionChain((plugin,))
    written = await Verbs(registry_of(world)).stored.update(request._replace(decoding=Decoding(again=again)), odd("one"))
    obj = await written.decoded()
    assert plugin.overtaken
    assert ("colour" in obj, obj["data"]) == (False, {"a": "b"})
    assert [warning.partition(" ")[0] for warning in request.warnings] == ["unknown", ".metadata.ownerReferences"]


async def names_of(world: World, options: ListOptions) -> tuple[list[str], str]:
    listing = await Verbs(registry_of(world)).stored.list(ReadRequest(CONTEXT, await target(world, TEAM), options))
    names: list[str] = []
    async for portion in listing.portions():
        names += [one.item.key.rpartition("/")[2] for one in portion]
    return names, listing.continue_token()


async def test_pages_go_on_where_the_last_one_ended(world: World) -> None:
    """With a token, at the revision of the first page; a selection is made below HTTP, too."""
    first, token = await names_of(world, ListOptions(limit=2))
    await world.client.create(TEAM, CONFIG_MAPS, config_map("zzz"))
    second, end = await names_of(world, ListOptions(limit=2, continue_token=token))
    assert (first, second, end) == (["one", "three"], ["two"], "")
    assert await names_of(world, ListOptions(label_selector=parse_label_selector("size=5"))) == (["three"], "")


async def test_a_watch_shows_selected_changes(world: World) -> None:
    """From the state on: an object that begins to match is ADDED, one that ceases to match is DELETED."""
    options = ListOptions(label_selector=parse_label_selector("size=3"))
    watch = Verbs(registry_of(world)).stored.watch(ReadRequest(CONTEXT, (await target(world, TEAM)), options))
    await watch.start()
    await watch.check()
    assert watch.sends_initial_events
    initial = [one.item.key.rpartition("/")[2] async for portion in watch.initial() for one in portion]
    watch.begin()
    for name, size in (("one", "9"), ("three", "3"), ("three", "3")):
        await world.client.update(TEAM, CONFIG_MAPS, config_map(name, labels={"size": size, "seen": str(len(initial))}))
        initial.append(name)
    seen: list[tuple[str, Any]] = []
    while len(seen) < 3:
        changes = [await watch.change(event) for event in await watch.watcher.take()]
        seen += [(change[0], change[1]["metadata"]["name"]) for change in changes if change is not None]
        if len(seen) < 3:
            await watch.watcher.wait()
    await watch.aclose()
    assert initial[:2] == ["one", "two"]
    assert seen == [("DELETED", "one"), ("ADDED", "three"), ("MODIFIED", "three")]


async def test_a_deleted_collection_is_its_objects(world: World) -> None:
    """Those that are selected, as their deletion has left them."""
    request = WriteRequest(CONTEXT, await target(world, TEAM), DeleteOptions())
    options = ListOptions(label_selector=parse_label_selector("size=3"))
    deleted = Verbs(registry_of(world)).stored.delete_collection(request, options)
    gone = [(one.target.name, one.deleted) async for one in deleted]
    assert gone == [("one", True), ("two", True)]
    assert [one["metadata"]["name"] for one in (await world.client.list(TEAM, CONFIG_MAPS)).items] == ["three"]


@pytest.mark.parametrize("initial_events", [True, False])
async def test_a_watch_goes_on_when_its_cluster_is_created_while_it_starts(world: World, *, initial_events: bool) -> None:
    """The first object is an event: the answer had begun before the cluster did, and clients take a clean end for the server's."""
    missing = Name("team-c")
    where = (await target(world, TEAM))._replace(only=world.clusters.uncreated(missing))
    watch = Verbs(registry_of(world)).stored.watch(ReadRequest(CONTEXT, where, ListOptions(send_initial_events=initial_events)))
    await watch.start()
    await world.client.create(missing, CONFIG_MAPS, config_map("first"))
    await watch.check()
    if initial_events:
        # An empty cluster, but for what every cluster has.
        assert [one.item.key for portion in [part async for part in watch.initial()] for one in portion if "first" in one.item.key] == []
    else:
        await watch.find_start()
    watch.begin()
    seen: list[tuple[str, str]] = []
    while not seen:
        await watch.watcher.wait()
        changes = [await watch.change(event) for event in await watch.watcher.take()]
        seen += [(change[0], change[1]["metadata"]["name"]) for change in changes if change is not None]
    assert seen[-1] == ("ADDED", "first")
    await watch.aclose()


async def test_a_watch_starts_again_where_its_cluster_was_created_before(world: World) -> None:
    """The state is worked out again before the answer begins."""
    missing = Name("team-c")
    where = (await target(world, TEAM))._replace(only=world.clusters.uncreated(missing))
    await world.client.create(missing, CONFIG_MAPS, config_map("first"))
    watch = Verbs(registry_of(world)).stored.watch(ReadRequest(CONTEXT, where))
    with pytest.raises(StaleStateError):
        await watch.start()
    await watch.aclose()
