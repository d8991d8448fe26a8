"""Which graphs are kept."""

from __future__ import annotations

from kcp_py.controllers.garbage.graphs import Graphs
from kcp_py.controllers.garbage.ownership import Facts, Reference
from kcp_py.logicalcluster import Name

CLUSTERS = [Name(f"team-{letter}") for letter in "abcd"]


def test_the_least_used_give_way_but_not_those_at_work() -> None:
    """A graph that is not filled yet, or from which something is due, is kept beyond the bound."""
    graphs = Graphs(most_clusters=2)
    first, second, third, fourth = CLUSTERS
    graphs.add(first).ready = True
    busy = graphs.add(second)
    graphs.add(third).ready = True
    assert graphs.get(first) is None
    graphs.add(fourth).ready = True
    assert graphs.get(third) is None
    assert graphs.get(second) is busy
    assert len(graphs) == 2


def test_edges_are_bounded_together() -> None:
    """A graph with more edges than all may have goes when another comes."""
    graphs = Graphs(most_edges=2)
    first, second, third, _ = CLUSTERS
    for cluster in (first, second):
        graph = graphs.add(cluster)
        for number in range(2):
            owners = (Reference("v1", "ConfigMap", "o", "o", blocks=False),)
            graph.put(f"item-{number}", None, Facts(f"{number}", "v1", "ConfigMap", owners, "", deleting=False))
        graph.ready = True
    graphs.add(third)
    assert graphs.get(first) is None
    assert graphs.get(second) is not None


def test_what_is_not_used_is_swept() -> None:
    """A graph that was not used between two sweeps is removed."""
    graphs = Graphs()
    used, unused, busy, _ = CLUSTERS
    for cluster in (used, unused):
        graphs.add(cluster).ready = True
    graphs.add(busy)
    graphs.sweep()
    graphs.get(used)
    graphs.sweep()
    assert graphs.get(unused) is None
    assert graphs.get(used) is not None
    assert graphs.get(busy) is not None
