"""Addresses of the two ends of a connection."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Any, Final

_IPV6_NETWORK_BYTES: Final = 8


def client_of(host: str) -> str:
    """What connections are counted by: an IPv4 address, or an IPv6 network of 64 bits, which one client has all of. Empty for loopback."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        elif not address.is_loopback:
            return address.packed[:_IPV6_NETWORK_BYTES].hex()
    return "" if address.is_loopback else str(address)


def remote_address(transport: asyncio.BaseTransport) -> tuple[str, int] | None:
    """Host and port of the client; None where the transport is not one of IP, or the client is gone."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    if connection is None:
        return None
    try:
        address: Any = connection.getpeername()
    except OSError:
        return None
    return (str(address[0]), int(address[1])) if isinstance(address, tuple) else None


def local_address(transport: asyncio.BaseTransport) -> tuple[str, int] | None:
    """Host and port of the server; None where the transport is not one of IP."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    if connection is None:
        return None
    address: Any = connection.getsockname()
    return (str(address[0]), int(address[1])) if isinstance(address, tuple) else None
