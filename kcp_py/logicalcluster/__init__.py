"""What a logical cluster is called: `Name`, `Path` and the wildcard. Value types only; nothing here does I/O or imports the project.

A *name* identifies one logical cluster and is what storage keys, caches and authorization are keyed by::

    team-a            one segment
    root              always exists
    system:admin      names that start with `system:` hold colons and still are one name

A *path* is what a client writes between `/clusters/` and the next slash. A path of one segment, or one that starts with `system:`,
is a name; any other (`root:org:team`) has to be resolved to a name by whoever knows the tree of workspaces.

The rules are kcp's (`logicalcluster/v3`): a segment is a DNS label, a path is segments joined by colons, `*` means every cluster.
"""

from kcp_py.logicalcluster.name import (
    ROOT,
    WILDCARD,
    ClusterSelection,
    InvalidClusterError,
    Name,
    Path,
    Wildcard,
    is_system,
    parse_name,
    parse_path,
)

__all__ = [
    "ROOT",
    "WILDCARD",
    "ClusterSelection",
    "InvalidClusterError",
    "Name",
    "Path",
    "Wildcard",
    "is_system",
    "parse_name",
    "parse_path",
]
