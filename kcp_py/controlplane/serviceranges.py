"""Addresses and ports for services, from the options."""

from __future__ import annotations

import ipaddress

from kcp_py.apis.core.kubernetes_service import CLUSTER_IP
from kcp_py.options import Options
from kcp_py.registry.store import Access
from kcp_py.storage.keys import internal_key


def kubernetes_ip(options: Options) -> str:
    """The cluster IP of the service `kubernetes`: the first one of the first range."""
    ranges = options.service_cluster_ip_range
    return str(ipaddress.ip_network(ranges[0])[1]) if ranges else CLUSTER_IP


async def assign_to_services(access: Access, options: Options) -> None:
    """Have services of all clusters get addresses and ports, if the options name ranges. If not, those that were assigned are forgotten.

    Raises:
        StorageError: the store cannot be read or written.
    """
    root, ranges = options.etcd_prefix, options.service_cluster_ip_range
    if not ranges and await access.storage.get(internal_key(root, "service-ranges")) is None:
        return
    # Most servers start without it.
    from kcp_py.apis.upstream.serviceranges import ServiceRanges  # noqa: PLC0415

    first, _, last = options.service_node_port_range.partition("-")
    networks = [ipaddress.ip_network(one) for one in ranges]
    assigned = ServiceRanges(access.storage, root, networks, range(int(first), int(last) + 1))
    await assigned.start()
    if ranges:
        access.assignments = assigned
