"""IP addresses in expressions: upstream's examples, unit tests and messages."""

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
    "string(ip('192.168.0.1'))": "192.168.0.1",
    "string(ip('2001:DB8::0:68'))": "2001:db8::68",
    "isIP('192.168.0.1')": True,
    "isIP('192.168.0.1.0')": False,
    "isIP('2001:db8::68')": True,
    "isIP('2001:db8:::68')": False,
    "isIP('::ffff:192.168.0.1')": False,
    "isIP('fe80::1%eth0')": False,
    "isIP('010.0.0.1')": False,
    "isIP('')": False,
    "ip.isCanonical('127.0.0.1')": True,
    "ip.isCanonical('2001:db8::68')": True,
    "ip.isCanonical('2001:DB8::68')": False,
    "ip.isCanonical('2001:db8::0:0:0:abcd')": False,
    "ip('192.168.0.1').family()": 4,
    "ip('2001:db8::68').family()": 6,
    "ip('0.0.0.0').isUnspecified()": True,
    "ip('127.0.0.1').isUnspecified()": False,
    "ip('::').isUnspecified()": True,
    "ip('::1').isUnspecified()": False,
    "ip('127.0.0.1').isLoopback()": True,
    "ip('1.2.3.4').isLoopback()": False,
    "ip('::1').isLoopback()": True,
    "ip('2001:db8::abcd').isLoopback()": False,
    "ip('224.0.0.1').isLinkLocalMulticast()": True,
    "ip('224.0.1.1').isLinkLocalMulticast()": False,
    "ip('ff02::1').isLinkLocalMulticast()": True,
    "ip('fd00::1').isLinkLocalMulticast()": False,
    "ip('169.254.169.254').isLinkLocalUnicast()": True,
    "ip('192.168.0.1').isLinkLocalUnicast()": False,
    "ip('fe80::1').isLinkLocalUnicast()": True,
    "ip('fd80::1').isLinkLocalUnicast()": False,
    "ip('192.168.0.1').isGlobalUnicast()": True,
    "ip('255.255.255.255').isGlobalUnicast()": False,
    "ip('2001:db8::abcd').isGlobalUnicast()": True,
    "ip('ff00::1').isGlobalUnicast()": False,
    "ip('::1') == ip('0:0:0:0:0:0:0:1')": True,
    "ip('1.2.3.4') == ip('::102:304')": False,
    "ip('1.2.3.4') in [ip('1.2.3.4')]": True,
    "dyn(ip('1.2.3.4')) == dyn('1.2.3.4')": False,
    "ip(dyn('1.2.3.4')).family() == dyn(ip('1.2.3.4')).family()": True,
    "string(dyn(ip('1.2.3.4')))": "1.2.3.4",
    "string(dyn(1))": "1",
    "type(ip('192.168.0.1')) == net.IP": True,
    "type('192.168.0.1') == net.IP": False,
}


@pytest.mark.parametrize(("text", "wanted"), VALUES.items())
def test_values(evaluate: Evaluate, text: str, wanted: object) -> None:
    """Addresses are read, compared and distinguished as upstream's."""
    assert evaluate(text, IP, CIDR) == wanted


TOO_LONG = 'IP Address "127.0.0.1.0" parse error during conversion from string: ParseAddr("127.0.0.1.0"): IPv4 address too long'
ERRORS = {
    "ip('127.0.0.1.0')": TOO_LONG,
    "ip.isCanonical('127.0.0.1.0')": TOO_LONG,
    "ip('2001:db8:::68')": (
        'IP Address "2001:db8:::68" parse error during conversion from string: ParseAddr("2001:db8:::68"): '
        'each colon-separated field must have at least one digit (at ":68")'
    ),
    "ip('fe80::1%en0')": 'IP address "fe80::1%en0" with zone value is not allowed',
    "ip('::ffff:192.168.0.1')": 'IPv4-mapped IPv6 address "::ffff:192.168.0.1" is not allowed',
    "ip(dyn(1))": "no such overload",
    "dyn('1.2.3.4').family()": "no such overload",
}


@pytest.mark.parametrize(("text", "message"), ERRORS.items())
def test_errors(evaluate: Evaluate, text: str, message: str) -> None:
    """A text that is not an allowed address is an error in upstream's words."""
    with pytest.raises(EvaluationError) as raised:
        evaluate(text, IP, CIDR)
    assert str(raised.value) == message


def test_types(evaluate: Evaluate) -> None:
    """A network is not a text."""
    with pytest.raises(CompileError, match=r"found no matching overload for 'isIP' applied to '\(net\.CIDR\)'"):
        evaluate("isIP(cidr('192.168.0.0/24'))", IP, CIDR)
