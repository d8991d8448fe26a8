"""What the head of a request may say: rules that leave no second meaning (RFC 9112), and agree with kube-apiserver's (Go's net/http)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import httptools

from kcp_py.serving.http1.events import Header

FRAMING_FIELDS: Final = frozenset((b"content-length", b"expect", b"host", b"transfer-encoding"))
"""Names of the fields that `body_framing` reads."""

_VERSIONS: Final = frozenset(("1.1", "1.0"))
_LONGEST: Final = 2**63 - 1
_HOST: Final = re.compile(rb"[A-Za-z0-9!$%&'()*+,\-.:;=\[\]_~]*")
"""The characters that `validHostByte` of golang.org/x/net/http/httpguts accepts: those of RFC 3986, 3.2.2, in any order."""
_LONGEST_HOST: Final = 261
"""Of a name and a port (RFC 1035, 2.3.4)."""
_CONTINUE: Final = re.compile(rb"(?:^|[ ,\t])100-continue(?:$|[ ,\t])", re.IGNORECASE)


class ExpectationError(Exception):
    """The request expects what no server of HTTP/1.1 has to know (RFC 9110, 10.1.1): 417."""


def body_framing(fields: Sequence[Header], version: str) -> tuple[int | None, bool]:
    """How the body of a request is framed.

    Args:
        fields: those of `FRAMING_FIELDS` in a head that the parser took: it has compared Content-Length with Transfer-Encoding.
        version: of HTTP.

    Returns:
        The length of the body in bytes, None for a chunked one; whether the client waits for `100 Continue`.

    Raises:
        ValueError: the head has more than one meaning.
        ExpectationError: as it says.
    """
    if version not in _VERSIONS:
        raise ValueError("the version of HTTP is not supported")
    hosts = 0
    length: int | None = 0
    expects_continue = False
    for name, value in fields:
        if name == b"host":
            hosts += 1
            if not _is_host(value):
                raise ValueError("Host is malformed")
        elif name == b"content-length":
            length = int(value)
            if length > _LONGEST:
                raise ValueError("Content-Length is out of range")
        elif name == b"transfer-encoding":
            # RFC 9112, 6.1: other codings are not supported, and HTTP/1.0 has none.
            if value.strip().lower() != b"chunked" or version == "1.0":
                raise ValueError("the transfer coding is not supported")
            length = None
        elif _CONTINUE.search(value):
            # RFC 9110, 10.1.1: ignored in HTTP/1.0.
            expects_continue = version != "1.0"
        elif value:
            raise ExpectationError
    if hosts != 1 and (hosts or version != "1.0"):
        # RFC 9112, 3.2: which host is meant must not depend on who reads the head.
        raise ValueError("there is not exactly one Host")
    return length, expects_continue


@lru_cache(maxsize=64)
def _is_short_host(value: bytes) -> bool:
    return _HOST.fullmatch(value.strip(b" \t")) is not None


def _is_host(value: bytes) -> bool:
    # Nearly every client sends the same few. Long ones are not kept.
    return _is_short_host(value) if len(value) <= _LONGEST_HOST else _HOST.fullmatch(value.strip(b" \t")) is not None


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """The raw path and the raw query of a request target.

    Args:
        target: as the parser of requests lets it through, without control characters and spaces.

    Raises:
        ValueError: it has a fragment, or no path.
        httptools.HttpParserError: it is not a URL.
    """
    if b"#" in target:
        # RFC 9112, 3.2: a target has no fragment. A proxy in front may cut it off or not.
        raise ValueError("the request target has a fragment")
    if target.startswith(b"/") and target.isascii():
        path, _, query = target.partition(b"?")
        return path, query
    parsed = httptools.parse_url(target)
    if parsed.path is None:
        # RFC 9112, 3.2.2: the absolute form may name a host only. No resource is at the root of one.
        raise ValueError("the request target has no path")
    return parsed.path, parsed.query or b""


def host_of(target: bytes) -> bytes:
    """The host of a request target in absolute form, with its port, which counts instead of the Host field (RFC 9112, 3.2.2).

    Raises:
        ValueError: it names a user, or no host.
        httptools.HttpParserError: it is not a URL.
    """
    parsed = httptools.parse_url(target)
    if parsed.userinfo is not None or not parsed.host:
        raise ValueError("the request target does not name a host alone")
    host = b"[%b]" % parsed.host if b":" in parsed.host else parsed.host
    return host if parsed.port is None else b"%b:%d" % (host, parsed.port)
