"""What a write does to `metadata.managedFields`: an update is noted, an apply is carried out.

Source: k8s.io/apimachinery `pkg/util/managedfields/internal` (`fieldmanager.go`, `structuredmerge.go`, `skipnonapplied.go`, `stripmeta.go`,
`lastappliedmanager.go`, `lastappliedupdater.go`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.equality import equal
from kcp_py.apimachinery.managedfields.comparison import compare, new_fields
from kcp_py.apimachinery.managedfields.entries import (
    APPLY,
    UPDATE,
    Managed,
    ManagedFieldsError,
    cap,
    decode_entries,
    encode_entries,
    encode_entry,
    is_reset,
)
from kcp_py.apimachinery.managedfields.fieldsets import OWN, FieldSet, difference, paths, show, without
from kcp_py.apimachinery.managedfields.ownership import ConflictsError, Manager, Owned, Owners, Versions, apply, reconciled_owners, update
from kcp_py.apimachinery.managedfields.types import MergeType
from kcp_py.apimachinery.managedfields.values import fields_of

__all__ = [
    "Conflict",
    "ManagedWrite",
    "conflict_message",
    "conflicts_of",
    "has_same_metadata",
    "track_apply",
    "track_create",
    "track_update",
    "well_known",
]

BEFORE_FIRST_APPLY: Final = "before-first-apply"
KUBECTL: Final = "kubectl"
"""The manager of `kubectl apply --server-side`: it may take over what `kubectl apply` has applied before."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS_BYTES: Final = 256 * 1024
_SERVERS_NAMES: Final = frozenset(
    (*("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields"), "resourceVersion")
)
_SERVERS: Final[FieldSet] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {OWN: {}, **{f"f:{name}": {} for name in sorted(_SERVERS_NAMES)}},
}
"""The fields that only the server sets, which have no owner."""
_NO_FIELDS: Final[FieldSet] = {}


