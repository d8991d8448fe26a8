"""`Graphs`: the graphs of the clusters in which something happens."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from kcp_py.controllers.garbage.graph import Graph
from kcp_py.logicalcluster import Name

MOST_CLUSTERS: Final = 2_000
"""Clusters whose graphs are kept, about 1 KB each without edges. Not counted against the budget of the caches of clusters: controllers may
run in a process without these caches, and graphs that are not used for a while are removed in any case."""
MOST_EDGES: Final = 500_000
"""Owner references that all graphs together may hold, at about 300 bytes each."""


class Graphs:
    """A bounded number of graphs. One that was thrown away is filled from the store when it is needed again."""

    def __init__(self, *, most_clusters: int = MOST_CLUSTERS, most_edges: int = MOST_EDGES) -> None:
        self._most_clusters = most_clusters
        self._most_edges = most_edges
        self._graphs: OrderedDict[Name, Graph] = OrderedDict()

    def __len__(self) -> int:
        return len(self._graphs)

    def get(self, cluster: Name) -> Graph | None:
        graph = self._graphs.get(cluster)
        if graph is not None:
            graph.used = True
            self._graphs.move_to_end(cluster)
        return graph

    def add(self, cluster: Name) -> Graph:
        """An unfilled graph for a cluster that has none."""
        graph = self._graphs[cluster] = Graph()
        self._shrink()
        return graph

    def clear(self) -> None:
        self._graphs.clear()

    def sweep(self) -> None:
        """Remove graphs that were not used since the last call."""
        for cluster, graph in list(self._graphs.items()):
            if graph.idle and not graph.used:
                del self._graphs[cluster]
            graph.used = False

    def _shrink(self) -> None:
        edges = sum(graph.edges for graph in self._graphs.values())
        for cluster, graph in list(self._graphs.items())[:-1]:
            if len(self._graphs) <= self._most_clusters and edges <= self._most_edges:
                return
            if graph.idle:
                edges -= graph.edges
                del self._graphs[cluster]
