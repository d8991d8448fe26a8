"""A control plane on the event loop of a test: no port, no file, one logical cluster per test."""

from __future__ import annotations

import pytest

from kcp_py import errors
from kcp_py.testing import control_plane

SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"sails": {"type": "integer", "maximum": 5}}}}}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ships.fleet.example.com"},
    "spec": {
        "group": "fleet.example.com",
        "scope": "Namespaced",
        "names": {"plural": "ships", "singular": "ship", "kind": "Ship"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}


@pytest.fixture
def anyio_backend() -> str:
    """The server runs on asyncio."""
    return "asyncio"


@pytest.mark.anyio
async def test_a_definition_validates_objects() -> None:
    """The objects of a test are in a cluster of its own, so that no test cleans up."""
    async with control_plane() as server:
        cluster = await server.new_cluster("ships")
        await cluster.apply(CRD)
        await cluster.apply({"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": "ark"}, "spec": {"sails": 2}})
        with pytest.raises(errors.StatusError, match="should be less than or equal to 5"):
            await cluster.apply({"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": "big"}, "spec": {"sails": 6}})
        assert [ship["metadata"]["name"] for ship in await cluster.list("ships.fleet.example.com")] == ["ark"]
