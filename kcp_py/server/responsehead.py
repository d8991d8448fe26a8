"""The header fields of a response: as a list for messages of ASGI, and as lines for a server that takes whole responses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from kcp_py.server.warnings import warning_headers

Header = tuple[bytes, bytes]

JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"

CACHE_CONTROL: Final = (b"cache-control", b"no-cache, private")
"""The header of all responses that say nothing else about caching."""


def response_fields(audit_id: str, content_type: bytes, extra: Sequence[Header], warnings: Sequence[str]) -> list[Header]:
    """The header fields of a response.

    Args:
        audit_id: of the request.
        content_type: of the body.
        extra: further fields. Cache-Control among them takes the place of `CACHE_CONTROL`.
        warnings: texts for Warning.
    """
    headers: list[Header] = [(b"audit-id", audit_id.encode()), (b"content-type", content_type), *extra]
    for name, _ in extra:
        if name == b"cache-control":
            break
    else:
        headers.append(CACHE_CONTROL)
    if warnings:
        headers.extend(warning_headers(warnings))
    return headers


@lru_cache(maxsize=64)
def ordinary_lines(content_type: bytes) -> bytes:
    """The lines behind the value of the first header field, in the head of a response without further fields and warnings.

    Returns:
        Empty for a content type that would end the field.
    """
    if any(byte < 0x20 or byte == 0x7F for byte in content_type):
        return b""
    return b"\r\ncontent-type: %b\r\n%b: %b\r\n" % (content_type, *CACHE_CONTROL)
