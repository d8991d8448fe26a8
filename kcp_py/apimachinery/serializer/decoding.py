"""What the decoders of JSON, YAML and protobuf share: their error, and how deep and how wrong a document may be."""

from __future__ import annotations

from typing import Any, Final

MAX_DEPTH: Final = 128
"""Levels of maps and lists. The deepest public CRDs have about 40."""
MAX_STRICT_ERRORS: Final = 100
"""Problems collected of one document, as upstream."""


class DecodeError(ValueError):
    """A body that cannot be decoded; the text is the short one of Go's decoder, for the caller to frame."""


def too_deep(value: Any, limit: int) -> bool:
    """Whether maps and lists are nested deeper than `limit`; does not recurse."""
    level = [value] if type(value) in {dict, list} else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) is dict or type(child) is list
        ]
    return bool(level)
