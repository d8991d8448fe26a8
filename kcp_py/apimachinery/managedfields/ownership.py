"""Who owns what after an update or an apply (structured-merge-diff `merge/update.go`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kcp_py.apimachinery.managedfields.comparison import Comparison, compare
from kcp_py.apimachinery.managedfields.fieldsets import (
    EMPTY,
    FieldSet,
    difference,
    intersection,
    reconciled,
    union,
    with_named_fields,
    without,
)
from kcp_py.apimachinery.managedfields.merging import merge, remove
from kcp_py.apimachinery.managedfields.types import MergeType
from kcp_py.apimachinery.managedfields.values import fields_of
from kcp_py.golang.json import go_json

__all__ = ["ConflictsError", "Manager", "MissingVersionError", "Owned", "Owners", "Versions", "apply", "reconciled_owners", "update"]


class Manager(NamedTuple):
    """The owner of fields, which identifies an entry of `metadata.managedFields`."""

    name: str
    operation: str
    """`Apply` or `Update`."""
    subresource: str = ""
    api_version: str = ""
    """The version of an Update; empty for Apply, whose entry is replaced by an apply in another version."""

    def identifier(self) -> str:
        """The text by which upstream knows and sorts managers: an entry without time and fields, as JSON."""
        members = {"manager": self.name, "operation": self.operation, "apiVersion": self.api_version, "subresource": self.subresource}
        return go_json({name: text for name, text in members.items() if text})


class Owned(NamedTuple):
    """What a manager owns."""

    fields: FieldSet
    api_version: str
    """The version that the fields are of."""
    applied: bool


Owners = dict[Manager, Owned]


class MissingVersionError(Exception):
    """An object has no form in a version any more."""


def _unknown(version: str) -> MergeType | None:
    """No type."""
    del version
    return None


class Versions(NamedTuple):
    """The forms that an object has in versions other than the request's."""

    version: str
    """Of the request."""
    kind: MergeType
    """The type in the request's version."""
    convert: Callable[[Any, str], tuple[MergeType, Any]]
    """(object, version) -> (type there, object there). Raises `MissingVersionError`."""
    type_in: Callable[[str], MergeType | None] = _unknown
    """Version -> type there; None for versions that are no longer served."""
    key: object = None
    """What identifies these forms without keeping them in memory; None where they are made for one write."""

    def at(self, obj: Any, version: str) -> tuple[MergeType, Any]:
        """The object in a version."""
        return (self.kind, obj) if version == self.version else self.convert(obj, version)


class ConflictsError(Exception):
    """Others own fields that an apply would change.

    Attributes:
        conflicts: manager -> the fields, in its version.
    """

    def __init__(self, conflicts: Mapping[Manager, Owned]) -> None:
        """Keep them."""
        self.conflicts = conflicts
        super().__init__("conflicts")


def update(
    versions: Versions,
    live: Any,
    new: Any,
    owners: Owners,
    manager: Manager,
    *,
    ignored: FieldSet = EMPTY,
    unowned: FieldSet = EMPTY,
    adapted: bool = False,
) -> tuple[Owners, FieldSet]:
    """The owners after `manager` has changed `live` into `new`, and the fields that it has changed.

    It owns the fields that it changed. Fields that it removed have no owner. `ignored`, `unowned` and `adapted` are as in `apply`.
    Managers that own what they owned before keep their `Owned` itself.
    """
    owners = owners if adapted else reconciled_owners(versions, owners)
    result, comparison = _take(versions, live, new, owners, manager, force=True, ignored=ignored)
    before = result.get(manager)
    mine = difference(before.fields if before is not None else EMPTY, comparison.removed)
    taken = difference(comparison.taken(), unowned)
    mine = without(union(mine, taken), ignored)
    if before is not None and mine is before.fields and before.api_version == versions.version and not before.applied:
        return result, taken
    if mine:
        result[manager] = Owned(mine, versions.version, applied=False)
    else:
        result.pop(manager, None)
    return result, taken


def apply(
    versions: Versions,
    live: Any,
    config: Any,
    owners: Owners,
    manager: Manager,
    *,
    force: bool,
    ignored: FieldSet = EMPTY,
    unowned: FieldSet = EMPTY,
    adapted: bool = False,
) -> tuple[Any, Owners]:
    """Lay `config` over `live`: the new object, without what the manager no longer applies, and the owners after it.

    Fields in `ignored`, and fields below them, are left out. Fields in `unowned` are the server's, but fields below them are not.
    `adapted` tells that the owners are known to fit the present types. Managers that own what they owned before keep their `Owned` itself.

    Raises:
        ConflictsError: others own what would change, and `force` is off.
        DuplicateKeyError: `config` has items with the same keys.
    """
    merged = merge(versions.kind, live, config)
    result = dict(owners if adapted else reconciled_owners(versions, owners))
    last = result.get(manager)
    mine = without(fields_of(versions.kind, config), ignored)
    owned = Owned(difference(mine, unowned), versions.version, applied=True)
    new = merged
    if last != owned:
        result[manager] = Owned(mine, versions.version, applied=True)
        new = _prune(versions, merged, result, last)
        result[manager] = owned
    result, _ = _take(versions, live, new, result, manager, force=force, ignored=ignored)
    return new, result


