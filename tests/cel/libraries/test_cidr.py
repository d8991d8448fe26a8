"""Networks in expressions: upstream's examples, unit tests and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcp_py.cel.errors import CompileError, EvaluationError
from kcp_py.cel.libraries.cidr import CIDR
from kcp_py.cel.libraries.ip import IP

if TYPE_CHECKING:
    from collections.abc import Callable

    Evaluate = Callable[..., Any]

VALUES = {
    "string(cidr(dyn('192.168.0.0/24')))": "192.168.0.0/24",
    "isCIDR('192.168.0.0/16')": True,
    "isCIDR('::1/128')": True,
    "isCIDR('192.168.0.0/33')": False,
    "isCIDR('::1/129')": False,
    "isCIDR('192.168.0.0')": False,
    "isCIDR('192.168.0.0/08')": False,
    "isCIDR('::ffff:1.2.3.4/24')": False,
    "isCIDR('192.168.00.0/16')": False,
    "cidr('192.168.0.0/24').containsIP(ip('192.168.0.1'))": True,
    "cidr('192.168.0.0/24').containsIP(ip('192.168.1.1'))": False,
    "cidr('192.168.0.0/24').containsIP('192.168.0.1')": True,
    "cidr('192.168.0.0/24').containsIP('192.168.1.1')": False,
    "cidr('192.168.0.0/24').containsIP(dyn('192.168.0.1'))": True,
    "cidr('192.168.0.0/24').containsIP(dyn(ip('192.168.0.1')))": True,
    "cidr('2001:db8::/32').containsIP('2001:db8::1')": True,
    "cidr('2001:db8::/32').containsIP('2001:dc8::1')": False,
    "cidr('::/0').containsIP('1.2.3.4')": False,
    "cidr('192.168.0.0/16').containsCIDR(cidr('192.168.10.0/24'))": True,
    "cidr('192.168.1.0/24').containsCIDR(cidr('192.168.2.0/24'))": False,
    "cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24')": True,
    "cidr('192.168.0.0/24').containsCIDR(cidr('192.168.0.0/25'))": True,
    "cidr('192.168.0.0/24').containsCIDR('192.168.0.0/23')": False,
    "cidr('2001:db8::/32').containsCIDR('2001:db8::/33')": True,
    "cidr('2001:db8::/32').containsCIDR('2001:db8::/31')": False,
    "cidr('192.168.0.1/24').ip() == ip('192.168.0.1')": True,
    "cidr('::1/128').ip().family()": 6,
    "cidr('192.168.0.0/24').masked() == cidr('192.168.0.0/24')": True,
    "cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24')": True,
    "cidr('192.168.0.1/24') == cidr('192.168.0.1/24').masked()": False,
    "cidr('2001:db8:1::/32').masked() == cidr('2001:db8::/32')": True,
    "cidr('192.168.0.0/16').prefixLength()": 16,
    "cidr('::1/128').prefixLength()": 128,
    "type(cidr('192.168.0.0/24')) == net.CIDR": True,
}


@pytest.mark.parametrize(("text", "wanted"), VALUES.items())
def test_values(evaluate: Evaluate, text: str, wanted: object) -> None:
    """Networks are read, compared and searched as upstream's."""
    assert evaluate(text, IP, CIDR) == wanted


UNREADABLE = "network address parse error during conversion from string: "
ERRORS = {
    "cidr('192.168.0.0/')": f'{UNREADABLE * 2}netip.ParsePrefix("192.168.0.0/"): bad bits after slash: ""',
    "cidr('2001:db8::/')": f'{UNREADABLE * 2}netip.ParsePrefix("2001:db8::/"): bad bits after slash: ""',
    "cidr('::ffff:1.2.3.4/24')": f'{UNREADABLE}IPv4-mapped IPv6 address "::ffff:1.2.3.4/24" is not allowed',
    "cidr('10.0.0.0/8').containsIP('x')": 'IP Address "x" parse error during conversion from string: ParseAddr("x"): unable to parse IP',
    "cidr('10.0.0.0/8').containsIP(dyn(1))": "no such overload",
}


@pytest.mark.parametrize(("text", "message"), ERRORS.items())
def test_errors(evaluate: Evaluate, text: str, message: str) -> None:
    """A text that is not a network is an error in upstream's words."""
    with pytest.raises(EvaluationError) as raised:
        evaluate(text, IP, CIDR)
    assert str(raised.value) == message


def test_types(evaluate: Evaluate) -> None:
    """A number is not a text."""
    with pytest.raises(CompileError, match=r"found no matching overload for 'cidr' applied to '\(int\)'"):
        evaluate("cidr(192168)", IP, CIDR)
