"""`TableColumns`: the columns of the Table of one request, which may hold rows of several CRDs of a resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.meta.table import AGE, Column
from kcp_py.registry.resource import ServedResource

_MOST_COLUMNS: Final = 64
"""Of all clusters together: beyond, columns of further CRDs are left out."""
_MOST_REMEMBERED: Final = 1_000
"""CRDs for which the cells of a row are worked out once."""


def _cluster_cell(obj: Mapping[str, Any], now: float) -> Any:
    del now
    return obj["metadata"].get("clusterName")


CLUSTER: Final = Column("Cluster", "string", "", "The logical cluster of the object.", 0, _cluster_cell)


class TableColumns:
    """In one cluster, the columns of its CRD. Over all clusters, the cluster and the union of the columns of all CRDs."""

    __slots__ = ("_frozen", "_of", "_union", "_wildcard", "changed", "names")

    def __init__(self, resource: ServedResource, *, wildcard: bool) -> None:
        """Begin with the columns of one CRD."""
        self._wildcard = wildcard
        self._union: list[Column] = list(resource.columns)
        if wildcard:
            # A CRD cannot declare a column for the cluster.
            self._union = [CLUSTER, *(column for column in resource.columns if column.name != CLUSTER.name)]
        self._of: dict[ServedResource, Sequence[Column]] = {}
        self._frozen = not wildcard
        self.names = tuple(column.name for column in self._union)
        """Rows with the same names have the same cells."""
        self.changed = True
        """Whether the columns have yet to be sent to the client; the sender sets this to False."""

    @property
    def union(self) -> Sequence[Column]:
        """All columns."""
        return self._union

    def freeze(self) -> None:
        """Accept no further columns: the client gets them once, before the rows."""
        self._frozen = True

    def add(self, resource: ServedResource) -> None:
        """Take in the columns of another CRD that have names of their own, before the age where that is the last one."""
        if self._frozen:
            return
        new = [column for column in resource.columns if column.name not in self.names][: max(0, _MOST_COLUMNS - len(self._union))]
        if new:
            at = len(self._union) - (self._union[-1].name == AGE.name)
            self._union[at:at] = new
            self.names = tuple(column.name for column in self._union)
            self._of.clear()
            self.changed = True

    def of(self, resource: ServedResource) -> Sequence[Column]:
        """The columns for a row of an object: empty ones where its CRD has none of that name."""
        if not self._wildcard:
            return resource.columns
        found = self._of.get(resource)
        if found is None:
            self.add(resource)
            own = {column.name: column for column in (CLUSTER, *reversed(resource.columns))}
            own[CLUSTER.name] = CLUSTER
            if len(self._of) >= _MOST_REMEMBERED:
                self._of.clear()
            found = self._of[resource] = [own.get(column.name) or column._replace(cell=_empty_cell) for column in self._union]
        return found


def _empty_cell(obj: Mapping[str, Any], now: float) -> Any:
    del obj, now
