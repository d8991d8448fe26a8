"""Request lines in parts: what the parser gets of them."""

from __future__ import annotations

import pytest

from kcp_py.serving.http1.requestline import RequestLine, is_whole_line


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        pytest.param(b"GET / HTTP/1.1\r\nhost: x y z\r\n", True, id="a line and a field"),
        pytest.param(b"FOO / HTTP/1.1\r\n", False, id="a method with another name in the parser"),
        pytest.param(b"GET  / HTTP/1.1\r\n", False, id="too many spaces"),
        pytest.param(b"GET /\r\nhost: x\r\n", False, id="too few spaces"),
        pytest.param(b"\r\nGET / HTTP/1.1\r\n", False, id="an empty line before it"),
    ],
)
def test_whole_lines(data: bytes, whole: bool) -> None:  # noqa: FBT001
    """A line with a common method and two spaces needs no further rules."""
    assert is_whole_line(data) is whole


@pytest.mark.parametrize(
    ("parts", "taken", "method"),
    [
        pytest.param([b"GET / HTTP/1.1\r\n"], [b"GET / HTTP/1.1\r\n"], b"", id="one part"),
        pytest.param([b"G", b"ET", b" /", b" HTTP/1.1\r\n"], [b"", b"", b"GET /", b" HTTP/1.1\r\n"], b"", id="a method in parts"),
        pytest.param([b"FO", b"O /a", b" HTTP/1.1\n"], [b"", b"OPTIONS /a", b" HTTP/1.1\n"], b"FOO", id="another name for the parser"),
        pytest.param([b"\r\n", b"\nGET / H", b"TTP/1.1\n"], [b"\r\n", b"GET / H", b"TTP/1.1\n"], b"", id="empty lines before it"),
        pytest.param([b"GET / HTTP/1.1\r\na: b c d"], [b"GET / HTTP/1.1\r\na: b c d"], b"", id="spaces behind the line"),
        pytest.param([b"GET / HTTP/1.1 \r\n"], [None], b"", id="too many spaces"),
        pytest.param([b"GET /", b" HTTP/1.1", b" "], [b"GET /", b" HTTP/1.1", None], b"", id="too many spaces in parts"),
    ],
)
def test_lines_in_parts(parts: list[bytes], taken: list[bytes | None], method: bytes) -> None:
    """The parser gets nothing before the method is complete; a third space is refused; the line is complete with its end."""
    line = RequestLine()
    assert [line.take(part) for part in parts] == taken
    if None not in taken:
        assert (line.method, line.is_complete) == (method, True)
