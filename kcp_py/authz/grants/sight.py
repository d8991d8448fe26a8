"""`GrantedSight`: what a caller of one kind of request over all clusters has in sight, while grants and clusters change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from kcp_py.authz.grants.clusterset import ClusterSet
from kcp_py.authz.grants.grant import Subject
from kcp_py.authz.grants.labels import LabelChange
from kcp_py.request.sight import Sight, SightChange

_MOST_EPOCHS: Final = 1000
_FEW: Final = 64
"""So many clusters are always read one by one."""
_FEW_OF: Final = 16
"""More of them are, where they are at most this part of all clusters: a read of its own costs about as much as passing over 16 objects."""


class _Epoch(NamedTuple):
    """A time between two changes of the caller's grants."""

    since: int
    """The revision of the change."""
    clusters: ClusterSet


class GrantedSight(Sight):
    """The clusters that the grants of a caller select, and those that they selected since the sight was made."""

    __slots__ = ("__weakref__", "_epochs", "_listeners", "_names", "_outdated", "_scope", "_select", "subjects")

    def __init__(
        self,
        subjects: Sequence[Subject],
        select: Callable[[], ClusterSet],
        *,
        known_since: int,
        names: Callable[[], Collection[str]],
        scope: str,
    ) -> None:
        """Begin with the present selection.

        Args:
            subjects: the caller, and the groups it is a member of.
            select: gives what the grants of the caller select at present.
            known_since: the revision since which they are as they are.
            names: gives all clusters that exist.
            scope: see `Sight.scope`.
        """
        self.subjects = frozenset(subjects)
        self._select = select
        self._names = names
        self._scope = scope
        self._epochs = [_Epoch(known_since, select())]
        self._listeners: dict[object, Callable[[SightChange], None]] = {}
        self._outdated = False

    @property
    def outdated(self) -> bool:
        """`Sight.outdated`."""
        return self._outdated

    @property
    def scope(self) -> str:
        """`Sight.scope`."""
        return self._scope

    @property
    def known_since(self) -> int:
        """`Sight.known_since`."""
        first = self._epochs[0]
        return max(first.since, first.clusters.known_since)

    @property
    def changed_at(self) -> int:
        """`Sight.changed_at`."""
        latest = self._epochs[-1]
        return max(latest.since, latest.clusters.changed_at)

    def _at(self, revision: int) -> ClusterSet:
        for epoch in reversed(self._epochs):
            if epoch.since <= revision:
                return epoch.clusters
        return self._epochs[0].clusters

    def sees(self, cluster: str, revision: int = 0) -> bool:
        """`Sight.sees`."""
        return self._at(revision).sees(cluster, revision) if revision else cluster in self._epochs[-1].clusters

    def at(self, revision: int) -> Callable[[str], bool]:
        """`Sight.at`."""
        clusters = self._at(revision)
        return super().at(revision) if clusters.everything else frozenset(clusters.names(revision)).__contains__

    def shows(self, cluster: str, revision: int) -> bool:
        """`Sight.shows`."""
        latest = self._epochs[-1]
        return (latest.clusters if latest.since <= revision else self._at(revision)).shows(cluster, revision)

    def few(self, revision: int = 0) -> Collection[str] | None:
        """`Sight.few`."""
        clusters = self._at(revision) if revision else self._epochs[-1].clusters
        most = max(_FEW, len(self._names()) // _FEW_OF)
        if clusters.everything or len(clusters) > most:
            return None
        names = clusters.names(revision)
        return names if len(names) <= most else None

    def listen(self, listener: Callable[[SightChange], None]) -> Callable[[], None]:
        """`Sight.listen`."""
        token = object()
        self._listeners[token] = listener

        def remove() -> None:
            self._listeners.pop(token, None)

        return remove

    def moved(self, change: LabelChange, moved: Mapping[ClusterSet, bool]) -> None:
        """A change of labels has moved a cluster into sets of clusters (True), or out of them."""
        added = moved.get(self._epochs[-1].clusters)
        if added is not None:
            one = (change.cluster,)
            self._tell(SightChange(change.revision, one if added else (), () if added else one))

    def abandon(self) -> None:
        """Changes may have been missed: requests that use the sight have to end."""
        self._outdated = True

    def regranted(self, revision: int) -> None:
        """The grants of the caller have changed."""
        before, after = self._epochs[-1].clusters, self._select()
        if before is after:
            return
        self._epochs.append(_Epoch(revision, after))
        del self._epochs[:-_MOST_EPOCHS]
        old, new = (frozenset(self._names() if clusters.everything else clusters.names()) for clusters in (before, after))
        if old != new:
            self._tell(SightChange(revision, new - old, old - new))

    def _tell(self, change: SightChange) -> None:
        for listener in list(self._listeners.values()):
            listener(change)
