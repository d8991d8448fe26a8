"""`Key`: where an object is, for caches and queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcp_py.logicalcluster import ClusterSelection, Name, Wildcard, parse_name

CLUSTER_ANNOTATION = "kcp.io/cluster"


class Key(NamedTuple):
    """What a controller looks at."""

    cluster: Name
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str


def key_of(obj: Mapping[str, Any], cluster: ClusterSelection) -> Key:
    """The key of a decoded object.

    Args:
        obj: as a client gets it.
        cluster: where it was asked for. With the wildcard, the annotation of the server says in which cluster the object is.

    Raises:
        KeyError: the object has no name, or no cluster.
        ValueError: its cluster cannot be one.
    """
    metadata = obj["metadata"]
    where = parse_name(metadata["annotations"][CLUSTER_ANNOTATION]) if isinstance(cluster, Wildcard) else cluster
    return Key(where, metadata.get("namespace", ""), metadata["name"])
