"""Objects in memory, kept up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.client import Client
from kcp_py.client.cache import by_label
from kcp_py.client.informer import Change, Informer, Informers
from kcp_py.client.keys import Key
from kcp_py.client.reflecting import Selection
from kcp_py.client.remote import RemoteClient
from kcp_py.client.transport import Transport
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import WILDCARD, Name
from kcp_py.testing.client_objects import CONFIG_MAPS, OTHER, TEAM, config_map, widget_crd
from tests.client.scripted import Scripted, item
from tests.client.served import options_of, served

pytestmark = pytest.mark.anyio

ALL = Selection(WILDCARD, CONFIG_MAPS)


async def changes_of(scripted: Scripted) -> tuple[Informer, list[str]]:
    """An informer and its changes, when the script is at its end."""
    informer = Informer(scripted.client, ALL, sleep=scripted.sleep, backoff=scripted.backoff)
    seen: list[str] = []
    informer.on_change(lambda change: seen.append(f"{change.type} {change.key.name} {change.obj['metadata']['resourceVersion']}"))
    async with informer, asyncio.timeout(30):
        await scripted.done.wait()
    return informer, seen


async def test_a_new_list_shows_what_was_missed() -> None:
    """Objects that went are DELETED with their last state, one that was made anew is DELETED and ADDED, known states do not come again."""
    scripted = Scripted(
        ([item("same", 1), item("gone", 2), item("changed", 3), item("anew", 4)], 5),
        [StatusError(410, "Expired", "too old")],
        ([item("same", 1), item("changed", 7), item("anew", 8, uid="other")], 9),
    )
    informer, seen = await changes_of(scripted)
    assert seen[4:] == ["MODIFIED changed 7", "DELETED anew 4", "ADDED anew 8", "DELETED gone 2"]
    assert len(informer) == 3


async def test_repeated_events_are_shown_once() -> None:
    """Also a deletion of an unknown object."""
    scripted = Scripted(([item("a", 1)], 1), [("ADDED", item("a", 1)), ("MODIFIED", item("a", 2)), ("MODIFIED", item("a", 2))])
    scripted.script[1] += [("DELETED", item("b", 3)), ("DELETED", item("a", 4)), ("DELETED", item("a", 4))]
    informer, seen = await changes_of(scripted)
    assert seen == ["ADDED a 1", "MODIFIED a 2", "DELETED a 4"]
    assert len(informer) == 0


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
async def test_what_cannot_be_read_is_left_out(error: type[BaseException]) -> None:
    """An object without a cluster, and a handler that fails, stop nothing."""
    lost = item("lost", 2)
    del lost["metadata"]["annotations"]
    scripted = Scripted(([lost, item("a", 1, managedFields=[{"manager": "x"}])], 3))
    informer = Informer(scripted.client, ALL, sleep=scripted.sleep, backoff=scripted.backoff)
    seen: list[Change] = []

    def fail(change: Change) -> None:
        raise error(change.type)

    informer.on_change(fail)
    end = informer.on_change(seen.append)
    async with informer, asyncio.timeout(30):
        await informer.wait_for_sync()
        await scripted.done.wait()
    assert [change.key.name for change in seen] == ["a"]
    assert informer.get(Name("team-a"), "default", "a") == item("a", 1)
    end()
    end()


async def test_waiting_for_a_server_that_does_not_answer_ends() -> None:
    """After the time that was given."""
    informer = Informer(Scripted().client, ALL)
    with pytest.raises(TimeoutError):
        await informer.wait_for_sync(0)
    assert not informer.synced


async def test_informers_are_shared_while_they_are_used() -> None:
    """One selection has one informer, which ends with its last user; an index may be added by the second."""
    scripted = Scripted(([item("a", 1, labels={"app": "web"})], 1))
    informers = Informers(scripted.client)
    async with informers.use(ALL) as first:
        await first.wait_for_sync(30)
        async with informers.use(ALL, {"app": by_label("app")}) as second:
            assert second is first
            assert [one["metadata"]["name"] for one in second.by_index("app", Name("team-a"), "web")] == ["a"]
        assert len(informers) == 1
    assert len(informers) == 0


@pytest.fixture(params=["in process", "over HTTP"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    async with ControlPlane(options_of(tmp_path, controllers=("customresourcedefinition-controller",))) as control_plane:
        if request.param == "in process":
            yield control_plane.client
            return
        async with served(control_plane) as context, RemoteClient(Transport(context)) as remote:
            yield remote


async def test_an_informer_follows_a_server(client: Client) -> None:
    """Objects of all clusters, those that came before and after; a late handler gets the known objects."""
    await client.create(TEAM, CONFIG_MAPS, config_map("one", labels={"app": "web"}))
    changes: asyncio.Queue[Change] = asyncio.Queue()
    async with Informer(client, ALL) as informer, asyncio.timeout(30):
        await informer.wait_for_sync()
        informer.on_change(changes.put_nowait)
        assert (await changes.get()).key == Key(TEAM, "default", "one")
        await client.create(OTHER, CONFIG_MAPS, config_map("two"))
        assert (await changes.get()).key == Key(OTHER, "default", "two")
        assert [obj["metadata"]["name"] for obj in informer.list(label_selector="app=web")] == ["one"]
        assert [obj["metadata"]["name"] for obj in informer.list(OTHER, "default")] == ["two"]
        await client.delete(TEAM, CONFIG_MAPS, "default", "one")
        gone = await changes.get()
        assert (gone.type, gone.key.cluster) == ("DELETED", TEAM)
        assert informer.keys() == [Key(OTHER, "default", "two")]


async def test_a_definition_may_come_after_its_informer(client: Client) -> None:
    """Until then the resource has no objects, and the informer is in sync; when the definition goes, its objects go."""
    crd = widget_crd()
    resource = CONFIG_MAPS._replace(group="example.com", resource="widgets")
    definitions = CONFIG_MAPS._replace(group="apiextensions.k8s.io", resource="customresourcedefinitions")
    changes: asyncio.Queue[Change] = asyncio.Queue()
    hurried = Informer(client, Selection(TEAM, resource), sleep=lambda _: asyncio.sleep(0.01))
    async with hurried as informer, asyncio.timeout(60):
        informer.on_change(changes.put_nowait)
        await informer.wait_for_sync()
        assert len(informer) == 0
        await client.create(TEAM, definitions, crd)
        made = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}}
        while not any(one.resource == resource for one in await client.resources(TEAM)):
            await asyncio.sleep(0)
        await client.create(TEAM, resource, made)
        assert (await changes.get()).type == "ADDED"
        await client.delete(TEAM, definitions, "", crd["metadata"]["name"])
        while (await changes.get()).type != "DELETED":
            pass
