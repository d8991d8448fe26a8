"""`ServiceRanges`: addresses and ports of nodes for the services of each logical cluster.

Each cluster has the whole ranges for itself. An assigned value is a key of the store, a claim, whose value names the service. The
transaction that writes a service writes its claims, on condition that they do not exist. The one that changes or deletes it removes them.
So no address is assigned twice on any number of servers, and none is lost.

Source: kubernetes `pkg/registry/core/service/storage/alloc.go`, `ipallocator`, `portallocator`.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import orjson
import structlog

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.fielderrors import invalid
from kcp_py.apis.upstream import servicefields as fields
from kcp_py.logicalcluster import Name, parse_name
from kcp_py.storage.contract import Compare, ConflictError, Delete, KeyValue, Operation, Put, Storage
from kcp_py.storage.keys import CUSTOM_RESOURCES, InvalidSegmentError, ResourceKeys, internal_key, resource_keys

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Object = Mapping[str, Any]

_GUESSES: Final = 4
"""Random addresses that are looked at before all claims of a cluster are read."""
_PAGE: Final = 1000
_LEAST, _MOST, _STEP = 16, 256, 16
"""Of the first addresses of a range, which are assigned last, so that clients can ask for them."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.apis")


class ServiceRanges:
    """Assigns and claims. It is the `registry.store.access.Assignments` of services."""

    def __init__(
        self,
        storage: Storage,
        root: str,
        networks: Sequence[Network],
        ports: range,
        *,
        pick: Callable[[int, int], int] = random.randint,
    ) -> None:
        """Use ranges.

        Args:
            storage: the store.
            root: the prefix of its keys.
            networks: one or two, of different families; the first one is that of services that name no family. None: nothing is assigned.
            ports: of nodes.
            pick: gives a number between two others, both included.
        """
        self._storage: Final = storage
        self._networks: Final = {f"IPv{network.version}": network for network in networks}
        self._ports: Final = ports
        self._pick: Final = pick
        self._claims: Final = f"{root}/.kcp-py/service-claims/"
        self._begun: Final = internal_key(root, "service-ranges")
        keys = (
            resource_keys(root, "", "services", namespaced=True),
            resource_keys(root, "", "services", namespaced=True, identity=CUSTOM_RESOURCES),
        )
        self._prefixes: Final = {one.prefix: one for one in keys}
        self._reserved: Final = {str(network[1]) for network in networks[:1]}
        """The address of the service `kubernetes`, which every cluster has."""

    def follows(self, keys: ResourceKeys) -> bool:
        """Whether the objects of a resource are services."""
        return keys.prefix in self._prefixes

    async def start(self) -> None:
        """Claim what services have from the time before these ranges, or forget all claims where nothing is assigned any more.

        Raises:
            StorageError: the store cannot be read or written.
        """
        begun = await self._storage.get(self._begun)
        named = ",".join([*map(str, self._networks.values()), f"{self._ports[0]}-{self._ports[-1]}"]).encode()
        if self._networks and (begun is None or begun.value != named):
            # Claims of services that this run does not change would not be removed with them.
            async for item in self._each(self._claims):
                await self._check_claim(item)
            for keys in self._prefixes.values():
                async for item in self._each(keys.prefix):
                    await self._adopt(keys, item)
            await self._storage.transact((), (Put(self._begun, named),))
        elif not self._networks and begun is not None:
            await self._storage.transact((), (Delete(self._begun),))
            async for item in self._each(self._claims):
                await self._storage.transact((), (Delete(item.key),))

    async def _check_claim(self, claim: KeyValue) -> None:
        """Forget a claim whose service does not have the value, or has it outside of the ranges."""
        cluster, _, value = claim.key.removeprefix(self._claims).partition("=")
        for keys in self._prefixes.values():
            namespace, _, name = claim.value.decode().partition("/")
            item = await self._storage.get(keys.object_key(parse_name(cluster), namespace, name))
            if item is not None and value in self._claims_of(item.value):
                return
        # Claims are written with their services: the service that was read later is the one that counts.
        with suppress(ConflictError):
            await self._storage.transact((Compare(claim.key, mod_revision=claim.mod_revision),), (Delete(claim.key),))

    async def _adopt(self, keys: ResourceKeys, item: KeyValue) -> None:
        try:
            cluster, namespace, name = keys.parse(item.key)
        except InvalidSegmentError:
            return  # of the other source of services
        place = _place_of(item.key)
        for claim in sorted(self._claims_of(item.value)):
            key = self._key(cluster, claim)
            try:
                await self._storage.transact((Compare(key, mod_revision=0), _unchanged(item)), (Put(key, place),))
            except ConflictError as conflict:
                if conflict.key == item.key:
                    if conflict.current is not None:
                        await self._adopt(keys, conflict.current)
                    return
                if conflict.current is not None and conflict.current.value != place:
                    _log.warning("service_address_shared", cluster=cluster, namespace=namespace, name=name, address=claim[3:])

    async def _each(self, prefix: str, *, keys_only: bool = False) -> AsyncIterator[KeyValue]:
        start = ""
        while True:
            page = await self._storage.range(prefix, start=start, limit=_PAGE, keys_only=keys_only)
            for item in page.items:
                yield item
            if not page.more:
                return
            start = page.items[-1].key + "\x00"

    def _key(self, cluster: Name, claim: str) -> str:
        # Names of the clusters of the system have a colon.
        return f"{self._claims}{cluster}={claim}"

    def _claims_of(self, value: bytes) -> set[str]:
        """What a stored service has of the ranges."""
        try:
            spec = orjson.loads(value)["spec"]
            return {f"ip:{one}" for one in self._addresses(spec)} | {f"np:{one}" for one in self._node_ports(spec)}
        except (AttributeError, KeyError, TypeError, ValueError):
            # Other software has written it, or the kind comes from a CRD with another schema.
            return set()

    def _addresses(self, spec: Object) -> Iterable[str]:
        if not fields.needs_address(spec) or fields.is_headless(spec):
            return
        for text in spec.get("clusterIPs") or ():
            address = str(ipaddress.ip_address(text))
            network = self._networks.get(fields.family_of(address))
            if network is not None and ipaddress.ip_address(text) in network and address not in self._reserved:
                yield address

    def _node_ports(self, spec: Object) -> Iterable[int]:
        if fields.needs_node_ports(spec):
            yield from (port for port in fields.node_ports(spec) if port in self._ports)
        if fields.needs_health_port(spec) and spec.get("healthCheckNodePort") in self._ports:
            yield spec["healthCheckNodePort"]

    async def claimed(
        self, cluster: Name, compares: Sequence[Compare], operations: Sequence[Operation]
    ) -> tuple[Sequence[Compare], Sequence[Operation]]:
        """A transaction on services with their claims.

        Raises:
            ConflictError: a service is not any more what the conditions say.
        """
        if not self._networks:
            return compares, operations
        revisions = {compare.key: compare.mod_revision for compare in compares if compare.mod_revision is not None}
        conditions, changes = list(compares), list(operations)
        for operation in operations:
            if not operation.key.startswith(tuple(self._prefixes)):
                continue
            before: set[str] = set()
            if revisions.get(operation.key) != 0:
                item = await self._storage.get(operation.key)
                revision = item.mod_revision if item is not None else 0
                if revisions.setdefault(operation.key, revision) != revision:
                    raise ConflictError(operation.key, item)
                if all(compare.key != operation.key or compare.mod_revision is None for compare in conditions):
                    conditions.append(Compare(operation.key, mod_revision=revision))
                before = self._claims_of(item.value) if item is not None else set()
            after = self._claims_of(operation.value) if isinstance(operation, Put) else set()
            place = _place_of(operation.key)
            for claim in sorted(after - before):
                key = self._key(cluster, claim)
                conditions.append(Compare(key, mod_revision=0))
                changes.append(Put(key, place))
            for claim in sorted(before - after):
                key = self._key(cluster, claim)
                held = await self._storage.get(key)
                if held is not None and held.value == place:
                    changes.append(Delete(key))
        return conditions, changes

    async def assign(self, cluster: Name, service: dict[str, Any], old: Object | None) -> None:
        """Give a service, in place, what it needs and does not have. It is claimed when the service is stored.

        Args:
            cluster: the logical cluster.
            service: as admission left it.
            old: as stored; None for a new one.

        Raises:
            StatusError: 422 for a value that is taken or outside of the range, 500 where a range is full.
        """
        if not self._networks:
            return
        spec = service["spec"]
        before: Object = (old or {}).get("spec") or {}
        name = service["metadata"].get("name", "")
        if problems := fields.fill_families(spec, None if old is None else before, list(self._networks)):
            raise errors.invalid("Service", name, problems)
        await self._assign_addresses(cluster, name, spec, before)
        await self._assign_ports(cluster, name, spec, before)

    async def _assign_addresses(self, cluster: Name, name: str, spec: dict[str, Any], before: Object) -> None:
        if not fields.needs_address(spec) or fields.is_headless(spec) or fields.is_headless(before):
            return
        kept = set(before.get("clusterIPs") or ()) if fields.needs_address(before) else set()
        addresses = list(spec.get("clusterIPs") or ())
        for index, family in enumerate(spec.get("ipFamilies") or ()):
            if index >= len(addresses):
                addresses.append(await self._free_address(cluster, name, family))
            elif addresses[index] not in kept:
                await self._check_address(cluster, name, addresses, index, family)
        if addresses:
            spec["clusterIPs"], spec["clusterIP"] = addresses, addresses[0]

    async def _check_address(self, cluster: Name, name: str, addresses: Sequence[str], index: int, family: str) -> None:
        text, network = addresses[index], self._networks[family]
        address = ipaddress.ip_address(text)
        last = network.broadcast_address if network.version == 4 else None
        problem = ""
        if address not in network or address in {network.network_address, last}:
            problem = "the provided network does not match the current range"
        elif str(address) in self._reserved or await self._storage.get(self._key(cluster, f"ip:{address}")) is not None:
            problem = "provided IP is already allocated"
        if problem:
            detail = f"failed to allocate IP {text}: {problem}"
            raise errors.invalid("Service", name, [invalid("spec.clusterIPs", list(addresses), detail)])

    async def _free_address(self, cluster: Name, name: str, family: str) -> str:
        network = self._networks[family]
        size = network.num_addresses
        first, last = 1, size - (2 if network.version == 4 else 1)
        offset = 0 if size <= _LEAST else max(_LEAST, min(_MOST, size // _STEP))
        base = int(network.network_address)
        taken = {int(ipaddress.ip_address(one)) - base for one in self._reserved if fields.family_of(one) == family}
        bounds = ((first + offset, last), (first, first + offset - 1))
        found = await self._free(cluster, "ip:", *bounds, taken=taken, text_of=lambda at: str(network[at]))
        if found is None:
            raise errors.internal(f'failed to allocate a serviceIP for Service "{name}": range is full')
        return str(network[found])

    async def _assign_ports(self, cluster: Name, name: str, spec: dict[str, Any], before: Object) -> None:
        kept = set(self._node_ports(before)) if before else set()
        taken: set[int] = set(kept)
        if fields.needs_node_ports(spec) and "ports" in spec:
            ports = [dict(port) for port in spec["ports"]]
            wants = spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False
            shared: dict[int, int] = {}
            for index, port in enumerate(ports):
                number = port.get("nodePort") or (0 if before else shared.get(port["port"]) or _requested(ports, port["port"]))
                if number and number not in ({*kept, *taken} if before else {shared.get(port["port"])}):
                    await self._check_port(cluster, name, number, f"spec.ports[{index}].nodePort", taken=taken)
                elif not number and wants:
                    number = await self._free_port(cluster, taken, "failed to allocate a nodePort")
                if number:
                    port["nodePort"] = number
                    shared.setdefault(port["port"], number)
                    taken.add(number)
            spec["ports"] = ports
        if fields.needs_health_port(spec) and not fields.needs_health_port(before):
            if number := spec.get("healthCheckNodePort") or 0:
                if problem := await self._port_problem(cluster, number, taken):
                    raise errors.internal(f"failed to allocate requested HealthCheck NodePort {number}: {problem}")
            else:
                spec["healthCheckNodePort"] = await self._free_port(cluster, taken, "failed to allocate a HealthCheck NodePort 0")

    async def _check_port(self, cluster: Name, name: str, number: int, path: str, *, taken: set[int]) -> None:
        if problem := await self._port_problem(cluster, number, taken):
            raise errors.invalid("Service", name, [invalid(path, number, problem)])

    async def _port_problem(self, cluster: Name, number: int, taken: set[int]) -> str:
        if number not in self._ports:
            return f"provided port is not in the valid range. The range of valid ports is {self._ports[0]}-{self._ports[-1]}"
        return _TAKEN if number in taken or await self._storage.get(self._key(cluster, f"np:{number}")) is not None else ""

    async def _free_port(self, cluster: Name, taken: set[int], failure: str) -> int:
        found = await self._free(cluster, "np:", (self._ports[0], self._ports[-1]), taken=taken)
        if found is None:
            raise errors.internal(f"{failure}: range is full")
        taken.add(found)
        return found

    async def _free(
        self,
        cluster: Name,
        kind: str,
        *bounds: tuple[int, int],
        taken: Iterable[int],
        text_of: Callable[[int], str] = str,
    ) -> int | None:
        """A number without a claim; None where there is none.

        Random ones are looked at first, so that several servers seldom take the same.

        Args:
            cluster: the logical cluster.
            kind: the beginning of the claims.
            bounds: the lowest and the highest number; further pairs are for the time when no other number is left.
            taken: numbers that cannot be used although they have no claim.
            text_of: how claims name a number.
        """
        excluded = set(taken)
        usable = [(low, high) for low, high in bounds if low <= high]
        for _ in range(_GUESSES):
            number = self._pick(*usable[0])
            if number not in excluded and await self._storage.get(self._key(cluster, kind + text_of(number))) is None:
                return number
        prefix = self._key(cluster, kind)
        claims = {item.key[len(prefix) :] async for item in self._each(prefix, keys_only=True)}
        for low, high in usable:
            start = self._pick(low, high)
            # At most one step more than there are claims, however large the range is.
            for step in range(min(high - low + 1, len(claims) + len(excluded) + 1)):
                number = low + (start - low + step) % (high - low + 1)
                if number not in excluded and text_of(number) not in claims:
                    return number
        return None


_TAKEN: Final = "provided port is already allocated"


def _requested(ports: Iterable[Object], number: int) -> int:
    """The port of nodes that a client wants for a port of a service, for whichever protocol."""
    return next((port["nodePort"] for port in ports if port["port"] == number and port.get("nodePort")), 0)


def _unchanged(item: KeyValue) -> Compare:
    return Compare(item.key, mod_revision=item.mod_revision)


def _place_of(key: str) -> bytes:
    """Namespace and name at the end of a key."""
    return "/".join(key.rsplit("/", 2)[1:]).encode()
