"""`ClusterLabels`: the labels of all logical clusters, and their recent changes, as of the revision of the feed."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from kcp_py.authz.grants.grant import Labels

_MOST_CHANGES: Final = 10_000
"""Changes that are remembered. Watches that resume before the oldest one are refused."""


class LabelChange(NamedTuple):
    """The creation or deletion of a cluster, or a change of its labels."""

    revision: int
    cluster: str
    before: Labels | None
    """None where the cluster did not exist."""
    after: Labels | None
    """None where it is gone."""


class ClusterLabels:
    """Equal labels of clusters are one object, so that a selector looks at each of them once."""

    def __init__(self, clusters: Iterable[tuple[str, Labels]], revision: int) -> None:
        """The labels at a revision, from which on changes are applied."""
        self._labels: dict[str, Labels] = {}
        self._clusters: dict[tuple[tuple[str, str], ...], tuple[Labels, dict[str, None]]] = {}
        """Labels as a sorted key -> the shared object, and the clusters that have it."""
        self._changes: deque[LabelChange] = deque()
        self.known_since = revision
        """Changes after this revision are known."""
        for cluster, labels in clusters:
            self._set(cluster, labels)

    def __contains__(self, cluster: str) -> bool:
        """Whether a cluster exists."""
        return cluster in self._labels

    def get(self, cluster: str) -> Labels | None:
        """The labels of a cluster; None where it does not exist."""
        return self._labels.get(cluster)

    def names(self) -> Collection[str]:
        """All clusters that exist."""
        return self._labels.keys()

    def by_labels(self) -> Iterator[tuple[Labels, Collection[str]]]:
        """The different labels, each with the clusters that have them."""
        for labels, clusters in self._clusters.values():
            yield labels, clusters.keys()

    def changes(self) -> Iterable[LabelChange]:
        """The recent changes, oldest first."""
        return self._changes

    def apply(self, cluster: str, labels: Labels | None, revision: int) -> LabelChange | None:
        """Follow an event of a LogicalCluster. None where its labels stay."""
        before = self._labels.get(cluster)
        if before == labels:
            return None
        change = LabelChange(revision, cluster, before, self._set(cluster, labels))
        self._changes.append(change)
        while len(self._changes) > _MOST_CHANGES:
            self.known_since = self._changes.popleft().revision
        return change

    def _set(self, cluster: str, labels: Labels | None) -> Labels | None:
        before = self._labels.pop(cluster, None)
        if before is not None:
            key = _key(before)
            _, clusters = self._clusters[key]
            del clusters[cluster]
            if not clusters:
                del self._clusters[key]
        if labels is None:
            return None
        shared, clusters = self._clusters.setdefault(_key(labels), (dict(labels), {}))
        clusters[cluster] = None
        self._labels[cluster] = shared
        return shared


def _key(labels: Labels) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))
