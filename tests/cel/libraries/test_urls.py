"""URLs in expressions: upstream's examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.libraries.urls import URLS

if TYPE_CHECKING:
    from collections.abc import Callable

    Evaluate = Callable[..., Any]

VALUES = {
    "isURL('https://user:pass@example.com:80/path?query=val#fragment')": True,
    "isURL('/absolute-path')": True,
    "isURL('https://a:b:c/')": False,
    "isURL('../relative-path')": False,
    "isURL('')": False,
    "url('/path').getScheme()": "",
    "url('https://example.com/').getScheme()": "https",
    "url('https://example.com:80/').getHost()": "example.com:80",
    "url('https://example.com/').getHost()": "example.com",
    "url('https://[::1]:80/').getHost()": "[::1]:80",
    "url('https://[::1]/').getHost()": "[::1]",
    "url('/path').getHost()": "",
    "url('https://example.com:80/').getHostname()": "example.com",
    "url('https://127.0.0.1:80/').getHostname()": "127.0.0.1",
    "url('https://[::1]:80/').getHostname()": "::1",
    "url('/path').getHostname()": "",
    "url('https://example.com:80/').getPort()": "80",
    "url('https://example.com/').getPort()": "",
    "url('/path').getPort()": "",
    "url('https://example.com/path').getEscapedPath()": "/path",
    "url('https://example.com/path with spaces/').getEscapedPath()": "/path%20with%20spaces/",
    "url('https://example.com').getEscapedPath()": "",
    "url('https://example.com/path?k1=a&k2=b&k2=c').getQuery()": {"k1": ["a"], "k2": ["b", "c"]},
    "url('https://example.com/path?key with spaces=value with spaces').getQuery()": {"key with spaces": ["value with spaces"]},
    "url('https://example.com/path?').getQuery()": {},
    "url('https://example.com/path').getQuery()": {},
    "url('https://example.com/path#frag?x=y').getQuery()": {},
    "url('https://a/?k=v').getQuery()['k'][0]": "v",
    "url('https://a/') == url('https://a/')": True,
    "url('HTTPS://a/') == url('https://a/')": True,
    "url('https://a/') == url('https://b/')": False,
    "url(dyn('https://a/')) == dyn(url('https://a/'))": True,
    "dyn(url('https://a/')) == dyn('https://a/')": False,
    "dyn(url('https://a/')).getHost()": "a",
}


@pytest.mark.parametrize(("text", "wanted"), VALUES.items())
def test_values(evaluate: Evaluate, text: str, wanted: object) -> None:
    """URLs are parsed as upstream does it."""
    assert evaluate(text, URLS) == wanted


ERRORS = {
    "url('../relative-path')": 'URL parse error during conversion from string: parse "../relative-path": invalid URI for request',
    "url('https://a:b:c/')": 'URL parse error during conversion from string: parse "https://a:b:c/": invalid port ":b:c" after host',
    "url(dyn(1))": "no such overload",
    "dyn('https://a/').getHost()": "no such overload",
}


@pytest.mark.parametrize(("text", "message"), ERRORS.items())
def test_errors(evaluate: Evaluate, text: str, message: str) -> None:
    """A text that is not a URL is an error in Go's words."""
    with pytest.raises(EvaluationError) as raised:
        evaluate(text, URLS)
    assert str(raised.value) == message
