"""`MergeTypes`: how the objects of one kind are merged, version by version; worked out when first asked for, shared with the definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.aio.offload import offload
from kcp_py.apimachinery.managedfields.types import MergeType
from kcp_py.schema.structural.merge_types import merge_type

_NO_DEFINITIONS: Final[Mapping[str, Mapping[str, Any]]] = {}


class MergeTypes:
    """The types of one kind by `apiVersion`."""

    __slots__ = ("_definitions", "_documents", "_known", "_large")

    def __init__(
        self,
        documents: Mapping[str, Mapping[str, Any]],
        definitions: Mapping[str, Mapping[str, Any]] = _NO_DEFINITIONS,
        *,
        large: bool = False,
    ) -> None:
        """Keep the sources.

        Args:
            documents: OpenAPI schema of each served version, by `apiVersion`.
            definitions: what their `$ref`s stand for.
            large: the documents are so large that they are read in a thread.
        """
        self._large = large
        self._documents = documents
        self._definitions = definitions
        self._known: dict[str, MergeType] = {}

    async def prepare(self) -> None:
        """Make `get` cheap."""
        if self._large and len(self._known) < len(self._documents):
            await offload(lambda: [self.get(api_version) for api_version in self._documents])

    def get(self, api_version: str) -> MergeType | None:
        """The type in a version; None for what is not served (any more)."""
        known = self._known.get(api_version)
        if known is None and (document := self._documents.get(api_version)) is not None:
            known = self._known[api_version] = merge_type(document, self._definitions, resource=True)
        return known
