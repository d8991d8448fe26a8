"""Blank lines in bytes that arrive in parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.serving.http1.blankline import BLANK_LINE, BlankLineSearch


@pytest.mark.parametrize(
    ("parts", "end"),
    [
        pytest.param([b"a\r\n\r\nb"], 5, id="in one part"),
        pytest.param([b"a\r\n"], 3, id="none"),
        pytest.param([b"a\r\n\r", b"\nb"], 1, id="cut before its last byte"),
        pytest.param([b"a\r\n", b"\r\nb"], 2, id="cut in the middle"),
        pytest.param([b"a\r", b"\n\r\nb"], 3, id="cut behind its first byte"),
        pytest.param([b"a\r", b"\n", b"\r", b"\nb"], 1, id="byte by byte"),
        pytest.param([b"a\r\n\r\n", b"\r\nb\r\n\r\n"], 7, id="none is used twice"),
    ],
)
def test_ends(parts, end):
    """The end in the last part."""
    search = BlankLineSearch()
    assert [search.end(part, 0) for part in parts][-1] == end


@given(
    data=st.lists(st.sampled_from([b"a", b"\r\n", b"\r", b"\n"]), max_size=30).map(b"".join), cuts=st.lists(st.integers(1, 5), max_size=30)
)
def test_ends_are_found_in_all_parts(data, cuts):
    """However the bytes arrive, each blank line ends a slice, and the slices put together are the bytes."""
    search = BlankLineSearch()
    ends, at = [], 0
    for cut in [*cuts, len(data)]:
        part = data[at : at + cut]
        start = 0
        while start < len(part):
            start = search.end(part, start)
            ends.append(at + start)
        at += len(part)
    expected, found = [], data.find(BLANK_LINE)
    while found >= 0:
        expected.append(found + 4)
        found = data.find(BLANK_LINE, found + 4)
    assert set(expected) <= set(ends)
    assert not ends or ends[-1] == len(data)


def test_a_search_can_be_cut_short():
    """The result behind the place is found again."""
    search = BlankLineSearch()
    assert search.end(b"abcd\r\n\r\n", 0) == 8
    search.cut(b"abcd\r\n\r\n", 6)
    assert search.end(b"\r\nef", 0) == 2
    search.cut(b"abcd\r\n", 6)
    search.tail = b""
    assert search.end(b"\r\nef", 0) == 4
