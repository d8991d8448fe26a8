"""Base64 is read as Go reads it."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.golang.base64 import canonical_base64, decode_base64


@given(data=st.binary(), width=st.integers(1, 76), end=st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_lines(data, width, end):
    """Line ends may be anywhere, as the tools that wrap base64 write them."""
    text = base64.b64encode(data).decode()
    wrapped = end.join(text[at : at + width] for at in range(0, len(text), width)) + end
    assert decode_base64(wrapped) == data
    assert canonical_base64(wrapped) == text


@pytest.mark.parametrize(("text", "position"), [
    ("!!", 0), ("AA==x", 4), ("A", 0), ("AA", 0), ("AAA", 0), ("AAAAA", 4), ("A===", 1), ("AA=", 3), ("AA=A", 2), ("AAA=\nx", 5),
    ("AA\n!A", 3), ("=", 0), ("AAAA=", 4), ("AA=\n=\n", None), ("AAA=\n", None), ("AA= ", 2), ("é", 0),
])  # fmt: skip
def test_where_it_is_illegal(text, position):
    """The position is that of Go's decoder."""
    if position is None:
        assert decode_base64(text) in {b"\0", b"\0\0"}
        return
    with pytest.raises(ValueError, match=f"illegal base64 data at input byte {position}$"):
        decode_base64(text)
