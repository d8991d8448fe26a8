"""A program that embeds a control plane and uses its client."""

from collections.abc import Sequence
from typing import Any, assert_type

import pytest

from kcp_py import (
    WILDCARD,
    Client,
    ControlPlane,
    GroupVersionResource,
    Name,
    ObjectList,
    Options,
    builtin_definitions,
    errors,
    parse_name,
)

MAPS = GroupVersionResource("", "v1", "configmaps")
CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")


async def main() -> None:
    """Write in two logical clusters, read both at once."""
    options = Options(storage="memory", anonymous_auth=False)
    async with ControlPlane(options) as control_plane:
        assert_type(control_plane, ControlPlane)
        client: Client = control_plane.client
        team_a = parse_name("team-a")
        assert_type(team_a, Name)
        await write(client, team_a, "one")
        await write(client, parse_name("team-b"), "two")
        found = await client.list(WILDCARD, MAPS)
        assert_type(found, ObjectList)
        assert_type(found.items, Sequence[dict[str, Any]])
        assert [item["metadata"]["name"] for item in found.items] == ["one", "two"]
        with pytest.raises(errors.StatusError) as missing:
            await client.get(team_a, MAPS, "default", "two")
        assert_type(missing.value, errors.StatusError)
        assert (missing.value.code, missing.value.reason) == (404, "NotFound")
        await install(client, team_a)


async def write(client: Client, cluster: Name, name: str) -> None:
    """Make one config map."""
    made = await client.create(cluster, MAPS, {"metadata": {"name": name, "namespace": "default"}, "data": {"a": "b"}})
    assert_type(made, dict[str, Any])


async def install(client: Client, cluster: Name) -> None:
    """Serve a further kind of Kubernetes in one cluster."""
    definitions = builtin_definitions("deployments.apps")
    assert_type(definitions, list[dict[str, Any]])
    for definition in definitions:
        await client.create(cluster, CRDS, definition)
