"""The tap over HTTP: what goes over the wire. Served at `/clusters/*/tap/v1/…`, see docs/adr/0020.

A stream is lines of JSON. A line is a change, the revision up to which every change was shown, or the Status of a failure that ends the
stream. An empty line says that the server is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.client.tap import Holder, ObjectChange, ObjectFilter, StoredResource
from kcp_py.logicalcluster import Name, parse_name
from kcp_py.storage.keys import resource_keys

ROOT: Final = "tap"
"""The first segment of the paths."""
VERSION: Final = "v1"
HEARTBEAT_SECONDS: Final = 20.0
"""An empty line is sent when there was nothing else for so long."""

_ANY: Final = resource_keys("", "", "any", namespaced=False)
"""Keys that check names: objects of all resources have the same."""
_SHOWN: Final = ("name", "namespace", "uid", "ownerReferences", "finalizers", "deletionTimestamp")


def filter_text(given: ObjectFilter) -> str:
    """A filter as the value of a query parameter."""
    document = {
        "contains": [[text.decode() for text in texts] for texts in given.contains],
        "lacks": [text.decode() for text in given.lacks],
        "ignored": [list(resource) for resource in sorted(given.ignored)],
        "always": [list(resource) for resource in sorted(given.always)],
    }
    return orjson.dumps(document).decode()


def parse_filter(text: str) -> ObjectFilter:
    """Read what `filter_text` has written.

    Raises:
        ValueError: it is something else.
    """
    try:
        document = orjson.loads(text)
        return ObjectFilter(
            tuple(tuple(one.encode() for one in texts) for texts in document["contains"]),
            tuple(one.encode() for one in document["lacks"]),
            frozenset(GroupResource(group, resource) for group, resource in document["ignored"]),
            frozenset(GroupResource(group, resource) for group, resource in document["always"]),
        )
    except (AttributeError, KeyError, TypeError, UnicodeError) as error:
        raise ValueError(f"not a filter: {error}") from error


class Deletion(NamedTuple):
    """The arguments of `Tap.delete_stored`."""

    cluster: Name
    resource: StoredResource
    namespace: str
    settled: Sequence[str]
    holder: Holder | None


class FinalizerRemoval(NamedTuple):
    """The arguments of `Tap.remove_finalizer`."""

    cluster: Name
    resource: GroupVersionResource
    namespace: str
    name: str
    finalizer: str
    uid: str


class Recount(NamedTuple):
    """The arguments of `Tap.recount_quota`."""

    cluster: Name
    namespace: str
    name: str


def deletion_body(given: Deletion) -> bytes:
    """A deletion as a body."""
    (group, resource), custom, namespaced = given.resource
    holder = given.holder
    document = {
        "cluster": given.cluster,
        "group": group,
        "resource": resource,
        "custom": custom,
        "namespaced": namespaced,
        "namespace": given.namespace,
        "settled": given.settled,
        "holder": None if holder is None else {"resource": list(holder.resource), "name": holder.name, "uid": holder.uid},
    }
    return orjson.dumps(document)


def parse_deletion(body: bytes) -> Deletion:
    """Read what `deletion_body` has written.

    Raises:
        ValueError: it is something else.
    """
    try:
        document = orjson.loads(body)
        group_resource = checked_resource(document["group"], document["resource"])
        resource = StoredResource(group_resource, _flag(document["custom"]), _flag(document["namespaced"], optional=True))
        cluster, namespace, holder = parse_name(_text(document["cluster"])), _text(document["namespace"]), document["holder"]
        _check_key(cluster, namespace)
        found = None
        if holder is not None:
            found = Holder(_versioned(holder["resource"]), _text(holder["name"]), _text(holder["uid"]))
            _check_key(cluster, found.name or ".")
        return Deletion(cluster, resource, namespace, [_text(finalizer) for finalizer in document["settled"]], found)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a deletion: {error}") from error


def finalizer_body(given: FinalizerRemoval) -> bytes:
    """A removal of a finalizer as a body."""
    return orjson.dumps({**given._asdict(), "resource": list(given.resource)})


def parse_finalizer(body: bytes) -> FinalizerRemoval:
    """Read what `finalizer_body` has written.

    Raises:
        ValueError: it is something else.
    """
    try:
        document = orjson.loads(body)
        cluster, resource = parse_name(_text(document["cluster"])), _versioned(document["resource"])
        namespace, name, finalizer, uid = (_text(document[member]) for member in ("namespace", "name", "finalizer", "uid"))
        _check_key(cluster, namespace)
        _check_key(cluster, name or ".")
        return FinalizerRemoval(cluster, resource, namespace, name, finalizer, uid)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a removal of a finalizer: {error}") from error


def recount_body(given: Recount) -> bytes:
    """A count of a quota as a body."""
    return orjson.dumps(given._asdict())


def parse_recount(body: bytes) -> Recount:
    """Read what `recount_body` has written.

    Raises:
        ValueError: it is something else.
    """
    try:
        document = orjson.loads(body)
        cluster = parse_name(_text(document["cluster"]))
        namespace, name = _text(document["namespace"]), _text(document["name"])
        _check_key(cluster, namespace or ".")
        _check_key(cluster, name or ".")
        return Recount(cluster, namespace, name)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a count of a quota: {error}") from error


def checked_resource(group: Any, resource: Any) -> GroupResource:
    """A resource of a request.

    Raises:
        ValueError: no resource can have the name, or no group.
    """
    found = GroupResource(_text(group), _text(resource))
    # Keys are built when the objects are read, which may be after the answer has begun.
    resource_keys("", *found, namespaced=True)
    return found


def _versioned(given: Any) -> GroupVersionResource:
    group, version, resource = given
    checked_resource(group, resource)
    return GroupVersionResource(group, _text(version), resource)


def _check_key(cluster: Name, segment: str) -> None:
    """Check a namespace, which may be empty, or the name of an object.

    Raises:
        ValueError: no key can have it.
    """
    if segment:
        _ANY.object_key(cluster, "", segment)


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{given!r} is not a text")
    return given


def _flag(given: Any, *, optional: bool = False) -> Any:
    if not isinstance(given, bool) and not (optional and given is None):
        raise TypeError(f"{given!r} is not true or false")
    return given


def merged(filters: Sequence[ObjectFilter]) -> ObjectFilter:
    """Shows whatever one of the filters shows; without filters, nothing but removals."""
    if not filters:
        return ObjectFilter(contains=((b"\0",),))
    whole = any(not (one.contains or one.lacks) for one in filters)
    return ObjectFilter(
        () if whole else tuple(texts for one in filters for texts in one.contains),
        () if whole else tuple(text for one in filters for text in one.lacks),
        frozenset.intersection(*(one.ignored for one in filters)),
        frozenset.union(*(one.always for one in filters)),
    )


def change_line(change: ObjectChange, *, whole: bool) -> bytes:
    """A change as a line.

    Args:
        change: the change.
        whole: show the object itself; else apiVersion, kind and that part of the metadata that the owners and the life of objects need.
    """
    head = {
        "cluster": change.cluster,
        "group": change.resource.group,
        "resource": change.resource.resource,
        "namespace": change.namespace,
        "name": change.name,
    }
    if whole:
        # Other programs that write to the store may have put line feeds between members; texts have none.
        value = change.value.replace(b"\n", b" ") if change.value else b"null"
        return b'%b,"value":%b}\n' % (orjson.dumps(head)[:-1], value)
    return orjson.dumps({**head, "value": _reduced(change.value), "previous": _reduced(change.previous)}) + b"\n"


def revision_line(revision: int) -> bytes:
    """The revision up to which every change was shown."""
    return b'{"revision":%d}\n' % revision


def error_line(error: StatusError) -> bytes:
    """A failure that ends the stream."""
    return orjson.dumps({"error": error.to_status()}) + b"\n"


def read_change(line: Mapping[str, Any]) -> ObjectChange:
    """The change of a decoded line."""
    value, previous = line.get("value"), line.get("previous")
    return ObjectChange(
        Name(line["cluster"]),
        GroupResource(line["group"], line["resource"]),
        line["namespace"],
        line["name"],
        None if value is None else orjson.dumps(value),
        None if previous is None else orjson.dumps(previous),
    )


def _reduced(value: bytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    obj = orjson.loads(value)
    metadata = {name: obj["metadata"][name] for name in _SHOWN if name in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
