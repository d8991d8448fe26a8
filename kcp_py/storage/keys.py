"""Storage keys: the only module that builds or parses them.

A key is ::

    /registry/core/configmaps/team-a/default/game         built-in, namespaced
    /registry/core/namespaces/team-a/default              built-in, cluster-scoped
    /registry/example.com/widgets/customresources/team-a/default/one    from a CRD of the cluster

so that one resource over *all* clusters is one prefix, of one cluster another, of one namespace a third. Every segment is validated when
a key is built: whatever a caller passes, a key never leaves the cluster and resource that it was asked for (`InvalidSegmentError`
otherwise).

A key identifies its object without knowledge of the resources (`route_of`). The third segment after the root is either
an identity or a cluster, and no text is both: the cluster named `customresources` has the segment `customresources.`, and identities
are never valid cluster names. The number of the segments that follow says whether there is a namespace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Final, NamedTuple

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name, parse_name

CUSTOM_RESOURCES: Final = "customresources"
"""The identity segment of resources that a cluster's own CRD defines."""

_CUSTOM_RESOURCES_CLUSTER: Final = f"{CUSTOM_RESOURCES}."
"""The segment of the cluster that is named like the identity. It sorts where the name would: no name holds a character below the dot but
the hyphen, and a slash follows the dot in code-point order."""

_CORE: Final = "core"
_GROUP_OR_RESOURCE: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_NAME: Final = r"(?!\.{1,2}(?:/|\Z))[^/%\x00-\x1f\x7f\ud800-\udfff]{1,253}"
_is_name: Final = re.compile(_NAME).fullmatch
_is_place: Final = re.compile(f"{_NAME}/{_NAME}").fullmatch
"""Two names with a slash between them, which neither of them holds."""
_LONGEST_CLUSTER_SEGMENT: Final = 63
"""The maximum length of cluster names without a colon."""


class InvalidSegmentError(ValueError):
    """A text cannot be a segment of a key. An earlier check missed an error of a client, or the caller has a defect."""


