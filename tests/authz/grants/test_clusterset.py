"""Selected clusters at every revision, against snapshots."""

from __future__ import annotations

import random

import pytest

from kcp_py.apimachinery.meta.selectors import parse_label_selector
from kcp_py.authz.grants.clusterset import ClusterSet
from kcp_py.authz.grants.grant import Selector
from kcp_py.authz.grants.labels import ClusterLabels

SELECTORS = {
    "gold": frozenset((Selector(labels=parse_label_selector("tier=gold")),)),
    "not gold": frozenset((Selector(labels=parse_label_selector("!tier")), Selector(labels=parse_label_selector("tier=silver")))),
    "named or gold": frozenset((Selector(names=frozenset("ab")), Selector(labels=parse_label_selector("tier=gold")))),
}
CLUSTERS = "abcdef"


@pytest.mark.parametrize("name", SELECTORS)
@pytest.mark.parametrize("seed", range(20))
def test_every_revision_is_remembered(name: str, seed: int) -> None:
    """A set that follows changes, and one that is made later, know the clusters of each revision, and which events are visible."""
    dice = random.Random(seed)
    selectors = SELECTORS[name]
    labels = ClusterLabels([(cluster, {"tier": dice.choice(("gold", "silver"))}) for cluster in "ace"], 10)
    present: dict[str, dict[str, str]] = {cluster: dict(labels.get(cluster) or {}) for cluster in "ace"}
    following = ClusterSet(selectors, labels)
    snapshots = {10: dict(present)}
    for revision in range(11, 60):
        cluster = dice.choice(CLUSTERS)
        after = dice.choice((None, {}, {"tier": "gold"}, {"tier": "silver"}))
        change = labels.apply(cluster, after, revision)
        if change is not None:
            following.apply(change)
        present.pop(cluster, None)
        if after is not None:
            present[cluster] = after
        snapshots[revision] = dict(present)

    def selected(cluster: str, revision: int) -> bool:
        found = snapshots[revision].get(cluster)
        return any(selector.selects(cluster, found) for selector in selectors)

    for clusters in (following, ClusterSet(selectors, labels)):
        for revision, snapshot in snapshots.items():
            for cluster in CLUSTERS:
                if cluster in snapshot:
                    assert clusters.sees(cluster, revision) is selected(cluster, revision)
                    assert (cluster in clusters.names(revision)) is clusters.sees(cluster, revision)
                if revision > 10:
                    # A cluster that ends shows its last event, one that moves in none of the write that moves it.
                    shown = selected(cluster, revision) if cluster in snapshot else selected(cluster, revision - 1)
                    moved = cluster in snapshots[revision - 1] and not selected(cluster, revision - 1)
                    assert clusters.shows(cluster, revision) is (shown and not moved)
        assert set(clusters.names()) == {cluster for cluster in {*CLUSTERS} if cluster in clusters}


def test_changes_that_move_clusters() -> None:
    """They are distinguished from creations and deletions, and the latest is remembered."""
    labels = ClusterLabels([("a", {})], 1)
    clusters = ClusterSet(SELECTORS["gold"], labels)
    told = []
    for revision, (cluster, after) in enumerate((("b", {"tier": "gold"}), ("a", {"tier": "gold"}), ("b", None), ("a", {})), start=2):
        change = labels.apply(cluster, after, revision)
        assert change is not None
        told.append(clusters.apply(change))
    assert told == [(True, False), (True, True), (False, False), (False, True)]
    assert clusters.changed_at == ClusterSet(SELECTORS["gold"], labels).changed_at == 5
    assert labels.apply("a", {}, 6) is None


def test_all_clusters() -> None:
    """A selection of all clusters never changes."""
    clusters = ClusterSet(frozenset((Selector(everything=True), *SELECTORS["gold"])), ClusterLabels([("a", {})], 1))
    assert clusters.everything
    assert "unknown" in clusters
    assert clusters.shows("unknown", 5)
    assert clusters.sees("unknown", 5)


def test_old_changes_are_forgotten() -> None:
    """Bounded in number: what came before them is not known any more."""
    labels = ClusterLabels([], 1)
    clusters = ClusterSet(SELECTORS["gold"], labels)
    for revision in range(2, 40_004, 2):
        for offset, after in enumerate(({"tier": "gold"}, None)):
            change = labels.apply(f"c{revision % 7}", after, revision + offset)
            assert change is not None
            clusters.apply(change)
    assert len([*labels.changes()]) == 10_000
    assert labels.known_since == 30_003
    assert clusters.known_since > 1
    assert clusters.changed_at == clusters.known_since
