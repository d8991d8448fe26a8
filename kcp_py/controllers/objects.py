"""The object that a controller was called for: reading it, reporting in its status, and deleting it at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import Client
from kcp_py.controllers.conditions import with_condition
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.queue import Key

LONGEST_WAIT_SECONDS: Final = 600.0
"""How long the end of an object is waited for before it is looked at again."""


async def find(client: Client, resource: GroupVersionResource, key: Key) -> dict[str, Any] | None:
    """An object, or None where there is none. No object has an empty name.

    Raises:
        StatusError: anything but 404.
    """
    if not key.name:
        return None
    try:
        return await client.get(key.cluster, resource, key.namespace, key.name)
    except StatusError as error:
        if error.code == 404:
            return None
        raise


async def delete_at_end(
    client: Client,
    resource: GroupVersionResource,
    key: Key,
    *,
    ends_at: Callable[[Mapping[str, Any]], float | None],
    now: float,
    propagation: str = "",
) -> int | Later:
    """Delete an object at its end, unless it changes meanwhile.

    Args:
        client: of all clusters.
        resource: the resource and its version.
        key: of the object, which may not exist.
        ends_at: the end of the object, in Unix seconds; None for an object without one.
        now: Unix seconds.
        propagation: see `Client.delete`.

    Returns:
        When to look again, for a controller.

    Raises:
        StatusError: the object has changed, or cannot be read or deleted.
    """
    obj = await find(client, resource, key)
    if obj is None or obj["metadata"].get("deletionTimestamp") or (end := ends_at(obj)) is None:
        return 0
    if (remaining := end - now) > 0:
        return Later(min(remaining, LONGEST_WAIT_SECONDS))
    metadata = obj["metadata"]
    # With both preconditions: a change that comes meanwhile counts.
    preconditions = {"uid": metadata["uid"], "resource_version": metadata["resourceVersion"]}
    await client.delete(key.cluster, resource, key.namespace, key.name, **preconditions, propagation=propagation)
    return 0


async def report(
    client: Client,
    resource: GroupVersionResource,
    key: Key,
    *,
    obj: Mapping[str, Any],
    conditions: Iterable[Mapping[str, Any]],
    now: str,
) -> None:
    """Put conditions (see `with_condition`) into the status of an object, unless they are there.

    An object that is not valid any more, as it was damaged or the rules have changed, keeps the status that it has: nothing waits for it.

    Raises:
        StatusError: a conflict where the object is not any more as `obj` has it.
    """
    status = before = obj.get("status") or {}
    for condition in conditions:
        status = with_condition(status, condition, now) or status
    if status is before:
        return
    try:
        await client.update(key.cluster, resource, {**obj, "status": status}, subresource="status")
    except StatusError as error:
        if error.reason != "Invalid":
            raise
