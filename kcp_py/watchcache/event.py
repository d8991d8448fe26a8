"""`ObjectEvent`: one change of one object, on its way to many watchers."""

from __future__ import annotations

from typing import Any

from kcp_py.storage.contract import Event, KeyValue
from kcp_py.storage.keys import Route


class ObjectEvent:
    """One change of one object.

    Everybody who watches shares the same event, so whatever is worked out from it once (its decoded objects, its encoded frames)
    is remembered in `memo`, under keys that hold everything the result depends on. An event belongs to exactly one cluster, and so
    does its memo.
    """

    __slots__ = ("create_revision", "memo", "mod_revision", "previous", "resource_version", "route", "value")

    def __init__(self, route: Route, event: Event) -> None:
        self.route = route
        self.value: bytes | None = event.value
        self.mod_revision = event.mod_revision
        self.resource_version = event.mod_revision
        """What clients get as the object's resourceVersion, from which they resume: smaller where another event of the revision follows
        that they would miss."""
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
