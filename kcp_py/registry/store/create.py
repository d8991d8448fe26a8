"""POST: from a decoded object to a stored one."""

from __future__ import annotations

import random
from typing import Any, Final

from kcp_py.aio.offload import Inline, offload
from kcp_py.aio.stages import next_stage
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.generate_name import MAX_ATTEMPTS, generate_name
from kcp_py.registry.admission import attributes_of
from kcp_py.registry.clusterstate import ClusterState, StaleStateError
from kcp_py.registry.quota.quotas import RESOURCE_QUOTAS
from kcp_py.registry.rendering import encode_stored, strip_server_fields
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.store.access import Access, StoreResult, check_open, compares_of, counted
from kcp_py.registry.store.defaults import defaults_of, find_default, place_of
from kcp_py.registry.store.ownership import mutate, note_write
from kcp_py.registry.store.read import to_storage
from kcp_py.registry.store.validation import check
from kcp_py.registry.writerequest import WriteRequest
from kcp_py.storage.contract import Compare, ConflictError, Operation, Put

_MOST_DIGITS: Final = 1024
"""Of a number: upstream reads leading zeros, and no more digits than a body has."""


async def create(access: Access, request: WriteRequest, obj: dict[str, Any]) -> StoreResult:
    """Store a new object.

    Args:
        access: the store.
        request: who creates what; the name of its target is not looked at.
        obj: decoded, pruned and defaulted, in the served version; changed in place.

    Raises:
        StatusError: 409 AlreadyExists, 422 and whatever admission says.
        StaleStateError: cluster or CRD changed meanwhile; retry with fresh ones.
    """
    target, manager, size = request.target, request.manager, request.size
    resource = target.served.resource
    entries = obj["metadata"].pop("managedFields", None)
    given = obj["metadata"].get("resourceVersion") or ""
    uid, now = access.new_uid(), manager.time if manager is not None else access.now()
    if size > Inline.TRANSFORM:
        await offload(prepare_new, resource, target.namespace, obj, uid=uid, now=now)
    else:
        prepare_new(resource, target.namespace, obj, uid=uid, now=now)
    if manager is not None:
        if entries is not None:
            obj["metadata"]["managedFields"] = entries
        if not manager.applied:
            await note_write(resource, None, obj, manager, subresource="", size=size)
            await next_stage()
    base_name = obj["metadata"].get("generateName", "") if not obj["metadata"].get("name") else ""
    warnings = request.context.warnings
    warnings_before = len(warnings)
    for attempt in range(MAX_ATTEMPTS):
        del warnings[warnings_before:]
        if base_name:
            # A plugin may have put another dict there in the attempt before.
            obj["metadata"]["name"] = generate_name(base_name, random.randrange)
        resource.strategy.fill_new(obj, request.context.user)
        try:
            written = await _create_named(access, request, obj, versioned=bool(given) and _is_revision(given))
        except StatusError as error:
            if not base_name or error.reason != "AlreadyExists":
                raise
            if attempt == MAX_ATTEMPTS - 1:
                raise _no_unique_name(resource, obj["metadata"]["name"]) from error
        else:
            return written._replace(given_version=given) if request.options.dry_run else written
    raise AssertionError("unreachable")


def prepare_new(resource: ServedResource, namespace: str, obj: dict[str, Any], *, uid: str, now: str) -> None:
    """Give an object, in place, the metadata that only the server sets. `now` is RFC 3339 with seconds."""
    metadata = obj["metadata"]
    strip_server_fields(obj)
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(key, None)
    if resource.namespaced:
        metadata["namespace"] = namespace
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now
    if resource.strategy.has_generation:
        metadata["generation"] = 1
    else:
        metadata.pop("generation", None)
    if resource.has_status and resource.strategy.resets_status:
        obj.pop("status", None)
    resource.strategy.prepare_for_create(obj)
    resource.schema.complete(obj)


