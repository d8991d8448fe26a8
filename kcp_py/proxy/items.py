"""Objects of a cache, and the changes that lead from some of them to others. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson


class GoneError(Exception):
    """The resource cannot be cached: it is not served any more, or the proxy may not read it. `str()` is the reason."""


class Item(NamedTuple):
    """One object."""

    raw: bytes
    """JSON with apiVersion and kind."""
    namespace: str
    name: str
    labels: dict[str, str]
    version: int

    @property
    def metadata(self) -> bytes:
        """JSON of the `PartialObjectMetadata`."""
        head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        return orjson.dumps({**head, "metadata": orjson.loads(self.raw)["metadata"]})


class Event(NamedTuple):
    """One change. An event without an item is a bookmark."""

    kind: str
    """`ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`."""
    item: Item | None
    before: Item | None
    """The object before the change; None where there was none."""
    version: int


def item_of(obj: dict[str, Any], kind: str, api_version: str) -> Item:
    """An object of a list or of an event; objects of lists may lack what their list says.

    Raises:
        GoneError: its version is not a number.
    """
    if "kind" not in obj or "apiVersion" not in obj:
        obj = {"kind": kind, "apiVersion": api_version, **obj}
    metadata = obj["metadata"]
    labels = metadata.get("labels") or {}
    return Item(orjson.dumps(obj), metadata.get("namespace") or "", metadata["name"], labels, number_of(metadata.get("resourceVersion")))


def differences(old: dict[tuple[str, str], Item], new: dict[tuple[str, str], Item], version: int) -> list[Event]:
    """The events that lead from old objects to new ones, in the order of their versions. Deletions have the version of the list."""
    found = []
    for key, item in new.items():
        before = old.get(key)
        if before is None:
            found.append(Event("ADDED", item, None, item.version))
        elif before.version != item.version:
            found.append(Event("MODIFIED", item, before, item.version))
    found.sort(key=lambda event: event.version)
    for key, item in old.items():
        if key not in new:
            obj = orjson.loads(item.raw)
            obj["metadata"]["resourceVersion"] = str(version)
            found.append(Event("DELETED", item._replace(raw=orjson.dumps(obj), version=version), item, version))
    return found


def number_of(version: Any) -> int:
    """A resource version. All servers that this proxy knows have numbers.

    Raises:
        GoneError: it is something else.
    """
    if isinstance(version, str) and version.isascii() and version.isdigit():
        return int(version)
    raise GoneError("the resource versions are no numbers")
