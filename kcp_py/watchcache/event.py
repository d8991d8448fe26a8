"""`ObjectEvent`: one change of one object."""

from __future__ import annotations

from typing import Any, Final

from kcp_py.storage.contract import Event, KeyValue
from kcp_py.storage.keys import Route

_OWN_SIZE: Final = 400


class ObjectEvent:
    """One change of one object.

    All watchers share one event. Values that are computed from it (decoded objects, encoded frames) are cached in `memo`, under keys
    that contain everything on which the value depends. An event and its memo belong to exactly one cluster.
    """

    __slots__ = ("create_revision", "memo", "mod_revision", "previous", "resource_version", "route", "size", "value")

    def __init__(self, route: Route, event: Event) -> None:
        _, value, revision, created, previous = event
        self.route = route
        self.value: bytes | None = value
        self.mod_revision = revision
        self.resource_version = revision
        """The resourceVersion that clients receive and resume from. It is smaller than `mod_revision` if another event of the revision
        follows, because a client that resumes would miss that event."""
        self.create_revision = created
        self.previous: KeyValue | None = previous
        self.memo: dict[Any, Any] = {}
        self.size = _OWN_SIZE + (0 if value is None else len(value)) + (0 if previous is None else len(previous[1]))
        """Bytes held, roughly."""

    def __repr__(self) -> str:
        return f"<ObjectEvent {self.mod_revision} {self.route.cluster} {self.route.namespace}/{self.route.name}>"
