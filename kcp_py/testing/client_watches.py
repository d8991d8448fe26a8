"""Tests of watch, for `kcp_py.testing.client_suite`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.client.contract import Client, WatchEvent
from kcp_py.logicalcluster import WILDCARD
from kcp_py.testing.client_objects import CONFIG_MAPS, OTHER, TEAM, WIDGETS, config_map, serve_widgets, widget

Seen = list[tuple[str, str]]


async def _take(events: AsyncGenerator[WatchEvent, None], count: int) -> list[WatchEvent]:
    async with asyncio.timeout(60):
        return [await anext(events) for _ in range(count)]


async def _begin(client: Client) -> str:
    """Create the first object of the cluster, with which its history begins. Returns the resourceVersion after it."""
    made: str = (await client.create(TEAM, CONFIG_MAPS, config_map("first")))["metadata"]["resourceVersion"]
    return made


def _shown(events: list[WatchEvent]) -> Seen:
    return [(event.type, event.obj["metadata"]["name"]) for event in events]


class ClientWatchTests:
    """Watches of a client."""

    async def test_a_watch_goes_on_where_a_list_ended(self, client: Client) -> None:
        """Changes after the list arrive in order, over all clusters, with the whole object."""
        await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        listed = await client.list(WILDCARD, CONFIG_MAPS)
        made = await client.create(OTHER, CONFIG_MAPS, config_map("two"))
        await client.update(OTHER, CONFIG_MAPS, {**made, "data": {"x": "y"}})
        await client.delete(TEAM, CONFIG_MAPS, "default", "one")
        async with aclosing(client.watch(WILDCARD, CONFIG_MAPS, resource_version=listed.resource_version)) as events:
            seen = await _take(events, 3)
        assert _shown(seen) == [("ADDED", "two"), ("MODIFIED", "two"), ("DELETED", "one")]
        assert seen[1].obj["data"] == {"x": "y"}
        assert [event.obj["metadata"]["annotations"]["kcp.io/cluster"] for event in seen] == [OTHER, OTHER, TEAM]

    async def test_a_watch_of_one_cluster_shows_nothing_of_another(self, client: Client) -> None:
        """Events of other clusters, and of other namespaces than the requested one, are left out."""
        version = await _begin(client)
        await client.create(OTHER, CONFIG_MAPS, config_map("foreign"))
        await client.create(TEAM, CONFIG_MAPS, config_map("elsewhere", namespace="kube-system"))
        await client.create(TEAM, CONFIG_MAPS, config_map("mine"))
        async with aclosing(client.watch(TEAM, CONFIG_MAPS, "default", resource_version=version)) as events:
            assert _shown(await _take(events, 1)) == [("ADDED", "mine")]

    async def test_a_watch_with_a_selector_shows_what_begins_and_ceases_to_match(self, client: Client) -> None:
        """Objects that begin or cease to match are ADDED and DELETED."""
        version = await _begin(client)
        made = await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
        made = await client.update(TEAM, CONFIG_MAPS, labelled)
        del made["metadata"]["labels"]
        await client.update(TEAM, CONFIG_MAPS, made)
        async with aclosing(client.watch(TEAM, CONFIG_MAPS, resource_version=version, label_selector="a=b")) as events:
            assert _shown(await _take(events, 2)) == [("ADDED", "one"), ("DELETED", "one")]

    async def test_a_watch_with_a_field_selector(self, client: Client) -> None:
        """A watch with a selector delivers the selected objects."""
        await serve_widgets(client, TEAM)
        version = (await client.list(TEAM, WIDGETS)).resource_version
        for name, color in (("one", "red"), ("two", "blue")):
            await client.create(TEAM, WIDGETS, widget(name, color=color))
        async with aclosing(client.watch(TEAM, WIDGETS, resource_version=version, field_selector="spec.color=blue")) as events:
            assert _shown(await _take(events, 1)) == [("ADDED", "two")]

    async def test_a_watch_of_metadata(self, client: Client) -> None:
        """A watch of metadata delivers objects without data."""
        version = await _begin(client)
        made = await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        async with aclosing(client.watch(TEAM, CONFIG_MAPS, resource_version=version, metadata_only=True)) as events:
            (event,) = await _take(events, 1)
        assert (event.obj["kind"], event.obj["metadata"]) == ("PartialObjectMetadata", made["metadata"])
        assert "data" not in event.obj

    async def test_a_watch_ends_at_its_timeout(self, client: Client) -> None:
        """The generator ends without an error, after a bookmark if bookmarks are requested."""
        version = await _begin(client)
        made = await client.create(TEAM, CONFIG_MAPS, config_map("two"))
        async with aclosing(client.watch(TEAM, CONFIG_MAPS, resource_version=version, bookmarks=True, timeout_seconds=1)) as events:
            async with asyncio.timeout(60):
                seen = [event async for event in events]
        assert [event.type for event in seen] == ["ADDED", "BOOKMARK"]
        assert int(seen[-1].obj["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])

    async def test_a_revision_that_is_no_number_is_refused(self, client: Client) -> None:
        """A malformed resourceVersion is answered with 400, before any event."""
        async with aclosing(client.watch(TEAM, CONFIG_MAPS, resource_version="x")) as events:
            with pytest.raises(StatusError) as caught:
                await anext(events)
        assert caught.value.code == 400

    async def test_a_watch_from_the_life_of_another_cluster_is_expired(self, client: Client) -> None:
        """The history of a cluster begins with its first object; an earlier revision is expired."""
        before = (await client.create(OTHER, CONFIG_MAPS, config_map("one")))["metadata"]["resourceVersion"]
        await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        async with aclosing(client.watch(TEAM, CONFIG_MAPS, resource_version=before)) as events:
            with pytest.raises(StatusError) as caught:
                await anext(events)
        assert (caught.value.code, caught.value.reason) == (410, "Expired")
