"""DELETE: preconditions, finalizers, removal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.options import DeleteOptions, Preconditions
from kcp_py.registry.admission import attributes_of
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.store.access import (
    LOCK_ATTEMPTS,
    Access,
    StoreResult,
    check_conflict,
    check_life,
)
from kcp_py.registry.store.defaults import is_default, removal, replacement_of, storing
from kcp_py.registry.store.read import find, load_one, to_storage
from kcp_py.registry.strategy import Strategy
from kcp_py.registry.writerequest import WriteRequest
from kcp_py.storage.contract import Compare, ConflictError, KeyValue, Put

_ORPHAN = "orphan"
_FOREGROUND = "foregroundDeletion"


def propagation_of(options: DeleteOptions, strategy: Strategy) -> str:
    """What a deletion asks for: `Orphan`, `Foreground`, `Background`, or empty for the kind's default."""
    if options.propagation_policy:
        return options.propagation_policy
    if options.orphan_dependents is None:
        return ""
    return "Orphan" if options.orphan_dependents else strategy.propagation_without_orphans


async def delete(access: Access, request: WriteRequest) -> StoreResult:
    """Delete an object, or mark it for deletion while finalizers remain (`deleted` tells which).

    Args:
        access: the store.
        request: who deletes what; its options are DeleteOptions.

    Raises:
        StatusError: 404, 403 for what must not be deleted, 409 for a failed precondition.
        StaleStateError: cluster or CRD changed meanwhile; retry with fresh ones.
    """
    cluster_state = request.target.cluster_state
    _, served, namespace, name, _, _ = request.target
    options = request.options
    assert isinstance(options, DeleteOptions), "a deletion has its own options"
    resource = served.resource
    warnings_before = len(request.warnings)
    for _ in range(LOCK_ATTEMPTS):
        del request.warnings[warnings_before:]
        item = await find(access, cluster_state, served, namespace, name)
        if item is None:
            raise errors.not_found(resource.group_resource, name)
        old = await load_one(served, item)
        _check_preconditions(resource, old, item, options.preconditions)
        if refusal := resource.strategy.check_delete(old):
            raise errors.forbidden(resource.group_resource, name, refusal)
        admitted: list[Compare] = []
        attributes = attributes_of("DELETE", request, namespace, name, obj=None, old=old, compares=admitted, revision=item.mod_revision)
        steps = access.admission.steps_of(attributes)
        if steps.mutating:
            await steps.mutate(attributes)
        if steps.validating:
            await steps.validate(attributes)
        try:
            if (kept := resource.strategy.postpone_delete(old, options.grace_period_seconds)) is not None:
                return await _postpone(access, request, item, kept, admitted)
            return await _delete_once(access, request, item, old, admitted)
        except ConflictError as conflict:
            await check_conflict(access, cluster_state, conflict, item.key)
    raise errors.conflict(resource.group_resource, name, errors.OBJECT_MODIFIED)


async def _postpone(access: Access, request: WriteRequest, item: KeyValue, obj: dict[str, Any], admitted: Sequence[Compare]) -> StoreResult:
    """Store what a deletion makes of an object that stays for now."""
    cluster_state, served = request.target.cluster_state, request.target.served
    stored = await to_storage(served.resource, obj)
    value = encode_stored(stored)
    if request.dry_run or value == item.value:
        return StoreResult(stored, value, item.mod_revision)
    compares = (Compare(item.key, mod_revision=item.mod_revision), *admitted)
    revision = await access.transact(cluster_state.name, served.resource.keys, compares, (Put(item.key, value),))
    return StoreResult(stored, value, revision)


