"""`ObjectEvent`: one change of one object."""

from __future__ import annotations

from typing import Any

from kcp_py.storage.contract import Event, KeyValue
from kcp_py.storage.keys import Route


class ObjectEvent:
    """One change of one object.

    All watchers share one event. Values that are computed from it (decoded objects, encoded frames) are cached in `memo`, under keys
    that contain everything on which the value depends. An event and its memo belong to exactly one cluster.
    """

    __slots__ = ("create_revision", "memo", "mod_revision", "previous", "resource_version", "route", "value")

    def __init__(self, route: Route, event: Event) -> None:
        self.route = route
        self.value: bytes | None = event.value
        self.mod_revision = event.mod_revision
        self.resource_version = event.mod_revision
        """The resourceVersion that clients receive and resume from. It is smaller than `mod_revision` if another event of the revision
        follows, because a client that resumes would miss that event."""
        self.create_revision = event.create_revision
        self.previous: KeyValue | None = event.previous
        self.memo: dict[Any, Any] = {}

    @property
    def size(self) -> int:
        """Bytes held, roughly."""
        size = 400
        if self.value is not None:
            size += len(self.value)
        if self.previous is not None:
            size += len(self.previous.value)
        return size

    def __repr__(self) -> str:
        return f"<ObjectEvent {self.mod_revision} {self.route.cluster} {self.route.namespace}/{self.route.name}>"
