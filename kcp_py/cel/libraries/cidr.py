"""Networks as `10.0.0.0/8` (apiserver `pkg/cel/library/cidr.go`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.libraries.ip import IP_TYPE, Ip, read_ip
from kcp_py.cel.types import BOOL, INT, STRING, Type, opaque
from kcp_py.golang.addresses import AddressError, Prefix, parse_prefix
from kcp_py.golang.quoting import go_quote

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CIDR", "Cidr"]

_TYPE: Final = opaque("net.CIDR")
_UNREADABLE: Final = "network address parse error during conversion from string: "


@dataclass(frozen=True, slots=True)
class Cidr:
    """A network; equal to each with the same address, masked or not, and the same length."""

    cel_type: ClassVar[Type] = _TYPE

    prefix: Prefix


def _cidr(text: str) -> Cidr:
    """The network that a text represents. Upstream's message contains the problem twice."""
    try:
        prefix = parse_prefix(text)
    except AddressError as error:
        raise EvaluationError(f"{_UNREADABLE}{_UNREADABLE}{error}") from error
    if prefix.address.is_mapped:
        raise EvaluationError(f"{_UNREADABLE}IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return Cidr(prefix)


def _is_cidr(text: str) -> bool:
    """Whether a text is a network."""
    try:
        _cidr(text)
    except EvaluationError:
        return False
    return True


def _contains_ip(network: Cidr, ip: Ip) -> bool:
    """Whether an address is in a network."""
    return network.prefix.contains(ip.address)


def _contains_cidr(network: Cidr, other: Cidr) -> bool:
    """Whether a network is a part of another, as upstream documents it."""
    return network.prefix.length <= other.prefix.length and network.prefix.contains(other.prefix.address)


def _member(name: str, *overloads: tuple[str, tuple[Type, ...], Type, Callable[..., object]]) -> Function:
    """A function on a network: (id, further parameters, result, implementation) of each overload."""
    return Function(
        name,
        tuple(Overload(id_, (_TYPE, *kinds), result, member=True, implementation=run) for id_, kinds, result, run in overloads),
    )


CIDR: Final = Library(
    "net.cidr",
    functions=(
        Function("cidr", (Overload("string_to_cidr", (STRING,), _TYPE, implementation=_cidr),)),
        Function("isCIDR", (Overload("is_cidr", (STRING,), BOOL, implementation=_is_cidr),)),
        Function("string", (Overload("cidr_to_string", (_TYPE,), STRING, implementation=lambda network: str(network.prefix)),)),
        _member(
            "containsIP",
            ("cidr_contains_ip_string", (STRING,), BOOL, lambda network, text: _contains_ip(network, read_ip(text))),
            ("cidr_contains_ip_ip", (IP_TYPE,), BOOL, _contains_ip),
        ),
        _member(
            "containsCIDR",
            ("cidr_contains_cidr_string", (STRING,), BOOL, lambda network, text: _contains_cidr(network, _cidr(text))),
            ("cidr_contains_cidr", (_TYPE,), BOOL, _contains_cidr),
        ),
        _member("ip", ("cidr_ip", (), IP_TYPE, lambda network: Ip(network.prefix.address))),
        _member("prefixLength", ("cidr_prefix_length", (), INT, lambda network: network.prefix.length)),
        _member("masked", ("cidr_masked", (), _TYPE, lambda network: Cidr(network.prefix.masked))),
    ),
    types={"net.CIDR": _TYPE},
    matches={"net.CIDR": Cidr},
)
