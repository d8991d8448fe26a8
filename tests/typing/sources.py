"""A source that adds a stored resource to the logical clusters with a label."""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, assert_type

from kcp_py import (
    Compare,
    ControlPlane,
    Dependency,
    EndedWatches,
    GroupResource,
    GroupVersionResource,
    Name,
    Options,
    ResourceSource,
    Served,
    ServedChange,
    ServedResource,
    SourceContext,
    StoredResource,
    Strategy,
    errors,
    fielderrors,
    parse_name,
)

SHIPS = GroupVersionResource("fleet.example.com", "v1", "ships")
LOGICAL_CLUSTERS = GroupVersionResource("core.kcp.io", "v1alpha1", "logicalclusters")
PREFIX = "/registry/core.kcp.io/logicalclusters/"
SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"home": {"type": "string"}}}}}


class ShipRules(Strategy):
    """A ship keeps its home port."""

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[fielderrors.FieldError]:
        home = obj["spec"]["home"]
        return [] if home == old["spec"]["home"] else [fielderrors.invalid("spec.home", home, "a ship keeps its home port")]


ships = StoredResource(
    group="fleet.example.com", version="v1", resource="ships", kind="Ship", schema=SCHEMA, strategy=ShipRules(), status=True
)


def is_gold(value: bytes) -> bool:
    """Whether a stored LogicalCluster has the label."""
    labels = json.loads(value)["metadata"].get("labels") or {}
    return bool(labels.get("tier") == "gold")


class GoldSource(ResourceSource):
    """Ships, for clusters with the label `tier=gold`."""

    def connect(self, context: SourceContext) -> None:
        self._storage = context.storage
        self._ships = context.serve(ships)

    @property
    def declared(self) -> Sequence[ServedResource]:
        return (self._ships,)

    async def resources(self, cluster: Name) -> Sequence[Served]:
        item = await self._storage.get(f"{PREFIX}{cluster}/cluster")
        if item is None or not is_gold(item.value):
            return ()
        return [Served(self._ships, guards=(Compare(item.key, mod_revision=item.mod_revision),))]

    def depends_on(self, cluster: Name) -> Iterable[Dependency]:
        return [Dependency(PREFIX, cluster)]

    async def group_resources(self) -> Collection[GroupResource]:
        return {self._ships.group_resource}

    async def clusters(self, resource: GroupResource) -> Collection[Name]:
        if resource != self._ships.group_resource:
            return []
        found = await self._storage.range(PREFIX)
        return [parse_name(item.key.split("/")[-2]) for item in found.items if is_gold(item.value)]

    def ended_by(self, event: Any) -> Iterable[EndedWatches]:
        if event.value is not None and not is_gold(event.value):
            yield EndedWatches(self._ships.keys.prefix, parse_name(event.route.cluster))

    def changes(self, event: Any) -> Iterable[ServedChange]:
        before = event.previous is not None and is_gold(event.previous.value)
        now = event.value is not None and is_gold(event.value)
        if before != now:
            yield ServedChange(self._ships.keys.prefix, parse_name(event.route.cluster), now)


async def main() -> None:
    """Ships can be created while the cluster has the label, and keep their home port."""
    async with ControlPlane(Options(storage="memory"), apis=[GoldSource()]) as control_plane:
        client, team = control_plane.client, parse_name("team-a")
        argo = {"metadata": {"name": "argo", "namespace": "default"}, "spec": {"home": "Iolcus"}}
        await client.create(team, GroupVersionResource("", "v1", "configmaps"), {"metadata": {"name": "one", "namespace": "default"}})
        assert await refusal(client.create(team, SHIPS, argo)) == 404
        await client.patch(team, LOGICAL_CLUSTERS, "", "cluster", document={"metadata": {"labels": {"tier": "gold"}}})
        assert_type(await client.create(team, SHIPS, argo), dict[str, Any])
        moved = client.patch(team, SHIPS, "default", "argo", document={"spec": {"home": "Corinth"}})
        assert await refusal(moved) == 422
        await client.patch(team, LOGICAL_CLUSTERS, "", "cluster", document={"metadata": {"labels": {"tier": None}}})
        assert await refusal(client.get(team, SHIPS, "default", "argo")) == 404


async def refusal(request: Any) -> int:
    """The status code of a request that has to fail."""
    try:
        await request
    except errors.StatusError as error:
        return error.code
    return 0
