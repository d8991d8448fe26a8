"""The references in a schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def references(schema: Any) -> Iterator[str]:
    """The target of each reference in a document."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for child in schema.values():
            yield from references(child)
    elif isinstance(schema, list):
        for child in schema:
            yield from references(child)
