"""IP addresses and prefixes as Go's `net/netip` reads and writes them: strictly, and with its messages.

Python's `ipaddress` accepts other texts and says other things of those that it refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kcp_py.golang.quoting import go_quote

__all__ = ["Address", "AddressError", "Prefix", "parse_address", "parse_prefix"]

_HEX: Final = frozenset("0123456789abcdefABCDEF")
_DIGITS: Final = frozenset("0123456789")
_IPV4: Final = 32
_IPV6: Final = 128
_MAPPED: Final = 0xFFFF << 32
_LONGEST_SHOWN: Final = 2000


class AddressError(ValueError):
    """A text that is not an address or a prefix. The message is Go's."""


@dataclass(frozen=True, slots=True)
class Address:
    """`netip.Addr`.

    Attributes:
        number: the bits as an integer.
        bits: 32 or 128.
        zone: of an IPv6 address, `eth0`; empty: none.
    """

    number: int
    bits: int
    zone: str = ""

    @property
    def family(self) -> int:
        """4 or 6."""
        return 4 if self.bits == _IPV4 else 6

    @property
    def is_mapped(self) -> bool:
        """An IPv4 address inside IPv6, `::ffff:1.2.3.4` (`Is4In6`)."""
        return self.bits == _IPV6 and self.number >> 32 == _MAPPED >> 32

    @property
    def is_unspecified(self) -> bool:
        """`0.0.0.0` or `::`."""
        return self.number == 0 and not self.zone

    @property
    def is_loopback(self) -> bool:
        """127.0.0.0/8 or `::1`."""
        return self.number >> 24 == 127 if self.bits == _IPV4 else self.number == 1

    @property
    def is_multicast(self) -> bool:
        """224.0.0.0/4 or ff00::/8."""
        return self.number >> 28 == 0xE if self.bits == _IPV4 else self.number >> 120 == 0xFF

    @property
    def is_link_local_multicast(self) -> bool:
        """224.0.0.0/24 or ff02::/16 with any flags."""
        return self.number >> 8 == 0xE00000 if self.bits == _IPV4 else self.number >> 112 & 0xFF0F == 0xFF02

    @property
    def is_link_local_unicast(self) -> bool:
        """169.254.0.0/16 or fe80::/10."""
        return self.number >> 16 == 0xA9FE if self.bits == _IPV4 else self.number >> 118 == 0xFE80 >> 6

    @property
    def is_global_unicast(self) -> bool:
        """Everything else, but for the IPv4 broadcast address."""
        if self.bits == _IPV4 and self.number in {0, 0xFFFFFFFF}:
            return False
        return self.number != 0 and not (self.is_loopback or self.is_multicast or self.is_link_local_unicast)

    def masked(self, length: int) -> Address:
        """The address with all bits after the first `length` bits set to zero."""
        rest = self.bits - length
        return Address(self.number >> rest << rest, self.bits)

    def __str__(self) -> str:
        """The canonical form (RFC 5952)."""
        if self.bits == _IPV4:
            return ".".join(str(self.number >> shift & 0xFF) for shift in (24, 16, 8, 0))
        zone = f"%{self.zone}" if self.zone else ""
        if self.is_mapped:
            return f"::ffff:{Address(self.number & 0xFFFFFFFF, _IPV4)}{zone}"
        groups = [self.number >> shift & 0xFFFF for shift in range(112, -1, -16)]
        start, length = _longest_zeros(groups)
        if length < 2:
            return ":".join(f"{group:x}" for group in groups) + zone
        head = ":".join(f"{group:x}" for group in groups[:start])
        tail = ":".join(f"{group:x}" for group in groups[start + length :])
        return f"{head}::{tail}{zone}"


@dataclass(frozen=True, slots=True)
class Prefix:
    """`netip.Prefix`: an address, whose bits behind the prefix may be set, and the length of the prefix."""

    address: Address
    length: int

    @property
    def masked(self) -> Prefix:
        """The network itself."""
        return Prefix(self.address.masked(self.length), self.length)

    def contains(self, address: Address) -> bool:
        """Whether an address of the same family begins with the prefix."""
        return address.bits == self.address.bits and not address.zone and address.masked(self.length) == self.address.masked(self.length)

    def __str__(self) -> str:
        """`10.0.0.0/8`."""
        return f"{self.address}/{self.length}"


def _longest_zeros(groups: list[int]) -> tuple[int, int]:
    """The first of the longest runs of zeros: (start, length)."""
    best = start = length = 0
    for place, group in enumerate([*groups, 1]):
        if group:
            if place - start > length:
                best, length = start, place - start
            start = place + 1
    return best, length


