"""CRDs that are read alone are parsed once for each content, and once for each revision where no two are equal."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.compilation import CompiledCRDs, LoadedCRD
from kcp_py.registry.catalog.lonecrds import LoneCRDs
from kcp_py.registry.rendering import encode_stored
from kcp_py.storage.contract import Delete, Put
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import ROOT, make_crd
from tests.registry.conftest import crd_key, stored

pytestmark = pytest.mark.anyio

NAME = "widgets.example.com"


class Counted(CompiledCRDs):
    """Counts CRDs that are parsed."""

    parsed = 0

    async def load(self, value: bytes) -> LoadedCRD:
        self.parsed += 1
        return await super().load(value)


def keys(count: int) -> Sequence[str]:
    return [crd_key(Name(f"c{number:03}")) for number in range(count)]


async def test_copies_are_parsed_twice() -> None:
    """The second cluster with a content shows that it is worth recognizing."""
    async with MemoryStorage() as storage:
        await storage.transact((), [Put(key, encode_stored(stored(make_crd(), uid=key))) for key in keys(100)])
        compiled = Counted(ROOT)
        lone = LoneCRDs(storage, compiled)
        items, found, size = await lone.read(NAME, keys(100))
        assert compiled.parsed == 2
        assert len({*found}) == 1
        assert size == sum(len(item.value) for item in items if item is not None)
        await lone.read(NAME, keys(100))
        assert compiled.parsed == 2
        lone.clear()
        assert (await lone.read(NAME, keys(1)))[1] == found[:1]
        assert compiled.parsed == 3


async def test_different_ones_are_parsed_once_for_each_revision() -> None:
    """As long as something keeps their compiled forms; a CRD that is gone, or cannot be served, has none."""
    async with MemoryStorage() as storage:
        values = [encode_stored(stored(make_crd(singular=f"widget{number}"))) for number in range(5)]
        await storage.transact((), [Put(key, value) for key, value in zip(keys(5), values, strict=True)])
        compiled = Counted(ROOT)
        lone = LoneCRDs(storage, compiled)
        _, first, _ = await lone.read(NAME, keys(5))
        _, again, _ = await lone.read(NAME, keys(5))
        assert compiled.parsed == 5
        assert [*first] == [*again]
        assert len({*first}) == 5
        await storage.transact((), [Put(keys(5)[1], values[2]), Delete(keys(5)[2]), Put(keys(5)[3], b"{}")])
        _, changed, _ = await lone.read(NAME, keys(5))
        assert [*changed] == [first[0], first[2], None, None, first[4]]
