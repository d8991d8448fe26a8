"""For controllers that look at all objects of a cluster at once, some time after the first of many changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

from kcp_py.aio.cooperative import Throttle
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import Client
from kcp_py.logicalcluster import Name

PAGE: Final = 100
"""Objects that are held at once."""
_DELETIONS: Final = 16
"""Deletions at the same time, so that a store can commit them together."""


async def pages(
    client: Client, cluster: Name, resource: GroupVersionResource, namespace: str = "", *, metadata_only: bool = False
) -> AsyncGenerator[Sequence[dict[str, Any]], None]:
    """The objects of a cluster or of one of its namespaces in pages; none where the cluster does not serve the resource.

    Raises:
        StatusError: anything but 404.
    """
    token = ""
    while True:
        try:
            page = await client.list(cluster, resource, namespace, limit=PAGE, continue_token=token, metadata_only=metadata_only)
        except StatusError as error:
            if error.code == 404:
                return
            raise
        yield page.items
        token = page.continue_token
        if not token:
            return


async def delete_unchanged(
    client: Client,
    cluster: Name,
    resource: GroupVersionResource,
    metadata: Sequence[Mapping[str, Any]],
    *,
    throttle: Throttle | None = None,
) -> None:
    """Delete objects as they were read. Those that have changed or gone meanwhile are left alone.

    Args:
        client: of all clusters.
        cluster: the logical cluster.
        resource: the resource and its version.
        metadata: of the objects.
        throttle: passed before each few deletions; None for no such thing.

    Raises:
        StatusError: the first refusal.
    """
    for start in range(0, len(metadata), _DELETIONS):
        if throttle is not None:
            await throttle.take()
        deletions = (_delete(client, cluster, resource, one) for one in metadata[start : start + _DELETIONS])
        for failed in await asyncio.gather(*deletions, return_exceptions=True):
            if isinstance(failed, BaseException):
                raise failed


async def _delete(client: Client, cluster: Name, resource: GroupVersionResource, metadata: Mapping[str, Any]) -> None:
    uid, version = metadata["uid"], metadata["resourceVersion"]
    try:
        await client.delete(cluster, resource, metadata.get("namespace", ""), metadata["name"], uid=uid, resource_version=version)
    except StatusError as error:
        if error.code not in {404, 409}:
            raise
