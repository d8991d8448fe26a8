"""Responses in, bytes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.serving.http1.responses import HeadCache, ResponseError, ResponseWriter

DEFAULTS = [(b"date", b"today")]
TWO = [(b"content-length", b"2")]


def write(method, status, headers, *parts, keep_alive=True):
    """The writes of a response, whether it is complete, whether the connection goes on, and the error."""
    writer = ResponseWriter(method, HeadCache(), keep_alive=keep_alive)
    head = writer.start(status, headers, DEFAULTS)
    writes = [head] if head else []
    for number, part in enumerate(parts, 1):
        writes += writer.body(part, more=number < len(parts))
    return writes, writer.complete, writer.keep_alive, writer.error is not None


OK = b"HTTP/1.1 200 OK\r\ndate: today\r\n"
RESPONSES = [
    pytest.param(("GET", 200, TWO, b"ok"), ([OK + b"content-length: 2\r\n\r\nok"], True, True, False), id="whole: one write"),
    pytest.param(
        ("GET", 599, TWO, b"ok"), ([b"HTTP/1.1 599 \r\ndate: today\r\ncontent-length: 2\r\n\r\nok"], True, True, False), id="no phrase"
    ),
    pytest.param(
        ("GET", 200, TWO, b"o", b"k"), ([OK + b"content-length: 2\r\n\r\n", b"o", b"k"], True, True, False), id="in parts: the head first"
    ),
    pytest.param(
        ("GET", 200, [], b"ok", b""),
        ([OK + b"transfer-encoding: chunked\r\n\r\n", b"2\r\nok\r\n", b"0\r\n\r\n"], True, True, False),
        id="no length: chunks",
    ),
    pytest.param(
        ("GET", 200, [], b"", b"ok"),
        ([OK + b"transfer-encoding: chunked\r\n\r\n", b"", b"2\r\nok\r\n0\r\n\r\n"], True, True, False),
        id="an empty part is no chunk",
    ),
    pytest.param(("HEAD", 200, TWO, b""), ([OK + b"content-length: 2\r\n\r\n"], True, True, False), id="HEAD has no body"),
    pytest.param(("HEAD", 200, [], b"ok"), ([OK + b"\r\n"], True, True, False), id="HEAD without a length"),
    pytest.param(
        ("GET", 304, [(b"etag", b"a")], b""),
        ([b"HTTP/1.1 304 Not Modified\r\ndate: today\r\netag: a\r\n\r\n", b""], True, True, False),
        id="a status without a body",
    ),
    pytest.param(
        ("GET", 200, [*TWO, (b"X-A", b"b")], b"ok"),
        ([OK + b"content-length: 2\r\nx-a: b\r\n\r\n", b"ok"], True, True, False),
        id="a rare name, in lower case",
    ),
    pytest.param(
        ("GET", 200, [*TWO, (b"connection", b"x, Close")], b"ok"),
        ([OK + b"content-length: 2\r\nconnection: x, Close\r\n\r\n", b"ok"], True, False, False),
        id="the application closes",
    ),
    pytest.param(("GET", 200, [(b"content-length", b"1")], b"ok"), ([OK + b"content-length: 1\r\n\r\n"], False, True, True), id="too long"),
    pytest.param(
        ("GET", 200, [(b"content-length", b"3")], b"ok"), ([OK + b"content-length: 3\r\n\r\n", b"ok"], False, True, True), id="too short"
    ),
]


@pytest.mark.parametrize(("response", "written"), RESPONSES)
def test_responses(response, written):
    """Each response has the writes that it needs, and no more."""
    assert write(*response) == written


def test_the_client_wants_the_connection_to_end():
    """The response says that it does."""
    writes, complete, keep_alive, _ = write("GET", 200, TWO, b"ok", keep_alive=False)
    assert writes == [OK + b"content-length: 2\r\nconnection: close\r\n\r\nok"]
    assert (complete, keep_alive) == (True, False)
    assert write("GET", 200, [], b"", keep_alive=False)[0][0].endswith(b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n")


def test_the_client_knows_no_chunks():
    """The end of the connection is the end of a body of unknown length."""
    writer = ResponseWriter("GET", HeadCache(), keep_alive=False, chunks=False)
    assert writer.start(200, [], DEFAULTS) == OK + b"connection: close\r\n\r\n"
    assert (writer.body(b"o", more=True), writer.body(b"k", more=False)) == ((b"o",), (b"k",))
    assert (writer.complete, writer.error) == (True, None)


def test_large_bodies_are_not_copied():
    """The head of a large body has a write of its own."""
    body = b"x" * 100_000
    assert write("GET", 200, [(b"content-length", b"100000")], body)[0] == [OK + b"content-length: 100000\r\n\r\n", body]


@pytest.mark.parametrize("messages", [["body"], ["start", "end", "end"]], ids=["without a head", "behind the end"])
def test_parts_in_the_wrong_place(messages):
    """They are an error, and not written."""
    writer = ResponseWriter("GET", HeadCache(), keep_alive=True)
    for message in messages[:-1]:
        if message == "start":
            writer.start(200, TWO, DEFAULTS)
        else:
            writer.body(b"ok", more=False)
    assert writer.body(b"ok", more=False) == ()
    assert writer.error is not None


@given(name=st.sampled_from([b"warning", b"content-type", b"audit-id", b"location", b"x-other"]), value=st.binary(max_size=40))
def test_no_value_ends_its_header(name, value):
    """Whatever is in a value, a response is refused or has exactly the headers that it was given."""
    headers = [(name, value), (b"content-length", b"2")]
    if any(byte in value for byte in (*range(9), *range(10, 32), 127)):
        with pytest.raises(ResponseError):
            write("GET", 200, headers, b"ok")
    else:
        assert b"".join(write("GET", 200, headers, b"ok")[0]) == OK + name + b": " + value + b"\r\ncontent-length: 2\r\n\r\nok"


def test_default_headers_are_checked():
    """Default headers of all responses cannot inject lines either."""
    with pytest.raises(ResponseError):
        HeadCache().get(200, [(b"date", b"a\r\nb: c")])


def test_the_present_default_headers_are_used():
    """When the server's headers change, so do the heads."""
    cache = HeadCache()
    assert cache.get(200, [(b"date", b"1")]) == b"HTTP/1.1 200 OK\r\ndate: 1\r\n"
    assert cache.get(200, [(b"date", b"2")]) == b"HTTP/1.1 200 OK\r\ndate: 2\r\n"
    for number in (b"3", b"4"):
        for status, line in ((200, b"200 OK"), (201, b"201 Created"), (200, b"200 OK")):
            written = ResponseWriter("GET", cache, keep_alive=True).whole(status, LINES, b"", [(b"date", number)])
            assert written == b"HTTP/1.1 %b\r\ndate: %b\r\n%bcontent-length: 0\r\n\r\n" % (line, number, LINES)


LINES = b"audit-id: a\r\n"


@pytest.mark.parametrize(
    ("keep_alive", "written"),
    [(True, OK + LINES + b"content-length: 2\r\n\r\nok"), (False, OK + LINES + b"content-length: 2\r\nconnection: close\r\n\r\nok")],
)
def test_a_whole_response(keep_alive, written):
    """A response that is given at once is complete, and says when it is the last one."""
    writer = ResponseWriter("GET", HeadCache(), keep_alive=keep_alive)
    assert writer.whole(200, LINES, b"ok", DEFAULTS) == written
    assert (writer.started, writer.complete, writer.keep_alive) == (True, True, keep_alive)
    assert writer.whole(200, LINES, b"ok", DEFAULTS) is None
    assert writer.body(b"more", more=False) == ()
    assert writer.error is not None


@pytest.mark.parametrize(("method", "body"), [("HEAD", b"ok"), ("GET", b"x" * 65_537)])
def test_not_at_once(method, body):
    """The response to HEAD, and one with a large body, are left to the general way, and not begun."""
    writer = ResponseWriter(method, HeadCache(), keep_alive=True)
    assert writer.whole(200, LINES, body, DEFAULTS) is None
    assert not writer.started
