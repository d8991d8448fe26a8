"""What is read of a client: where pieces end, which limits they have, which timer runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.serving.intake import (
    BODY,
    CLOSED,
    DRAIN_BYTES,
    DRAIN_TIMER,
    DRAINING,
    HEAD,
    HEAD_TIMER,
    NO_TIMER,
    OVERHEAD_PER_BYTE,
    PIECE_BYTES,
    WAITING,
    Intake,
)

MOST = 100
"""The limit of heads in these tests."""


def take(intake, data):
    """The end of the first piece of `data`."""
    return intake.piece(data, 0)


def in_body(length):
    """An intake behind the head of a request."""
    intake = Intake(MOST)
    intake.begin()
    intake.head_complete(length)
    return intake


def answered(length):
    """An intake whose request was answered before its body came."""
    intake = in_body(length)
    assert not intake.answered()
    return intake


def complete(intake):
    """The same when the request has come to its end."""
    intake.complete()
    return intake


def closed(intake):
    """The same when it reads nothing more."""
    intake.close()
    return intake


def after(intake, *pieces, payload=0):
    """The same behind pieces without payload, and then one with it."""
    for piece in pieces:
        assert take(intake, piece) == len(piece)
    if payload:
        take(intake, b"x" * payload)
        intake.payload(payload)
    return intake


def begun(intake):
    """The same with the first bytes of a head."""
    intake.begin()
    return intake


@pytest.mark.parametrize(
    ("intake", "phase", "timer"),
    [
        pytest.param(Intake(MOST), HEAD, HEAD_TIMER, id="a new connection owes a head"),
        pytest.param(begun(Intake(MOST)), HEAD, HEAD_TIMER, id="in a head"),
        pytest.param(in_body(0), BODY, NO_TIMER, id="behind a head"),
        pytest.param(after(in_body(10), b"123"), BODY, NO_TIMER, id="in a body of known length"),
        pytest.param(in_body(None), BODY, NO_TIMER, id="before the first chunk"),
        pytest.param(after(in_body(None), b"5;a"), BODY, HEAD_TIMER, id="in a chunk extension"),
        pytest.param(after(in_body(None), b"5\r\n", payload=5), BODY, NO_TIMER, id="in a chunk"),
        pytest.param(after(in_body(None), b"0\r\na: b"), BODY, HEAD_TIMER, id="in a trailer section"),
        pytest.param(complete(in_body(0)), WAITING, NO_TIMER, id="waiting for the answer"),
        pytest.param(answered(10), DRAINING, DRAIN_TIMER, id="answered before the end"),
        pytest.param(complete(answered(10)), HEAD, NO_TIMER, id="answered and then at its end: idle"),
        pytest.param(begun(complete(answered(10))), HEAD, HEAD_TIMER, id="the next head"),
        pytest.param(closed(in_body(None)), CLOSED, NO_TIMER, id="closed"),
    ],
)
def test_states(intake, phase, timer):
    """Each state has the timer that ends it, and none where the server itself is awaited."""
    assert (intake.phase, intake.timer) == (phase, timer)


def test_an_answer_behind_the_end_makes_the_connection_idle():
    """The next request may come, and nothing waits for it."""
    intake = complete(in_body(0))
    assert intake.answered()
    assert (intake.phase, intake.timer) == (HEAD, NO_TIMER)


@pytest.mark.parametrize(
    ("intake", "data", "end"),
    [
        pytest.param(Intake(MOST), b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET", 27, id="a head and the beginning of the next"),
        pytest.param(Intake(MOST), b"GET / HTTP/1.1\r\nho", 18, id="half a head"),
        pytest.param(
            after(Intake(MOST), b"GET / HTTP/1.1\r\nhost: x\r\n\r"), b"\nGET / HTTP/1.1\r\n\r\n", 1, id="an end cut before its last byte"
        ),
        pytest.param(after(Intake(MOST), b"host: x\r\n"), b"\r\nGET / HTTP/1.1\r\n\r\n", 2, id="an end cut in the middle"),
        pytest.param(after(Intake(MOST), b"host: x\r"), b"\n\r\nGET / HTTP/1.1\r\n\r\n", 3, id="an end cut after its first byte"),
        pytest.param(after(Intake(MOST), b"x\r", b"\n", b"\r"), b"\nGET", 1, id="an end byte by byte"),
        pytest.param(after(Intake(MOST), b"GET / HTTP/1.1\r\n\r\n"), b"\r\nGET / HTTP/1.1\r\n\r\n", 20, id="an end is not used twice"),
        pytest.param(in_body(5), b"12345GET", 5, id="a body and the next head"),
        pytest.param(in_body(5), b"123", 3, id="a part of a body"),
        pytest.param(after(in_body(5), b"123"), b"45GET", 2, id="the rest of a body"),
        pytest.param(in_body(9), b"a\r\n\r\nbcdeGET", 9, id="no end is looked for in a body of known length"),
        pytest.param(in_body(None), b"1\r\na\r\n0\r\n\r\nGET", 11, id="a chunked body and the next head"),
        pytest.param(in_body(None), b"0\r\na: b\r\n\r\nGET", 11, id="a trailer section and the next head"),
        pytest.param(in_body(None), b"x" * 2 * PIECE_BYTES, PIECE_BYTES, id="a long part of a chunked body"),
        pytest.param(answered(5), b"12345GET", 5, id="the rest of an answered request"),
    ],
)
def test_pieces(intake, data, end):
    """No piece goes beyond the end of a head or of a body."""
    assert take(intake, data) == end


@pytest.mark.parametrize(
    ("intake", "data", "fits"),
    [
        pytest.param(Intake(10_000), b"x" * 10_000, True, id="a beginning of the limit"),
        pytest.param(Intake(10_000), b"x" * 10_001, False, id="a beginning above it"),
        pytest.param(begun(Intake(MOST)), b"x" * MOST, True, id="a head of the limit"),
        pytest.param(begun(Intake(MOST)), b"x" * (MOST + 1), False, id="a head above it"),
        pytest.param(after(begun(Intake(MOST)), b"x" * MOST), b"x", False, id="a head that grows above it"),
        pytest.param(after(in_body(None), b"5;" + b"x" * (MOST - 2)), b"x", True, id="an extension of the limit"),
        pytest.param(after(in_body(None), b"5;" + b"x" * (MOST - 1)), b"x", False, id="an extension above it"),
        pytest.param(after(in_body(None), b"0\r\n", b"x" * (MOST - 3)), b"x", True, id="trailers of the limit"),
        pytest.param(after(in_body(None), b"0\r\n", b"x" * (MOST - 2)), b"x", False, id="trailers above it"),
        pytest.param(after(in_body(None), b"x" * MOST, payload=50), b"x" * MOST, True, id="payload allows further framing"),
        pytest.param(in_body(10**9), b"x" * 10**6, True, id="payload has no limit here"),
        pytest.param(answered(10**9), b"x" * DRAIN_BYTES, True, id="the drain"),
        pytest.param(answered(10**9), b"x" * (DRAIN_BYTES + 1), False, id="more than the drain"),
        pytest.param(after(answered(10**9), b"x" * DRAIN_BYTES), b"x", False, id="more than the drain, later"),
        pytest.param(after(answered(None), *[b"0\r\n" + b"x" * 4093] * (DRAIN_BYTES // 4096)), b"x", False, id="trailers behind it"),
    ],
)
def test_limits(intake, data, fits):
    """Each phase has its limit, and none is exceeded by more than a piece."""
    assert bool(take(intake, data)) is fits


def test_framing_is_limited_by_the_payload_that_it_brings():
    """Chunks of one byte without extensions pass without end; with long extensions they do not."""
    plain, padded = in_body(None), in_body(None)
    for _ in range(1000):
        assert take(plain, b"1\r\na\r\n")
        plain.payload(1)
    chunks = 0
    while take(padded, b"1;" + b"x" * 50 + b"\r\na\r\n"):
        padded.payload(1)
        chunks += 1
    assert chunks <= MOST / (50 - OVERHEAD_PER_BYTE) + 2


@given(
    heads=st.lists(st.sampled_from([b"a", b"\r\n", b"\r", b"\n", b": "]), max_size=30).map(b"".join),
    cuts=st.lists(st.integers(1, 5), max_size=30),
)
def test_pieces_of_heads_end_where_heads_do(heads, cuts):
    """However the bytes arrive, the pieces put together are the bytes, and each end of a head is the end of a piece."""
    intake = Intake(10_000)
    reads, at = [], 0
    for cut in cuts:
        reads.append(heads[at : at + cut])
        at += cut
    ends, done = [], 0
    for read in filter(None, [*reads, heads[at:]]):
        start = 0
        while start < len(read):
            start = intake.piece(read, start)
            ends.append(done + start)
        done += len(read)
    expected, found = [], heads.find(b"\r\n\r\n")
    while found >= 0:
        expected.append(found + 4)
        found = heads.find(b"\r\n\r\n", found + 4)
    assert set(expected) <= set(ends)
    assert not ends or ends[-1] == len(heads)
