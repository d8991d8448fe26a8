"""Reconcile functions, in the process of the control plane and over HTTP."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.client.blocking import BlockingClient
from kcp_py.client.clusterclient import ClusterClient
from kcp_py.client.keys import Key
from kcp_py.controllers.runtime.controller import Later
from kcp_py.library.reconciling import Controllers, owned_by
from kcp_py.library.reconciling.events import Recorder
from kcp_py.testing.client_objects import CONFIG_MAPS, OTHER, TEAM
from tests.client.ships import SHIPS, Ship
from tests.library.reconciling.fleet import EVENTS, WAYS, reconciled, ship, until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("way", WAYS)]


async def test_five_lines_work(way: str, tmp_path: Path) -> None:
    """Each object of each cluster has what the function makes for it, again after another client has changed or deleted that."""
    controllers = Controllers()

    @controllers.reconcile(Ship, owns=[CONFIG_MAPS])
    async def log_book(ship: Ship, client: ClusterClient) -> None:
        metadata = {"name": f"log-of-{ship.metadata.name}"}
        book = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"home": ship.spec.home_port}}
        await client.apply(owned_by(ship, book), force=True)

    async with reconciled(way, tmp_path, controllers) as client:
        team, other = client.cluster(TEAM), client.cluster(OTHER)
        await team.create(ship())
        await other.create(ship("boat"))
        book = await until(team, CONFIG_MAPS, lambda found: found is not None, "log-of-argo")
        assert book["metadata"]["ownerReferences"][0]["name"] == "argo"
        assert {entry["manager"] for entry in book["metadata"]["managedFields"]} == {"log-book"}
        await until(other, CONFIG_MAPS, lambda found: found is not None, "log-of-boat")
        assert await other.find(CONFIG_MAPS, "log-of-argo") is None

        await team.patch(book, {"data": {"home": "Corinth"}})
        book = await until(team, CONFIG_MAPS, lambda found: found and found["data"]["home"] == "Iolcus", "log-of-argo")
        await team.delete(book)
        await until(team, CONFIG_MAPS, lambda found: found and found["metadata"]["uid"] != book["metadata"]["uid"], "log-of-argo")


async def test_what_fails_is_called_again(way: str, tmp_path: Path) -> None:
    """An exception, a conflict and an object that does not fit its class cost others nothing; a time is waited for."""
    controllers, calls = Controllers(), Counter[str]()

    @controllers.reconcile(Ship)
    async def sail(ship: Ship, client: ClusterClient, key: Key) -> Later | float | None:
        calls[key.name] += 1
        match key.name, calls[key.name]:
            case "broken", 1:
                raise RuntimeError("leak")
            case "late", 1:
                return 0.01
            case "later", 1:
                return Later(0.01)
            case "raced", 1:
                raise StatusError(409, "Conflict", "changed")
        await client.patch_status(ship, {"phase": "AtSea"})
        return None

    async with reconciled(way, tmp_path, controllers) as client:
        team = client.cluster(TEAM)
        await client.create(TEAM, SHIPS, {"metadata": {"name": "odd", "namespace": "default"}, "spec": {"homePort": 5}})
        for name in ("broken", "late", "later", "raced"):
            await team.create(ship(name))
        for name in ("broken", "late", "later", "raced"):
            await until(team, SHIPS, lambda found: found and "status" in found, name)
            assert calls[name] >= 2
        assert calls["odd"] == 0
        while not (events := await team.list(EVENTS)):
            await asyncio.sleep(0)
        assert {(event["involvedObject"]["name"], event["reason"]) for event in events} == {("odd", "Unreadable")}


async def test_a_finalizer_keeps_an_object_until_its_end(way: str, tmp_path: Path) -> None:
    """The function sees marked objects only; the end may take several calls, and may fail; then the object goes."""
    controllers, seen, built = Controllers(), list[str](), asyncio.Event()

    async def scrap(ship: Ship) -> float | None:
        assert ship.metadata.name == "argo"
        seen.append("scrap")
        match len(seen):
            case 2:
                raise RuntimeError("fire")
            case 3:
                return 0.01
        return None

    @controllers.reconcile(Ship, finalizer="fleet.example.com/dock", finalize=scrap)
    async def build(ship: Ship) -> None:
        if "build" not in seen:
            assert ship.metadata.model_extra is not None
            assert ship.metadata.model_extra["finalizers"] == ["fleet.example.com/dock"]
            seen.append("build")
            built.set()

    async with reconciled(way, tmp_path, controllers) as client:
        team = client.cluster(TEAM)
        made = await team.create(ship())
        await asyncio.wait_for(built.wait(), 60)
        await team.delete(made)
        await until(team, Ship, lambda found: found is None)
        assert seen == ["build", "scrap", "scrap", "scrap"]


async def test_what_cannot_be_read_is_not_taken_for_cleaned_up(way: str, tmp_path: Path) -> None:
    """Its finalizer stays until the object fits its class, and what belongs to it was removed."""
    controllers, seen = Controllers(), list[str]()

    async def scrap(ship: Ship) -> None:
        seen.append(ship.spec.home_port)

    @controllers.reconcile(Ship, finalizer="fleet.example.com/dock", finalize=scrap)
    async def build(ship: Ship) -> None:
        del ship

    async with reconciled(way, tmp_path, controllers) as client:
        team = client.cluster(TEAM)
        made = await team.create(ship())
        await until(team, SHIPS, lambda found: found and found["metadata"].get("finalizers"))
        await client.patch(TEAM, SHIPS, "default", "argo", document={"spec": {"homePort": 5}})
        await team.delete(made)
        while not any(event["reason"] == "Unreadable" for event in await team.list(EVENTS)):
            await asyncio.sleep(0)
        await client.patch(TEAM, SHIPS, "default", "argo", document={"spec": {"homePort": "Colchis"}})
        await until(team, SHIPS, lambda found: found is None)
        assert seen == ["Colchis"]


async def test_what_a_thread_raises_is_a_failure_like_others(way: str, tmp_path: Path) -> None:
    """Also an exception that no future can have, and one that would end the process."""
    controllers, calls = Controllers(), Counter[str]()

    @controllers.reconcile(SHIPS, name="painter")
    def paint(body: dict[str, Any], client: BlockingClient, name: str) -> None:
        calls[name] += 1
        if calls[name] == 1:
            raise StopIteration
        if calls[name] == 2:
            raise SystemExit(3)
        client.patch_status(body, {"painted": True})

    async with reconciled(way, tmp_path, controllers) as client:
        team = client.cluster(TEAM)
        await team.create(ship())
        await until(team, Ship, lambda found: found and found.status == {"painted": True})


async def test_a_plain_function_runs_in_a_thread(way: str, tmp_path: Path) -> None:
    """Its client waits for answers, and the loop is free meanwhile; JSON objects are given for a resource without a class."""
    import threading

    controllers = Controllers()

    @controllers.reconcile(SHIPS, name="painter", generations=True)
    def paint(body: dict[str, Any], client: BlockingClient, recorder: Recorder, cluster: str) -> None:
        assert threading.current_thread() is not threading.main_thread()
        client.patch_status(body, {"painted": cluster})
        recorder.normal("Painted", "in blue")
        recorder.normal("Painted", "in blue")

    async with reconciled(way, tmp_path, controllers) as client:
        team = client.cluster(TEAM)
        await team.create(ship())
        await until(team, Ship, lambda found: found and found.status == {"painted": "team-a"})
        while not (events := await team.list(EVENTS)) or events[0]["count"] < 2:
            await asyncio.sleep(0)
        assert [(event["reason"], event["message"], event["source"]["component"]) for event in events] == [
            ("Painted", "in blue", "painter")
        ]


async def test_objects_are_found_through_others(way: str, tmp_path: Path) -> None:
    """A change of a watched object looks at the objects that a function names."""
    controllers = Controllers()

    @controllers.reconcile(Ship, watches={CONFIG_MAPS: lambda change: [change.key._replace(name="argo")]}, label_selector="!old")
    async def read(ship: Ship, client: ClusterClient) -> None:
        found = await client.find(CONFIG_MAPS, "orders")
        await client.patch_status(ship, {"orders": found["data"]["a"] if found else "none"})

    async with reconciled(way, tmp_path, controllers) as client:
        team = client.cluster(TEAM)
        await team.create(ship())
        await team.create(ship("hulk", labels={"old": "yes"}))
        await until(team, Ship, lambda found: found and found.status == {"orders": "none"})
        orders: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "orders"}, "data": {"a": "sail"}}
        await team.create(orders)
        await until(team, Ship, lambda found: found and found.status == {"orders": "sail"})
        assert (await team.get(Ship, "hulk")).status is None
