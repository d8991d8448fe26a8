"""Stores of many clusters, written past the API: a million objects in less than a minute."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from kcp_py.storage.contract import Put, Storage
from kcp_py.storage.keys import route_of
from kcp_py.storage.opening import open_storage
from kcp_py.storage.paging import read_pages

_ROOT: Final = "/registry"
_UID: Final = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TOGETHER: Final = 500
"""Writes of one transaction."""


async def copy_cluster(root: Path, cluster: str, names: int, *, prefix: str = "f") -> int:
    """Copy a cluster of a stopped server, with new uids, to clusters that are named by a prefix and a number.

    Args:
        root: the directory of the server.
        cluster: which exists.
        names: how many copies to make.
        prefix: of their names.

    Returns:
        The number of objects that were written.
    """
    async with open_storage("sqlite", path=root / "kcp.db") as storage:
        template = await _objects(storage, cluster)
        copies = (
            Put(*_copied(key, value, cluster, f"{prefix}{number}", number)) for number in range(names) for key, value in template.items()
        )
        written = 0
        while some := list(islice(copies, _TOGETHER)):
            await storage.transact([], some)
            written += len(some)
    return written


async def _objects(storage: Storage, cluster: str) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    async for page in read_pages(storage, f"{_ROOT}/", limit=1_000):
        for item in page.items:
            route = route_of(item.key, _ROOT)
            if route is not None and route.cluster == cluster:
                found[item.key] = item.value
    return found


def _copied(key: str, value: bytes, cluster: str, name: str, number: int) -> tuple[str, bytes]:
    """An object of a copy. The same uid in two objects stays the same in both."""
    suffix = b"%012x" % number
    return key.replace(f"/{cluster}/", f"/{name}/", 1), _UID.sub(lambda found: found[0][:-12] + suffix, value).replace(
        f"/clusters/{cluster}".encode(), f"/clusters/{name}".encode()
    )
