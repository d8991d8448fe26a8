"""`StoreRecords`: notes of controllers in the store, each with a revision that means something in this store alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcp_py.registry.records import Records
from kcp_py.registry.store.access import translate
from kcp_py.storage.contract import Storage, StorageError


class StoreRecords:
    """`kcp_py.registry.records.Records` with the errors of clients."""

    def __init__(self, storage: Storage, root: str) -> None:
        """Prepare.

        Args:
            storage: the store.
            root: the prefix of its keys.
        """
        self._records = Records(storage, root)

    async def load(self, name: str) -> Mapping[str, Any] | None:
        """`Records.load`.

        Raises:
            StatusError: the store cannot be read.
        """
        try:
            return await self._records.load(name)
        except StorageError as error:
            raise translate(error) from error

    async def save(self, name: str, value: Mapping[str, Any]) -> int:
        """`Records.save`.

        Raises:
            StatusError: the store cannot be read or written.
        """
        try:
            return await self._records.save(name, value)
        except StorageError as error:
            raise translate(error) from error
