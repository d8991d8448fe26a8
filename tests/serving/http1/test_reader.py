"""Bytes and points in time in, events, holds and deadlines out: the reading side of a connection as tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kcp_py.serving.http1.events import ConnectionClosed, Data, EndOfMessage, Refusal, Request
from kcp_py.serving.http1.limits import (
    CHUNKED_SLICE_BYTES,
    DRAIN_BYTES,
    DRAIN_SECONDS,
    HEAD_SLICE_BYTES,
    MAX_FIELDS,
    OVERHEAD_PER_BYTE,
    UNREAD_BYTES,
    ReadLimits,
)
from kcp_py.serving.http1.reader import RequestReader
from kcp_py.serving.http1.states import Hold, State

MOST = 10_000
LIMITS = ReadLimits(max_head_bytes=MOST, head_timeout=32, idle_timeout=90)
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\n"
TEN = POST + b"content-length: 10\r\n\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
OTHER_METHODS = (b"FOO", b"get", b"GETS", b"G", b"PRI", b"CONNECT", b"TRACE", b"PROPFIND", b"DESCRIBE", b"a!#$%&'*+.^_`|~-9", b"X" * 64)
FOO = b"FOO" + GET[3:]
ENDLESS = POST + b"content-length: 1000000\r\n\r\n"


class Play:
    """A reader with a clock, driven by steps.

    Steps are bytes to receive, numbers of seconds that pass, and words: `want` the body, the response is `answered`, the client's `eof`,
    `resume` held bytes, with a `turn` or without. `told` has the events in short.
    """

    def __init__(self, *steps, limits=LIMITS):
        self.now = 0.0
        self.reader = RequestReader(limits, self.now)
        self.told = []
        self.play(*steps)

    def play(self, *steps):
        for step in steps:
            if isinstance(step, bytes):
                self.told += map(short, self.reader.receive(step, self.now))
            elif isinstance(step, (int, float)):
                self.now += step
            else:
                self.told += map(short, self._word(step))
        return self

    def _word(self, word):
        reader, now = self.reader, self.now
        steps = {
            "want": lambda: reader.want_body(now),
            "answered": lambda: reader.response_complete(now),
            "eof": lambda: reader.receive_eof(now),
            "resume": lambda: reader.resume(now),
            "turn": lambda: reader.resume(now, turn=True),
        }
        if word == "close":
            reader.close()
            return ()
        return steps[word]()

    def run(self):
        """Let the held bytes be parsed, whatever they wait for, and answer each request that is complete."""
        for _ in range(10_000):
            if self.reader.state is State.COMPLETE:
                self.play("answered")
            elif self.reader.hold is None:
                break
            self.play("want", "turn")
        return self


def short(event):
    """An event as one value: a request as its method and target, data as it is, a refusal as its status."""
    if isinstance(event, Request):
        return f"{event.method.decode()} {event.raw_path.decode()}"
    if isinstance(event, Data):
        return event.data
    if isinstance(event, Refusal):
        return int(event.response.split()[1]) if event.response else 0
    return {EndOfMessage: "end", ConnectionClosed: "closed"}[type(event)]


def merged(told):
    """The events with neighbouring parts of a body put together."""
    found: list[Any] = []
    for event in told:
        if isinstance(event, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += event
        else:
            found.append(event)
    return found


EXCHANGES = [
    pytest.param(GET, ["GET /", "end"], id="a request without a body"),
    pytest.param(GET * 3, ["GET /", "end"] * 3, id="pipelined requests"),
    pytest.param(b"\r\n\r\n" + GET, ["GET /", "end"], id="empty lines before a request"),
    pytest.param(TEN + b"0123456789" + GET, ["POST /", b"0123456789", "end", "GET /", "end"], id="a body of known length"),
    pytest.param(TEN + b"012\r\n\r\n789", ["POST /", b"012\r\n\r\n789", "end"], id="a blank line in a body of known length"),
    pytest.param(
        CHUNKED + b"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n" + GET, ["POST /", b"abcdefg", "end", "GET /", "end"], id="a chunked body"
    ),
    pytest.param(CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\n", ["POST /", b"\r\n\r\n", "end"], id="a blank line in a chunk"),
    pytest.param(CHUNKED + b"0\r\nauthorization: t\r\n\r\n" + GET, ["POST /", "end", "GET /", "end"], id="trailers"),
    pytest.param(GET[:-2] + b"upgrade: h2c\r\nconnection: upgrade\r\n\r\n" + GET, ["GET /", "end"] * 2, id="an upgrade is ignored"),
    pytest.param(GET[:-2] + b"expect: 100-continue\r\n\r\n", ["GET /", "end"], id="an expectation without a body"),
    pytest.param(GET[:-2] + b"expect: x\r\n\r\n" + GET, [417], id="an unknown expectation"),
    pytest.param(b"GET  / HTTP/1.1\r\nhost: x\r\n\r\n" + GET, [400], id="two spaces behind the method"),
    pytest.param(b"\r\nGET /  HTTP/1.1\r\nhost: x\r\n\r\n" + GET, [400], id="two spaces behind the target"),
    pytest.param(b"GET / HTTP/1.1\r\nhost: x\r\na:  b  c\r\n\r\n", ["GET /", "end"], id="spaces in a value"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n" + GET, [400], id="no Host"),
    pytest.param(GET + b"GET / HTTP/1.1\r\n\r\n" + GET, ["GET /", "end", 400], id="no Host behind a request with one"),
    pytest.param(GET + b"GET / HTTP/1.1\r\nhost: x\r\nhost: x\r\n\r\n", ["GET /", "end", 400], id="two Hosts behind one"),
    pytest.param(GET + b"GET / HTTP/1.2\r\nhost: x\r\n\r\n", ["GET /", "end", 400], id="another version behind a request"),
    pytest.param(b"GET / HTTP/1.1\r\nhost: a b\r\n\r\n" + GET, [400], id="a space in Host"),
    pytest.param(b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % 2**63 + GET, [400], id="a length of 2^63"),
    pytest.param(b"GET /#a HTTP/1.1\r\nhost: x\r\n\r\n" + GET, [400], id="a fragment"),
    pytest.param(b"garbage\r\n\r\n" + GET, [400], id="no request"),
    pytest.param(GET + b"garbage\r\n\r\n" + GET, ["GET /", "end", 400], id="no request behind one"),
    pytest.param(POST + b"upgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 2\r\n\r\nab" + GET, [400], id="an upgrade with a body"),
    *[
        pytest.param(
            method + GET[3:] + method + TEN[4:] + b"0123456789" + GET,
            [f"{method.decode()} /", "end", f"{method.decode()} /", b"0123456789", "end", "GET /", "end"],
            id=f"the method {method.decode()}",
        )
        for method in OTHER_METHODS
    ],
    pytest.param(b"\r\n" + FOO + GET, ["FOO /", "end", "GET /", "end"], id="another method behind an empty line"),
    pytest.param(
        b"FOO / HTTP/1.1\r\nhost: x\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n" + GET,
        ["FOO /", "end", "GET /", "end"],
        id="an upgrade with another method",
    ),
    pytest.param(b"FOO  / HTTP/1.1\r\nhost: x\r\n\r\n" + GET, [400], id="two spaces behind another method"),
    pytest.param(b"FOO / HTTP/1.1\r\n\r\n" + GET, [400], id="no Host with another method"),
    pytest.param(b"F(O" + GET[3:] + GET, [400], id="a method that is no token"),
    pytest.param(b"GET\t" + GET[3:] + GET, [400], id="a tab behind the method"),
    pytest.param(b" " + GET, [400], id="a space before the method"),
    pytest.param(b"F\xc3\x96" + GET[3:] + GET, [400], id="a method that is not ASCII"),
    pytest.param(b"X" * 65 + GET[3:] + GET, [400], id="a method that is too long"),
    pytest.param(POST + b"a: b\r\n" * (MAX_FIELDS + 1) + b"\r\n" + GET, [431], id="too many fields"),
    pytest.param(POST + b"a: " + b"x" * 200_000 + b"\r\n\r\n" + GET, [431], id="a head that is too large"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000, 1_000_000], ids=lambda size: f"in reads of {size}")
@pytest.mark.parametrize(("data", "told"), EXCHANGES)
def test_events(data, told, size):
    """Equal bytes give equal events, however they are cut into reads; nothing behind a refusal is read."""
    play = Play(limits=LIMITS._replace(max_head_bytes=150_000))
    if len(data) > MOST:
        size = max(size, 1000)
    for start in range(0, len(data), size):
        play.play(data[start : start + size]).run()
    assert merged(play.told) == told


def test_what_a_request_says():
    """A request has the data of its head: path and query separately, names in lower case, the framing of the body."""
    reader = RequestReader(LIMITS, 0)
    head = b"PUT /a%20b?c=d HTTP/1.1\r\nHost: x\r\nX-A: B\r\nContent-Length: 3\r\nExpect: 100-Continue\r\nConnection: close\r\n\r\n"
    [request] = list(reader.receive(head, 0))
    assert isinstance(request, Request)
    assert (request.method, request.raw_path, request.query, request.version) == (b"PUT", b"/a%20b", b"c=d", "1.1")
    assert request.headers[:2] == [(b"host", b"x"), (b"x-a", b"B")]
    assert (request.length, request.expects_continue, request.keep_alive, request.upgrade) == (3, True, False, False)


def test_trailers_are_no_headers():
    """No field of a trailer section is added to the headers of its request."""
    reader = RequestReader(LIMITS, 0)
    [request] = list(reader.receive(CHUNKED, 0))
    assert isinstance(request, Request)
    reader.want_body(0)
    reader.receive(b"0\r\nauthorization: t\r\n\r\n", 0)
    assert reader.state is State.COMPLETE
    assert [name for name, _ in request.headers] == [b"host", b"transfer-encoding"]


HEAD_END = 32
STATES = [
    pytest.param([], State.OPENED, HEAD_END, id="a new connection owes a head"),
    pytest.param([5, b"\r\n"], State.OPENED, HEAD_END, id="an empty line is none"),
    pytest.param([5, b"GET / HT"], State.HEAD, HEAD_END, id="in the first head"),
    pytest.param([TEN], State.BODY, None, id="behind a head"),
    pytest.param([TEN, b"123"], State.BODY, None, id="in a body of known length"),
    pytest.param([CHUNKED, "want"], State.BODY, None, id="before the first chunk"),
    pytest.param([CHUNKED, "want", 5, b"5;a"], State.BODY, 5 + 32, id="in a chunk extension"),
    pytest.param([CHUNKED, "want", b"5;a", 5, b"=b"], State.BODY, 32, id="further on in it"),
    pytest.param([CHUNKED, "want", b"5\r\n", 5, b"12"], State.BODY, None, id="in a chunk"),
    pytest.param([CHUNKED, "want", b"0\r\na: b"], State.BODY, 32, id="in a trailer section"),
    pytest.param([GET], State.COMPLETE, None, id="waiting for the response"),
    pytest.param([GET, 5, "answered"], State.IDLE, 5 + 90, id="between two requests"),
    pytest.param([GET, "answered", 5, b"\r\n"], State.IDLE, 90, id="an empty line between them"),
    pytest.param([GET, "answered", 5, b"GET"], State.HEAD, 5 + 32, id="in the second head"),
    pytest.param([GET + b"GET", 5, "answered", "resume"], State.HEAD, 5 + 32, id="in the second head, received with the first"),
    pytest.param([TEN, 5, "answered"], State.DRAINING, 5 + DRAIN_SECONDS, id="answered before the end"),
    pytest.param([TEN, "answered", 3, b"12345"], State.DRAINING, DRAIN_SECONDS, id="the rest comes slowly"),
    pytest.param([TEN, "answered", 3, b"1234567890"], State.IDLE, 3 + 90, id="the rest has come"),
    pytest.param([CHUNKED, "answered", b"0\r\n\r\n"], State.IDLE, 90, id="a chunked rest has come"),
    pytest.param([TEN, "close"], State.CLOSED, None, id="closed"),
    pytest.param([b"garbage\r\n\r\n"], State.CLOSED, None, id="refused"),
]


@pytest.mark.parametrize(("steps", "state", "deadline"), STATES)
def test_states_and_deadlines(steps, state, deadline):
    """Each state has the deadline that ends it, and none where the server itself is awaited."""
    play = Play(*steps)
    assert (play.reader.state, play.reader.deadline) == (state, deadline)


HOLDS = [
    pytest.param([GET + b"GET"], Hold.RESPONSE, ["GET /", "end"], id="a pipelined request"),
    pytest.param([GET + GET, "answered", "resume"], None, ["GET /", "end"] * 2, id="a pipelined request behind the response"),
    pytest.param([CHUNKED + b"1\r\na\r\n"], Hold.BODY, ["POST /"], id="a chunked body before it is wanted"),
    pytest.param([CHUNKED + b"1\r\na\r\n", "want"], None, ["POST /", b"a"], id="a chunked body that is wanted"),
    pytest.param([CHUNKED.replace(b"POST", b"GET") + b"1\r\na\r\n"], None, ["GET /", b"a"], id="a body of GET is never wanted, and read"),
    pytest.param([CHUNKED + b"1\r\na\r\n", "answered"], Hold.BODY, ["POST /"], id="answered before the body was wanted"),
    pytest.param([CHUNKED + b"1\r\na\r\n", "answered", "resume"], None, ["POST /"], id="its rest is dropped"),
    pytest.param([CHUNKED, "want", b"1\r\na\r\n" * 10_000], Hold.TURN, None, id="a flood of chunks"),
    pytest.param([b"GET / HTTP/1.1\r\na: " + b"x" * HEAD_SLICE_BYTES], Hold.HEAD_TURN, [], id="a large head"),
    pytest.param([b"GET / HTTP/1.1\r\na: " + b"x" * HEAD_SLICE_BYTES, "turn"], None, [], id="a large head with a turn"),
    pytest.param(
        [CHUNKED, "want", b"0\r\na: " + b"x" * CHUNKED_SLICE_BYTES], Hold.FRAMING_TURN, ["POST /"], id="a body that brings no payload"
    ),
    pytest.param([GET + b"GET", "close"], None, ["GET /", "end"], id="closed"),
]


@pytest.mark.parametrize(("steps", "hold", "told"), HOLDS)
def test_holds(steps, hold, told):
    """Bytes that must not be parsed yet are kept with the reason, and none is lost."""
    play = Play(*steps, limits=LIMITS._replace(max_head_bytes=1_000_000))
    assert play.reader.hold is hold
    if told is not None:
        assert play.told == told


def test_held_bytes_are_returned():
    """The next protocol of the connection gets the bytes that were not parsed."""
    play = Play(GET[:-2] + b"upgrade: websocket\r\nconnection: upgrade\r\n\r\nab", b"c")
    assert play.told == ["GET /", "end"]
    assert play.reader.close() == b"abc"


FLOOD = b"1\r\na\r\n" * 40_000


def test_a_flood_of_chunks_takes_turns():
    """Eight slices are parsed in a turn; in the end nothing is missing."""
    play = Play(CHUNKED, "want", FLOOD)
    turns = 0
    while play.reader.hold is Hold.TURN:
        play.play("resume")
        turns += 1
    assert turns > 1
    assert merged(play.told) == ["POST /", b"a" * 40_000]


BEGINNING = b"GET / HTTP/1.1\r\nhost: x\r\n"
LIMITED = [
    pytest.param([b"x" * MOST], 400, id="a beginning of the limit is parsed"),
    pytest.param([b"x" * (MOST + 1)], 431, id="a beginning above it is not"),
    pytest.param([BEGINNING + b"a: ", b"x" * MOST], None, id="as much behind the beginning"),
    pytest.param([BEGINNING + b"a: ", b"x" * (MOST + 1)], 431, id="more behind the beginning"),
    pytest.param([BEGINNING + b"a: ", b"x" * MOST, b"x"], 431, id="a head that grows"),
    pytest.param([CHUNKED, "want", b"5;" + b"x" * 4000, b"x" * 4000, b"x" * 1998, b"x"], None, id="an extension of the limit"),
    pytest.param([CHUNKED, "want", b"5;" + b"x" * 4000, b"x" * 4000, b"x" * 1999, b"x"], 431, id="an extension above it"),
    pytest.param([CHUNKED, "want", b"0\r\n", *[b"a: " + b"x" * 3000 + b"\r\n"] * 4, b"b"], 431, id="trailers above it"),
    pytest.param([ENDLESS, b"x" * 900_000], None, id="payload has no limit here"),
    pytest.param([ENDLESS, "answered", b"x" * DRAIN_BYTES], None, id="the rest of an answered request"),
    pytest.param([ENDLESS, "answered", b"x" * (DRAIN_BYTES + 1)], 0, id="more of it"),
    pytest.param([ENDLESS, "answered", b"x" * DRAIN_BYTES, b"x"], 0, id="more of it, later"),
    pytest.param([CHUNKED, "answered", b"0\r\n" + b"a: b\r\n" * 3000], 0, id="trailers behind the response"),
    pytest.param([CHUNKED, "answered", b"garbage\r\n"], 0, id="no chunk behind the response"),
]


@pytest.mark.parametrize(("steps", "refused"), LIMITED)
def test_limits(steps, refused):
    """Each state has its limit; behind a response nothing is answered any more."""
    play = Play()
    for step in steps:
        play.play(step)
        while play.reader.hold is Hold.FRAMING_TURN:
            play.play("turn")
    refusals = [event for event in play.told if isinstance(event, int)]
    assert refusals == ([] if refused is None else [refused])
    assert (play.reader.state is State.CLOSED) is (refused is not None)


def test_framing_is_limited_by_the_payload_that_it_brings():
    """Chunks of one byte without extensions pass without end; with long extensions they do not."""
    limits = LIMITS._replace(max_head_bytes=100)
    plain = Play(CHUNKED, "want", *[b"1\r\na\r\n"] * 1000, limits=limits)
    assert plain.reader.state is State.BODY
    padded = Play(CHUNKED, "want", limits=limits)
    chunks = 0
    while padded.reader.state is State.BODY:
        padded.play(b"1;" + b"x" * 50 + b"\r\na\r\n")
        chunks += 1
    assert chunks <= 100 / (50 - OVERHEAD_PER_BYTE) + 2


ENDS = [
    pytest.param(["eof"], ["closed"], id="a new connection"),
    pytest.param([GET, "answered", "eof"], ["GET /", "end", "closed"], id="an idle one"),
    pytest.param([b"GET /", "eof"], ["closed"], id="in a head"),
    pytest.param([TEN + b"123", "eof"], ["POST /", b"123", "closed"], id="in a body"),
    pytest.param([TEN, "answered", "eof"], ["POST /", "closed"], id="in a rest"),
    pytest.param([GET, "eof"], ["GET /", "end"], id="before the response"),
    pytest.param([GET, "eof", "answered"], ["GET /", "end", "closed"], id="before the response, and then behind it"),
    pytest.param([GET + GET, "eof", "answered", "resume", "answered"], ["GET /", "end"] * 2 + ["closed"], id="with a pipelined request"),
    pytest.param([GET + b"GET", "eof", "answered", "resume"], ["GET /", "end", "closed"], id="with half a pipelined request"),
    pytest.param([CHUNKED + b"1\r\na\r\n0\r\n\r\n", "eof", "want"], ["POST /", b"a", "end"], id="with a body that is not wanted yet"),
    pytest.param([CHUNKED + b"1\r\na\r\n", "eof", "want"], ["POST /", b"a", "closed"], id="with a part of one"),
    pytest.param([b"garbage\r\n\r\n", "eof"], [400], id="behind a refusal"),
]


@pytest.mark.parametrize(("steps", "told"), ENDS)
def test_the_client_ends_its_side(steps, told):
    """A client that has sent its requests may close its side and still gets its responses; half a request gets none."""
    play = Play(*steps)
    assert play.told == told
    assert (play.reader.state is State.CLOSED) is (told[-1] in {"closed", 400})


@pytest.mark.parametrize(
    ("data", "long"),
    [
        pytest.param(TEN, False, id="a short body"),
        pytest.param(POST + b"content-length: %d\r\n\r\n" % DRAIN_BYTES, False, id="a body of the limit"),
        pytest.param(POST + b"content-length: %d\r\n\r\n" % (DRAIN_BYTES + 1), True, id="a body above it"),
        pytest.param(CHUNKED, False, id="chunks of which nothing has come"),
        pytest.param(CHUNKED + b"x" * UNREAD_BYTES, False, id="some chunks"),
        pytest.param(CHUNKED + b"x" * (UNREAD_BYTES + 1), True, id="many chunks"),
    ],
)
def test_long_bodies(data, long):
    """Before a response begins it is decided whether the rest of the request will be read."""
    assert Play(data).reader.long_body is long


@pytest.mark.parametrize(
    ("steps", "count"),
    [
        pytest.param([b"GET / HT"], 8, id="half a head"),
        pytest.param([b"GET / HT", b"TP"], 10, id="in two reads"),
        pytest.param([GET], 0, id="a complete head"),
        pytest.param([b"GET / HT", GET[8:]], 0, id="a head that is complete now"),
        pytest.param([GET, "answered", b"GET"], 3, id="the next head"),
        pytest.param([b"GET / HT", "close"], 0, id="closed"),
    ],
)
def test_bytes_of_incomplete_heads(steps, count):
    """The bytes of heads count for as long as the heads are not complete."""
    assert Play(*steps).reader.head_bytes == count


@given(
    data=st.lists(
        st.sampled_from([GET, TEN, b"0123456789", CHUNKED, b"1\r\na\r\n", b"0\r\n\r\n", b"\r\n", b"a: b\r\n", b"G", FOO]), max_size=8
    ).map(b"".join),
    cuts=st.lists(st.integers(1, 40), max_size=12),
)
@example(data=CHUNKED + b"1\r\na\r\n" + GET, cuts=[20, 40])
def test_reads_change_nothing(data, cuts):
    """Whatever a client sends, the events are the same for one read as for many."""
    whole, parts = Play(), Play()
    if data:
        whole.play(data).run()
    at = 0
    for cut in [*cuts, len(data)]:
        if data[at : at + cut]:
            parts.play(data[at : at + cut]).run()
        at += cut
    assert merged(parts.told) == merged(whole.told)


def test_the_host_of_an_absolute_target_counts():
    """A proxy that reads the target and a server that reads the Host field must not mean different hosts."""
    reader = RequestReader(LIMITS, 0.0)
    head = b"GET http://team-a.kcp.example:6443/api HTTP/1.1\r\nHost: team-b.kcp.example\r\nX-A: b\r\n\r\n"
    [request, *_] = list(reader.receive(head, 0.0))
    assert isinstance(request, Request)
    assert request.raw_path == b"/api"
    assert [value for name, value in request.headers if name == b"host"] == [b"team-a.kcp.example:6443"]
    assert (b"x-a", b"b") in request.headers
