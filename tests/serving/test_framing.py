"""The rules for heads: what a target is."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kcp_py.serving.framing import split_target


@given(target=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1).map(str.encode))
@example(target=b"//x/y?a#b")
@example(target=b"/a?b?c")
@example(target=b"/a?")
@example(target=b"/?%zz")
@example(target=b"http://h/p?q")
@example(target=b"*")
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
        assert split_target(target) == (parsed.path, parsed.query or b"")
