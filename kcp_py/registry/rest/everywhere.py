"""`find_everywhere`: from a name over all clusters to the one cluster that has an object of that name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import InvalidClusterError, Name, parse_name
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.store.read import find
from kcp_py.registry.writerequest import Resolved

_AT_ONCE: Final = 64
"""Clusters in which an object is looked up at the same time."""
_MOST_NAMED: Final = 10
"""Clusters that an error names."""


async def find_everywhere(registry: Registry, target: Resolved, cluster: str = "") -> Resolved:
    """The target in the named cluster, or else in the only one that has the object.

    Args:
        registry: the clusters and their objects.
        target: over all clusters. Those that are not in sight do not count.
        cluster: as the client names it (`?cluster=`); empty where it names none.

    Raises:
        StatusError: 400 for an invalid `cluster`, 404 where no cluster has the object, 409 with their names where several have.
    """
    found: list[Resolved] = []
    async with aclosing(_candidates(registry, target, cluster)) as candidates:
        together: list[Name] = []
        async for name in candidates:
            if target.sight.unrestricted or target.sight.sees(name):
                together.append(name)
            if len(together) == _AT_ONCE:
                found += await _looked(registry, target, together)
                together = []
                if len(found) > _MOST_NAMED:
                    break
        found += await _looked(registry, target, together)
    if not found:
        raise errors.not_found(target.resource.group_resource, target.name)
    if len(found) > 1:
        raise _ambiguous(target, [one.cluster_state.name for one in found])
    return found[0]


async def _candidates(registry: Registry, target: Resolved, cluster: str) -> AsyncGenerator[Name, None]:
    """The clusters that may have the object: the named one, or those that serve the resource."""
    if cluster:
        try:
            named = parse_name(cluster)
        except InvalidClusterError as error:
            raise errors.bad_request(str(error)) from None
        yield named
    elif target.served.per_cluster:
        resource = target.resource
        async with aclosing(registry.wildcard.each_cluster(resource.group, resource.resource, sight=target.sight)) as clusters:
            async for name in clusters:
                yield name
    elif not target.sight.unrestricted and (few := target.sight.few()) is not None:
        for one in sorted(few):
            yield Name(one)
    else:
        async with aclosing(registry.clusters.names()) as clusters:
            async for name in clusters:
                yield name


async def _looked(registry: Registry, target: Resolved, clusters: Sequence[Name]) -> list[Resolved]:
    """The target in those of some clusters that have the object."""
    found = await asyncio.gather(*(_look(registry, target, name) for name in clusters))
    return [one for one in found if one is not None]


async def _look(registry: Registry, target: Resolved, cluster: Name) -> Resolved | None:
    """The target in one cluster; None where there is no such object."""
    cluster_state = await registry.clusters.state(cluster)
    if cluster_state is None:
        return None
    served = await registry.tables.glance_in(cluster, target.served)
    if served is None or served.resource.namespaced is not target.resource.namespaced:
        return None
    if await find(registry.access, cluster_state, served, target.namespace, target.name) is None:
        return None
    return target._replace(only=cluster_state, served=served)


def _ambiguous(target: Resolved, clusters: Sequence[Name]) -> StatusError:
    named = sorted(clusters)[:_MOST_NAMED]
    more = ", ..." if len(clusters) > _MOST_NAMED else ""
    resource = target.resource.group_resource
    text = f'{resource} "{target.name}" exists in several logical clusters: {", ".join(named)}{more}; use /clusters/NAME or ?cluster=NAME'
    details = {"name": target.name, "kind": resource.resource, **({"group": resource.group} if resource.group else {})}
    causes = [{"reason": "LogicalCluster", "message": name, "field": "cluster"} for name in named]
    return StatusError(409, "Conflict", text, details={**details, "causes": causes})
