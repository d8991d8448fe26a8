"""`ClusterServices`: where the services of webhooks are, as the objects of their cluster say.

A server without nodes has no service network, so the address of a Service is that of its endpoints: of its EndpointSlices, of the Endpoints
of its name, or its external name.

Source: k8s.io/apiserver `pkg/util/proxy` (`ResolveEndpoint`, `ResolveCluster`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.egress import CallError, Service
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.store import Access
from kcp_py.storage.contract import StorageError
from kcp_py.storage.paging import read_pages

_SERVICES: Final = GroupResource("", "services")
_ENDPOINTS: Final = GroupResource("", "endpoints")
_SLICES: Final = GroupResource("discovery.k8s.io", "endpointslices")
_SERVICE_NAME: Final = "kubernetes.io/service-name"
_PAGE: Final = 500
_MALFORMED: Final = (AttributeError, KeyError, TypeError, ValueError, IndexError)
"""What objects raise that other software has stored."""


class ClusterServices:
    """Resolves services of clusters that serve their kinds."""

    def __init__(self, access: Access, tables: ResourceTables) -> None:
        self._access = access
        self._tables = tables

    async def find(self, service: Service) -> tuple[str, int] | None:
        """Host and port of a ready endpoint of a service, chosen at random; None where the cluster has no such service.

        Raises:
            CallError: the service has no such port, no endpoint or a type that has none; the store cannot be read.
        """
        if not service.cluster:
            return None
        cluster = Name(service.cluster)
        try:
            obj = await self._object(cluster, _SERVICES, service)
            if obj is None:
                return None
            with suppress(*_MALFORMED):
                return await self._resolved(cluster, obj["spec"], service)
        except StorageError as error:
            raise CallError(f'service "{service.name}" cannot be read: {error}') from None
        raise _unavailable(service)

    async def _resolved(self, cluster: Name, spec: Mapping[str, Any], service: Service) -> tuple[str, int]:
        kind = spec.get("type") or "ClusterIP"
        if kind == "ExternalName":
            return str(spec["externalName"]).rstrip("."), service.port
        if kind not in {"ClusterIP", "LoadBalancer", "NodePort"}:
            raise CallError(f'unsupported service type "{kind}"')
        port = next((port for port in spec.get("ports") or () if port["port"] == service.port), None)
        if port is None:
            raise CallError(f'no service port {service.port} found for service "{service.name}"')
        name = port.get("name") or ""
        if (found := await self._in_slices(cluster, service, name)) is not None:
            return found
        endpoints = await self._object(cluster, _ENDPOINTS, service)
        if endpoints is not None and (choices := list(_of_endpoints(endpoints, name))):
            return random.choice(choices)
        raise _unavailable(service)

    async def _in_slices(self, cluster: Name, service: Service, port: str) -> tuple[str, int] | None:
        resource = await self._resource(cluster, _SLICES)
        if resource is None:
            return None
        quoted = orjson.dumps(service.name)
        turns = TimeSlice()
        choices: list[tuple[str, int]] = []
        async for page in read_pages(self._access.storage, resource.keys.namespace_prefix(cluster, service.namespace), limit=_PAGE):
            for item in page.items:
                await turns.yield_if_due()
                # Slices of other services are not decoded.
                if quoted in item.value:
                    with suppress(*_MALFORMED):
                        choices.extend(_of_slice(orjson.loads(item.value), service.name, port))
            if choices:
                return random.choice(choices)
        return None

    async def _object(self, cluster: Name, kind: GroupResource, service: Service) -> dict[str, Any] | None:
        """The object of a kind that has the name of a service."""
        resource = await self._resource(cluster, kind)
        if resource is None:
            return None
        item = await self._access.storage.get(resource.keys.object_key(cluster, service.namespace, service.name))
        found: dict[str, Any] | None = None if item is None else orjson.loads(item.value)
        return found

    async def _resource(self, cluster: Name, kind: GroupResource) -> ServedResource | None:
        """A kind of Kubernetes, where the cluster serves it."""
        resource = await self._tables.find_resource(cluster, kind)
        return resource if resource is not None and resource.typed else None


def _of_slice(obj: Mapping[str, Any], service: str, port: str) -> Iterator[tuple[str, int]]:
    """The ready endpoints of an EndpointSlice of a service."""
    if (obj["metadata"].get("labels") or {}).get(_SERVICE_NAME) != service:
        return
    number = next((one["port"] for one in obj.get("ports") or () if (one.get("name") or "") == port and one.get("port")), None)
    if number is None:
        return
    for endpoint in obj.get("endpoints") or ():
        if (endpoint.get("conditions") or {}).get("ready") is not False:
            yield str(endpoint["addresses"][0]), int(number)


def _of_endpoints(obj: Mapping[str, Any], port: str) -> Iterator[tuple[str, int]]:
    """The ready addresses of Endpoints."""
    for subset in obj.get("subsets") or ():
        number = next((one["port"] for one in subset.get("ports") or () if (one.get("name") or "") == port), None)
        if number is not None:
            for address in subset.get("addresses") or ():
                yield str(address["ip"]), int(number)


def _unavailable(service: Service) -> CallError:
    return CallError(f'no endpoints available for service "{service.name}"')
