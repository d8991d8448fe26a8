"""Lists that are answered without looking at their objects: in parts, in a stream, again after writes; on the embedded store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import yaml

from kcp_py.controlplane import ControlPlane
from kcp_py.registry.rest import listing
from kcp_py.registry.store import rendered
from tests.server.handlers.conftest import Api, config_map, options

pytestmark = pytest.mark.anyio

MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
NAMES = [f"m{number:02}" for number in range(9)]


@pytest.fixture
async def stored(tmp_path: Path) -> AsyncIterator[Api]:
    """A control plane on a file, with some objects of 8 KB."""
    async with (
        ControlPlane(replace(options(tmp_path), storage="sqlite")) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api = Api(client, control_plane)
        await asyncio.gather(*(api.ok("POST", MAPS, config_map(name, {"text": "x" * 8_000})) for name in NAMES))
        yield api


@pytest.fixture(autouse=True)
def _small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendered, "_READ", 2)
    monkeypatch.setattr(rendered, "_LEAST_KEPT", 1)


async def each(api: Api) -> list[dict[str, Any]]:
    """The objects one by one, as items of a typed list."""
    objects = [await api.ok("GET", f"{MAPS}/{name}") for name in NAMES]
    return [{key: value for key, value in obj.items() if key not in {"apiVersion", "kind"}} for obj in objects]


@pytest.mark.parametrize("chunk", [10_000, 4], ids=["in parts", "in a stream"])
async def test_a_list_is_its_objects(stored: Api, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """In every encoding, the first time and again, after an object changed too."""
    monkeypatch.setattr(listing, "_WHOLE_LIST_CHUNK", chunk)
    for round_ in range(3):
        expected = await each(stored)
        response = await stored("GET", MAPS)
        listed = response.json()
        assert listed["items"] == expected
        assert ("content-length" in response.headers) is (chunk == 10_000)
        revision = int(listed["metadata"]["resourceVersion"])
        assert revision >= max(int(item["metadata"]["resourceVersion"]) for item in expected)
        pretty = await stored("GET", MAPS, params={"pretty": "true"})
        assert orjson.loads(pretty.content)["items"] == expected
        text = await stored("GET", MAPS, headers={"Accept": "application/yaml"})
        assert yaml.safe_load(text.content)["items"] == expected
        await stored.ok("PUT", f"{MAPS}/m04", config_map("m04", {"round": str(round_)}))


@pytest.mark.parametrize("limit", [1, 3, 4, 9, 10])
async def test_pages_are_the_list_as_it_was_at_the_first_one(stored: Api, limit: int) -> None:
    """Although an object is changed between the pages, and with the number of those that remain."""
    for _ in range(2):
        expected = await each(stored)
        found: list[Any] = []
        params = {"limit": str(limit)}
        while True:
            page = await stored.ok("GET", MAPS, params=params)
            found += page["items"]
            assert page["metadata"].get("remainingItemCount", 0) == len(NAMES) - len(found)
            token = page["metadata"].get("continue")
            if not token:
                break
            params["continue"] = token
            await stored.ok("PUT", f"{MAPS}/m07", config_map("m07", {"found": str(len(found))}))
        assert found == expected


async def test_an_empty_list_has_an_empty_array(stored: Api) -> None:
    """In a cluster that has nothing, and in one whose objects were listed before they were deleted."""
    assert (await stored.ok("GET", MAPS.replace("/a/", "/b/")))["items"] == []
    await stored.ok("GET", MAPS)
    await stored.ok("DELETE", MAPS)
    assert (await stored.ok("GET", MAPS))["items"] == []
