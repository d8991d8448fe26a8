"""Addresses and prefixes as Go's `net/netip` has them."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.golang.addresses import AddressError, parse_address, parse_prefix

WRITTEN = {
    "192.168.140.255": "192.168.140.255",
    "0.0.0.0": "0.0.0.0",
    "::": "::",
    "::1": "::1",
    "fd7a:115c::626b:430b": "fd7a:115c::626b:430b",
    "fd7a:115c:a1e0:ab12:4843:cd96:626b:430b": "fd7a:115c:a1e0:ab12:4843:cd96:626b:430b",
    "FE80::1": "fe80::1",
    "1:0:0:2:0:0:0:3": "1:0:0:2::3",
    "1:0:0:2:0:0:3:4": "1::2:0:0:3:4",
    "1:0:2:3:4:5:6:7": "1:0:2:3:4:5:6:7",
    "::ffff:192.168.140.255": "::ffff:192.168.140.255",
    "1:2:3:4:5:6:77.77.88.88": "1:2:3:4:5:6:4d4d:5858",
    "fe80::1%eth0": "fe80::1%eth0",
    "1::": "1::",
    "1:2:3::5:6:1.2.3.4": "1:2:3:0:5:6:102:304",
    "1:2:3:4:5:6:7::": "1:2:3:4:5:6:7:0",
}


@pytest.mark.parametrize(("text", "wanted"), WRITTEN.items())
def test_written(text: str, wanted: str) -> None:
    """A parsed address is written in the canonical form."""
    assert str(parse_address(text)) == wanted


PROBLEMS = {
    "": "unable to parse IP",
    "bad": "unable to parse IP",
    "1234": "unable to parse IP",
    "a%b": "missing IPv6 address",
    "192.168.0.1.0": "IPv4 address too long",
    "192.168.300.1": "IPv4 field has value >255",
    "1.2.3": "IPv4 address too short",
    "01.2.3.4": "IPv4 field has octet with leading zero",
    ".1.2.3": 'IPv4 field must have at least one digit (at ".1.2.3")',
    "1.2.3.": 'IPv4 field must have at least one digit (at ".")',
    "1..2.3": 'IPv4 field must have at least one digit (at ".2.3")',
    "1.2.3.4%eth0": 'unexpected character (at "%eth0")',
    "1.2.3.x": 'unexpected character (at "x")',
    "2001:db8:::68": 'each colon-separated field must have at least one digit (at ":68")',
    "::1%": "zone must be a non-empty string",
    "12345::": 'each group must have 4 or less digits (at "12345::")',
    "1:2:3:4:5:6:7": "address string too short",
    "1:2:3:4:5:6:7:": 'colon must be followed by more characters (at ":")',
    "1:2:3:4:5:6:7:8:9": 'trailing garbage after address (at "9")',
    "1::2::3": 'multiple :: in address (at ":3")',
    "1:2:3:4::5:6:7:8": "the :: must expand to at least one field of zeros",
    "fe80:g::1": 'each colon-separated field must have at least one digit (at "g::1")',
    "fe80:1g::1": 'unexpected character, want colon (at "g::1")',
    "1:2:3:4:5:1.2.3.4": 'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")',
    "1:2:3:4::5:6:1.2.3.4": "the :: must expand to at least one field of zeros",
    "::1:2:3:4:5:6:7:1.2.3.4": 'too many hex fields to fit an embedded IPv4 at the end of the address (at "1.2.3.4")',
    "::1.2.3": "IPv4 address too short",
    "\u0661.2.3.4": 'unexpected character (at "\u0661.2.3.4")',
}


@pytest.mark.parametrize(("text", "problem"), PROBLEMS.items())
def test_problems(text: str, problem: str) -> None:
    """A text that is not an address is refused with Go's message."""
    with pytest.raises(AddressError) as raised:
        parse_address(text)
    assert str(raised.value) == f'ParseAddr("{text}"): {problem}'


PREFIX_PROBLEMS = {
    "1.2.3.4": "no '/'",
    "1.2.3.4/": 'bad bits after slash: ""',
    "1.2.3.4/01": 'bad bits after slash: "01"',
    "1.2.3.4/+1": 'bad bits after slash: "+1"',
    "1.2.3.4/-1": 'bad bits after slash: "-1"',
    "1.2.3.4/33": "prefix length out of range",
    "::1/129": "prefix length out of range",
    "::1/99999999999999999999": "prefix length out of range",
    "fe80::1%a/64": "IPv6 zones cannot be present in a prefix",
    "1.2.3/8": 'ParseAddr("1.2.3"): IPv4 address too short',
}


@pytest.mark.parametrize(("text", "problem"), PREFIX_PROBLEMS.items())
def test_prefix_problems(text: str, problem: str) -> None:
    """A text that is not a prefix is refused with Go's message."""
    with pytest.raises(AddressError) as raised:
        parse_prefix(text)
    assert str(raised.value) == f'netip.ParsePrefix("{text}"): {problem}'


def test_prefixes() -> None:
    """A prefix keeps its address until it is masked, and holds addresses of its family."""
    prefix = parse_prefix("192.168.1.7/24")
    assert (str(prefix), str(prefix.masked)) == ("192.168.1.7/24", "192.168.1.0/24")
    assert prefix.contains(parse_address("192.168.1.255"))
    assert not prefix.contains(parse_address("192.168.2.1"))
    assert not parse_prefix("::/0").contains(parse_address("1.2.3.4"))
    assert str(parse_prefix("ffff::/0").masked) == "::/0"


@given(st.ip_addresses())
def test_agrees_with_ipaddress(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """Numbers, texts and the kinds of addresses are those of Python's module, where both know them."""
    parsed = parse_address(str(address))
    assert parsed.number == int(address)
    assert parse_address(address.exploded).number == parsed.number
    assert parsed.is_unspecified == address.is_unspecified
    assert parsed.is_multicast == address.is_multicast
    if not parsed.is_mapped:
        assert str(parsed) == str(address)
        assert parsed.is_loopback == address.is_loopback
        assert parsed.is_link_local_unicast == address.is_link_local


@given(st.text(alphabet="0123456789abcdef:.%/g", max_size=40))
def test_any_text(text: str) -> None:
    """Any text is an address or refused, and the printed address is parsed as the same one."""
    try:
        address = parse_address(text)
    except AddressError:
        return
    assert parse_address(str(address)) == address
