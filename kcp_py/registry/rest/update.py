"""PUT of an object, its status or its Scale."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.fielderrors import invalid
from kcp_py.registry.rest.conform import BodyKind
from kcp_py.registry.rest.scale import SCALE
from kcp_py.registry.scale import ScalePaths, apply_scale
from kcp_py.registry.store import Access, Current
from kcp_py.registry.store import update as update_stored
from kcp_py.registry.store.access import Written
from kcp_py.registry.writerequest import Resolved, WriteRequest

Source = Callable[[], Awaitable[dict[str, Any]]]
"""Gives the object of a request anew at each call, for the callee to keep: decoded, pruned and with defaults."""


async def update(access: Access, request: WriteRequest, read: Source) -> Written:
    """Replace an object, its status or its Scale; kinds that allow it are created.

    Args:
        access: the store.
        request: who updates what.
        read: gives the object of the body. Its warnings are those of the last call.

    Raises:
        StatusError: 400, 404, 409, 422 and whatever admission says.
        StaleScopeError: cluster or definition changed meanwhile; retry with fresh ones.
    """
    target = request.target
    paths = target.scale
    warnings_before = len(request.warnings)

    async def read_anew() -> dict[str, Any]:
        del request.warnings[warnings_before:]
        obj = await read()
        check_identity(obj, target)
        return obj

    # Before the object is looked up, as upstream: a bad body is a 400, whether or not there is an object. An attempt uses it up.
    unused: list[dict[str, Any]] = [await read_anew()]

    async def transform(current: Current | None) -> dict[str, Any]:
        obj = unused.pop() if unused else await read_anew()
        if paths is None or current is None:
            return obj
        whole = await scaled(paths, obj, current)
        if uid := obj["metadata"].get("uid"):  # a precondition, as in any PUT
            whole["metadata"]["uid"] = uid
        return whole

    return await update_stored(access, request, transform, may_create=True)


def body_kind(target: Resolved) -> BodyKind:
    """The kind of the bodies of requests for a target, and of what is patched."""
    return SCALE if target.subresource == "scale" else target.served.resource


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
