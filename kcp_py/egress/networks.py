"""`Networks`: the addresses that may be called."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

PUBLIC: Final = "public"
"""The name of all addresses that are routed on the internet."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_IPV4_MASK: Final = 0xFFFFFFFF


class Networks:
    """A set of networks. Immutable."""

    def __init__(self, names: Iterable[str]) -> None:
        """Parse the names.

        Args:
            names: `public`, networks (`10.0.0.0/8`, `fd00::/8`) and single addresses. Without names no address is allowed.

        Raises:
            ValueError: a name is not a network.
        """
        names = tuple(names)
        self._public = PUBLIC in names
        self._networks = tuple(ipaddress.ip_network(name) for name in names if name != PUBLIC)

    def allow(self, address: str) -> bool:
        """Whether an address may be called.

        An IPv6 address that represents an IPv4 address (mapped, NAT64) is allowed if that address is. For an address that leads to an IPv4
        address through a tunnel (6to4, Teredo) both have to be allowed.
        """
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(found, ipaddress.IPv4Address):
            return self._allow(found)
        if (same := _translated(found)) is not None:
            return self._allow(same)
        return self._allow(found) and all(self._allow(inner) for inner in _tunnelled(found))

    def _allow(self, address: _Address) -> bool:
        if any(address in network for network in self._networks):
            return True
        return self._public and _is_public(address)


ANY_NETWORK: Final = Networks(("0.0.0.0/0", "::/0"))
"""All addresses, for endpoints that the operator names."""


def _is_public(address: _Address) -> bool:
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or (isinstance(address, ipaddress.IPv6Address) and address.is_site_local)
    )


def _translated(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & _IPV4_MASK)
    return address.ipv4_mapped


def _tunnelled(address: ipaddress.IPv6Address) -> tuple[ipaddress.IPv4Address, ...]:
    if address.sixtofour is not None:
        return (address.sixtofour,)
    return address.teredo or ()
