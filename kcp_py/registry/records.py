"""`Records`: notes of the server in its store, each with a revision that means something in this store alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from kcp_py.storage.contract import Compare, ConflictError, DamagedError, Put, Storage
from kcp_py.storage.keys import internal_key


class Records:
    """Records at internal keys. A record has the field `revision`, and its writer adds `created`.

    `created` is the revision at which the key of the record was created. In a copy of the keys in another store, whose revisions mean
    something else, it differs, and the record is not used.
    """

    def __init__(self, storage: Storage, root: str) -> None:
        """Prepare.

        Args:
            storage: the store.
            root: the prefix of its keys.
        """
        self._storage = storage
        self._root = root

    async def load(self, name: str) -> Mapping[str, Any] | None:
        """A record; None where there is none for this store, or its bytes are damaged: what a record says can be found without it.

        Its revision is that of its own write where nothing else was written between. A compaction at that revision loses nothing.

        Raises:
            StorageError: the store cannot be read.
        """
        try:
            item = await self._storage.get(internal_key(self._root, name))
        except DamagedError:
            return None
        if item is None:
            return None
        try:
            value: Any = orjson.loads(item.value)
        except ValueError:
            return None
        match value:
            case {"created": item.create_revision, "revision": int(revision)} if 0 <= revision < item.mod_revision:
                following = revision + 1
                return {**value, "revision": following if following == item.mod_revision else revision}
        return None

    async def save(self, name: str, value: Mapping[str, Any]) -> int:
        """Write a record.

        Returns:
            The revision of the write; 0 where another process has written meanwhile.

        Raises:
            StorageError: the store cannot be read or written.
        """
        key = internal_key(self._root, name)
        while True:
            item = await self._storage.get(key)
            created, modified = (0, 0) if item is None else (item.create_revision, item.mod_revision)
            text = orjson.dumps({"created": created, **value})
            try:
                written = await self._storage.transact([Compare(key, mod_revision=modified)], [Put(key, text)])
            except ConflictError:
                return 0
            if created:
                return written