def reconciled_owners(versions: Versions, owners: Owners) -> Owners:
    """The owners, with their fields adapted to the current types; the argument itself where nothing changes."""
    result = owners
    for manager, owned in owners.items():
        version = owned.api_version
        kind = versions.kind if version == versions.version else versions.type_in(version)
        fields = owned.fields if kind is None else reconciled(owned.fields, kind)
        if fields is not owned.fields:
            if result is owners:
                result = dict(owners)
            result[manager] = owned._replace(fields=fields)
    return result


def _take(
    versions: Versions,
    live: Any,
    new: Any,
    owners: Owners,
    manager: Manager,
    *,
    force: bool,
    ignored: FieldSet,
) -> tuple[Owners, Comparison]:
    """Take from the others what a change touches."""
    comparison = _filtered(compare(versions.kind, live, new), ignored)
    found: dict[str, Comparison | None] = {versions.version: comparison}
    result: Owners = {}
    conflicts: dict[Manager, Owned] = {}
    for other, owned in owners.items():
        if other != manager:
            if owned.api_version not in found:
                found[owned.api_version] = _compare_at(versions, live, new, owned.api_version, ignored)
            theirs = found[owned.api_version]
            if theirs is None:
                continue  # the version is not known any more
            if not theirs.is_same():
                changed = intersection(owned.fields, theirs.taken())
                if changed:
                    conflicts[other] = Owned(changed, owned.api_version, applied=False)
                rest = difference(difference(owned.fields, changed), theirs.removed)
                if rest is not owned.fields:
                    owned = owned._replace(fields=rest)  # noqa: PLW2901
        if owned.fields:
            result[other] = owned
    if conflicts and not force:
        raise ConflictsError(conflicts)
    return result, comparison


def _compare_at(versions: Versions, live: Any, new: Any, version: str, ignored: FieldSet) -> Comparison | None:
    """The comparison in another version; None where the object has no form there."""
    try:
        kind, before = versions.at(live, version)
        _, after = versions.at(new, version)
    except MissingVersionError:
        return None
    return _filtered(compare(kind, before, after), ignored)


def _filtered(comparison: Comparison, ignored: FieldSet) -> Comparison:
    """A comparison without the ignored fields."""
    if not ignored:
        return comparison
    added, modified, removed = comparison.added, comparison.modified, comparison.removed
    kept = without(added, ignored), without(modified, ignored), without(removed, ignored)
    return comparison if kept[0] is added and kept[1] is modified and kept[2] is removed else Comparison(*kept)


def _prune(versions: Versions, merged: Any, owners: Owners, last: Owned | None) -> Any:
    """Remove the fields that the manager applied before and applies no longer, unless they have another owner."""
    if last is None or not last.fields:
        return merged
    if last.api_version == versions.version and not _dropped(last, owners.values()):
        return merged
    try:
        kind, obj = versions.at(merged, last.api_version)
        before = with_named_fields(last.fields, kind)
        pruned = remove(kind, obj, before)
        pruned = _add_back_owned(versions, merged, pruned, last.api_version, owners)
        return _add_back_dangling(versions, merged, pruned, before, last.api_version)
    except MissingVersionError:
        return merged


def _dropped(last: Owned, owners: Iterable[Owned]) -> bool:
    """Whether a field of a set has no owner in the same version."""
    rest = last.fields
    for owned in owners:
        if owned.api_version == last.api_version:
            if owned.fields == rest:
                return False
            rest = difference(rest, owned.fields)
    return bool(rest)


def _add_back_owned(versions: Versions, merged: Any, pruned: Any, pruned_version: str, owners: Owners) -> Any:
    """Put back removed fields that have an owner."""
    managed: dict[str, FieldSet] = {}
    for owned in owners.values():
        managed[owned.api_version] = union(managed.get(owned.api_version, EMPTY), owned.fields)
    current = pruned_version
    for version in sorted(managed, key=lambda name: (name != pruned_version, name)):
        try:
            kind, whole = versions.at(merged, version)
            part = _convert(versions, pruned, current, version)
        except MissingVersionError:
            continue  # the version is no longer served
        there = with_named_fields(fields_of(kind, whole), kind)
        kept = union(with_named_fields(fields_of(kind, part), kind), with_named_fields(managed[version], kind))
        pruned, current = remove(kind, whole, difference(there, kept)), version
    return pruned if current == versions.version else _convert(versions, pruned, current, versions.version)


def _add_back_dangling(versions: Versions, merged: Any, pruned: Any, before: FieldSet, version: str) -> Any:
    """Put back what went although the manager never owned it: only what it owned before may go."""
    kind, whole = versions.at(merged, version)
    part = _convert(versions, pruned, versions.version, version)
    there = with_named_fields(fields_of(kind, whole), kind)
    left = with_named_fields(fields_of(kind, part), kind)
    result = remove(kind, whole, intersection(difference(there, left), before))
    return _convert(versions, result, version, versions.version)


def _convert(versions: Versions, obj: Any, given: str, wanted: str) -> Any:
    """An object of one version in another."""
    return obj if given == wanted else versions.convert(obj, wanted)[1]
