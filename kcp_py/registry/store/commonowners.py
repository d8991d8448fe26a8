"""`CommonOwners`: owners of fields that many objects have in common, kept once for all of them.

The objects of one controller have the same managers, which own the same fields; their entries differ in their times alone. The sets of
fields take more memory than anything else in a small object. So decoded objects that are kept between writes share equal ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.managedfields.entries import Managed
from kcp_py.apimachinery.managedfields.fieldsets import FieldSet
from kcp_py.apimachinery.managedfields.ownership import Manager, Owned, Owners
from kcp_py.registry.store.weights import decoded_weight

_TEXTS: Final = 400
"""Bytes that the rest of an entry is estimated at and does not take: its manager and its version are shared, too."""
_BOOKKEEPING: Final = 512


class _Common(NamedTuple):
    """A manager and what it owns, as many objects have it."""

    manager: Manager
    owned: Owned
    weight: int
    """Bytes that an object saves which shares it."""


class CommonOwners:
    """Bounded by memory; the owners that were found last stay. Shared owners are never changed."""

    __slots__ = ("_common",)

    def __init__(self, capacity: int) -> None:
        """Create an empty collection of so many bytes, about."""
        self._common: LRU[tuple[Manager, str, bytes], _Common] = LRU(capacity, weigh=_weight)

    def share(self, managed: Managed, entries: Sequence[dict[str, Any]]) -> tuple[Managed, int]:
        """Replace owners that equal the owners of objects before.

        Args:
            managed: what the entries say.
            entries: of the same owners in the same order, as `encode_entries` has just written them. They are changed in place, into equal
                ones.

        Returns:
            What the entries say now, and the bytes that are saved, about.
        """
        owners: Owners = {}
        times: dict[Manager, str] = {}
        in_order: dict[int, FieldSet] = {}
        saved = 0
        for (manager, owned), entry in zip(managed.owners.items(), entries, strict=True):
            # The order of members is part of the key: the stored bytes follow it.
            key = (manager, owned.api_version, orjson.dumps(owned.fields))
            found = self._common.get(key)
            if found is None:
                found = _Common(manager, owned, decoded_weight(key[2]) + _TEXTS)
                self._common.set(key, found)
            else:
                saved += found.weight
            shared, same, _ = found
            entry["fieldsV1"] = same.fields
            entry["apiVersion"] = same.api_version
            if shared.name:
                entry["manager"] = shared.name
            owners[shared], in_order[id(same.fields)] = same, same.fields
            if (time := managed.times.get(manager)) is not None:
                times[shared] = time
        return Managed(owners, times, in_order, managed.versions), saved


def _weight(common: _Common) -> int:
    return _BOOKKEEPING + common.weight
