"""Parts of a user in request headers: their values, and keys of extra fields in header names (k8s.io/apiserver)."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes


def header_text(value: bytes) -> str:
    """The text of a header value."""
    return value.decode("utf-8", "replace")


def extra_key(encoded: bytes) -> str:
    """The key of an extra field. Header names can have percent-encoded characters; malformed ones stay as they are."""
    escapes = encoded.split(b"%")[1:]
    if any(len(escape) < 2 or not escape[:2].isalnum() or escape[:2].strip(b"0123456789abcdefABCDEF") for escape in escapes):
        return encoded.decode("latin-1")
    return header_text(unquote_to_bytes(encoded))
