"""Ranges that are read in pages, also where a part of the store is damaged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kcp_py.storage.contract import DamagedError, Delete, Put, RangeResult
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.paging import read_pages

pytestmark = pytest.mark.anyio

KEYS = tuple(f"/a/{number}" for number in range(7))


class DamagedStorage(MemoryStorage):
    """A store in which the values of some keys cannot be read."""

    def __init__(self) -> None:
        super().__init__()
        self.damaged: set[str] = set()
        self.names_keys = True
        self.keeps_rest = True

    async def range(self, prefix: str, **more: Any) -> RangeResult:
        found = await super().range(prefix, **more)
        damaged = [item.key for item in found.items if item.key in self.damaged]
        if not damaged:
            return found
        rest = found._replace(items=[item for item in found.items if item.key not in self.damaged])
        raise DamagedError(damaged if self.names_keys else (), rest if self.keeps_rest else None)


@pytest.fixture
async def storage() -> AsyncIterator[DamagedStorage]:
    async with DamagedStorage() as opened:
        await opened.transact((), [Put(key, key.encode()) for key in (*KEYS, "/b/0")])
        yield opened


async def pages(storage: DamagedStorage, **more: Any) -> list[tuple[str, str]]:
    """The last parts of the keys of each page, and of those that are damaged."""
    found = [page async for page in read_pages(storage, "/a/", limit=3, **more)]
    return [("".join(item.key[3:] for item in page.items), "".join(key[3:] for key in page.damaged)) for page in found]


@pytest.mark.parametrize(
    ("damaged", "expected"),
    [
        ("", [("012", ""), ("345", ""), ("6", "")]),
        ("1", [("02", "1"), ("345", ""), ("6", "")]),
        ("2", [("01", "2"), ("345", ""), ("6", "")]),
        ("345", [("012", ""), ("", "345"), ("6", "")]),
        ("0123456", [("", "012"), ("", "345"), ("", "6")]),
    ],
)
async def test_every_key_comes_once(storage: DamagedStorage, damaged: str, expected: list[tuple[str, str]]) -> None:
    """In the order of keys, as an item or as damaged, also where a whole page is damaged."""
    storage.damaged = {f"/a/{number}" for number in damaged}
    assert await pages(storage) == expected


async def test_a_start_and_a_revision(storage: DamagedStorage) -> None:
    """Keys before the start are left out, and all pages are of the revision that is asked for."""
    revision = await storage.revision()
    await storage.transact((), [Delete(key) for key in KEYS])
    assert await pages(storage, start="/a/3", revision=revision) == [("345", ""), ("6", "")]
    assert await pages(storage) == [("", "")]


@pytest.mark.parametrize(("names_keys", "keeps_rest"), [(False, True), (True, False)])
async def test_damage_without_an_end_is_an_error(storage: DamagedStorage, *, names_keys: bool, keeps_rest: bool) -> None:
    """Where the readable part is not known, or where the next page begins."""
    storage.damaged, storage.names_keys, storage.keeps_rest = set(KEYS[:3]), names_keys, keeps_rest
    with pytest.raises(DamagedError):
        await pages(storage)
