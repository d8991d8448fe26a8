"""`ClusterSet`: the logical clusters that a set of selectors selects, at the present and at recent revisions.

All requests whose grants have equal selectors share one set. A change of a cluster changes the set by that cluster alone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from kcp_py.authz.grants.grant import Labels, Selector
from kcp_py.authz.grants.labels import ClusterLabels, LabelChange

_PRESENT: Final = 2**63
_MOST_PAST: Final = 10_000
"""Clusters that left the set and are remembered."""


class Difference(NamedTuple):
    """What a change of one cluster is for a set."""

    added: bool
    """Otherwise it left."""
    moved: bool
    """Whether the cluster existed before and goes on existing: its objects come or go without events of their own."""


class ClusterSet:
    """Periods in which each cluster is selected.

    A period `(since, until)` contains the states at revisions from `since` to `until`, and the events after `since` up to `until`. The
    period of a cluster that is created at a revision begins one revision before, when it was empty. That of a cluster that is deleted ends
    with the revision of the deletion.
    """

    __slots__ = ("__weakref__", "_labels", "_past", "_past_count", "_since", "changed_at", "everything", "known_since", "selectors")

    def __init__(self, selectors: frozenset[Selector], labels: ClusterLabels) -> None:
        """Select clusters by their labels, and work out the periods from the changes that are remembered."""
        self.selectors = selectors
        self.everything = any(selector.everything for selector in selectors)
        self._labels = labels
        self._since: dict[str, int] = {}
        """Cluster -> the beginning of the present period."""
        self._past: dict[str, list[tuple[int, int]]] = {}
        self._past_count = 0
        self.known_since = labels.known_since
        """The revision before which the selection is not known."""
        self.changed_at = labels.known_since
        """The revision of the last change that moved an existing cluster into the set or out of it, as far as that is known."""
        if not self.everything:
            self._load()

    def _load(self) -> None:
        ends = dict.fromkeys((name for selector in self.selectors for name in selector.names), _PRESENT)
        for labels, clusters in self._labels.by_labels():
            if self._matches(labels):
                ends.update(dict.fromkeys(clusters, _PRESENT))
        for change in reversed([*self._labels.changes()]):
            difference = self.difference(change)
            if difference is None:
                continue
            if difference.moved:
                self.changed_at = max(self.changed_at, change.revision)
            if difference.added:
                self._add_period(change.cluster, _begin(change), ends.pop(change.cluster, _PRESENT))
            else:
                ends[change.cluster] = _end(change)
        for cluster, until in ends.items():
            self._add_period(cluster, 0, until)

    def _add_period(self, cluster: str, since: int, until: int) -> None:
        if until == _PRESENT:
            self._since[cluster] = since
        else:
            self._past.setdefault(cluster, []).append((since, until))
            self._past_count += 1

    def _matches(self, labels: Labels | None) -> bool:
        return any(selector.labels is not None and labels is not None and selector.labels.matches(labels) for selector in self.selectors)

    def difference(self, change: LabelChange) -> Difference | None:
        """What a change is for this set; None for nothing."""
        if self.everything or any(change.cluster in selector.names for selector in self.selectors):
            return None
        before, after = self._matches(change.before), self._matches(change.after)
        if before == after:
            return None
        return Difference(after, change.before is not None and change.after is not None)

    def apply(self, change: LabelChange) -> Difference | None:
        """Follow a change, later than all others."""
        difference = self.difference(change)
        if difference is None:
            return None
        if difference.moved:
            self.changed_at = change.revision
        if difference.added:
            self._since[change.cluster] = _begin(change)
        else:
            if self._past_count >= _MOST_PAST:
                self._forget_past()
            self._add_period(change.cluster, self._since.pop(change.cluster), _end(change))
        return difference

    def _forget_past(self) -> None:
        """Forget all earlier periods: what came before the last of them is not known any more."""
        self.known_since = max(until for periods in self._past.values() for _, until in periods) + 1
        self.changed_at = max(self.changed_at, self.known_since)
        self._past.clear()
        self._past_count = 0

    def __len__(self) -> int:
        """How many clusters are selected at present. Not for all clusters."""
        return len(self._since)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, cluster: str) -> bool:
        """Whether a cluster is selected at present."""
        return self.everything or cluster in self._since

    def sees(self, cluster: str, revision: int) -> bool:
        """Whether the state of a cluster at a revision is selected."""
        if self.everything:
            return True
        since = self._since.get(cluster)
        if since is not None and since <= revision:
            return True
        return cluster in self._past and any(since <= revision <= until for since, until in self._past[cluster])

    def shows(self, cluster: str, revision: int) -> bool:
        """Whether an event of a cluster at a revision is selected."""
        if self.everything:
            return True
        since = self._since.get(cluster)
        if since is not None and since < revision:
            return True
        return cluster in self._past and any(since < revision <= until for since, until in self._past[cluster])

    def names(self, revision: int = 0) -> Collection[str]:
        """The clusters that are selected at a revision; 0 for the present. Some of them may not exist. Not for all clusters."""
        if not revision:
            return self._since.keys()
        found = {cluster: None for cluster, since in self._since.items() if since <= revision}
        found.update((cluster, None) for cluster in self._past if self.sees(cluster, revision))
        return found.keys()


def _begin(change: LabelChange) -> int:
    return change.revision - 1 if change.before is None else change.revision


def _end(change: LabelChange) -> int:
    return change.revision if change.after is None else change.revision - 1