def parse_address(text: str) -> Address:
    """`netip.ParseAddr`.

    Raises:
        AddressError: the text is not an address.
    """
    if len(text) > _LONGEST_SHOWN and "%" not in text:
        raise _refused(text, "unable to parse IP")
    for character in text:
        if character == ".":
            return Address(_ipv4(text, text), _IPV4)
        if character == ":":
            return _ipv6(text)
        if character == "%":
            raise _refused(text, "missing IPv6 address")
    raise _refused(text, "unable to parse IP")


def parse_prefix(text: str) -> Prefix:
    """`netip.ParsePrefix`.

    Raises:
        AddressError: the text is not a prefix.
    """
    head, slash, digits = text.rpartition("/")
    problem = ""
    if not slash:
        problem = "no '/'"
    else:
        try:
            address = parse_address(head)
        except AddressError as error:
            raise AddressError(f"netip.ParsePrefix({go_quote(text)}): {error}") from error
        if address.zone:
            problem = "IPv6 zones cannot be present in a prefix"
        elif not digits or not _DIGITS.issuperset(digits) or (digits[0] == "0" and len(digits) > 1):
            problem = f"bad bits after slash: {go_quote(digits)}"
        elif len(digits) > 3 or int(digits) > address.bits:
            problem = "prefix length out of range"
        else:
            return Prefix(address, int(digits))
    raise AddressError(f"netip.ParsePrefix({go_quote(text)}): {problem}")


def _refused(text: str, problem: str, at: str | None = None) -> AddressError:
    """Go's `parseAddrError`."""
    shown = f"ParseAddr({go_quote(text)}): {problem}"
    return AddressError(f"{shown} (at {go_quote(at)})" if at else shown)


def _ipv4(text: str, part: str) -> int:
    """The number of a dotted address that is all or the end of `text`."""
    number = value = digits = fields = 0
    for place, character in enumerate(part):
        if character in _DIGITS:
            if digits == 1 and value == 0:
                raise _refused(text, "IPv4 field has octet with leading zero")
            value = value * 10 + ord(character) - 48
            digits += 1
            if value > 255:
                raise _refused(text, "IPv4 field has value >255")
        elif character == ".":
            if place == 0 or place == len(part) - 1 or part[place - 1] == ".":
                raise _refused(text, "IPv4 field must have at least one digit", part[place:])
            if fields == 3:
                raise _refused(text, "IPv4 address too long")
            number = number << 8 | value
            fields += 1
            value = digits = 0
        else:
            raise _refused(text, "unexpected character", part[place:])
    if fields < 3:
        raise _refused(text, "IPv4 address too short")
    return number << 8 | value


def _ipv6(text: str) -> Address:
    """An address with colons."""
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _refused(text, "zone must be a non-empty string")
    groups: list[int] = []
    ellipsis = -1
    if rest.startswith("::"):
        ellipsis = 0
        rest = rest[2:]
        if not rest:
            return Address(0, _IPV6, zone)
    while len(groups) < 8:
        group, length = _group(text, rest)
        if rest[length : length + 1] == ".":
            if ellipsis < 0 and len(groups) != 6:
                raise _refused(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
            if len(groups) > 6:
                raise _refused(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
            number = _ipv4(text, rest)
            groups += [number >> 16, number & 0xFFFF]
            rest = ""
            break
        groups.append(group)
        rest = rest[length:]
        if not rest:
            break
        if rest[0] != ":":
            raise _refused(text, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _refused(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if ellipsis >= 0:
                raise _refused(text, "multiple :: in address", rest)
            ellipsis = len(groups)
            rest = rest[1:]
            if not rest:
                break
    if rest:
        raise _refused(text, "trailing garbage after address", rest)
    return Address(_joined(text, groups, ellipsis), _IPV6, zone)


def _group(text: str, rest: str) -> tuple[int, int]:
    """The hexadecimal number at the start of `rest`, and how long it is."""
    length = 0
    for character in rest:
        if character not in _HEX:
            break
        if length > 3:
            raise _refused(text, "each group must have 4 or less digits", rest)
        length += 1
    if length == 0:
        raise _refused(text, "each colon-separated field must have at least one digit", rest)
    return int(rest[:length], 16), length


def _joined(text: str, groups: list[int], ellipsis: int) -> int:
    """The number of eight groups, of which `::` may stand for some."""
    if len(groups) < 8:
        if ellipsis < 0:
            raise _refused(text, "address string too short")
        groups[ellipsis:ellipsis] = [0] * (8 - len(groups))
    elif ellipsis >= 0:
        raise _refused(text, "the :: must expand to at least one field of zeros")
    number = 0
    for group in groups:
        number = number << 16 | group
    return number
