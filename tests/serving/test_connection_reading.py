"""Bytes in, requests out: the application's view of raw bytes, however they are cut into reads."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kcp_py.serving.http1.limits import MAX_FIELDS
from kcp_py.serving.parsing import HeadBudget
from tests.eventloop import until_idle
from tests.serving.edge import CHUNKED, HEAD_SECONDS, MOST, NEXT, NEXT_SEEN, REFUSED, Edge, cut

TOKEN = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_!#$%&'*+.^`|~", min_size=1, max_size=12).map(str.encode)
VALUE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=20).map(str.encode)
DANGEROUS = st.sampled_from(
    [b"Authorization", b"X-Kubernetes-Cluster", b"Host", b"Impersonate-User", b"Expect", b"X-Remote-User", b"Content-Type", b"Accept"]
)
FRAMING = {b"host", b"content-length", b"transfer-encoding", b"upgrade", b"connection", b"expect"}
FIELDS = st.lists(st.tuples(TOKEN, VALUE).filter(lambda field: field[0].lower() not in FRAMING), max_size=5)
TRAILERS = st.lists(
    st.tuples(TOKEN | DANGEROUS, VALUE).filter(lambda field: field[0].lower() not in FRAMING - {b"host", b"expect"}), max_size=5
)
EXTENSIONS = st.sampled_from([b"", b";a", b";a=b", b';a="b"', b";a;b=c"])
CHUNKS = st.lists(st.tuples(st.binary(min_size=1, max_size=40) | st.just(b"a\r\n\r\n0\r\n\r\n"), EXTENSIONS), max_size=5)
TRAILER_PIECES = [b"a: b", b"\r\n", b"\n", b" ", b"host: y", b"\x00", b"0\r\n"]
CUTS = st.lists(st.integers(1, 60), max_size=20)


def lines(fields):
    return b"".join(b"%b: %b\r\n" % field for field in fields)


def lower(fields):
    return [(name.lower(), value) for name, value in fields]


@pytest.mark.anyio
@given(fields=FIELDS, chunks=CHUNKS, last=EXTENSIONS, trailers=TRAILERS, cuts=CUTS)
@example(fields=[], chunks=[], last=b"", trailers=[(b"Authorization", b"Bearer t"), (b"X-Kubernetes-Cluster", b"other")], cuts=[])
@example(fields=[], chunks=[(b"a", b"")], last=b"", trailers=[(b"Expect", b"100-continue"), (b"Host", b"y")], cuts=[1] * 20)
async def test_a_request_is_its_head_and_its_body(fields, chunks, last, trailers, cuts):
    """The application sees the fields of the head and the bytes of the body; trailers, extensions and reads change nothing of them."""
    head = b"POST /p HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n" + lines(fields) + b"\r\n"
    body = b"".join(b"%x%b\r\n%b\r\n" % (len(data), extension, data) for data, extension in chunks)
    request = head + body + b"0" + last + b"\r\n" + lines(trailers) + b"\r\n"
    edge = await Edge().send(*cut(request + NEXT, cuts))
    headers = [(b"host", b"x"), (b"transfer-encoding", b"chunked"), *lower(fields)]
    assert edge.seen == [("POST", "/p", headers, b"".join(data for data, _ in chunks)), NEXT_SEEN]
    assert edge.wire.written.count(b"HTTP/1.1 200 OK") == 2
    assert b"100" not in edge.wire.written
    await edge.close()


@pytest.mark.anyio
@given(section=st.lists(st.sampled_from(TRAILER_PIECES), max_size=12).map(b"".join), cuts=CUTS)
async def test_no_trailer_section_changes_a_request(section, cuts):
    """Whatever stands there, well-formed or not, no request has a field of it."""
    edge = await Edge().send(*cut(CHUNKED + b"1\r\nz\r\n0\r\n" + section, cuts))
    assert edge.seen in ([], [("POST", "/", [(b"host", b"x"), (b"transfer-encoding", b"chunked")], b"z")])
    await edge.close()


@pytest.mark.anyio
@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000], ids=lambda size: f"in reads of {size}")
@pytest.mark.parametrize(
    ("data", "seen"),
    [
        pytest.param(NEXT * 3, [NEXT_SEEN] * 3, id="pipelined"),
        pytest.param(b"\r\n\r\n" + NEXT, [NEXT_SEEN], id="empty lines before a request"),
        pytest.param(
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n\r\n\r\n" + NEXT,
            [("POST", "/", [(b"host", b"x"), (b"content-length", b"4")], b"\r\n\r\n"), NEXT_SEEN],
            id="a body like the end of a head",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(NEXT), NEXT) + NEXT,
            [("POST", "/", [(b"host", b"x"), (b"content-length", b"%d" % len(NEXT))], NEXT), NEXT_SEEN],
            id="a body like a request",
        ),
        pytest.param(
            CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(NEXT), NEXT) + NEXT,
            [("POST", "/", [(b"host", b"x"), (b"transfer-encoding", b"chunked")], NEXT), NEXT_SEEN],
            id="a chunk like a request",
        ),
        pytest.param(
            CHUNKED + b"0\r\nauthorization: Bearer t\r\n\r\n" + NEXT,
            [("POST", "/", [(b"host", b"x"), (b"transfer-encoding", b"chunked")], b""), NEXT_SEEN],
            id="a trailer",
        ),
        pytest.param(b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + NEXT, [], id="chunks in HTTP/1.0"),
        pytest.param(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + NEXT, [], id="two codings"),
        pytest.param(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n" + NEXT, [], id="another coding"),
        pytest.param(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: identity\r\n\r\n" + NEXT, [], id="no coding"),
        pytest.param(CHUNKED[:-2] + b"content-length: 5\r\n\r\n0\r\n\r\n" + NEXT, [], id="chunks and a length"),
        pytest.param(b"POST / HTTP/1.1\r\ncontent-length: 5\r\n" + CHUNKED[17:] + b"0\r\n\r\n" + NEXT, [], id="a length and chunks"),
        pytest.param(b"POST / HTTP/1.1\r\nhost: x\r\n" + b"content-length: 1\r\n" * 2 + b"\r\na" + NEXT, [], id="two equal lengths"),
        pytest.param(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1, 1\r\n\r\na" + NEXT, [], id="a list of lengths"),
        pytest.param(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: +1\r\n\r\na" + NEXT, [], id="a signed length"),
        pytest.param(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999\r\n\r\na" + NEXT, [], id="an endless length"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: x\r\na: b\r\n c\r\n\r\n" + NEXT, [], id="a folded line"),
        pytest.param(b"GET / HTTP/1.1\nhost: x\n\n" + NEXT, [], id="bare line feeds"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: x\n\r\n" + NEXT, [], id="one bare line feed"),
        pytest.param(b"GET / HTTP/1.1\r\nhost : x\r\n\r\n" + NEXT, [], id="a space before a colon"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: x\r\na: b\rc\r\n\r\n" + NEXT, [], id="a bare carriage return"),
        pytest.param(CHUNKED + b"1\na\r\n0\r\n\r\n" + NEXT, [], id="a bare line feed behind a chunk size"),
        pytest.param(CHUNKED + b"1 \r\na\r\n0\r\n\r\n" + NEXT, [], id="a space behind a chunk size"),
        pytest.param(CHUNKED + b"0x1\r\na\r\n0\r\n\r\n" + NEXT, [], id="a chunk size with a prefix"),
        pytest.param(CHUNKED + b"1;\na\r\na\r\n0\r\n\r\n" + NEXT, [], id="a line feed in a chunk extension"),
        pytest.param(CHUNKED + b"1\r\nab\r\n0\r\n\r\n" + NEXT, [], id="a chunk longer than its size"),
        pytest.param(CHUNKED + b"fffffffffffffffff\r\na\r\n0\r\n\r\n" + NEXT, [], id="an endless chunk size"),
        pytest.param(CHUNKED + b"0\r\ncontent-length: 5\r\n\r\n" + NEXT, [], id="a length among the trailers"),
    ],
)
async def test_requests(edge, data, seen, size):
    """A request is read in one way only or refused, and nothing behind a refused one is read; how bytes arrive changes nothing."""
    await edge.send(*cut(data, [size] * (len(data) // size)))
    assert edge.seen == seen
    assert edge.wire.written.count(b"HTTP/1.1 200 ") == len(seen)
    assert edge.wire.written.count(b"HTTP/1.1 400 ") == (not seen)
    assert edge.wire.ended is (not seen)


@pytest.mark.anyio
async def test_a_refused_request_takes_the_answer_of_no_other(edge):
    """Malformed bytes behind a request in progress are refused after its answer, not instead of it."""
    await edge.send(NEXT.replace(b"next", b"wait") + b"garbage\r\n\r\n")
    assert edge.wire.written == b""
    edge.release.set()
    await until_idle()
    assert edge.wire.written.startswith(b"HTTP/1.1 200 ")
    assert edge.wire.written.count(b"HTTP/1.1 400 ") == 1


@pytest.mark.anyio
async def test_pipelined_requests_wait_as_bytes(edge):
    """While a request is in progress, what follows is neither parsed nor read."""
    await edge.send(NEXT.replace(b"next", b"wait") + NEXT * 5000, NEXT)
    assert edge.seen == []
    assert edge.wire.paused
    edge.release.set()
    await until_idle()
    assert len(edge.seen) == 5001
    assert not edge.wire.paused
    assert edge.wire.written.count(b"HTTP/1.1 200 ") == 5001


@pytest.mark.anyio
@pytest.mark.parametrize("end", [b"\r\n", b""], ids=["complete", "not complete"])
async def test_a_head_has_a_limited_number_of_fields(end):
    """As many as the limit are taken; one more is 431, in one read and before the head is complete, too."""
    edge = Edge(max_head_bytes=1_000_000)
    fields = b"a:\r\n" * MAX_FIELDS
    await edge.send(b"GET /next HTTP/1.1\r\nhost: x\r\n" + fields[4:] + b"\r\n")
    assert edge.wire.written.startswith(b"HTTP/1.1 200 ")
    await edge.send(b"GET /next HTTP/1.1\r\nhost: x\r\n" + fields + b"b:\r\nc:\r\n" + end)
    assert edge.wire.written.count(b"HTTP/1.1 431 ") == 1
    assert edge.wire.ended
    assert len(edge.seen) == 1
    await edge.close()


@pytest.mark.anyio
async def test_incomplete_heads_of_all_connections_are_bounded():
    """A head that does not fit in addition to the others is refused; complete and lost ones are not counted."""
    budget = HeadBudget(total=1000)
    other, edge = Edge(head_budget=budget), Edge(head_budget=budget)
    await other.send(NEXT + b"GET /next HTTP/1.1\r\nx: " + b"x" * 800)
    await edge.send(NEXT + b"GET /next HTTP/1.1\r\n")
    await edge.send(b"host: x\r\n\r\n")
    await edge.send(b"GET /next HTTP/1.1\r\nx: " + b"x" * 100, b"x" * 100)
    assert edge.wire.written.count(b"HTTP/1.1 200 ") == 2
    assert edge.wire.written.count(b"HTTP/1.1 503 ") == 1
    assert edge.wire.ended
    await other.close()
    await edge.close()
    assert budget.acquire("", 1000)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "way", [b"expect: 100-continue\r\n", b"connection: upgrade\r\nupgrade: websocket\r\n", b""], ids=["expect", "upgrade", "plain"]
)
async def test_a_body_of_a_refused_request_is_never_a_request(edge, way):
    """Bytes in the place of a body are not parsed as the next request, whatever the Connection header is."""
    await edge.send(REFUSED + way + b"content-length: %d\r\n\r\n" % len(NEXT), NEXT)
    assert NEXT_SEEN not in edge.seen


@pytest.mark.anyio
async def test_an_absolute_target_keeps_its_path(edge):
    """The form that proxies use is taken; its authority is the host that the application sees (RFC 9112, 3.2.2)."""
    await edge.send(NEXT.replace(b"/next", b"http://other/next"))
    assert edge.seen == [("GET", "/next", [(b"host", b"other")], b"")]


OVERSIZED = {
    "trailers": b"0\r\na: " + b"x" * 2 * MOST,
    "many trailers": b"0\r\n" + b"a: b\r\n" * MOST,
    "an extension": b"5;a=" + b"x" * 2 * MOST,
    "many extensions": (b"1;a=" + b"x" * 100 + b"\r\nz\r\n") * 500,
}


@pytest.mark.anyio
@pytest.mark.parametrize("what", OVERSIZED)
async def test_framing_has_the_limit_of_heads(edge, what):
    """Trailers and chunk extensions beyond the limit are answered with 431; the request in progress is told that its client is gone."""
    await edge.send(CHUNKED)
    for read in cut(OVERSIZED[what], [1000] * 1000):
        await edge.send(read)
    assert edge.wire.written.startswith(b"HTTP/1.1 431 ")
    assert edge.wire.ended
    assert edge.wire.paused
    assert (edge.seen, edge.disconnects) == ([], 1)


@pytest.mark.anyio
async def test_an_answer_in_progress_is_not_followed_by_a_refusal(edge):
    """Where the head of an answer is out, nothing but the end of the connection can say that the request was malformed."""
    await edge.send(CHUNKED.replace(b"/ ", b"/stream "), b"garbage\r\n")
    assert edge.wire.ended
    assert edge.wire.written.count(b"HTTP/1.1 ") == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param((b"",), id="nothing"),
        pytest.param((b"GET / HT",), id="half a head"),
        pytest.param((NEXT, b"GET / HT"), id="half a second head"),
        pytest.param((NEXT + b"GET / HT",), id="half a second head in the same read"),
        pytest.param((CHUNKED, b"5;a"), id="half an extension"),
        pytest.param((CHUNKED, b"0\r\na: b"), id="half a trailer section"),
        pytest.param((CHUNKED, b"0\r\na: b", b"\r\nc: d"), id="a trailer section that goes on"),
    ],
)
async def test_what_is_no_payload_must_come_in_time(edge, sent):
    """A head, an extension or a trailer section that does not end within the time limit ends the connection."""
    await edge.send(*filter(None, sent))
    edge.clock.advance(HEAD_SECONDS - 1)
    assert not edge.wire.closed
    await edge.send(b"x")
    edge.clock.advance(1)
    assert edge.wire.closed


@pytest.mark.anyio
async def test_payload_may_be_slow(edge):
    """Each part of a body begins the time of what follows it anew; that a body ends is for the timeout of requests."""
    await edge.send(CHUNKED)
    for _ in range(5):
        await edge.send(b"1\r\n")
        edge.clock.advance(HEAD_SECONDS - 1)
        await edge.send(b"a\r\n")
        edge.clock.advance(2 * HEAD_SECONDS)
    await edge.send(b"0\r\n\r\n")
    assert edge.seen[0][3] == b"aaaaa"
    assert not edge.wire.closed
