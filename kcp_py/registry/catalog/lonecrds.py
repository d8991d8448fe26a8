"""`LoneCRDs`: single CRDs of very many clusters, for requests over all clusters, which read one of each and keep none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from weakref import ref

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.aio.lru import LRU
from kcp_py.registry.catalog.compilation import CompiledCRD, CompiledCRDs
from kcp_py.registry.catalog.recognition import KnownDefinitions
from kcp_py.storage.contract import KeyValue, Storage
from kcp_py.storage.manykeys import read_each

_USED: Final = 32
_PARSED: Final = 4_000
"""CRDs that are not parsed again when they are read again; about 300 bytes each."""


class LoneCRDs:
    """Reads CRDs, and finds their compiled forms without parsing each."""

    def __init__(self, storage: Storage, compiled: CompiledCRDs) -> None:
        """Begin without any.

        Args:
            storage: the store.
            compiled: compiles CRDs, once for all clusters with the same.
        """
        self._storage = storage
        self._compiled = compiled
        self._recognized = KnownDefinitions()
        self._parsed: LRU[str, tuple[int, ref[CompiledCRD]]] = LRU(_PARSED)
        """Key -> the revision of the CRD that was parsed last, and its compiled form, which others keep."""
        self._used: LRU[CompiledCRD, bool] = LRU(_USED)
        """The compiled forms that were found last."""

    async def read(self, name: str, keys: Sequence[str]) -> tuple[Sequence[KeyValue | None], Sequence[CompiledCRD | None], int]:
        """CRDs of one name as they are stored.

        Returns:
            Them, their compiled forms (None for those that serve nothing), and their size.

        Raises:
            StorageError: the store cannot be read.
        """
        found: list[CompiledCRD | None] = []
        size = 0
        turns = TimeSlice()
        used = None
        items = await read_each(self._storage, keys)
        for item in items:
            if item is None:
                found.append(None)
                continue
            size += len(item.value)
            compiled = self._recognized.find(name, item.value)
            if compiled is None:
                await turns.yield_if_due()
                compiled = await self._parse(name, item)
            if compiled is not used and compiled is not None:
                # Compiled forms go with their last user, and the next cluster is likely to need one of the same few.
                used = compiled
                self._used.set(compiled, True)
            found.append(compiled)
        return items, found, size

    def clear(self) -> None:
        """Forget everything."""
        self._parsed = LRU(_PARSED)
        self._recognized.clear()

    async def _parse(self, name: str, item: KeyValue) -> CompiledCRD | None:
        """The compiled form of a CRD that is not recognized. A CRD that cannot be served is logged where its cluster is used."""
        revision, known = self._parsed.get(item.key) or (0, _gone)
        if revision == item.mod_revision and (compiled := known()) is not None:
            # Parsing a CRD to find its compiled form takes longer than all else.
            return compiled
        compiled = (await self._compiled.load(item.value)).compiled
        if compiled is not None:
            self._parsed.set(item.key, (item.mod_revision, ref(compiled)))
            if self._used.get(compiled):
                # Of more than one cluster.
                self._recognized.learn(name, item.value, compiled)
        return compiled


def _gone() -> None:
    """As a reference to a compiled form that is kept no longer."""
