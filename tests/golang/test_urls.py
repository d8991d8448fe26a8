"""URLs as Go's `net/url` has them: cases of its `url_test.go`."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.golang.urls import UrlError, check_request_uri, parse_url

VALID = [
    "http://foo.com",
    "http://foo.com/",
    "http://foo.com/path",
    "/",
    "//not.a.user@not.a.host/just/a/path",
    "//not.a.user@%66%6f%6f.com/just/a/path/also",
    "*",
    "http://192.168.0.1/",
    "http://192.168.0.1:8080/",
    "http://[fe80::1]/",
    "http://[fe80::1]:8080/",
    "http://[fe80::1%25en0]/",
    "http://[fe80::1%25%65%6e%301-._~]:8080/",
    "tcp://[2020::2020:20:2020:2020%25Windows%20Loves%20Spaces]:2020",
    "https://user:pass@example.com:80/path?query=val#fragment",
    "mailto:?subject=hi",
    "http:",
    "http://\u00e9.example/",
]


@pytest.mark.parametrize("text", VALID)
def test_valid(text: str) -> None:
    """Absolute URIs and absolute paths are request URIs."""
    check_request_uri(text)


PROBLEMS = {
    "": "empty url",
    "foo.html": "invalid URI for request",
    "../dir/": "invalid URI for request",
    " http://foo.com": "invalid URI for request",
    "http://192.168.0.%31/": 'invalid URL escape "%31"',
    "http://192.168.0.%31:8080/": 'invalid URL escape "%31"',
    "http://[fe80::%31]/": 'invalid URL escape "%31"',
    "http://[fe80::%31%25en0]:8080/": 'invalid URL escape "%31"',
    "http://[fe80::1%en0]/": 'invalid URL escape "%en"',
    "http://[fe80::1": "missing ']' in host",
    "http://[fe80::1]x/": 'invalid port "x" after host',
    "http://[1.2.3.4]/": "invalid IP-literal",
    "https://a:b:c/": 'invalid port ":b:c" after host',
    "http://a:x/": 'invalid port ":x" after host',
    "http://a b.com/": 'invalid character " " in host name',
    "http://u{@h/": "net/url: invalid userinfo",
    "http://a/%zz": 'invalid URL escape "%zz"',
    "/%a": 'invalid URL escape "%a"',
    "://a": "missing protocol scheme",
}


@pytest.mark.parametrize(("text", "problem"), PROBLEMS.items())
def test_problems(text: str, problem: str) -> None:
    """Everything else is refused in Go's words."""
    with pytest.raises(UrlError) as raised:
        check_request_uri(text)
    assert str(raised.value) == f'parse "{text}": {problem}'


def test_control_characters() -> None:
    """No URL has them."""
    with pytest.raises(UrlError) as raised:
        check_request_uri("http://a/\x7f")
    assert str(raised.value) == 'parse "http://a/\\x7f": net/url: invalid control character in URL'


# Text -> scheme, host, hostname, port, escaped path.
PARTS = {
    "/path": ("", "", "", "", "/path"),
    "HTTPS://example.com:80/": ("https", "example.com:80", "example.com", "80", "/"),
    "https://example.com": ("https", "example.com", "example.com", "", ""),
    "https://example.com:": ("https", "example.com:", "example.com", "", ""),
    "https://[::1]:80/": ("https", "[::1]:80", "::1", "80", "/"),
    "https://[::1]/": ("https", "[::1]", "::1", "", "/"),
    "https://[fe80::1%25en0]:8/": ("https", "[fe80::1%en0]:8", "fe80::1%en0", "8", "/"),
    "https://example.com/path with spaces/": ("https", "example.com", "example.com", "", "/path%20with%20spaces/"),
    "http://a/file%20one%26two": ("http", "a", "a", "", "/file%20one%26two"),
    "http://a/a%2fb?x#y": ("http", "a", "a", "", "/a%2fb"),
    "http://a/a%2f\u00e9": ("http", "a", "a", "", "/a/%C3%A9"),
    "http://a/!$&'()*+,;=:@[hello]": ("http", "a", "a", "", "/!$&'()*+,;=:@[hello]"),
    "http://hello.%e4%b8%96.com/": ("http", "hello.\u4e16.com", "hello.\u4e16.com", "", "/"),
    "mailto:x@example.com": ("mailto", "", "", "", ""),
    "*": ("", "", "", "", "*"),
}


@pytest.mark.parametrize(("text", "wanted"), PARTS.items())
def test_parts(text: str, wanted: tuple[str, ...]) -> None:
    """A URL is parsed as by Go."""
    url = parse_url(text)
    assert (url.scheme, url.host, url.hostname, url.port, url.escaped_path) == wanted


PARAMETERS = {
    "https://a/?k1=a&k2=b&k2=c": {"k1": ["a"], "k2": ["b", "c"]},
    "https://a/?key with spaces=value+with%20spaces": {"key with spaces": ["value with spaces"]},
    "https://a/?": {},
    "https://a/": {},
    "https://a/?a&b=": {"a": [""], "b": [""]},
    "https://a/?a;b=1&c=%zz&&d=%41": {"d": ["A"]},
    "https://a/?a=%ff": {"a": ["\ufffd"]},
    "https://a/?" + "a=1&" * 10_001: {},
}


@pytest.mark.parametrize(("text", "wanted"), PARAMETERS.items())
def test_parameters(text: str, wanted: dict[str, list[str]]) -> None:
    """The query's parameters are unescaped; those that cannot be are left out."""
    assert parse_url(text).parameters() == wanted


def test_equality() -> None:
    """URLs are equal that Go writes alike."""
    assert parse_url("HTTP://a/b c#d e") == parse_url("http://a/b%20c#d%20e")
    assert parse_url("http://a/?") != parse_url("http://a/")
    assert parse_url("http://u:p@a/") != parse_url("http://u@a/")


@given(st.text(alphabet="ahtp:/[]%25?#@. \u00e9\ud800", max_size=30))
def test_any_text(text: str) -> None:
    """Whatever the text, it is a URL or refused."""
    with suppress(UrlError):
        check_request_uri(text)
        parse_url(text).parameters()