class ManagedWrite(NamedTuple):
    """The field manager of a write, and the fields that it can own."""

    name: str
    """The field manager."""
    time: str
    """RFC 3339 with seconds."""
    subresource: str = ""
    """`status`, `scale` or empty."""
    ignored: FieldSet = _NO_FIELDS
    """Fields that this endpoint resets, so that a write through it does not own them."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """One field that an apply may not take.

    Attributes:
        manager: how messages name its owner: `"m" using apps/v1`.
        path: `.spec.replicas`.
    """

    manager: str
    path: str


def track_create(kind: MergeType, version: str, new: dict[str, Any], *, writer: ManagedWrite) -> None:
    """Note in `new`, in place, that a create sets all its fields: `track_update` without earlier owners.

    Args:
        kind: the type of the object.
        version: its `apiVersion`.
        new: the object to be stored, without managedFields.
        writer: who writes.
    """
    fields = difference(without(new_fields(kind, new), writer.ignored), _SERVERS)
    if fields:
        manager = Manager(writer.name, UPDATE, writer.subresource, version)
        new["metadata"]["managedFields"] = [encode_entry(manager, version, writer.time, fields=fields)]


def track_update(
    versions: Versions,
    live: dict[str, Any] | None,
    new: dict[str, Any],
    writer: ManagedWrite,
    *,
    empty: dict[str, Any] | None = None,
    known: Managed | None = None,
) -> Managed | None:
    """Note in `new`, in place, what an update or create changed.

    Args:
        versions: of the object.
        live: the stored object; None on create.
        new: the object to be stored; its managedFields are the request's.
        writer: who writes.
        empty: what a create begins with, where the kind has fields that are always written (apiserver `fieldmanager.liveObj`).
        known: what the entries of `live` say, where that is known. It is not changed.

    Returns:
        What the entries of `new` say; None where that was not worked out.
    """
    managed = _live_or_new(live, new, writer, known)
    new["metadata"].pop("managedFields", None)
    if live is not None and not managed.owners:
        return None  # the object has no owners, and an update does not begin tracking
    if live is None and not managed.owners and empty is None:
        track_create(versions.kind, versions.version, new, writer=writer)
        return None
    manager = Manager(writer.name, UPDATE, writer.subresource, versions.version)
    before = _comparable(live, new) if live is not None else empty or {}
    adapted = managed.versions is not None and managed.versions is versions.key
    owners, taken = update(versions, before, new, managed.owners, manager, ignored=writer.ignored, unowned=_SERVERS, adapted=adapted)
    managed.owners = _stripped(owners, managed.owners, adapted=adapted)
    if taken and manager in managed.owners:
        managed.times[manager] = writer.time
    cap(managed)
    return _written(new, managed, versions)


def track_apply(
    versions: Versions,
    live: dict[str, Any] | None,
    config: dict[str, Any],
    writer: ManagedWrite,
    *,
    force: bool,
    known: Managed | None = None,
) -> tuple[dict[str, Any], Managed]:
    """Apply a configuration.

    Args:
        versions: of the object.
        live: the stored object; None where there is none.
        config: the applied configuration, without managedFields.
        writer: who applies.
        force: take what others own.
        known: as in `track_update`.

    Returns:
        The new object, with its managedFields, and what these say. Parts of `live` and `config` are shared.

    Raises:
        ConflictsError: see `conflict_message`.
        DuplicateKeyError: a list in `config` has items with the same keys.
    """
    managed = known.copy() if known is not None else _decoded((live or {}).get("metadata", {}).get("managedFields"))
    adapted = managed.versions is not None and managed.versions is versions.key
    before = {} if live is None else _without_entries(live)
    if live is not None and not managed.owners:
        first = Manager(BEFORE_FIRST_APPLY, UPDATE, writer.subresource, versions.version)
        managed.owners = _stripped(update(versions, {}, before, {}, first, ignored=writer.ignored, unowned=_SERVERS)[0], {}, adapted=False)
        if first in managed.owners:
            managed.times[first] = writer.time
    manager = Manager(writer.name, APPLY, writer.subresource)
    owners = managed.owners
    try:
        new, owners = apply(
            versions, before, config, owners, manager, force=force, ignored=writer.ignored, unowned=_SERVERS, adapted=adapted
        )
    except ConflictsError as error:
        if writer.name != KUBECTL:
            raise
        _refuse_unless_migrated(error, versions, before)
        new, owners = apply(
            versions, before, config, owners, manager, force=True, ignored=writer.ignored, unowned=_SERVERS, adapted=adapted
        )
    managed.owners = _stripped(owners, managed.owners, adapted=adapted)
    # An entry that is new while nothing changes has no time, as upstream.
    if manager in managed.owners and new is not before and (new != before or not equal(new, before)):
        managed.times[manager] = writer.time
    new = dict(new or {})
    new["metadata"] = dict(new.get("metadata") or {})
    if writer.name == KUBECTL:
        _keep_last_applied(new["metadata"], config)
    return new, _written(new, managed, versions)


def _refuse_unless_migrated(error: ConflictsError, versions: Versions, live: dict[str, Any]) -> None:
    """Let conflicts pass where the live value is the one that client-side apply has set.

    Raises:
        ConflictsError: those that are left; all of them where there was no client-side apply.
    """
    text = _annotations(live.get("metadata")).get(LAST_APPLIED)
    try:
        applied = orjson.loads(text) if isinstance(text, str) else None
    except orjson.JSONDecodeError:
        applied = None
    if not isinstance(applied, dict) or applied.get("apiVersion") != versions.version:
        raise error
    comparison = compare(versions.kind, applied, live)
    allowed = fields_of(versions.kind, applied)
    for changed in (comparison.modified, comparison.added, comparison.removed):
        allowed = difference(allowed, changed)
    rest = {
        manager: owned._replace(fields=fields)
        for manager, owned in error.conflicts.items()
        if (fields := difference(owned.fields, allowed))
    }
    if rest:
        raise ConflictsError(rest) from error


def _keep_last_applied(metadata: dict[str, Any], config: Mapping[str, Any]) -> None:
    """Bring the annotation of client-side apply, where there is one, up to date, in place: older kubectl goes on from it."""
    annotations = _annotations(metadata)
    if not annotations.get(LAST_APPLIED):
        return
    given = config.get("metadata")
    if LAST_APPLIED in _annotations(given):
        assert isinstance(given, dict)
        kept = {name: value for name, value in given["annotations"].items() if name != LAST_APPLIED}
        config = {**config, "metadata": given | {"annotations": kept}}
    annotations = annotations | {LAST_APPLIED: orjson.dumps(config, option=orjson.OPT_SORT_KEYS).decode() + "\n"}
    if sum(len(name.encode()) + len(str(value).encode()) for name, value in annotations.items()) > _MAX_ANNOTATIONS_BYTES:
        del annotations[LAST_APPLIED]
    metadata["annotations"] = annotations


def _annotations(metadata: Any) -> dict[str, Any]:
    """The annotations that there are."""
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def conflicts_of(error: ConflictsError) -> list[Conflict]:
    """Every conflict, by manager and then by path."""
    managers = sorted(error.conflicts, key=Manager.identifier)
    return [Conflict(_named(manager), show(path)) for manager in managers for path in paths(error.conflicts[manager].fields)]


def conflict_message(conflicts: list[Conflict]) -> str:
    """The message of the 409."""
    if len(conflicts) == 1:
        return f"Apply failed with 1 conflict: conflict with {conflicts[0].manager}: {conflicts[0].path}"
    by_manager: dict[str, list[str]] = defaultdict(list)
    for conflict in conflicts:
        by_manager[conflict.manager].append(conflict.path)
    blocks = [f"conflicts with {manager}:\n" + "\n".join(f"- {path}" for path in found) for manager, found in by_manager.items()]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(blocks)


def _named(manager: Manager) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    return f"{text} using {manager.api_version}" if manager.operation == UPDATE else text


def _live_or_new(live: dict[str, Any] | None, new: dict[str, Any], writer: ManagedWrite, known: Managed | None) -> Managed:
    """The entries to go on from: the request's own, where it brings any that can be read; an empty list forgets all."""
    stored = (live or {}).get("metadata", {}).get("managedFields")
    given = None if writer.subresource else new["metadata"].get("managedFields")
    if given is not None and given != stored:
        if is_reset(given):
            return Managed()
        with suppress(ManagedFieldsError):
            managed = decode_entries(given)
            if managed.owners:
                return managed
    return known.copy() if known is not None else _decoded(stored)


