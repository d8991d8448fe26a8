"""`metadata.managedFields`: its entries, their order, and who they are of.

Source: k8s.io/apimachinery `pkg/util/managedfields/internal/{managedfields,capmanagers}.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kcp_py.apimachinery.managedfields.fieldsets import FieldSet, FieldSetError, decode, ordered, union
from kcp_py.apimachinery.managedfields.ownership import Manager, Owned, Owners
from kcp_py.apimachinery.meta.timestamps import normalize_time
from kcp_py.golang.quoting import go_quote

__all__ = [
    "APPLY",
    "MAX_UPDATERS",
    "UPDATE",
    "Managed",
    "ManagedFieldsError",
    "cap",
    "decode_entries",
    "encode_entries",
    "encode_entry",
    "is_reset",
    "restamped_entries",
]

APPLY: Final = "Apply"
UPDATE: Final = "Update"
_OPERATIONS: Final = (APPLY, UPDATE)
FIELDS_V1: Final = "FieldsV1"
_TIME_LENGTH: Final = len("2006-01-02T15:04:05Z")
MAX_UPDATERS: Final = 10
"""Entries of updates; beyond them the oldest become one."""
ANCIENT: Final = "ancient-changes"


class ManagedFieldsError(ValueError):
    """Entries that cannot be read."""


@dataclass(slots=True)
class Managed:
    """What the entries of an object say.

    Attributes:
        owners: manager -> what it owns.
        times: manager -> RFC 3339 time of its last change; managers without one are missing.
        in_order: identity -> set of fields whose members are in order already, such as one that was read from the store.
        versions: the key of the `Versions` to whose types all sets are adapted; None where it is not known. Adapted sets have no fields of
            the server.
    """

    owners: Owners = field(default_factory=dict)
    times: dict[Manager, str] = field(default_factory=dict)
    in_order: dict[int, FieldSet] = field(default_factory=dict)
    versions: object = None

    def copy(self) -> Managed:
        """A copy for a further write, which replaces owners and sets, and changes times in place."""
        return Managed(self.owners, dict(self.times), self.in_order, self.versions)


def is_reset(entries: Any) -> bool:
    """Whether a client asks to forget all owners: `[]` or `[{}]`."""
    return isinstance(entries, list) and (not entries or entries == [{}])


def decode_entries(entries: Any, *, stored: bool = False) -> Managed:
    """Read `metadata.managedFields`.

    Args:
        entries: the list; None for none.
        stored: they were read and written here before, which spares some work.

    Raises:
        ManagedFieldsError: it is not a list of entries.
    """
    managed = Managed()
    if entries is None:
        return managed
    if not isinstance(entries, list):
        raise ManagedFieldsError("managedFields must be a list")
    for index, entry in enumerate(entries):
        if stored and _take_usual(managed, entry):
            continue
        if not isinstance(entry, dict):
            raise ManagedFieldsError("an entry must be an object")
        operation = entry.get("operation")
        if operation not in (APPLY, UPDATE):
            raise ManagedFieldsError("operation must be `Apply` or `Update`")
        version = _text(entry, "apiVersion")
        if not version:
            raise ManagedFieldsError("apiVersion must not be empty")
        if (form := _text(entry, "fieldsType")) != FIELDS_V1:
            problem = f"invalid fieldsType {go_quote(form)}" if form else "missing fieldsType"
            raise ManagedFieldsError(f"{problem} in managed fields entry {index}")
        manager = Manager(_text(entry, "manager"), operation, _text(entry, "subresource"), "" if operation == APPLY else version)
        try:
            given = entry.get("fieldsV1")
            fields = given or {} if stored else decode({} if given is None else given)
        except FieldSetError as error:
            raise ManagedFieldsError(str(error)) from error
        managed.owners[manager] = Owned(fields, version, applied=operation == APPLY)
        if stored:
            managed.in_order[id(fields)] = fields
        if time := _text(entry, "time"):
            try:
                managed.times[manager] = time if stored or len(time) == _TIME_LENGTH else normalize_time(time)
            except ValueError as error:
                raise ManagedFieldsError(str(error)) from error
    return managed


def _take_usual(managed: Managed, entry: Any) -> bool:
    """Add a stored entry as `encode_entry` writes it. Returns False for any other one."""
    if type(entry) is not dict:
        return False
    get = entry.get
    name, operation, version, time, fields = get("manager"), get("operation"), get("apiVersion"), get("time"), get("fieldsV1")
    subresource = get("subresource", "")
    if (
        operation not in _OPERATIONS
        or not (type(name) is type(version) is type(time) is type(subresource) is str and type(fields) is dict)
        or not (name and version and time and fields)
        or get("fieldsType") != FIELDS_V1
    ):
        return False
    applied = operation == APPLY
    manager = Manager(name, operation, subresource, "" if applied else version)
    managed.owners[manager] = Owned(fields, version, applied)
    managed.in_order[id(fields)] = fields
    managed.times[manager] = time
    return True


def _text(entry: Mapping[str, Any], name: str) -> str:
    """A member that is a text, or is not there."""
    value = entry.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ManagedFieldsError(f"{name} must be a string")
    return value


def encode_entries(managed: Managed) -> list[dict[str, Any]]:
    """Write `metadata.managedFields`: applies before updates, older before newer.

    Afterwards `managed` is what `decode_entries` would make of the result.
    """
    owners: Owners = {}
    times: dict[Manager, str] = {}
    in_order: dict[int, FieldSet] = {}
    entries: list[dict[str, Any]] = []
    for manager, owned in _in_order(managed.owners, managed.times).items():
        fields, version, applied = owned
        if id(fields) not in managed.in_order:
            fields = ordered(fields)
            owned = Owned(fields, version, applied)  # noqa: PLW2901
        owners[manager], in_order[id(fields)] = owned, fields
        if (time := managed.times.get(manager)) is not None:
            times[manager] = time
        entries.append(encode_entry(manager, version, time, fields=fields))
    managed.owners, managed.times, managed.in_order = owners, times, in_order
    return entries


def restamped_entries(known: Managed, manager: Manager | None, time: str) -> tuple[list[dict[str, Any]], Managed]:
    """`encode_entries` where all owners own what they have owned, and one of them has another time.

    Args:
        known: what the entries say before. All its sets are in order. It is not changed.
        manager: an owner that gets another time; None where all keep theirs.
        time: of the owner.

    Returns:
        The entries, and what they say.
    """
    times = known.times if manager is None else known.times | {manager: time}
    owners = _in_order(known.owners, times)
    entries: list[dict[str, Any]] = []
    for one, (fields, version, _) in owners.items():
        entries.append(encode_entry(one, version, times.get(one), fields=fields))
    return entries, Managed(owners, times, known.in_order, known.versions)


def _in_order(owners: Owners, times: Mapping[Manager, str]) -> Owners:
    """The owners in the order of their entries; the argument itself where it is in that order."""
    if len(owners) < 2:
        return owners
    ranked = [((one.operation, times.get(one, ""), one.name, owned.api_version, one.subresource), one) for one, owned in owners.items()]
    placed = sorted(ranked)
    return owners if placed == ranked else {one: owners[one] for _, one in placed}


def encode_entry(manager: Manager, version: str, time: str | None, *, fields: FieldSet) -> dict[str, Any]:
    """Write one entry.

    Args:
        manager: who owns the fields.
        version: the `apiVersion` of the fields.
        time: RFC 3339 time of the last change, if it is known.
        fields: in the order of `fieldsets.ordered`.
    """
    name, operation, subresource, _ = manager
    entry: dict[str, Any] = {}
    if name:
        entry["manager"] = name
    entry["operation"] = operation
    entry["apiVersion"] = version
    if time is not None:
        entry["time"] = time
    entry["fieldsType"] = FIELDS_V1
    entry["fieldsV1"] = fields
    if subresource:
        entry["subresource"] = subresource
    return entry


def cap(managed: Managed) -> None:
    """Let the oldest of too many updaters become `ancient-changes`, one for each version, in place."""
    if len(managed.owners) <= MAX_UPDATERS:
        return
    updaters = sorted(
        (manager for manager in managed.owners if manager.operation == UPDATE),
        key=lambda manager: (managed.times.get(manager, ""), manager.identifier()),
    )
    excess = len(updaters) - MAX_UPDATERS
    first: dict[str, Manager] = {}
    for manager in _while(updaters, excess):
        owned = managed.owners[manager]
        version = owned.api_version
        known = first.setdefault(version, manager)
        if known is manager:
            continue
        bucket = Manager(ANCIENT, UPDATE, "", version)
        if bucket not in managed.owners:
            managed.owners[bucket] = managed.owners.pop(known)
        together = union(owned.fields, managed.owners[bucket].fields)
        managed.owners[bucket] = Owned(together, version, applied=False)
        if manager != bucket:
            del managed.owners[manager]
        if (time := managed.times.get(manager)) is not None:
            managed.times[bucket] = time
        excess -= 1
        if excess <= 0:
            return


def _while(updaters: Sequence[Manager], excess: int) -> Sequence[Manager]:
    """All of them, where there are too many at all."""
    return updaters if excess > 0 else ()