class Route(NamedTuple):
    """The parts of a key."""

    prefix: str
    """The resource's prefix, `ResourceKeys.prefix`."""
    cluster: str
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str

    @property
    def key(self) -> str:
        """The key that was read, or the key of an object that is not stored."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.prefix}{_segment_of(self.cluster)}/{place}"


class ObjectKey(NamedTuple):
    """The part of a key that names an object of a known resource."""

    cluster: Name
    namespace: str
    name: str


class ResourceKeys(NamedTuple):
    """The keys of one resource (of all clusters)."""

    prefix: str
    """Ends with a slash."""
    namespaced: bool
    root: str
    """The store's prefix, such as `/registry`."""
    identity: str
    """Empty for built-in resources."""

    def cluster_prefix(self, cluster: Name) -> str:
        """The prefix of the resource's objects in one cluster."""
        return f"{self.prefix}{_checked_cluster(cluster)}/"

    def namespace_prefix(self, cluster: Name, namespace: str) -> str:
        """The prefix of the resource's objects in one namespace of one cluster."""
        if not self.namespaced:
            raise InvalidSegmentError(f"{self.prefix} is not namespaced")
        if not _is_name(namespace):
            raise InvalidSegmentError(f"invalid key segment {namespace!r}")
        return f"{self.prefix}{_checked_cluster(cluster)}/{namespace}/"

    def object_key(self, cluster: Name, namespace: str, name: str) -> str:
        """The key of one object; `namespace` is empty exactly for cluster-scoped resources."""
        if bool(namespace) is not self.namespaced:
            raise InvalidSegmentError(f"{self.prefix} {'needs' if self.namespaced else 'takes no'} namespace")
        place = f"{namespace}/{name}" if namespace else name
        if not (_is_place(place) if namespace else _is_name(place)):
            raise InvalidSegmentError(f"invalid key segment in {place!r}")
        return f"{self.prefix}{_checked_cluster(cluster)}/{place}"

    def parse(self, key: str) -> ObjectKey:
        """Read a key of this resource back.

        Raises:
            InvalidSegmentError: the key belongs to another resource, or to one of the same name with the other scope.
        """
        found = self.locate(key)
        if bool(found.namespace) is not self.namespaced:
            raise InvalidSegmentError(f"{key} has the wrong number of segments for {self.prefix}")
        return found

    def locate(self, key: str) -> ObjectKey:
        """Read a key below this prefix back, whatever the scope: each cluster's CRD decides that for its own objects.

        Raises:
            InvalidSegmentError: the key is not below this prefix, or belongs to another resource.
        """
        route = route_of(key, self.root)
        if route is None or route.prefix != self.prefix:
            raise InvalidSegmentError(f"{key} is no key of {self.prefix}")
        return ObjectKey(Name(route.cluster), route.namespace, route.name)

    def locate_each(self, keys: Iterable[str]) -> Iterator[ObjectKey]:
        """`locate` for many keys. It takes a fraction of the time where they are in order, or of ordinary clusters.

        Raises:
            InvalidSegmentError: a key is not below this prefix, or belongs to another resource.
        """
        prefix = self.prefix
        begin = len(prefix)
        current, cluster = "\x00", Name("")
        for key in keys:
            if not key.startswith(current):
                current = key[: key.find("/", begin) + 1]
                segment = current[begin:-1]
                cluster = Name(segment)
                if "." in segment or segment == CUSTOM_RESOURCES or not (0 < len(segment) <= _LONGEST_CLUSTER_SEGMENT):
                    current = "\x00"
            if current == "\x00" or not key.startswith(prefix) or key.count("/", len(current)) > 1:
                yield self.locate(key)
                continue
            namespace, slash, name = key[len(current) :].partition("/")
            yield _object_key((cluster, namespace, name) if slash else (cluster, "", namespace))

    def first_cluster(self, start: str) -> Name | None:
        """The cluster of the first key at which a scan of this resource may begin; None where it begins with the first cluster.

        Args:
            start: a key below the prefix, whole or cut, or the empty text.
        """
        return _cluster_of(start[len(self.prefix) :].partition("/")[0]) if start.startswith(self.prefix) else None

    def cluster_at(self, key: str) -> str:
        """The cluster of a stored key below the prefix; empty for keys of other resources. The key is not checked."""
        segment = key[len(self.prefix) : key.index("/", len(self.prefix))]
        if segment != CUSTOM_RESOURCES and "." not in segment and len(segment) <= _LONGEST_CLUSTER_SEGMENT:
            return segment
        return _cluster_of(segment) or ""

    @property
    def foreign_prefix(self) -> str:
        """The prefix of keys below `prefix` that belong to custom resources of the same name; empty if `prefix` contains no such keys.

        A kind may be defined by CRDs first, and built in later (`--builtin-kinds`).
        """
        return "" if self.identity else ambiguous_prefix(self.prefix)


_object_key: Final[Callable[[tuple[Name, str, str]], ObjectKey]] = partial(tuple.__new__, ObjectKey)


def resource_keys(root: str, group: str, resource: str, *, namespaced: bool, identity: str = "") -> ResourceKeys:
    """The keys of a resource.

    Args:
        root: the store's prefix, such as `/registry`.
        group: the API group; empty for the core group.
        resource: the plural.
        namespaced: the resource's scope.
        identity: empty for built-ins, `CUSTOM_RESOURCES` for resources of a cluster's own CRD.
    """
    parts = [root, _checked_word(group or _CORE), _checked_word(resource)]
    if identity:
        if _cluster_of(_checked_word(identity)) is not None:
            raise InvalidSegmentError(f"the identity {identity!r} could be a cluster")
        parts.append(identity)
    return ResourceKeys("/".join(parts) + "/", namespaced, root, identity)


def custom_resource_keys(root: str, crd_name: str, *, namespaced: bool) -> ResourceKeys:
    """The keys of the resource that a CRD defines, by the name of the CRD (`<plural>.<group>`, `<plural>.core` for the core group)."""
    plural, _, group = crd_name.partition(".")
    return resource_keys(root, group, plural, namespaced=namespaced, identity=CUSTOM_RESOURCES)


def crd_name_of(resource: GroupResource) -> str:
    """The name of the CRDs that define a resource, as `custom_resource_keys` takes it."""
    return f"{resource.resource}.{resource.group or _CORE}"


def internal_key(root: str, name: str) -> str:
    """A key of the server's own (`/registry/.kcp-py/<name>`), outside every resource: a group never begins with a dot."""
    return f"{root}/.kcp-py/{_checked_word(name)}"


_route: Final[Callable[[tuple[str, str, str, str]], Route]] = partial(tuple.__new__, Route)


