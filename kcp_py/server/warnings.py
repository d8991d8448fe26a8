"""`Warning` headers: their format and limits (k8s.io/apiserver `endpoints/filters/warning.go`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

TOTAL_CHARACTERS: Final = 4096
"""Above this sum every text is cut."""
ITEM_CHARACTERS: Final = 256
"""What a text is cut to then."""


def warning_headers(texts: Iterable[str]) -> list[tuple[bytes, bytes]]:
    """One header per distinct text, in order. Texts with control characters are dropped: they cannot stand in a header."""
    distinct = [text for text in dict.fromkeys(texts) if text and not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in text)]
    if sum(map(len, distinct)) > TOTAL_CHARACTERS:
        distinct = _cut(distinct)
    return [(b"warning", _format(text)) for text in distinct]


def _cut(texts: list[str]) -> list[str]:
    kept: list[str] = []
    written = 0
    for text in texts:
        if written >= TOTAL_CHARACTERS:
            break
        kept.append(text[:ITEM_CHARACTERS])
        written += len(kept[-1])
    return kept


def _format(text: str) -> bytes:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'.encode(errors="replace")
