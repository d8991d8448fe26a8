"""Where objects live: the only module that builds or reads storage keys.

A key is ::

    /registry/core/configmaps/team-a/default/game         built-in, namespaced
    /registry/core/namespaces/team-a/default              built-in, cluster-scoped
    /registry/example.com/widgets/customresources/team-a/default/one    from a CRD of the cluster

so that one resource over *all* clusters is one prefix, of one cluster another, of one namespace a third. Every segment is validated when
a key is built: whatever a caller passes, a key never leaves the cluster and resource that it was asked for (`InvalidSegmentError`
otherwise).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from kcp_py.logicalcluster import Name, parse_name

CUSTOM_RESOURCES: Final = "customresources"
"""The identity segment of resources that a cluster's own CRD defines."""

_GROUP_OR_RESOURCE: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_FORBIDDEN_IN_NAME: Final = re.compile(r"[/%\x00-\x1f\x7f\ud800-\udfff]")
_LONGEST_NAME: Final = 253


class InvalidSegmentError(ValueError):
    """A text cannot be a segment of a key. A client error was let through by an earlier check, or a bug; never written."""


class ResourceKeys(NamedTuple):
    """The keys of one resource (of all clusters)."""

    prefix: str
    """Ends with a slash."""
    namespaced: bool

    def cluster_prefix(self, cluster: Name) -> str:
        """The prefix of the resource's objects in one cluster."""
        return f"{self.prefix}{_checked_cluster(cluster)}/"

    def namespace_prefix(self, cluster: Name, namespace: str) -> str:
        """The prefix of the resource's objects in one namespace of one cluster."""
        if not self.namespaced:
            raise InvalidSegmentError(f"{self.prefix} is not namespaced")
        return f"{self.prefix}{_checked_cluster(cluster)}/{_checked_name(namespace)}/"

    def object_key(self, cluster: Name, namespace: str, name: str) -> str:
        """The key of one object; `namespace` is empty exactly for cluster-scoped resources."""
        if bool(namespace) is not self.namespaced:
            raise InvalidSegmentError(f"{self.prefix} {'needs' if self.namespaced else 'takes no'} namespace")
        if namespace:
            return f"{self.prefix}{_checked_cluster(cluster)}/{_checked_name(namespace)}/{_checked_name(name)}"
        return f"{self.prefix}{_checked_cluster(cluster)}/{_checked_name(name)}"

    def parse(self, key: str) -> ObjectKey:
        """Read a key of this resource back."""
        if not key.startswith(self.prefix):
            raise InvalidSegmentError(f"{key} is not below {self.prefix}")
        match key[len(self.prefix) :].split("/"):
            case [cluster, namespace, name] if self.namespaced:
                return ObjectKey(Name(cluster), namespace, name)
            case [cluster, name] if not self.namespaced:
                return ObjectKey(Name(cluster), "", name)
            case _:
                raise InvalidSegmentError(f"{key} has the wrong number of segments for {self.prefix}")


class ObjectKey(NamedTuple):
    """The part of a key that names an object of a known resource."""

    cluster: Name
    namespace: str
    name: str


def resource_keys(root: str, group: str, resource: str, *, namespaced: bool, identity: str = "") -> ResourceKeys:
    """The keys of a resource.

    Args:
        root: the store's prefix, such as `/registry`.
        group: the API group; empty for the core group.
        resource: the plural.
        namespaced: the resource's scope.
        identity: empty for built-ins, `CUSTOM_RESOURCES` for resources of a cluster's own CRD.
    """
    parts = [root, _checked_word(group or "core"), _checked_word(resource)]
    if identity:
        parts.append(_checked_word(identity))
    return ResourceKeys("/".join(parts) + "/", namespaced)


def internal_key(root: str, name: str) -> str:
    """A key of the server's own (`/registry/.kcp-py/<name>`), outside every resource: a group never begins with a dot."""
    return f"{root}/.kcp-py/{_checked_word(name)}"


def _checked_word(text: str) -> str:
    if _GROUP_OR_RESOURCE.fullmatch(text) is None:
        raise InvalidSegmentError(f"invalid key segment {text!r}")
    return text


@lru_cache(maxsize=4096)
def _checked_cluster(cluster: Name) -> str:
    try:
        return parse_name(cluster)
    except ValueError as error:
        raise InvalidSegmentError(f"invalid cluster in key: {cluster!r}") from error


def _checked_name(text: str) -> str:
    if not text or len(text) > _LONGEST_NAME or text in {".", ".."} or _FORBIDDEN_IN_NAME.search(text):
        raise InvalidSegmentError(f"invalid key segment {text!r}")
    return text
