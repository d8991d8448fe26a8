"""PUT of an object, its status or its Scale."""

from __future__ import annotations

from typing import Any

from kcp_py.aio.offload import Inline
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.fielderrors import invalid
from kcp_py.apimachinery.meta.options import CreateOptions
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.rest.conform import conform
from kcp_py.registry.rest.kinds import body_kind
from kcp_py.registry.scale import ScalePaths, apply_scale
from kcp_py.registry.store import Access, Current
from kcp_py.registry.store import update as update_stored
from kcp_py.registry.store.access import StoreResult
from kcp_py.registry.store.decoded import shares_objects
from kcp_py.registry.writerequest import Resolved, WriteRequest
from kcp_py.schema.structural.settled import Settler


async def update(access: Access, request: WriteRequest, obj: dict[str, Any]) -> StoreResult:
    """Replace an object, its status or its Scale; kinds that allow it are created.

    Args:
        access: the store.
        request: who updates what.
        obj: of the body; changed in place.

    Raises:
        StatusError: 400, 404, 409, 422 and whatever admission says.
        StaleStateError: cluster or CRD changed meanwhile; retry with fresh ones.
    """
    target, options, decoding = request.target, request.options, request.decoding
    assert isinstance(options, CreateOptions), "an update has its own options"
    kind, paths = body_kind(target), target.scale
    warnings = request.warnings
    settler = None if target.subresource else _settler_of(target.resource, request.size)
    settled = await conform(obj, kind, decoding, field_validation=options.field_validation, warnings=warnings, settler=settler)
    warnings_before = len(warnings)
    # Before the object is looked up, as upstream: a bad body is a 400, whether or not there is an object. An attempt uses it up.
    check_identity(obj, target)
    unused = [obj]

    async def transform(current: Current | None) -> dict[str, Any]:
        if unused:
            obj = unused.pop()
            if current is not None:
                current.settled = settled
        else:
            del warnings[warnings_before:]
            assert decoding.again is not None, "an update can be tried again"
            obj = await decoding.again()
            await conform(obj, kind, decoding, field_validation="Ignore", warnings=[])
            check_identity(obj, target)
        if paths is None or current is None:
            return obj
        whole = await scaled(paths, obj, current)
        if uid := obj["metadata"].get("uid"):  # a precondition, as in any PUT
            whole["metadata"]["uid"] = uid
        return whole

    return await update_stored(access, request, transform, may_create=True)


def _settler_of(resource: ServedResource, size: int) -> Settler | None:
    """What judges the body of an update before the object is looked up; None where that may take long.

    It is there only for resources whose objects, but for metadata and status, stay as they are decoded until they are validated.
    """
    if not shares_objects(resource) or size * resource.schema.pattern_weight > Inline.PATTERN_STEPS:
        return None
    return resource.schema.settler


async def scaled(paths: ScalePaths, scale: dict[str, Any], current: Current) -> dict[str, Any]:
    """The object as stored, in the version of the request, with what a Scale says."""
    obj = await current.load()
    obj["metadata"]["resourceVersion"] = str(current.item.mod_revision)
    apply_scale(scale, obj, paths)
    return obj


def other_uid(target: Resolved, given: str) -> StatusError:
    """422 for a uid that is not the object's: only in a PUT it is a precondition (`rest.DefaultUpdatedObjectInfo`)."""
    problems = [invalid("metadata.uid", given, "field is immutable")]
    return errors.invalid(target.resource.group_version_kind.group_kind, target.name, problems)


def check_identity(obj: dict[str, Any], target: Resolved) -> None:
    """Compare name and namespace of the object with those of the URL.

    Raises:
        StatusError: 400 where they differ, and for a missing name.
    """
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    if not target.resource.namespaced:
        metadata.pop("namespace", None)
    elif namespace and namespace != target.namespace:
        raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")
    name = metadata.get("name")
    if not name:
        raise errors.bad_request(f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided")
    if name != target.name:
        raise errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