def _is_revision(text: str) -> bool:
    """Whether a resourceVersion is a number that a store may have given; zero and other texts are not (`APIObjectVersioner`)."""
    return len(text) <= _MOST_DIGITS and text.isascii() and text.isdigit() and 0 < int(text) < 2**64


async def _create_named(access: Access, request: WriteRequest, obj: dict[str, Any], *, versioned: bool) -> StoreResult:
    """One try.

    Args:
        access: the store.
        request: who creates what.
        obj: complete but for what admission adds.
        versioned: whether the request gave a resourceVersion, which the store refuses last of all.

    Raises:
        StatusError: see `create`.
    """
    cluster_state, served, size, dry_run = request.target.cluster_state, request.target.served, request.size, request.options.dry_run
    resource = served.resource
    metadata = obj["metadata"]
    name = metadata.get("name", "")
    namespace = metadata.get("namespace", "")
    check_open(cluster_state, resource, name)
    compares: list[Compare] = []
    attributes = attributes_of("CREATE", request, namespace, name, obj=obj, old=None, compares=compares)
    steps = access.admission.steps("CREATE", cluster_state.name, resource.group_resource, dry_run=dry_run)
    if steps.mutating:
        await mutate(steps, attributes)
        size = max(size, attributes.reinvocation.size)
    resource.strategy.follow_admission(obj)
    if access.assignments is not None and access.assignments.follows(resource.keys):
        await access.assignments.assign(cluster_state.name, obj, None)
    await check(resource, obj, None, request.context.warnings, size=size)
    if steps.validating:
        await steps.validate(attributes)
    if versioned and not dry_run:
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    key = resource.keys.object_key(cluster_state.name, namespace, name)
    if resource.has_defaults and await _exists_by_default(access, cluster_state, served, namespace, name):
        raise errors.already_exists(resource.group_resource, name)
    stored = await to_storage(resource, obj)
    value = await offload(encode_stored, stored) if size > Inline.TRANSFORM else encode_stored(stored)
    if dry_run:
        if (current := await access.storage.get(key)) is not None:
            raise already_exists(resource, name, current.value)
        await access.judge(cluster_state.name, resource.keys, (Compare(key, mod_revision=0),), (Put(key, value),))
        return StoreResult(stored, value, 0, created=True)
    compares[:0] = (Compare(key, mod_revision=0), *compares_of(cluster_state, served))
    operations: list[Operation] = [Put(key, value)]
    if cluster_state.create_with:
        operations += (operation for operation in cluster_state.create_with if operation.key != key)
    try:
        revision = await access.transact(cluster_state.name, served.resource.keys, compares, operations)
    except ConflictError as conflict:
        if conflict.key != key:
            raise StaleStateError(conflict.key) from conflict
        raise already_exists(resource, name, conflict.current.value if conflict.current else b"") from conflict
    result = StoreResult(stored, value, revision, created=True)
    return await counted(access, key, result) if resource.group_resource == RESOURCE_QUOTAS else result


async def _exists_by_default(access: Access, cluster_state: ClusterState, served: Served, namespace: str, name: str) -> bool:
    """Whether there is a default object of a name, hidden by something stored or not."""
    one = served.resource.namespace_object
    if one is not None:
        return name == one.name and await find_default(access, cluster_state, served, namespace, name) is not None
    return served.resource.default_objects is not None and place_of(namespace, name) in defaults_of(served, cluster_state)


def already_exists(resource: ServedResource, name: str, current: bytes) -> StatusError:
    """409 for a create over an existing object, with upstream's hint where that one is on its way out."""
    error = errors.already_exists(resource.group_resource, name)
    if b'"deletionTimestamp":"' in current:
        error.message = f"object is being deleted: {error.message}"
    return error


def _no_unique_name(resource: ServedResource, name: str) -> StatusError:
    error = errors.already_exists(resource.group_resource, name)
    error.message += ", the server was not able to generate a unique name for the object"
    error.details = {**(error.details or {}), "retryAfterSeconds": 1}
    return error
