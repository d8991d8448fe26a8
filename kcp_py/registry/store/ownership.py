"""Field ownership of a write: `metadata.managedFields` of the object to be stored.

Entries of other versions are followed through the resource's own conversion: the rules are pure and request objects in other versions,
which may need a webhook. The rules are run again with each converted object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import orjson

from kcp_py.aio.offload import Inline, offload
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionKind
from kcp_py.apimachinery.managedfields.conformity import typed_problems
from kcp_py.apimachinery.managedfields.entries import Managed, ManagedFieldsError, decode_entries
from kcp_py.apimachinery.managedfields.fieldsets import FieldSet
from kcp_py.apimachinery.managedfields.ownership import ConflictsError, MissingVersionError, Versions
from kcp_py.apimachinery.managedfields.repeatedupdates import track_repeated_update
from kcp_py.apimachinery.managedfields.repeating import track_repeated
from kcp_py.apimachinery.managedfields.tracking import (
    ManagedWrite,
    conflict_message,
    conflicts_of,
    track_apply,
    track_create,
    track_update,
    well_known,
)
from kcp_py.apimachinery.managedfields.types import DEDUCED, MergeType
from kcp_py.registry.admission import Attributes, Steps
from kcp_py.registry.merge_types import MergeTypes
from kcp_py.registry.resource import ServedResource, view_of
from kcp_py.registry.writerequest import FieldManager

__all__ = ["FieldManager", "apply_configuration", "check_configuration", "mutate", "note_write", "repeat_configuration", "reset_fields"]

R = TypeVar("R")

_MAX_CONVERSIONS: Final = 64
_BROKEN: Final = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; "
    "please fix your requests: "
)


def reset_fields(resource: ServedResource, subresource: str, *objects: Mapping[str, Any] | None) -> FieldSet:
    """Fields that an endpoint takes from the stored object, whatever the request has. A write through it does not own them."""
    if subresource and (own := resource.strategy.resets_of(subresource)) is not None:
        return own
    return view_of(resource, subresource).resets(resource, *objects)


async def note_write(
    resource: ServedResource,
    live: dict[str, Any] | None,
    new: dict[str, Any],
    manager: FieldManager,
    *,
    subresource: str,
    size: int,
    known: Managed | None = None,
) -> Managed | None:
    """Note in `new`, in place, what a create, an update or a patch changes.

    Args:
        resource: of the object.
        live: the stored object in the served version; None on create.
        new: the object to be stored; its managedFields are those of the request.
        manager: the writer.
        subresource: through which.
        size: bytes, about, of both.
        known: what the managedFields of `live` say, where that is known.

    Returns:
        What those of `new` say; None where that was not worked out.
    """
    ignored = reset_fields(resource, subresource, live, new)
    writer = ManagedWrite(manager.name, manager.time, manager.part or subresource, ignored)
    metadata = new["metadata"]
    if live is not None and size <= Inline.TRANSFORM and (same := _known_versions(resource)) is not None:
        if known is None or known.versions is not same.key:
            known = well_known(live, same) or known
        if known is not None and (noted := track_repeated_update(same, live, new, writer, known=known)) is not None:
            return noted
    # Encoders of other kinds write nothing that is not set.
    empty = _empty(resource) if live is None and resource.typed else None
    if live is None and empty is None and "managedFields" not in metadata:
        # Without earlier owners no other version is needed.
        types = resource.merge_types
        kind = (types.cached(resource.group_version) if types is not None else DEDUCED) or await _kind(resource)
        track = partial(track_create, kind, resource.group_version, new, writer=writer)
        await offload(track) if size > Inline.TRANSFORM else track()
        return None
    missing = object()
    given = metadata.get("managedFields", missing)

    def run(versions: Versions) -> Managed | None:
        if given is not missing:
            metadata["managedFields"] = given
        return track_update(versions, live, new, writer, empty=empty, known=known)

    try:
        return await _with_versions(resource, run, size)
    except StatusError:
        # As upstream: a write goes through where owners cannot be worked out; they stay as they were.
        before = (live or {}).get("metadata", {}).get("managedFields")
        metadata.pop("managedFields", None)
        if before:
            metadata["managedFields"] = before
        return None


def _known_versions(resource: ServedResource) -> Versions | None:
    """The forms of the objects of a resource, where its versions differ in `apiVersion` alone, after the first write; else None."""
    types = resource.merge_types
    return types.cached_versions(resource.group_version) if types is not None and resource.converter is None else None


def _empty(resource: ServedResource) -> dict[str, Any] | None:
    """An object of which nothing is set, as the kind's encoder writes it; None where that has no fields."""
    obj: dict[str, Any] = {}
    resource.schema.complete(obj)
    return {"apiVersion": resource.group_version, "kind": resource.kind, "metadata": {}, **obj} if obj else None


