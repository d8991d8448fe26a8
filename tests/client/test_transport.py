"""Failures as a server answers them, and headers of impersonation."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpcore
import orjson
import pytest

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.client.transport import _lines, impersonation, status_error


def test_a_status_is_the_error_that_it_was() -> None:
    """With code, reason, message, details and the token of a list that may go on."""
    for error in (
        errors.not_found(GroupResource("example.com", "widgets"), "one"),
        errors.expired("too old", continue_token="t"),
        errors.too_many_requests("later", 3),
    ):
        read = status_error(error.code, orjson.dumps(error.to_status()))
        assert read.to_status() == error.to_status()


@pytest.mark.parametrize(
    ("code", "body", "reason", "message"),
    [
        (404, b"404 page not found\n", "NotFound", "the server could not find the requested resource"),
        (502, b"<html>bad gateway</html>", "", "<html>bad gateway</html>"),
        (500, b"", "", "the server answered with status 500"),
        (400, b"[]", "", "[]"),
    ],
    ids=["unserved path", "proxy", "nothing", "not a Status"],
)
def test_an_answer_without_a_status_is_an_error_with_its_text(code: int, body: bytes, reason: str, message: str) -> None:
    """An unserved path has the text that client-go gives it."""
    error = status_error(code, body)
    assert (error.code, error.reason, error.message) == (code, reason, message)


def test_another_user_is_named_in_headers() -> None:
    """Keys of extra values are percent-encoded, as header names need it."""
    assert impersonation("jane", "1", ("a", "b"), {"x.io/y": ("z",)}) == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Extra-x.io%2Fy", "z"),
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("cut", [1, 2, 3, 7, 100])
async def test_lines_are_whole_however_they_are_cut_into_parts(cut: int) -> None:
    """Empty lines are heartbeats and left out; a line without an end belongs to a broken connection."""
    content = b"one\n\n\ntwo two\nthree\nbroken"

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(content), cut):
            yield content[start : start + cut]

    lines = [line async for line in _lines(httpcore.Response(200, content=parts()))]
    assert lines == [b"one", b"two two", b"three"]
