"""`find_everywhere`: from a name over all clusters to the one cluster that has an object of that name."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import InvalidClusterError, Name, parse_name
from kcp_py.registry.store.read import find
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.target import Target

_AT_ONCE: Final = 64
"""Clusters that are looked into at the same time."""
_MOST_NAMED: Final = 10
"""Clusters that an error names."""


async def find_everywhere(backend: Backend, exchange: Exchange, target: Target) -> Target:
    """The target in the cluster that the query names (`?cluster=`), or else in the only one that has the object.

    Raises:
        StatusError: 400 for an invalid `cluster`, 404 where no cluster has the object, 409 with their names where several have.
    """
    if asked := exchange.query.get("cluster"):
        try:
            clusters: Sequence[Name] = [parse_name(asked[0])]
        except InvalidClusterError as error:
            raise errors.bad_request(str(error)) from None
    elif target.served.per_cluster:
        clusters = await backend.wildcard.clusters(target.resource.group, target.resource.resource)
    else:
        clusters = await backend.clusters.names()
    found: list[Target] = []
    for start in range(0, len(clusters), _AT_ONCE):
        looked = await asyncio.gather(*(_look(backend, target, cluster) for cluster in clusters[start : start + _AT_ONCE]))
        found += [one for one in looked if one is not None]
        if len(found) > _MOST_NAMED:
            break
    if not found:
        raise errors.not_found(target.resource.group_resource, target.name)
    if len(found) > 1:
        raise _ambiguous(target, [one.one_cluster().name for one in found])
    return found[0]


async def _look(backend: Backend, target: Target, cluster: Name) -> Target | None:
    """The target in one cluster; None where there is no such object."""
    scope = await backend.clusters.scope(cluster)
    if scope is None:
        return None
    served = await backend.tables.served_in(cluster, target.served)
    if served is None or (served.per_cluster and served.resource.namespaced is not bool(target.namespace)):
        return None
    if await find(backend.access, scope, served, target.namespace, target.name) is None:
        return None
    return target._replace(scope=scope, served=served)


def _ambiguous(target: Target, clusters: Sequence[Name]) -> StatusError:
    named = sorted(clusters)[:_MOST_NAMED]
    more = ", ..." if len(clusters) > _MOST_NAMED else ""
    resource = target.resource.group_resource
    text = f'{resource} "{target.name}" exists in several logical clusters: {", ".join(named)}{more}; use /clusters/NAME or ?cluster=NAME'
    details = {"name": target.name, "kind": resource.resource, **({"group": resource.group} if resource.group else {})}
    causes = [{"reason": "LogicalCluster", "message": name, "field": "cluster"} for name in named]
    return StatusError(409, "Conflict", text, details={**details, "causes": causes})
