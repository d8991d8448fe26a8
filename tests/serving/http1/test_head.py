"""The rules for heads: how a body is framed, which host is named, what a target is."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kcp_py.serving.http1.head import ExpectationError, body_framing, host_of, split_target


@given(target=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1).map(str.encode))
@example(target=b"//x/y?a#b")
@example(target=b"/a?b?c")
@example(target=b"/a?")
@example(target=b"/?%zz")
@example(target=b"http://h/p?q")
@example(target=b"*")
@example(target=b"http://h")
@example(target=b"http://h?q")
def test_targets_are_split_as_uvicorn_splits_them(target):
    """The short way for ordinary targets agrees with the parser of URLs; what has a fragment is refused by both ways."""
    if b"#" in target:
        with pytest.raises(ValueError, match="fragment"):
            split_target(target)
        return
    try:
        parsed = httptools.parse_url(target)
    except httptools.HttpParserError:
        with pytest.raises(httptools.HttpParserError):
            split_target(target)
    else:
        if parsed.path is None:
            with pytest.raises(ValueError, match="no path"):
                split_target(target)
        else:
            assert split_target(target) == (parsed.path, parsed.query or b"")


HOST = (b"host", b"x")


@pytest.mark.parametrize(
    ("version", "fields", "framing"),
    [
        pytest.param("1.1", [HOST], (0, False), id="no body"),
        pytest.param("1.0", [], (0, False), id="HTTP/1.0 needs no host"),
        pytest.param("1.1", [HOST, (b"content-length", b"5")], (5, False), id="a length"),
        pytest.param("1.1", [HOST, (b"content-length", b"%d" % (2**63 - 1))], (2**63 - 1, False), id="the longest body"),
        pytest.param("1.1", [HOST, (b"transfer-encoding", b" Chunked ")], (None, False), id="chunks"),
        pytest.param("1.1", [HOST, (b"expect", b"100-Continue")], (0, True), id="an expectation"),
        pytest.param("1.1", [HOST, (b"expect", b"x, 100-continue")], (0, True), id="one of a list"),
        pytest.param("1.1", [HOST, (b"expect", b"")], (0, False), id="an empty expectation"),
        pytest.param("1.0", [HOST, (b"expect", b"100-continue")], (0, False), id="an expectation in HTTP/1.0"),
    ],
)
def test_framing(version, fields, framing):
    """The framing of the body by the head."""
    assert body_framing(fields, version) == framing


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        pytest.param("1.2", [HOST], id="another version"),
        pytest.param("1.1", [], id="no host"),
        pytest.param("1.1", [HOST, HOST], id="two hosts"),
        pytest.param("1.0", [HOST, HOST], id="two hosts in HTTP/1.0"),
        pytest.param("1.1", [HOST, (b"content-length", b"%d" % 2**63)], id="a length of 2^63"),
        pytest.param("1.1", [HOST, (b"transfer-encoding", b"gzip, chunked")], id="two codings"),
        pytest.param("1.0", [HOST, (b"transfer-encoding", b"chunked")], id="chunks in HTTP/1.0"),
    ],
)
def test_heads_with_more_than_one_meaning(version, fields):
    """They are refused."""
    with pytest.raises(ValueError):  # noqa: PT011 # which of the rules is not told to clients
        body_framing(fields, version)


@pytest.mark.parametrize("value", [b"x", b"x:80", b"[::1]:80", b"a_b", b"", b"a!$%&'()*+,;=~-.b", b" x "])
def test_hosts(value):
    """Every character that an authority can have is taken, in any order, as kube-apiserver takes it."""
    assert body_framing([(b"host", value)], "1.1") == (0, False)


@pytest.mark.parametrize("value", [b"a b/c", b"a/b", b'a"b', b"<a>", b"\xc3\xa4", b"a@b", b"a?b", b"a#b", b"a\\b", b"a b"])
def test_malformed_hosts(value):
    """Anything else is refused, as kube-apiserver does."""
    with pytest.raises(ValueError, match="Host"):
        body_framing([(b"host", value)], "1.1")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_unknown_expectations(version):
    """They are refused with an error of their own, which is a 417."""
    for value in (b"something", b"100-continued", b"x100-continue"):
        with pytest.raises(ExpectationError):
            body_framing([HOST, (b"expect", value)], version)


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (b"http://a.example/x", b"a.example"),
        (b"https://A.example:6443/x?y", b"A.example:6443"),
        (b"http://[::1]:80/x", b"[::1]:80"),
        (b"http://u:p@a.example/x", None),
        (b"http://u@a.example/x", None),
        (b"http:///x", None),
        (b"x/y", None),
    ],
)
def test_the_host_of_a_target(target, host):
    """A target in absolute form names a host, with or without a port, and no user."""
    if host is None:
        with pytest.raises((ValueError, httptools.HttpParserError)):
            host_of(target)
    else:
        assert host_of(target) == host
