"""The tap over HTTP: what goes over the wire. Served at `/clusters/*/tap/v1/…`, see docs/adr/0020.

A stream is lines of JSON. A line is a change, the revision up to which every change was shown, or the Status of a failure that ends the
stream. An empty line says that the server is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.client.tap import ObjectChange, ObjectFilter
from kcp_py.logicalcluster import Name

ROOT: Final = "tap"
"""The first segment of the paths."""
VERSION: Final = "v1"
HEARTBEAT_SECONDS: Final = 20.0
"""An empty line is sent when there was nothing else for so long."""

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
        return b'%b,"value":%b}\n' % (orjson.dumps(head)[:-1], change.value or b"null")
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