async def mutate(steps: Steps, attributes: Attributes) -> None:
    """Let admission change the object. Changes of plugins have no field owner; unreadable `managedFields` are put back, with a warning.

    Source: apiserver `endpoints/handlers/fieldmanager/admission.go`. A step of admission that changes owners replaces their list.
    """
    before = ((attributes.obj or {}).get("metadata") or {}).get("managedFields")
    await steps.mutate(attributes)
    metadata = (attributes.obj or {}).get("metadata") or {}  # a plugin may have put another one there
    after = metadata.get("managedFields")
    if after is before or after is None:
        return
    try:
        decode_entries(after)
    except ManagedFieldsError as error:
        metadata.pop("managedFields")
        if before is not None:
            metadata["managedFields"] = before
        attributes.warnings.append(f"{_BROKEN}{error}")


async def apply_configuration(
    resource: ServedResource,
    live: dict[str, Any] | None,
    config: dict[str, Any],
    manager: FieldManager,
    *,
    subresource: str,
    force: bool,
    size: int,
    known: Managed | None = None,
) -> tuple[dict[str, Any], Managed]:
    """Server-side apply: the new object, with its owners, and what its managedFields say. Parts of `live` and `config` are shared.

    `known` is what the managedFields of `live` say, where that is known.

    Raises:
        StatusError: 409 for conflicts, 500 for a configuration that does not fit the type, as upstream.
    """
    writer = ManagedWrite(
        name=manager.name, subresource=subresource, time=manager.time, ignored=reset_fields(resource, subresource, live, config)
    )

    def run(versions: Versions) -> tuple[dict[str, Any], Managed]:
        check_configuration(versions.kind, resource.group_version_kind, config)
        try:
            return track_apply(versions, live, config, writer, force=force, known=known)
        except ConflictsError as error:
            raise _conflict(view_of(resource, subresource).shown_conflicts(error)) from error

    return await _with_versions(resource, run, size)


def repeat_configuration(
    resource: ServedResource,
    live: dict[str, Any],
    config: dict[str, Any],
    manager: FieldManager,
    *,
    subresource: str,
    known: Managed | None = None,
) -> tuple[dict[str, Any], Managed] | None:
    """`apply_configuration` of other values for scalars that the manager owns already and alone; None for any other configuration.

    Where pruning and defaults leave `live` as it is, they leave the result as it is, too, unless objects of the kind may have other
    objects in them. `known` is what the managedFields of `live` say, where that is known.
    """
    types = resource.merge_types
    if types is None or resource.typed or resource.converter is not None or (kind := types.cached(resource.group_version)) is None:
        return None
    writer = ManagedWrite(manager.name, manager.time, subresource, reset_fields(resource, subresource, live, config))
    return track_repeated(types.versions(resource.group_version, kind), live, config, writer, known=known)


def check_configuration(merge_type: MergeType, kind: GroupVersionKind, config: Mapping[str, Any]) -> None:
    """Refuse a configuration that does not fit its type.

    Raises:
        StatusError: 500, as upstream.
    """
    problems = typed_problems(merge_type, config)
    if not problems:
        return
    metadata = config.get("metadata") or {}
    text = problems[0] if len(problems) == 1 else "errors:\n" + "\n".join(f"  {problem}" for problem in problems)
    place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {kind.group}/{kind.version}, Kind={kind.kind}"
    raise StatusError(500, "", f"failed to create typed patch object ({place}): {text}")


def _conflict(error: ConflictsError) -> StatusError:
    conflicts = conflicts_of(error)
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {conflict.manager}", "field": conflict.path} for conflict in conflicts
    ]
    return StatusError(409, "Conflict", conflict_message(conflicts), details={"causes": causes})


async def _kind(resource: ServedResource) -> MergeType:
    """The type of the objects of a resource."""
    types = resource.merge_types
    return (await types.load(resource.group_version) if types is not None else None) or DEDUCED


def _type_in(types: MergeTypes | None) -> Callable[[str], MergeType | None]:
    """The types of other versions."""
    return types.get if types is not None else lambda _: None


class _Wanted(Exception):  # noqa: N818  # a question, not an error
    """An object is needed in another version."""

    def __init__(self, key: tuple[bytes, str]) -> None:
        super().__init__(key[1])
        self.key = key


async def _with_versions(resource: ServedResource, run: Callable[[Versions], R], size: int) -> R:
    """Call `run`, again and again until it has every object that it needs in another version."""
    types = resource.merge_types
    own_kind = (types.cached(resource.group_version) if types is not None else DEDUCED) or await _kind(resource)
    if types is not None and resource.converter is None:
        same = types.versions(resource.group_version, own_kind)
        return await offload(run, same) if size > Inline.TRANSFORM else run(same)
    known: dict[tuple[bytes, str], Any] = {}

    def convert(obj: Any, version: str) -> tuple[MergeType, Any]:
        kind = types.get(version) if types is not None else None
        if kind is None:
            raise MissingVersionError(version)
        if not obj:
            return kind, obj
        key = orjson.dumps(obj), version
        if key not in known:
            raise _Wanted(key)
        return kind, known[key]

    versions = Versions(resource.group_version, own_kind, convert, _type_in(types))
    for _ in range(_MAX_CONVERSIONS):
        try:
            return await offload(run, versions) if size > Inline.TRANSFORM else run(versions)
        except _Wanted as wanted:
            assert resource.converter is not None
            (known[wanted.key],) = await resource.converter([orjson.loads(wanted.key[0])], wanted.key[1])
    raise errors.internal("the owners of the object's fields are of too many versions")
