"""The beginning of a request line, for a parser that knows few methods."""

from __future__ import annotations

import pytest

from kcp_py.serving.http1.methods import COMMON_METHODS, FoundMethod, read_method


@pytest.mark.parametrize("common", COMMON_METHODS)
def test_common_methods_go_to_the_parser(common: bytes) -> None:
    """The line is unchanged, and the parser finds the method."""
    assert read_method(common + b"/api") == FoundMethod(b"", common + b"/api")


@pytest.mark.parametrize(
    ("begun", "found"),
    [
        pytest.param(b"FOO /api", FoundMethod(b"FOO", b"OPTIONS /api"), id="a method that the parser does not know"),
        pytest.param(b"get /api", FoundMethod(b"get", b"OPTIONS /api"), id="lower case is another method"),
        pytest.param(b"CONNECT ", FoundMethod(b"CONNECT", b"OPTIONS "), id="a method with rules of its own in the parser"),
        pytest.param(b"FOO", None, id="a method that may go on"),
        pytest.param(b"GET", None, id="a common method that may go on"),
        pytest.param(b"X" * 64, None, id="the longest method"),
        pytest.param(b"X" * 65, FoundMethod(b"", b" "), id="a longer one"),
        pytest.param(b"X" * 65 + b" /", FoundMethod(b"", b" "), id="a longer one that is complete"),
        pytest.param(b"F@O /api", FoundMethod(b"", b"F@O /api"), id="no token"),
        pytest.param(b"GET\r\n", FoundMethod(b"", b"GET\r\n"), id="a line without a target"),
        pytest.param(b" GET /", FoundMethod(b"", b" GET /"), id="nothing before the first space"),
    ],
)
def test_other_methods(begun: bytes, found: FoundMethod | None) -> None:
    """The parser gets another name for a token. Bytes that form no token stay unchanged."""
    assert read_method(begun) == found
