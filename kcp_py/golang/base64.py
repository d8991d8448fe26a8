"""Base64 as Go's `encoding/base64` reads it: padded, with line ends anywhere.

Source: Go `encoding/base64` (`Encoding.decodeQuantum`), `StdEncoding`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

_ALPHABET: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_PAD: Final = ord("=")
_LINE_ENDS: Final = b"\r\n"


def decode_base64(text: str) -> bytes:
    """The bytes that a text stands for.

    Raises:
        ValueError: it is not base64; worded as Go words it.
    """
    stripped = text.replace("\n", "").replace("\r", "") if "\n" in text or "\r" in text else text
    # Python takes padding that follows a complete group.
    if len(stripped) % 4 == 0:
        try:
            return base64.b64decode(stripped, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise ValueError(f"illegal base64 data at input byte {_first_illegal(text.encode(errors='replace'))}")


def canonical_base64(text: str) -> str:
    """A text as Go writes it after reading it: without line ends and without bits that stand for nothing.

    Raises:
        ValueError: it is not base64; worded as Go words it.
    """
    return base64.b64encode(decode_base64(text)).decode()


def _first_illegal(text: bytes) -> int:
    """Where Go's decoder stops, in a text that it does not take."""
    at, filled = 0, 0
    while at < len(text):
        byte = text[at]
        at += 1
        if byte in _LINE_ENDS:
            continue
        if byte in _ALPHABET:
            filled = (filled + 1) % 4
            continue
        if byte != _PAD or filled < 2:
            return at - 1
        if filled == 2:
            at = _skip_line_ends(text, at)
            if at == len(text):
                return at
            if text[at] != _PAD:
                return at - 1
            at += 1
        return _skip_line_ends(text, at)
    return at - filled


def _skip_line_ends(text: bytes, at: int) -> int:
    while at < len(text) and text[at] in _LINE_ENDS:
        at += 1
    return at