def route_of(key: str, root: str) -> Route | None:
    """The parts of a key, or None for keys that belong to no resource, such as internal keys."""
    if not key.startswith(root):
        return None
    end = key.rfind("/") + 1
    directory = _directory_of(key[:end], root)
    if directory is None:
        return None
    prefix, cluster, namespace = directory
    return _route((prefix, cluster, namespace, key[end:]))


@lru_cache(maxsize=4096)
def _directory_of(path: str, root: str) -> tuple[str, str, str] | None:
    """The prefix, cluster and namespace of the keys whose last slash ends a path. The names of the objects do not matter."""
    segments = path[len(root) + 1 :].split("/")[:-1]
    match segments:
        case [group, resource, identity, segment, *rest] if _is_identity(identity):
            prefix = f"{root}/{group}/{resource}/{identity}/"
        case [_, _, identity] if _is_identity(identity):
            return None
        case [group, resource, segment, *rest]:
            prefix = f"{root}/{group}/{resource}/"
        case _:
            return None
    cluster = CUSTOM_RESOURCES if segment == _CUSTOM_RESOURCES_CLUSTER else segment
    match rest:
        case [namespace]:
            return prefix, cluster, namespace
        case []:
            return prefix, cluster, ""
        case _:
            return None


@lru_cache(maxsize=4096)
def resource_of(prefix: str, root: str) -> GroupResource:
    """The resource of a `Route.prefix`."""
    group, resource, *_ = prefix[len(root) + 1 :].split("/")
    return GroupResource("" if group == _CORE else group, resource)


def prefix_in_cluster(prefix: str, cluster: str) -> str:
    """`ResourceKeys.cluster_prefix` for a `Route.prefix`."""
    return f"{prefix}{_segment_of(cluster)}/"


def resource_prefix(key: str, root: str) -> str:
    """The prefix of all objects of the resource of a key, built in or custom; empty for internal keys."""
    group, _, rest = key[len(root) + 1 :].partition("/")
    resource, slash, _ = rest.partition("/")
    return f"{root}/{group}/{resource}/" if slash and not group.startswith(".") else ""


def ambiguous_prefix(prefix: str) -> str:
    """Where earlier releases stored a built-in resource of the cluster named `customresources`.

    Args:
        prefix: of a built-in resource.
    """
    return f"{prefix}{CUSTOM_RESOURCES}/"


def unambiguous_key(key: str, root: str, namespace: str | None) -> str:
    """The key of an object that an earlier release stored under `key`: another one for those below an `ambiguous_prefix`.

    Args:
        key: where the object is stored.
        root: the store's prefix.
        namespace: the namespace in the metadata of the object. None means unknown; an answer other than `key` is then provisional.
    """
    prefix = resource_prefix(key, root)
    ambiguous = ambiguous_prefix(prefix)
    if not prefix or not key.startswith(ambiguous):
        return key
    place = key[len(ambiguous) :]
    match place.split("/"):
        case [_]:
            pass
        case [first, _] if namespace is None or first == namespace:
            pass
        case _:
            return key
    return prefix_in_cluster(prefix, CUSTOM_RESOURCES) + place


def _segment_of(cluster: str) -> str:
    return _CUSTOM_RESOURCES_CLUSTER if cluster == CUSTOM_RESOURCES else cluster


def _is_identity(segment: str) -> bool:
    if segment == CUSTOM_RESOURCES:
        return True
    # Nearly every segment is a cluster, and short.
    return ("." in segment or len(segment) > _LONGEST_CLUSTER_SEGMENT) and _cluster_of(segment) is None


def _cluster_of(segment: str) -> Name | None:
    """The cluster that a segment stands for; None for identities."""
    if segment == CUSTOM_RESOURCES:
        return None
    if segment == _CUSTOM_RESOURCES_CLUSTER:
        return Name(CUSTOM_RESOURCES)
    try:
        return parse_name(segment)
    except ValueError:
        return None


def _checked_word(text: str) -> str:
    if _GROUP_OR_RESOURCE.fullmatch(text) is None:
        raise InvalidSegmentError(f"invalid key segment {text!r}")
    return text


@lru_cache(maxsize=4096)
def _checked_cluster(cluster: Name) -> str:
    try:
        return _segment_of(parse_name(cluster))
    except ValueError as error:
        raise InvalidSegmentError(f"invalid cluster in key: {cluster!r}") from error