def _decoded(entries: Any) -> Managed:
    """Stored entries; none where they cannot be read."""
    if entries is None:
        return Managed()
    try:
        return decode_entries(entries, stored=True)
    except ManagedFieldsError:
        return Managed()


def well_known(obj: dict[str, Any], versions: Versions) -> Managed | None:
    """What the entries of a stored object say, where their sets fit the present types as they are; else None."""
    managed = _decoded(obj["metadata"].get("managedFields"))
    if reconciled_owners(versions, managed.owners) is not managed.owners:
        return None
    for owned in managed.owners.values():
        if not owned.fields or difference(owned.fields, _SERVERS) is not owned.fields:
            return None
    managed.versions = versions.key
    return managed


def _without_entries(obj: dict[str, Any]) -> dict[str, Any]:
    """An object without its managedFields."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return obj | {"metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _comparable(live: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The stored object without its managedFields, to be compared with a new one that has none.

    Where the metadata differ in fields of the server alone, it has the metadata of the new object itself: those fields have no owners, and
    nothing is left to compare.
    """
    before, metadata = live.get("metadata"), new["metadata"]
    if type(before) is not dict:
        return live
    return live | {"metadata": metadata} if has_same_metadata(before, metadata) else _without_entries(live)


def has_same_metadata(before: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Whether metadata differ in fields of the server alone, which have no owners."""
    for name, value in metadata.items():
        if name not in _SERVERS_NAMES and before.get(name) != value:
            return False
    for name in before:  # noqa: SIM110 - a generator takes twice as long, of every write
        if name not in metadata and name not in _SERVERS_NAMES:
            return False
    return True


def _stripped(owners: Owners, before: Owners, *, adapted: bool) -> Owners:
    """The owners without the fields of the server, and without managers that own no fields.

    A set that is equal to the one that the manager had before is that set: of those that were read from the store the order is known.
    Where the sets before were `adapted`, they have no fields of the server.
    """
    result: Owners = {}
    for manager, owned in owners.items():
        known = before.get(manager)
        if adapted and known is owned and owned.fields:
            result[manager] = owned
            continue
        fields = difference(owned.fields, _SERVERS)
        if known is not None and fields is not known.fields and fields == known.fields:
            fields = known.fields
        if fields:
            result[manager] = owned if fields is owned.fields else Owned(fields, owned.api_version, owned.applied)
    return result


def _written(obj: dict[str, Any], managed: Managed, versions: Versions) -> Managed:
    """Put the entries into an object, in place. What they say is adapted to the types of `versions`, as an update or an apply leaves it."""
    entries = encode_entries(managed)
    if entries:
        obj["metadata"]["managedFields"] = entries
    managed.versions = versions.key
    return managed
