"""Updates that repeat themselves: a manager changes the values of fields that it owns already, as controllers do all the time.

Then no owner changes. One walk along both objects finds out whether an update is of that kind. `tracking.track_update` makes the same of
these updates, and of all others.
"""

from __future__ import annotations

from typing import Any

import orjson

from kcp_py.apimachinery.equality import equal
from kcp_py.apimachinery.managedfields.comparison import EQUALITY_DEPTH
from kcp_py.apimachinery.managedfields.entries import MAX_UPDATERS, UPDATE, Managed, restamped_entries
from kcp_py.apimachinery.managedfields.fieldsets import EMPTY, OWN, FieldSet
from kcp_py.apimachinery.managedfields.ownership import Manager, Versions
from kcp_py.apimachinery.managedfields.repeating import may_have
from kcp_py.apimachinery.managedfields.tracking import ManagedWrite, has_same_metadata
from kcp_py.apimachinery.managedfields.types import DEDUCED, SCALAR, MergeType
from kcp_py.apimachinery.managedfields.values import ABSENT, CONTAINERS, MAP_KINDS, item_element

__all__ = ["track_repeated_update"]


def track_repeated_update(
    versions: Versions, live: dict[str, Any], new: dict[str, Any], writer: ManagedWrite, *, known: Managed
) -> Managed | None:
    """Note in `new`, in place, an update that changes the values of fields alone which its manager has updated before and owns alone.

    The sets of fields of all managers stay as they are then. The entry of this manager gets another time, as in `track_update`. An update
    that changes nothing leaves the time, too.

    Args:
        versions: of the object.
        live: the stored object.
        new: the object to be stored; its managedFields are the request's.
        writer: who writes.
        known: what the entries of `live` say. It is not changed.

    Returns:
        What the entries of `new` say, as `track_update` gives it. None for any other update, such as one that adds or removes fields, takes
        them from others or brings entries of its own: `new` is as it was then.
    """
    kind, version, owners = versions.kind, versions.version, known.owners
    # Sets that fit the present types have no fields of the server, none is empty, and their members are in order.
    if known.versions is not versions.key or versions.key is None or not owners or len(owners) > MAX_UPDATERS:
        return None
    name, time, subresource, ignored = writer
    before, metadata = live["metadata"], new["metadata"]
    entries = metadata.get("managedFields")
    if entries is not None and not subresource and entries != before.get("managedFields"):
        return None
    if kind.atomic or kind.kind not in MAP_KINDS or not has_same_metadata(before, metadata):
        return None
    identity = (name, UPDATE, subresource, version)
    mine: Manager | None = None
    for manager, owned in owners.items():
        if manager == identity:
            mine = manager
        elif owned.api_version != version:
            return None
    fields = owners[mine].fields if mine is not None else EMPTY
    if not fields.keys().isdisjoint(ignored):
        return None
    changed = _changed_values(kind, live | {"metadata": metadata}, new, fields, 1)
    if changed is None:
        return None
    if changed and len(owners) > 1:
        for manager, owned in owners.items():
            if manager is not mine and may_have(owned.fields, changed):
                return None
    metadata.pop("managedFields", None)
    metadata["managedFields"], said = restamped_entries(known, mine if changed else None, time)
    return said


def _changed_values(kind: MergeType, old: dict[str, Any], new: dict[str, Any], fields: FieldSet, depth: int) -> FieldSet | None:
    """The fields of a granular map with other values, all of which are among `fields`; empty for none.

    None where fields were added or removed, where other fields changed, and where the type of a value or the items of a set changed.
    """
    if len(old) != len(new):
        return None
    changed = EMPTY
    named = kind.fields
    other = DEDUCED if kind.kind == "deduced" else kind.element or SCALAR
    for name, child in new.items():
        before = old.get(name, ABSENT)
        if before is child:
            continue
        found = type(child)
        if type(before) is not found:
            return None
        below = EMPTY
        if found in CONTAINERS:
            part = named.get(name, other)
            is_granular = not part.atomic and (part.kind in MAP_KINDS if found is dict else part.kind == "list" and bool(part.list_type))
            if (depth < EQUALITY_DEPTH or not is_granular) and before == child and _is_equal(before, child):
                continue
            if is_granular:
                walk = _changed_values if found is dict else _changed_items
                inner = walk(part, before, child, fields.get(f"f:{name}", EMPTY), depth + 1)
                if inner is None:
                    return None
                if not inner:
                    continue
                below = inner
        elif before == child:
            continue
        element = f"f:{name}"
        if not below:
            mine = fields.get(element)
            if mine is None or (mine and OWN not in mine):
                return None
        if not changed:
            changed = {}
        changed[element] = below
    return changed


def _changed_items(kind: MergeType, old: list[Any], new: list[Any], fields: FieldSet, depth: int) -> FieldSet | None:
    """`_changed_values` of a granular list. None also where its items are others, in another order, or have the same keys."""
    element = kind.element
    if len(old) != len(new) or kind.list_type != "map" or element is None or element.atomic or element.kind not in MAP_KINDS:
        return None
    changed: FieldSet = {}
    seen: set[str] = set()
    for index, (before, item) in enumerate(zip(old, new, strict=True)):
        place = item_element(kind, item, index)
        if place in seen or type(before) is not dict or type(item) is not dict or item_element(kind, before, index) != place:
            return None
        seen.add(place)
        below = _changed_values(element, before, item, fields.get(place, EMPTY), depth)
        if below is None:
            return None
        if below:
            changed[place] = below
    return changed


def _is_equal(one: Any, other: Any) -> bool:
    """Whether containers that Python takes for equal are, since true equals 1 there."""
    return orjson.dumps(one) == orjson.dumps(other) or equal(one, other)
