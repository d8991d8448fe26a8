"""`KnownClusters`: how many clusters have a CRD of one name, with the names of some, and its form in a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kcp_py.logicalcluster import Name, parse_name

MOST_NAMED: Final = 100
"""Clusters of a CRD that are named."""
MOST_BYTES: Final = 512 << 10
"""Of the texts in a record, approximately."""
_NAMED_OF_MANY: Final = 3
"""Clusters of a CRD that a record names where there are so many CRDs that all do not fit."""


class KnownClusters:
    """The CRDs of one name."""

    __slots__ = ("clusters", "count")

    def __init__(self, count: int = 0, clusters: Iterable[Name] = ()) -> None:
        """Begin with none, or with a number of clusters of which some are named."""
        self.count = count
        """How many clusters have one."""
        self.clusters = dict.fromkeys(clusters)
        """Some of them; all, if they are so few as there is room for."""

    @property
    def complete(self) -> bool:
        """Whether `clusters` has all of them."""
        return self.count == len(self.clusters)

    def add(self, cluster: Name) -> None:
        """Count a cluster that had none."""
        if self.complete and self.count < MOST_NAMED:
            self.clusters[cluster] = None
        self.count += 1

    def remove(self, cluster: Name) -> None:
        """Count a cluster no longer."""
        self.count -= 1
        self.clusters.pop(cluster, None)


def record_of(known: Mapping[str, KnownClusters]) -> dict[str, Any] | None:
    """The fields of a record by the names of CRDs; None where it would be too large."""
    for named in (MOST_NAMED, _NAMED_OF_MANY):
        definitions: dict[str, tuple[int, list[Name]]] = {}
        size = 0
        for name, one in known.items():
            clusters = [*one.clusters][:named]
            definitions[name] = one.count, clusters
            size += len(name) + sum(map(len, clusters))
            if size > MOST_BYTES:
                break
        else:
            return {"definitions": definitions}
    return None


def known_of(record: Mapping[str, Any]) -> dict[str, KnownClusters] | None:
    """The content of a record; None for one that `record_of` has not made."""
    definitions = record.get("definitions")
    if not isinstance(definitions, dict):
        return None
    known: dict[str, KnownClusters] = {}
    for name, value in definitions.items():
        match value:
            case [int(count), [*clusters]] if 0 < count >= len(clusters) <= MOST_NAMED:
                try:
                    known[name] = KnownClusters(count, [parse_name(cluster) for cluster in clusters])
                except (TypeError, ValueError, AttributeError):
                    return None
            case _:
                return None
        if len(known[name].clusters) != len(clusters):
            return None
    return known
