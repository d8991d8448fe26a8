"""IP addresses (apiserver `pkg/cel/library/ip.go`): no zones, no IPv4 inside IPv6, no leading zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.types import BOOL, INT, STRING, Type, opaque
from kcp_py.golang.addresses import Address, AddressError, parse_address
from kcp_py.golang.quoting import go_quote

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["IP", "IP_TYPE", "Ip", "read_ip"]

IP_TYPE: Final = opaque("net.IP")


@dataclass(frozen=True, slots=True)
class Ip:
    """An address; equal to each of the same family with the same bits."""

    cel_type: ClassVar[Type] = IP_TYPE

    address: Address


def read_ip(text: str) -> Ip:
    """The address that a text is.

    Raises:
        EvaluationError: it is not an address, or not an allowed one.
    """
    try:
        address = parse_address(text)
    except AddressError as error:
        msg = f"IP Address {go_quote(text)} parse error during conversion from string: {error}"
        raise EvaluationError(msg) from error
    if address.zone:
        raise EvaluationError(f"IP address {go_quote(text)} with zone value is not allowed")
    if address.is_mapped:
        raise EvaluationError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return Ip(address)


def _is_ip(text: str) -> bool:
    """Whether a text is an address."""
    try:
        read_ip(text)
    except EvaluationError:
        return False
    return True


def _is_canonical(text: str) -> bool:
    """Whether the text of an address is the one that it is written with."""
    return str(read_ip(text).address) == text


def _member(name: str, id_: str, result: Type, run: Callable[[Ip], object]) -> Function:
    """A function on an address."""
    return Function(name, (Overload(id_, (IP_TYPE,), result, member=True, implementation=run),))


IP: Final = Library(
    "kubernetes.net.ip",
    functions=(
        Function("ip", (Overload("string_to_ip", (STRING,), IP_TYPE, implementation=read_ip),)),
        Function("isIP", (Overload("is_ip", (STRING,), BOOL, implementation=_is_ip),)),
        Function("ip.isCanonical", (Overload("ip_is_canonical", (STRING,), BOOL, implementation=_is_canonical),)),
        Function("string", (Overload("ip_to_string", (IP_TYPE,), STRING, implementation=lambda value: str(value.address)),)),
        _member("family", "ip_family", INT, lambda value: value.address.family),
        _member("isUnspecified", "ip_is_unspecified", BOOL, lambda value: value.address.is_unspecified),
        _member("isLoopback", "ip_is_loopback", BOOL, lambda value: value.address.is_loopback),
        _member("isLinkLocalMulticast", "ip_is_link_local_multicast", BOOL, lambda value: value.address.is_link_local_multicast),
        _member("isLinkLocalUnicast", "ip_is_link_local_unicast", BOOL, lambda value: value.address.is_link_local_unicast),
        _member("isGlobalUnicast", "ip_is_global_unicast", BOOL, lambda value: value.address.is_global_unicast),
    ),
    types={"net.IP": IP_TYPE},
    matches={"net.IP": Ip},
)
