"""Where received bytes are cut, and which requests exceed the limits."""

from __future__ import annotations

import pytest

from kcp_py.serving.http1.limits import CHUNKED_SLICE_BYTES, DRAIN_BYTES, HEAD_SLICE_BYTES, OVERHEAD_PER_BYTE
from kcp_py.serving.http1.slices import CHUNKED, Slices
from kcp_py.serving.http1.states import State

MOST = 10_000
HEAD = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "end"),
    [
        pytest.param(HEAD, len(HEAD), id="alone"),
        pytest.param(HEAD + HEAD, len(HEAD), id="before another one"),
        pytest.param(HEAD[:-1], 0, id="not complete"),
        pytest.param(b"FOO" + HEAD[3:], 0, id="rare method"),
        pytest.param(b"\r\n" + HEAD, 0, id="behind an empty line"),
        pytest.param(HEAD[:-2] + b"a: " + b"x" * CHUNKED_SLICE_BYTES + b"\r\n\r\n", 0, id="long"),
    ],
)
def test_whole_heads(data, end):
    """Complete short heads of common methods need no further search."""
    assert Slices(MOST).whole_head(data) == end


def test_the_rest_of_a_head_is_no_whole_head():
    """A head that came in parts is not judged by its last part, which may look like a head of its own."""
    slices = Slices(MOST)
    assert slices.next(b"GET / HTTP/1.1\r\na: b\r", 0, State.IDLE) == 21
    assert slices.whole_head(HEAD) == 0
    slices.end_message()
    assert slices.whole_head(HEAD) == len(HEAD)


@pytest.mark.parametrize(
    ("length", "state", "data", "end"),
    [
        pytest.param(7, State.BODY, b"x" * 5, 5, id="a part of a body"),
        pytest.param(7, State.BODY, b"x" * 7 + HEAD, 7, id="a body before another request"),
        pytest.param(7, State.DRAINING, b"x" * 7 + HEAD, 7, id="a body that is not wanted"),
        pytest.param(None, State.BODY, b"0\r\n\r\n" + HEAD, 5, id="the end of a chunked body"),
        pytest.param(None, State.BODY, b"x" * (CHUNKED_SLICE_BYTES + 1), CHUNKED_SLICE_BYTES, id="a long part of a chunked body"),
        pytest.param(None, State.DRAINING, b"x" * (DRAIN_BYTES + 1), CHUNKED_SLICE_BYTES, id="a chunked body that is not wanted"),
    ],
)
def test_slices_of_bodies(length, state, data, end):
    """A slice ends with the body; slices of chunked bodies are short."""
    slices = Slices(MOST)
    slices.begin_body(length)
    assert slices.next(data, 0, state) == end
    assert slices.left == (CHUNKED if length is None else length - end)


def test_a_long_head_is_cut_and_then_refused():
    """Slices of a head have a longest length, and the head has one in all."""
    slices = Slices(HEAD_SLICE_BYTES * 2)
    data = b"x" * (HEAD_SLICE_BYTES * 3)
    ends = [slices.next(data, start, State.HEAD) for start in (0, HEAD_SLICE_BYTES, HEAD_SLICE_BYTES * 2)]
    assert ends == [HEAD_SLICE_BYTES, HEAD_SLICE_BYTES * 2, 0]
    assert slices.cut


@pytest.mark.parametrize(
    ("state", "payload", "taken"),
    [
        # The slices before it are judged: the limit may be exceeded by one.
        pytest.param(State.BODY, 0, MOST // 100 + 1, id="without payload"),
        pytest.param(State.BODY, 1, MOST // (99 - OVERHEAD_PER_BYTE) + 1, id="a byte of payload in each slice"),
        pytest.param(State.DRAINING, 0, DRAIN_BYTES // 100, id="behind the response"),
    ],
)
def test_framing_of_chunked_bodies_is_limited(state, payload, taken):
    """Bytes without payload in a row are limited, those in all in proportion to the payload, and those behind the response."""
    slices = Slices(MOST)
    slices.begin_body(None)
    data = b"x" * 100
    for _ in range(taken):
        assert slices.next(data, 0, state)
        if payload:
            slices.count_payload(payload)
    assert not slices.next(data, 0, state)


def test_payload_lifts_the_limit():
    """A chunked body of payload has no limit here."""
    slices = Slices(MOST)
    slices.begin_body(None)
    data = b"x" * CHUNKED_SLICE_BYTES
    for _ in range(100):
        assert slices.next(data, 0, State.BODY) == len(data)
        slices.count_payload(len(data) - 10)
    assert slices.gap == 0
