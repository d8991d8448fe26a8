"""A controller of this library, and its test with a recording."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcp_py import Controller, ControllerContext, ControllerSource, GroupVersionResource, Key
from kcp_py.testing import Recording, control_plane

CONFIGMAPS = GroupVersionResource("", "v1", "configmaps")


class Counter:
    """Writes into each config map how many entries it has."""

    name = "counter"
    per_cluster = 1

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client

    @property
    def sources(self) -> Sequence[ControllerSource]:
        return [ControllerSource(CONFIGMAPS)]

    async def reconcile(self, key: Key) -> int:
        config_map = await self._client.get(key.cluster, CONFIGMAPS, key.namespace, key.name)
        annotations = {"entries": str(len(config_map.get("data", {})))}
        if config_map["metadata"].get("annotations", {}).get("entries") != annotations["entries"]:
            document = {"metadata": {"annotations": annotations}}
            await self._client.patch(key.cluster, CONFIGMAPS, key.namespace, key.name, document=document)
        return 0


def create_counter(context: ControllerContext) -> Controller:
    """Make the controller."""
    return Counter(context)


@pytest.fixture
def anyio_backend() -> str:
    """The server runs on asyncio."""
    return "asyncio"


@pytest.mark.anyio
async def test_entries_are_counted_with_one_write() -> None:
    """One patch for each change, and none for the change that the controller itself makes."""
    recording = Recording()
    async with control_plane(parts={"controllers": [recording.controller(create_counter)]}) as server:
        cluster = await server.new_cluster()
        await cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1", "y": "2"}})
        await cluster.wait_for("configmaps", "a", lambda obj: obj["metadata"]["annotations"]["entries"] == "2")
    writes = [request for request in recording.requests if request.name == "a"]
    assert [(request.verb, request.body, request.code) for request in writes] == [
        ("patch", {"metadata": {"annotations": {"entries": "2"}}}, 200)
    ]
