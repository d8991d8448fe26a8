from __future__ import annotations

import pytest

from kcp_py.server.responsehead import CACHE_CONTROL, ordinary_lines, response_fields


def test_lines_agree_with_fields():
    """Both forms of an ordinary head have the same fields."""
    fields = response_fields("id-1", b"application/json", (), ())
    lines = b"audit-id: id-1" + ordinary_lines(b"application/json")
    assert lines == b"".join(b"%b: %b\r\n" % field for field in fields)


@pytest.mark.parametrize("content_type", [b"a\r\nb: c", b"a\n", b"a\r", b"\x00", b"a\x7f"])
def test_a_content_type_that_would_end_the_field(content_type):
    """It is not written without a check."""
    assert ordinary_lines(content_type) == b""


def test_further_fields():
    """Cache-Control of a handler counts, and warnings come last."""
    fields = response_fields("id-1", b"text/plain", ((b"cache-control", b"public"), (b"etag", b"x")), ["beware"])
    assert CACHE_CONTROL not in fields
    assert [name for name, _ in fields] == [b"audit-id", b"content-type", b"cache-control", b"etag", b"warning"]
