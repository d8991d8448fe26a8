"""`decoded_weight`: the memory of decoded JSON, estimated from its bytes."""

from __future__ import annotations

from typing import Final

_MAP: Final = 184
"""Bytes of a map of up to five members."""
_LIST: Final = 80
_MEMBER: Final = 80
"""Bytes of a member of a map or a list: its place there, and the head of a text, or a number."""
_OTHERS: Final = bytes(set(range(256)).difference(b",{["))
"""Bytes that do not count. To leave them out in one pass takes less time than to look for each of those that do."""
_WIDEST: Final = 4
"""Bytes that a character takes where a text has others than ASCII."""


def decoded_weight(value: bytes) -> int:
    """Bytes that the decoded form of compact JSON takes, about: rarely less than what it does take, and up to twice that.

    A sum over the parts of the JSON: what a part takes may be subtracted. The names of members are not counted, because the decoder keeps
    each of them once.
    """
    signs = value.translate(None, _OTHERS)
    members, maps = signs.count(b","), signs.count(b"{")
    characters = len(value) if value.isascii() else _WIDEST * len(value)
    return characters + _MAP * maps + _LIST * (len(signs) - members - maps) + _MEMBER * members
