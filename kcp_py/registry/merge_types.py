"""`MergeTypes`: how the objects of one kind are merged, version by version; worked out when first asked for, shared with the definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.managedfields.types import MergeType
from kcp_py.schema.merge_types import merge_type

_NO_DEFINITIONS: Final[Mapping[str, Mapping[str, Any]]] = {}


class MergeTypes:
    """The types of one kind by `apiVersion`."""

    __slots__ = ("_definitions", "_documents", "_known")

    def __init__(self, documents: Mapping[str, Mapping[str, Any]], definitions: Mapping[str, Mapping[str, Any]] = _NO_DEFINITIONS) -> None:
        """Keep the sources.

        Args:
            documents: OpenAPI schema of each served version, by `apiVersion`.
            definitions: what their `$ref`s stand for.
        """
        self._documents = documents
        self._definitions = definitions
        self._known: dict[str, MergeType] = {}

    def get(self, api_version: str) -> MergeType | None:
        """The type in a version; None for what is not served (any more)."""
        known = self._known.get(api_version)
        if known is None and (document := self._documents.get(api_version)) is not None:
            known = self._known[api_version] = merge_type(document, self._definitions, resource=True)
        return known
