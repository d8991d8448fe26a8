"""`MergeTypes`: how the objects of one kind are merged, by version. Computed at the first use, and shared with the resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.aio.offload import offload
from kcp_py.apimachinery.managedfields.ownership import MissingVersionError, Versions
from kcp_py.apimachinery.managedfields.types import MergeType
from kcp_py.schema.structural.merge_types import merge_type
from kcp_py.schema.structural.nodes import Node

_NO_DEFINITIONS: Final[Mapping[str, Node]] = {}


class MergeTypes:
    """The types of one kind by `apiVersion`."""

    __slots__ = ("_definitions", "_large", "_roots", "_types", "_versions", "cached", "cached_versions")

    def __init__(self, roots: Mapping[str, Node], definitions: Mapping[str, Node] = _NO_DEFINITIONS, *, large: bool = False) -> None:
        """Keep the sources.

        Args:
            roots: the schema of each served version, by `apiVersion`.
            definitions: the schemas that references name.
            large: whether the schemas are so large that the types are computed in a thread.
        """
        self._large = large
        self._roots = roots
        self._definitions = definitions
        self._types: dict[str, MergeType] = {}
        self._versions: dict[str, Versions] = {}
        self.cached: Final = self._types.get
        """`get` of a type that was computed before; else None."""
        self.cached_versions: Final = self._versions.get
        """`versions` that were made before; else None."""

    async def load(self, api_version: str) -> MergeType | None:
        """`get`, after which `get` is cheap for every version. Large types are computed in a thread."""
        if self._large and len(self._types) < len(self._roots):
            await offload(lambda: [self.get(one) for one in self._roots])
        return self.get(api_version)

    def versions(self, api_version: str, kind: MergeType) -> Versions:
        """The forms of an object of a version and its type, where versions differ in `apiVersion` alone. Made once."""
        found = self._versions.get(api_version)
        if found is None or found.kind is not kind:
            found = self._versions[api_version] = Versions(api_version, kind, self._renamed, self.get, key=object())
        return found

    def _renamed(self, obj: Any, version: str) -> tuple[MergeType, Any]:
        """An object in another version.

        Raises:
            MissingVersionError: the version is not served.
        """
        kind = self.get(version)
        if kind is None:
            raise MissingVersionError(version)
        return kind, obj | {"apiVersion": version} if obj else obj

    def get(self, api_version: str) -> MergeType | None:
        """The type in a version; None for a version that is not served."""
        found = self._types.get(api_version)
        if found is None and (root := self._roots.get(api_version)) is not None:
            found = self._types[api_version] = merge_type(root, self._definitions, resource=True)
        return found
