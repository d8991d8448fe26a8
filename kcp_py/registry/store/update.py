"""PUT and PATCH, of objects and through their subresources: read, transform, check, compare and set."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson

from kcp_py.aio.offload import Inline, offload
from kcp_py.aio.stages import next_stage
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.equality import identical
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.fielderrors import invalid
from kcp_py.registry.admission import Steps, attributes_of
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.quota.quotas import RESOURCE_QUOTAS
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import ServedResource, view_of
from kcp_py.registry.store.access import (
    LOCK_ATTEMPTS,
    Access,
    StoreResult,
    check_conflict,
    check_life,
    counted,
)
from kcp_py.registry.store.create import create
from kcp_py.registry.store.defaults import is_default, removal, replacement_of, storing
from kcp_py.registry.store.ownership import mutate, note_write
from kcp_py.registry.store.read import Current, find, to_storage
from kcp_py.registry.store.validation import check
from kcp_py.registry.writerequest import WriteRequest, create_options_of
from kcp_py.request.user import SYSTEM_MASTERS
from kcp_py.storage.contract import Compare, ConflictError, Delete, KeyValue, Operation, Put

Transform = Callable[[Current | None], Awaitable[dict[str, Any]]]
"""From the object as stored (None: it does not exist) to the new object: decoded, pruned and defaulted, in the served version. May
be called again after a conflict, and must not change what it was given."""


async def update(access: Access, request: WriteRequest, transform: Transform, *, may_create: bool = False) -> StoreResult:
    """Replace an object by what `transform` makes of it.

    An update that changes nothing writes nothing and keeps the resourceVersion. One that takes the last finalizer from an object
    that is being deleted removes the object.

    Args:
        access: the store.
        request: who updates what.
        transform: makes the new object.
        may_create: whether the verb creates missing objects where the kind allows that.

    Raises:
        StatusError: 404, 409, 422 and whatever transform and admission say.
        StaleStateError: cluster or CRD changed meanwhile; retry with fresh ones.
    """
    target = request.target
    cluster_state = target.cluster_state
    _, served, namespace, name, _, _ = target
    resource = served.resource
    key = resource.keys.object_key(cluster_state.name, namespace, name)
    turns, has_turn = access.turns, False
    try:
        for attempt in range(LOCK_ATTEMPTS):
            # Chosen once: a plugin that gets rules meanwhile sees the next write, because this one began before.
            steps = access.admission.steps("UPDATE", cluster_state.name, resource.group_resource, dry_run=request.options.dry_run)
            plain = not steps.mutating and not steps.validating
            # Of many writers that all read the same state only one would succeed, and all others would begin again, and again. A plugin or
            # a webhook may write the object itself before it answers: such a write waits for no other and lets no other wait.
            if plain and not has_turn and (attempt or key in turns):
                await turns.take(key)
                has_turn = True
            item = await find(access, cluster_state, served, namespace, name, key=key)
            if item is None:
                if not may_create:
                    raise errors.not_found(resource.group_resource, name)
                if has_turn:
                    has_turn = False
                    turns.give(key)
                created = await _create_missing(access, request, transform)
                if created is not None:
                    return created
                continue  # another writer was faster: there is something to update now
            current = Current(served, item, access.decoded.find(served, item) if plain else None)
            new = await transform(current)
            try:
                return await _replace(access, request, current, cluster_state=cluster_state, new=new, steps=steps)
            except ConflictError as conflict:
                await check_conflict(access, cluster_state, conflict, key)
    finally:
        if has_turn:
            turns.give(key)
    raise errors.conflict(resource.group_resource, name, errors.OBJECT_MODIFIED)


async def _create_missing(access: Access, request: WriteRequest, transform: Transform) -> StoreResult | None:
    """Create the object; None where another writer has created it meanwhile."""
    resource, name = request.target.served.resource, request.target.name
    applied = request.manager is not None and request.manager.applied
    obj = await transform(None)
    if uid := obj["metadata"].get("uid"):
        if applied:
            raise uid_of_nothing(resource, name, uid)
        raise _other_uid(resource, name, uid, "")
    if not (resource.strategy.allow_create_on_update or applied) or request.target.subresource:
        raise errors.not_found(resource.group_resource, name)
    obj["metadata"].pop("resourceVersion", None)
    try:
        return await create(access, request._replace(options=create_options_of(request.options)), obj)
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise
    return None


async def _replace(
    access: Access, request: WriteRequest, current: Current, *, cluster_state: ClusterState, new: dict[str, Any], steps: Steps
) -> StoreResult:
    """One try, in the cluster of the request. `steps` are those of admission.

    Raises:
        ConflictError: the object changed since it was read.
    """
    _, served, namespace, _, subresource, _ = request.target
    manager, resource, item = request.manager, served.resource, current.item
    view = view_of(resource, subresource)
    size = request.size + len(item.value)
    decoded = current.decoded
    old = await current.load() if decoded is None else decoded.obj
    _check_lock(resource, new["metadata"], old["metadata"], item)
    if size > Inline.TRANSFORM:
        new = await offload(view.prepared, new, old, resource)
    else:
        new = view.prepared(new, old, resource)
    await next_stage()
    managed = current.noted
    if manager is None:
        _keep_entries(new, old)
    elif not manager.applied:
        known = decoded.managed if decoded is not None else None
        managed = await note_write(resource, old, new, manager, subresource=subresource, size=size, known=known)
        await next_stage()
    metadata = new["metadata"]
    name = metadata["name"]
    admitted: list[Compare] = []
    if steps.mutating:
        # The new object shares parts with the stored one, which plugins must not change.
        new = await offload(_copy, new) if size > Inline.TRANSFORM else _copy(new)
    attributes = None
    if steps.mutating or steps.validating:
        attributes = attributes_of("UPDATE", request, namespace, name, obj=new, old=old, compares=admitted, revision=item.mod_revision)
    if attributes is not None and steps.mutating:
        await mutate(steps, attributes)
        size = max(size, attributes.reinvocation.size + len(item.value))
        # As upstream, which admits the object before it sets what only the server sets (apiserver `rest.BeforeUpdate`).
        if size > Inline.TRANSFORM:
            new = await offload(view.prepared, new, old, resource)
        else:
            new = view.prepared(new, old, resource)
        metadata, attributes = new["metadata"], attributes._replace(obj=new)
    if not subresource and access.assignments is not None and access.assignments.follows(resource.keys):
        await access.assignments.assign(cluster_state.name, new, old)
    sound = decoded is not None and decoded.sound
    await check(resource, new, old, request.warnings, subresource=subresource, size=size, sound=sound, settled=current.settled)
    if attributes is not None and steps.validating:
        await steps.validate(attributes)
    finished = bool(metadata.get("deletionTimestamp")) and not resource.strategy.has_pending_finalizers(new)
    differs = finished or metadata.get("generation") != old["metadata"].get("generation")
    stored = await to_storage(resource, new)
    if size > Inline.TRANSFORM:
        value, same = await offload(_encoded, stored, item, differs=differs)
    else:
        value, same = _encoded(stored, item, differs=differs)
    dry_run = request.options.dry_run
    if same or dry_run:
        # The store refuses a write in another life of the cluster; for a read alone this has to be checked.
        await check_life(access, cluster_state)
    if same:
        if decoded is not None:
            access.decoded.keep(item.key, decoded)
        if value != item.value:
            stored, value = orjson.loads(item.value), item.value
        return StoreResult(stored, value, item.mod_revision)
    # What the server itself says about an object is stored also in a full cluster.
    limited = not (subresource == "status" and SYSTEM_MASTERS in request.context.user.groups)
    if dry_run:
        if limited and not finished:
            condition = Compare(item.key, mod_revision=0 if is_default(item) else item.mod_revision)
            await access.judge(cluster_state.name, resource.keys, (condition,), (Put(item.key, value),))
        return StoreResult(stored, value, item.mod_revision, deleted=finished)
    replacement = await replacement_of(access, cluster_state, served, metadata) if finished else None
    compares: Sequence[Compare]
    operations: Sequence[Operation]
    if replacement is not None:
        compares, operations = removal(cluster_state, served, item, replacement)
    elif is_default(item):
        compares, operations = await storing(access, cluster_state, served, item, value, name=name)
    else:
        compares = (Compare(item.key, mod_revision=item.mod_revision), *cluster_state.life, *served.guards)
        operations = (Delete(item.key) if finished else Put(item.key, value),)
    keys, enforced = served.resource.keys, subresource != "status"
    revision = await access.transact(cluster_state.name, keys, (*compares, *admitted), operations, enforced=enforced, limited=limited)
    result = StoreResult(stored, value, revision, deleted=finished)
    if decoded is not None and not finished:
        access.decoded.written(item.key, decoded, resource, stored=stored, value=value, managed=managed, conforming=current.conforming)
    if resource.group_resource == RESOURCE_QUOTAS and not subresource:
        return await counted(access, item.key, result)
    return result


def _copy(obj: dict[str, Any]) -> dict[str, Any]:
    """A copy that shares nothing with an object. `deepcopy` takes five times as long."""
    copied: dict[str, Any] = orjson.loads(orjson.dumps(obj))
    return copied


def _encoded(stored: dict[str, Any], item: KeyValue, *, differs: bool) -> tuple[bytes, bool]:
    """The stored form, and whether it is the one that is stored already and stays, which is not known yet unless it `differs`."""
    value = encode_stored(stored)
    return value, not differs and unchanged(value, stored, item)


def unchanged(value: bytes, stored: dict[str, Any], item: KeyValue) -> bool:
    """Whether an object is the stored one, in whatever order its members come."""
    if value == item.value:
        return True
    if len(value) != len(item.value):
        return False
    return identical(_timeless(stored), _timeless(orjson.loads(item.value)))


def _timeless(obj: dict[str, Any]) -> dict[str, Any]:
    """An object without the times of its fields' owners, which alone do not cause a write (apiserver `fieldmanager/equality.go`)."""
    entries = obj["metadata"].get("managedFields")
    if not entries:
        return obj
    kept = [{name: value for name, value in entry.items() if name != "time"} for entry in entries]
    return obj | {"metadata": obj["metadata"] | {"managedFields": kept}}


