"""The object that a controller was called for: reading it, and telling in its status how far things have come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import Client
from kcp_py.controllers.conditions import with_condition
from kcp_py.controllers.runtime.queue import Key


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
