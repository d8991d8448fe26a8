"""The number of objects behind a page is counted up to a bound, and once for the pages of a list."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.registry.rest import remaining
from kcp_py.registry.rest.remaining import Remaining
from kcp_py.storage.contract import Delete, Put, RangeResult
from kcp_py.storage.keys import resource_keys
from kcp_py.storage.memory import MemoryStorage

pytestmark = pytest.mark.anyio

CUSTOM = resource_keys("/registry", "example.com", "widgets", namespaced=True, identity="customresources")
BUILTIN = resource_keys("/registry", "apps", "deployments", namespaced=True)


class Counted(MemoryStorage):
    """Counts the ranges that are read."""

    ranges = 0

    async def range(self, prefix: str, **more: Any) -> RangeResult:
        self.ranges += 1
        return await super().range(prefix, **more)


async def fill(storage: MemoryStorage, prefix: str, count: int) -> int:
    revision = 0
    for start in range(0, count, 500):
        keys = (f"{prefix}c{number:06}/default/one" for number in range(start, min(count, start + 500)))
        revision = await storage.transact((), tuple(Put(key, b"1") for key in keys))
    return revision


async def walk(storage: MemoryStorage, counts: Remaining, limit: int, revision: int) -> list[int]:
    """The number behind each page but the last."""
    start = ""
    found: list[int] = []
    while True:
        page = await MemoryStorage.range(storage, CUSTOM.prefix, start=start, limit=limit, revision=revision)
        if not page.more:
            return found
        following = page.items[-1].key + "\x00"
        found.append(await counts.behind(CUSTOM, revision, start, taken=len(page.items), following=following))
        start = following


async def test_few_objects_are_counted_once() -> None:
    """All pages of a list have the exact number, for one read, whatever is written meanwhile."""
    async with Counted() as storage:
        revision = await fill(storage, CUSTOM.prefix, 1_000)
        await storage.transact((), (Delete(f"{CUSTOM.prefix}c000999/default/one"), Put(f"{CUSTOM.prefix}z/default/one", b"1")))
        assert await walk(storage, Remaining(storage), 100, revision) == [900, 800, 700, 600, 500, 400, 300, 200, 100]
        assert storage.ranges == 1


async def test_many_objects_are_not_counted() -> None:
    """Beyond the bound there is no number until few are left, and the pages share a few reads."""
    async with Counted() as storage:
        count, limit = 2 * remaining.MOST_COUNTED + 1_500, 500
        revision = await fill(storage, CUSTOM.prefix, count)
        found = await walk(storage, Remaining(storage), limit, revision)
        left = range(count - limit, 0, -limit)
        assert len(found) == len(left)
        assert all(number in {-1, expected} for number, expected in zip(found, left, strict=True))
        assert found[0] == -1
        assert found[-1] == limit
        assert all(number == expected for number, expected in zip(found, left, strict=True) if expected <= limit)
        assert storage.ranges == 3


async def test_a_page_in_the_middle() -> None:
    """A page whose beginning is not remembered, such as one of a list that another server began, is counted by itself."""
    async with Counted() as storage:
        revision = await fill(storage, CUSTOM.prefix, 300)
        start, following = f"{CUSTOM.prefix}c000100", f"{CUSTOM.prefix}c000150"
        assert await Remaining(storage).behind(CUSTOM, revision, start, taken=50, following=following) == 150


async def test_custom_resources_with_the_name_of_a_built_in_kind() -> None:
    """Their keys below the prefix of the kind are not its objects."""
    async with Counted() as storage:
        await fill(storage, BUILTIN.prefix, 20)
        revision = await fill(storage, BUILTIN.foreign_prefix, 30)
        following = f"{BUILTIN.prefix}c000005/"
        assert await Remaining(storage).behind(BUILTIN, revision, "", taken=5, following=following) == 15