def _check_lock(resource: ServedResource, new: dict[str, Any], old: dict[str, Any], item: KeyValue) -> None:
    name = old["name"]
    if new.get("uid") and new["uid"] != old["uid"]:
        raise _other_uid(resource, name, new["uid"], old["uid"])
    given, revision = new.get("resourceVersion") or "", str(item.mod_revision)
    if given == revision:
        return
    if given and not (given.isascii() and given.isdigit()):
        problem = invalid("metadata.resourceVersion", given, "must be a positive integer")
        raise errors.invalid(resource.group_version_kind.group_kind, name, [problem])
    given = given.lstrip("0")  # as upstream: a number; zero counts as missing
    if given:
        if given != revision:
            raise errors.conflict(resource.group_resource, name, errors.OBJECT_MODIFIED)
    elif not resource.strategy.allow_unconditional_update:
        problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
        # Upstream names the resource where other faults name the kind (`Store.Update`).
        raise errors.invalid(str(resource.group_resource), name, [problem])


def _other_uid(resource: ServedResource, name: str, given: str, found: str) -> StatusError:
    """409 for an object that is not the one that the client means; `found` is empty where there is none."""
    detail = f"Precondition failed: UID in precondition: {given}, UID in object meta: {found}"
    return errors.conflict(resource.group_resource, name, detail)


def uid_of_nothing(resource: ServedResource, name: str, given: str) -> StatusError:
    """409 for an apply that names the uid of an object that does not exist."""
    detail = f"uid mismatch: the provided object specified uid {given}, and no existing object was found"
    return errors.conflict(resource.group_resource, name, detail)


def _keep_entries(obj: dict[str, Any], source: dict[str, Any]) -> None:
    """Let an object, in place, have the owners of another."""
    entries = source["metadata"].get("managedFields")
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)
