"""Applies that repeat themselves: a manager applies the fields that it owns already, with other values, as controllers do all the time.

Then nothing is merged or pruned and no owner changes: scalars are put in the places of scalars. One walk along the configuration finds out
whether an apply is of that kind, and makes the new object. `tracking.track_apply` makes the same of it, and of all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.equality import identical
from kcp_py.apimachinery.managedfields.conformity import typed_problems
from kcp_py.apimachinery.managedfields.entries import APPLY, Managed, restamped_entries
from kcp_py.apimachinery.managedfields.fieldsets import OWN, FieldSet
from kcp_py.apimachinery.managedfields.ownership import Manager, Versions
from kcp_py.apimachinery.managedfields.tracking import KUBECTL, ManagedWrite, well_known
from kcp_py.apimachinery.managedfields.types import MergeType

__all__ = ["may_have", "track_repeated"]

_GIVEN: Final = frozenset(("name", "namespace"))
"""Metadata of configurations that have no owner."""
_TYPES: Final[Mapping[str, frozenset[type]]] = {
    "": frozenset((str, int, float, bool)),
    "untyped": frozenset((str, int, float, bool)),
    "string": frozenset((str,)),
    "numeric": frozenset((int, float)),
    "boolean": frozenset((bool,)),
}
"""The values that fit a scalar (`conformity.typed_problems`)."""


class _Walked(NamedTuple):
    """A map after an apply."""

    value: dict[str, Any]
    """The live one itself where nothing changes."""
    changed: FieldSet | None
    """The fields with other values; None for none."""


def track_repeated(
    versions: Versions, live: dict[str, Any], config: dict[str, Any], writer: ManagedWrite, *, known: Managed | None = None
) -> tuple[dict[str, Any], Managed] | None:
    """Apply a configuration that changes the values of scalars alone, in fields that its manager has applied before and owns alone.

    Args:
        versions: of the object.
        live: the stored object.
        config: the applied configuration, without managedFields.
        writer: who applies.
        known: what the entries of `live` say, where that is known.

    Returns:
        The new object with its managedFields, and what these say, as `track_apply` gives them. It shares all other parts of `live`. None
        for any other configuration, such as one that conflicts, does not fit its type, or has lists with other items.
    """
    if writer.name == KUBECTL or versions.key is None:
        return None
    if known is None or known.versions is not versions.key:
        known = well_known(live, versions)
        if known is None:
            return None
    manager = Manager(writer.name, APPLY, writer.subresource)
    owners, version = known.owners, versions.version
    mine = owners.get(manager)
    if mine is None or mine.api_version != version:
        return None
    walked = _walk_object(versions.kind, live, config, mine.fields, writer.ignored)
    if walked is None:
        return None
    new, changed = walked
    for other, owned in owners.items():
        if other != manager and (owned.api_version != version or (changed and may_have(owned.fields, changed))):
            return None
    entries, said = restamped_entries(known, manager if changed else None, writer.time)
    metadata = dict(new["metadata"])
    metadata.pop("managedFields", None)
    metadata["managedFields"] = entries
    return {**new, "metadata": metadata}, said


def _walk_object(kind: MergeType, live: dict[str, Any], config: dict[str, Any], fields: FieldSet, ignored: FieldSet) -> _Walked | None:
    """`_walk` for a whole object, without the fields of the server."""
    rest: dict[str, Any] = {}
    for name, child in config.items():
        if name == "metadata":
            if not _keeps_metadata(kind, live[name], child, fields=fields, ignored=ignored):
                return None
        elif name in {"apiVersion", "kind"}:
            if live.get(name) != child:
                return None
        elif f"f:{name}" in ignored:
            return None
        else:
            rest[name] = child
    return _walk(kind, live, rest, {name: below for name, below in fields.items() if name != "f:metadata"})


def _keeps_metadata(kind: MergeType, live: dict[str, Any], config: Any, *, fields: FieldSet, ignored: FieldSet) -> bool:
    """Whether an apply leaves the metadata as they are, and who owns them."""
    if type(config) is not dict:
        return False
    rest: dict[str, Any] = {}
    for name, child in config.items():
        if name not in _GIVEN:
            rest[name] = child
        elif live.get(name) != child:
            return False
    mine = fields.get("f:metadata")
    if mine is None or not rest:
        return mine is None and not rest
    if "f:metadata" in ignored or not rest.keys() <= {"labels", "annotations"}:
        return False
    described = kind.fields.get("metadata")
    walked = _walk(described, live, rest, mine) if described is not None else None
    return walked is not None and walked.changed is None


def _walk(kind: MergeType, live: dict[str, Any], config: dict[str, Any], fields: FieldSet) -> _Walked | None:
    """A map after an apply; None where more changes than values, or where the fields of `config` are not exactly `fields`."""
    if len(fields) - (OWN in fields) != len(config):
        return None
    named, other = kind.fields, kind.element
    value = live
    changed: FieldSet | None = None
    new: Any
    moved: FieldSet | None
    for name, child in config.items():
        element = f"f:{name}"
        before, below, part = live.get(name), fields.get(element), named.get(name)
        if part is None:
            part, is_named = other, False
        else:
            is_named = True
        if part is None or below is None or type(before) is not type(child):
            return None
        if type(child) is not dict or not child or part.kind != "map" or part.atomic:
            if below or not _is_whole(part, before, child):
                return None
            if before == child:
                continue
            new, moved = child, {}
        else:
            # A field that the type does not name is owned itself, besides the fields below it.
            if not before or (OWN in below) is is_named:
                return None
            walked = _walk(part, before, child, below)
            if walked is None:
                return None
            new, moved = walked
            if moved is None:
                continue
        if changed is None:
            value, changed = dict(live), {}
        value[name], changed[element] = new, moved
    return _Walked(value, changed)


def _is_whole(kind: MergeType, before: Any, child: Any) -> bool:
    """Whether a value that is owned as a whole fits its type, and is a scalar or stays the same."""
    if type(child) in (dict, list):
        whole = kind.atomic or (kind.kind == "list" and not kind.list_type)
        return whole and identical(before, child) and not typed_problems(kind, child)
    return kind.kind in {"scalar", "deduced"} and type(child) in _TYPES[kind.scalar]


def may_have(fields: FieldSet, changed: FieldSet) -> bool:
    """Whether a set of fields may have one of the changed ones, or fields below one."""
    for element, below in changed.items():
        theirs = fields.get(element)
        if theirs is not None and (not below or may_have(theirs, below)):
            return True
    return False
