"""Names of logical clusters: `Name`, `Path` and the wildcard. Value types only, without I/O and without imports of other packages.

A *name* identifies one logical cluster. Storage keys, caches and authorization use it::

    team-a            one segment
    root              always exists
    system:admin      names that start with `system:` may contain colons

A *path* is the text between `/clusters/` and the next slash of a URL. A path of one segment, or one that starts with `system:`,
is a name; any other path (`root:org:team`) has to be resolved to a name in the tree of workspaces.

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
