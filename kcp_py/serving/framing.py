"""How the body of a request is framed, and what its target is: rules for heads that leave no second meaning (RFC 9112)."""

from __future__ import annotations

from typing import Final

import httptools

from kcp_py.serving.cycle import Header

FRAMING_FIELDS: Final = frozenset((b"content-length", b"expect", b"host", b"transfer-encoding"))
"""Names of the fields that `framing` reads."""

_VERSIONS: Final = frozenset(("1.1", "1.0"))


def framing(headers: list[Header], version: str) -> tuple[int | None, bool]:
    """How the body of a request is framed.

    Args:
        headers: those of `FRAMING_FIELDS` in a head that the parser took: it has compared Content-Length with Transfer-Encoding.
        version: of HTTP.

    Returns:
        The length of the body in bytes, None for a chunked one; whether the client waits for `100 Continue`.

    Raises:
        ValueError: the head has more than one meaning. Raised in a callback of the parser, it becomes 400.
    """
    if version not in _VERSIONS:
        raise ValueError("another version of HTTP")
    hosts = 0
    length: int | None = 0
    expects_continue = False
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            # RFC 9112, 6.1: other codings are not supported, and HTTP/1.0 has none.
            if value.strip().lower() != b"chunked" or version == "1.0":
                raise ValueError("a transfer coding that is not supported")
            length = None
        elif value.lower() == b"100-continue":
            # RFC 9110, 10.1.1: ignored in HTTP/1.0.
            expects_continue = version != "1.0"
    if hosts != 1 and (hosts or version != "1.0"):
        # RFC 9112, 3.2: which host is meant must not depend on who reads the head.
        raise ValueError("no or more than one Host")
    return length, expects_continue


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """The raw path and the raw query of a request target.

    Args:
        target: as the parser of requests lets it through, without control characters and spaces.

    Raises:
        ValueError: it is no URL, or has a fragment.
        httptools.HttpParserError: the same.
    """
    if b"#" in target:
        # RFC 9112, 3.2: a target has no fragment. uvicorn would cut it off where a proxy in front may not, and they would disagree.
        raise ValueError("the request target has a fragment")
    if target.startswith(b"/") and target.isascii():
        path, _, query = target.partition(b"?")
        return path, query
    parsed = httptools.parse_url(target)
    return parsed.path, parsed.query or b""
