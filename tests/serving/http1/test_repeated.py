"""Requests whose header section a connection has seen before are read as the parser reads them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kcp_py.serving.http1.events import Data, EndOfMessage, Refusal, Request
from kcp_py.serving.http1.limits import CHUNKED_SLICE_BYTES, DRAIN_BYTES, HEAD_SLICE_BYTES, ReadLimits
from kcp_py.serving.http1.reader import RequestReader
from kcp_py.serving.http1.repeated import RepeatedFields
from kcp_py.serving.http1.states import State

LIMITS = ReadLimits(max_head_bytes=100_000, head_timeout=32, idle_timeout=90)
SECTION = b"Host: x\r\nAuthorization: Bearer t \r\nAccept: */*\r\n\r\n"
FIELDS = [(b"host", b"x"), (b"authorization", b"Bearer t"), (b"accept", b"*/*")]
GET = b"GET /a HTTP/1.1\r\n" + SECTION


def request(line=b"GET /a HTTP/1.1\r\n", **changes):
    method, target, _ = line.split()
    given = {"version": "1.1", "headers": list(FIELDS), "length": 0, "expects_continue": False, "keep_alive": True, "upgrade": False}
    return Request(method, *target.partition(b"?")[::2], **{**given, **changes})


def seen(event):
    if isinstance(event, Request):
        return tuple(getattr(event, name) for name in Request.__slots__)
    if isinstance(event, Data):
        return event.data
    return event.response if isinstance(event, Refusal) else type(event)


def state_of(reader):
    return reader.state, reader.hold, reader.deadline, reader.long_body, reader.head_bytes


def taught(section=SECTION, times=2):
    """A reader that has read requests with the section."""
    reader = RequestReader(LIMITS, 0.0)
    for _ in range(times):
        told = list(map(seen, reader.receive(b"GET / HTTP/1.1\r\n" + section, 1.0)))
        assert told[1:] == [EndOfMessage]
        reader.response_complete(2.0)
    assert reader.state is State.IDLE
    return reader


def fresh():
    """A reader in the same state that has seen another section."""
    return taught(b"Host: y\r\n\r\n", times=1)


SECTIONS = st.sampled_from(
    [
        SECTION,
        b"Host: x\r\n\r\n",
        b"Host: x\r\nContent-Length: 0\r\n\r\n",
        b"Host: x\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n\r\n",
    ]
)
ODD_TARGETS = [b"/", b"/a?b=c?d", b"/a#b", b"//", b"*", b"http://y/a", b"/\xc3\xa9", b"/%2e", b"a", b"", b"/a b", b"/" + b"a" * 5000]
TARGETS = st.one_of(st.sampled_from(ODD_TARGETS), st.binary(max_size=8).map(lambda text: b"/" + text), st.binary(max_size=8))
METHODS = st.sampled_from([b"GET", b"HEAD", b"DELETE", b"POST", b"PUT", b"OPTIONS", b"CONNECT", b"get", b"PRI", b"G", b"", b"\r\nGET"])
VERSIONS = st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"http/1.1", b"", b"HTTP/1.1 "])


LINES = st.builds(
    lambda *parts: b"%b %b %b%b" % parts, METHODS, TARGETS, VERSIONS, st.sampled_from([b"\r\n", b"\n", b"\r", b"\r\nContent-Length: 5\r\n"])
)


@given(section=SECTIONS, line=LINES, rest=st.sampled_from([b"", GET]))
@example(section=SECTION, line=b"GET /a?b HTTP/1.1\r\n", rest=b"")
@example(section=SECTION, line=b"GET / HTTP/1.1\r\nX: / HTTP/1.1\r\n", rest=b"")
def test_as_the_parser_reads_it(section, line, rest):
    """Whatever stands before a known section or behind it, the events and the state are those of a reader that does not know it."""
    data = line + section + rest
    knowing, other = taught(section), fresh()
    assert list(map(seen, knowing.receive(data, 3.0))) == list(map(seen, other.receive(data, 3.0)))
    assert state_of(knowing) == state_of(other)
    # The next request is read from the same state, too.
    assert list(map(seen, knowing.response_complete(4.0))) == list(map(seen, other.response_complete(4.0)))
    assert state_of(knowing) == state_of(other)
    assert list(map(seen, knowing.resume(5.0))) == list(map(seen, other.resume(5.0)))
    post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab"
    if knowing.state is State.IDLE:
        assert list(map(seen, knowing.receive(post, 6.0))) == list(map(seen, other.receive(post, 6.0)))


@given(cuts=st.lists(st.integers(1, 30), max_size=6), other=st.booleans())
def test_parts_of_a_request(cuts, other):
    """A request that comes in parts is parsed, and what follows it is read like any other."""
    reader = taught()
    data = b"GET /a HTTP/1.1\r\n" + (SECTION.replace(b"t ", b"u ") if other else SECTION)
    told: list[object] = []
    at = 0
    for cut in (*cuts, len(data)):
        if part := data[at : at + cut]:
            told += map(seen, reader.receive(part, 3.0))
        at += cut
    token = b"Bearer u" if other else b"Bearer t"
    assert told == [seen(request(headers=[FIELDS[0], (b"authorization", token), FIELDS[2]])), EndOfMessage]
    reader.response_complete(4.0)
    assert list(map(seen, reader.receive(GET, 5.0))) == [seen(request()), EndOfMessage]


def test_it_is_recognized():
    """The section is kept when it comes the second time, and read from then on; each request has a list of headers of its own."""
    fields = RepeatedFields()
    fields.learn(GET, request())
    assert not fields.known
    fields.learn(b"DELETE /b HTTP/1.1\r\n" + SECTION, request(b"DELETE /b HTTP/1.1\r\n"))
    assert fields.known
    found = [fields.read(b"%b /c?d=e HTTP/1.1\r\n" % method + SECTION) for method in (b"GET", b"HEAD", b"DELETE")]
    assert [list(map(seen, one)) for one in found if one] == [
        [seen(request(b"%b /c?d=e HTTP/1.1" % method)), EndOfMessage] for method in (b"GET", b"HEAD", b"DELETE")
    ]
    found[0][0].headers.clear()
    assert fields.read(GET)[0].headers == FIELDS
    fields.forget()
    assert not fields.known


@pytest.mark.parametrize(
    ("data", "given"),
    [
        pytest.param(GET, {"version": "1.0"}, id="another version"),
        pytest.param(GET, {"keep_alive": False}, id="the last request"),
        pytest.param(GET, {"upgrade": True}, id="an upgrade"),
        pytest.param(b"POST /a HTTP/1.1\r\n" + SECTION, {}, id="a method with bodies"),
        pytest.param(b"GET http://y/a HTTP/1.1\r\n" + SECTION, {}, id="a target that changes the headers"),
        pytest.param(GET[:-2] + b"a: %b\r\n\r\n" % (b"b" * CHUNKED_SLICE_BYTES), {}, id="a long head"),
    ],
)
def test_it_is_not_kept(data, given):
    """Sections of requests whose meaning is not that of the section alone are not kept, however often they come."""
    fields = RepeatedFields()
    for _ in range(3):
        fields.learn(data, request(data[: data.find(b"\n") + 1], **given))
    assert not fields.known


def test_a_long_target():
    """A request above the length of one slice is read with all limits."""
    reader = RequestReader(ReadLimits(max_head_bytes=5000, head_timeout=32, idle_timeout=90), 0.0)
    for _ in range(3):
        reader.receive(GET, 0.0)
        reader.response_complete(0.0)
    told = reader.receive(b"GET /%b HTTP/1.1\r\n" % (b"a" * 6000) + SECTION, 0.0)
    assert [type(event) for event in told] == [Refusal]


@pytest.mark.parametrize("last", [b"GET / HTTP/1.0\r\nHost: x\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"])
def test_nothing_follows_the_last_request(last):
    """Behind a request that ends the connection, a known section is ignored, as the parser ignores it."""
    knowing, other = taught(), fresh()
    for reader in (knowing, other):
        assert list(map(type, reader.receive(last, 3.0))) == [Request, EndOfMessage]
        reader.response_complete(4.0)
        assert reader.receive(GET, 5.0) == []
    assert state_of(knowing) == state_of(other)


def test_behind_empty_lines():
    """Behind more empty lines than one slice has, known requests and large heads are read as by a reader that knows nothing."""
    knowing, other = taught(), fresh()
    large = b"GET /b HTTP/1.1\r\nHost: x\r\nX: %b\r\n\r\n" % (b"a" * (HEAD_SLICE_BYTES - 100))
    for data in (b"\n" * (HEAD_SLICE_BYTES + 1), b"\r\n\r\n", GET, large):
        assert list(map(seen, knowing.receive(data, 3.0))) == list(map(seen, other.receive(data, 3.0)))
        assert state_of(knowing) == state_of(other)
        while knowing.hold is not None:
            assert list(map(seen, knowing.resume(3.0, turn=True))) == list(map(seen, other.resume(3.0, turn=True)))
            assert state_of(knowing) == state_of(other)
        knowing.response_complete(4.0)
        other.response_complete(4.0)
    assert (knowing.state, other.state) == (State.IDLE, State.IDLE)


def test_a_watch_keeps_nothing():
    """Behind `forget_fields` the next request is parsed, with the same result."""
    reader = taught()
    reader.forget_fields()
    assert list(map(seen, reader.receive(GET, 3.0))) == [seen(request()), EndOfMessage]


WRITE = b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nContent-Type: application/json\r\n\r\n%b"
WRITE_SECTIONS = [
    b"Host: x\r\nContent-Length: %b\r\nContent-Type: application/json\r\n\r\n",
    b"Host: x\r\ncontent-LENGTH:\t%b\r\n\r\n",
    b"Content-Length: %b\r\nHost: x\r\n\r\n",
    b"Host: x\r\nContent-Length: %b \r\n\r\n",
    b"Host: x\r\nX: Content-Length: 5\r\nContent-Length: %b\r\n\r\n",
    b"Host: x\r\nContent-Length: %b\r\nExpect: 100-continue\r\n\r\n",
    b"Host: x\r\nContent-Length: %b\r\nConnection: close\r\n\r\n",
    b"Host: x\r\nContent-Length: %b\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
]
SIZES = st.one_of(
    st.integers(0, 40).map(lambda size: b"%d" % size),
    st.sampled_from([b"", b"007", b"+7", b"7 ", b" 7", b"7,7", b"7\r\nContent-Length: 7", b"7\r\nTransfer-Encoding: chunked", b"1_0"]),
    st.sampled_from([b"%d" % (DRAIN_BYTES + 1), b"1000000000", b"99999999999999999999", b"\xb2", b"\xd9\xa3"]),
)


def taught_to_write(section, times=2, body=b"0123456789"):
    """A reader that has read requests with bodies and the section, and in between those without."""
    reader = RequestReader(LIMITS, 0.0)
    for _ in range(times):
        reader.receive(b"PUT / HTTP/1.1\r\n" + section % (b"%d" % len(body)) + body, 1.0)
        reader.response_complete(2.0)
        if reader.state is State.IDLE:
            reader.receive(GET, 2.0)
            reader.response_complete(2.0)
    return reader


@given(
    section=st.sampled_from(WRITE_SECTIONS),
    line=LINES,
    size=st.one_of(st.none(), SIZES),
    content=st.tuples(
        st.one_of(st.binary(max_size=40), st.just(b"a" * (DRAIN_BYTES + 1)), st.just(GET)), st.sampled_from([b"", GET, b"\r\n"])
    ),
)
@example(section=WRITE_SECTIONS[0], line=b"PUT /a?b HTTP/1.1\r\n", size=None, content=(b"{}", b""))
@example(section=WRITE_SECTIONS[0], line=b"PUT /a?b HTTP/1.1\r\n", size=None, content=(b"{}", GET))
@example(section=WRITE_SECTIONS[0], line=b"POST / HTTP/1.1\r\n", size=None, content=(b"a" * (DRAIN_BYTES + 1), b""))
@example(section=WRITE_SECTIONS[0], line=b"PATCH / HTTP/1.1\r\n", size=b"007", content=(b"1234567", b""))
def test_a_body_as_the_parser_reads_it(section, line, size, content):
    """A request with a body and a known section has the events and the state of a reader that knows nothing, whatever its length says."""
    body, rest = content
    data = line + section % (b"%d" % len(body) if size is None else size) + body + rest
    knowing, other = taught_to_write(section), fresh()
    if knowing.state is not State.IDLE:
        return
    assert list(map(seen, knowing.receive(data, 3.0))) == list(map(seen, other.receive(data, 3.0)))
    assert state_of(knowing) == state_of(other)
    for step in (4.0, 5.0):
        assert list(map(seen, knowing.response_complete(step))) == list(map(seen, other.response_complete(step)))
        assert state_of(knowing) == state_of(other)
        assert list(map(seen, knowing.resume(step))) == list(map(seen, other.resume(step)))
        assert state_of(knowing) == state_of(other)
    if knowing.state is State.IDLE:
        assert list(map(seen, knowing.receive(WRITE % (2, b"ab"), 6.0))) == list(map(seen, other.receive(WRITE % (2, b"ab"), 6.0)))


@given(cuts=st.lists(st.integers(1, 60), max_size=6), body=st.binary(min_size=1, max_size=30))
def test_parts_of_a_body(cuts, body):
    """A request with a known section that comes in parts is parsed, and the next one is recognized."""
    reader, data = taught_to_write(WRITE_SECTIONS[0]), WRITE % (len(body), body)
    told = []
    at = 0
    for cut in (*cuts, len(data)):
        if part := data[at : at + cut]:
            told += reader.receive(part, 3.0)
        at += cut
    assert b"".join(event.data for event in told if isinstance(event, Data)) == body
    assert [type(event) for event in told if not isinstance(event, Data)] == [Request, EndOfMessage]
    reader.response_complete(4.0)
    assert list(map(type, reader.receive(WRITE % (3, b"abc"), 5.0))) == [Request, Data, EndOfMessage]


def test_a_section_with_a_body_is_recognized():
    """The length of the body may change, a section without a body is kept, too, and each request has a list of headers of its own."""
    fields = RepeatedFields()
    for text in (b"ab", b"abcdefghijk"):
        head = WRITE % (len(text), b"")
        headers = [(b"host", b"x"), (b"content-length", b"%d" % len(text)), (b"content-type", b"application/json")]
        assert fields.read(head + text) is None
        fields.learn(head, request(b"PUT /a HTTP/1.1", headers=headers, length=len(text)))
        fields.learn(GET, request())
    found = fields.read(WRITE.replace(b"PUT", b"PATCH") % (3, b"abc"))
    assert found is not None
    assert list(map(seen, found)) == [
        seen(request(b"PATCH /a HTTP/1.1", headers=[headers[0], (b"content-length", b"3"), headers[2]], length=3)),
        b"abc",
        EndOfMessage,
    ]
    found[0].headers.clear()
    again = fields.read(WRITE % (1, b"a"))
    assert again is not None
    assert again[0].headers == [headers[0], (b"content-length", b"1"), headers[2]]
    assert fields.read(GET) is not None
    fields.forget()
    assert fields.read(WRITE % (1, b"a")) is None