async def _delete_once(
    access: Access, request: WriteRequest, item: KeyValue, old: dict[str, Any], admitted: Sequence[Compare]
) -> StoreResult:
    cluster_state, served = request.target.cluster_state, request.target.served
    options = request.options
    assert isinstance(options, DeleteOptions)
    resource = served.resource
    metadata = dict(old["metadata"])
    obj = {**old, "metadata": metadata}
    terminating = bool(metadata.get("deletionTimestamp"))
    strategy = resource.strategy
    marked_first = strategy.is_marked_first and not terminating
    changed = False
    if strategy.has_dependents and (strategy.propagates_first or not marked_first):
        changed = _set_propagation(metadata, propagation_of(options, strategy), strategy.default_propagation)
    if not terminating:
        changed = strategy.prepare_for_delete(obj) or changed
    if not marked_first and not strategy.has_pending_finalizers(obj):
        stored = await to_storage(resource, obj)
        value = encode_stored(stored)
        replacement = await replacement_of(access, cluster_state, served, metadata)
        if options.dry_run or (replacement is None and is_default(item)):
            await check_life(access, cluster_state)
            return StoreResult(stored, value, item.mod_revision, deleted=True)
        conditions, operations = removal(cluster_state, served, item, replacement)
        compares = [*conditions, *admitted]
        revision = await access.transact(cluster_state.name, served.resource.keys, compares, operations)
        return StoreResult(stored, value, revision, deleted=True)
    if not terminating:
        mark(metadata, access.now(), first=marked_first)
        changed = True
    stored = await to_storage(resource, obj)
    value = encode_stored(stored)
    if options.dry_run or not changed:
        await check_life(access, cluster_state)
        return StoreResult(stored, value, item.mod_revision)
    conditions, operations = await storing(access, cluster_state, served, item, value, name=metadata["name"])
    revision = await access.transact(cluster_state.name, served.resource.keys, (*conditions, *admitted), operations)
    return StoreResult(stored, value, revision)


def mark(metadata: dict[str, Any], now: str, *, first: bool) -> None:
    """Let an object begin to be deleted.

    Args:
        metadata: of the object, changed in place.
        now: RFC 3339.
        first: see `Strategy.is_marked_first`.
    """
    metadata["deletionTimestamp"] = now
    if first:
        return
    metadata["deletionGracePeriodSeconds"] = 0
    if "generation" in metadata:
        metadata["generation"] += 1


def _set_propagation(metadata: dict[str, Any], propagation: str, default: str) -> bool:
    """Set the two finalizers of the garbage collector by the propagation policy of the request.

    Without a policy, an existing finalizer stays, else the kind's default applies (apiserver `deletionFinalizersForGarbageCollection`).
    """
    before = metadata.get("finalizers", [])
    if not propagation:
        if not default or _ORPHAN in before or _FOREGROUND in before:
            return False
        propagation = default
    after = [finalizer for finalizer in before if finalizer not in {_ORPHAN, _FOREGROUND}]
    if propagation == "Orphan":
        after.append(_ORPHAN)
    elif propagation == "Foreground":
        after.append(_FOREGROUND)
    if sorted(after) == sorted(before):
        return False
    if after:
        metadata["finalizers"] = after
    else:
        metadata.pop("finalizers", None)
    return True


def _check_preconditions(resource: ServedResource, old: dict[str, Any], item: KeyValue, preconditions: Preconditions | None) -> None:
    if preconditions is None:
        return
    wanted_uid, wanted_version = preconditions.uid or "", preconditions.resource_version or ""
    metadata = old["metadata"]
    uid, name = metadata["uid"], metadata["name"]
    own_words = resource.strategy.precondition_failed if not metadata.get("deletionTimestamp") else ""
    # Where upstream has the resource elsewhere, here the message names the kind (apiserver `rest.BeforeDelete`).
    named = resource.group_resource if own_words else GroupResource(resource.group, resource.kind)
    if wanted_uid and wanted_uid != uid:
        detail = (
            f"{own_words}: UID in precondition: {wanted_uid}, UID in object meta: {uid}"
            if own_words
            else f"the UID in the precondition ({wanted_uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(named, name, detail)
    if wanted_version and wanted_version != str(item.mod_revision):
        detail = (
            f"{own_words}: ResourceVersion in precondition: {wanted_version}, ResourceVersion in object meta: {item.mod_revision}"
            if own_words
            else f"the ResourceVersion in the precondition ({wanted_version}) does not match the ResourceVersion in record "
            f"({item.mod_revision}). The object might have been modified"
        )
        raise errors.conflict(named, name, detail)
