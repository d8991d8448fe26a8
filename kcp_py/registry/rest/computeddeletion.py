"""`DeletedComputedObjects`: the deletion of a collection of computed objects.

Source: k8s.io/apiserver `pkg/registry/generic/registry/store.go` (`DeleteCollection`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery.errors import StatusError
from kcp_py.registry.rest.storage import Object
from kcp_py.registry.writerequest import WriteRequest


class DeletedComputedObject(NamedTuple):
    """A computed object as its deletion has left it."""

    obj: Object

    @property
    def size(self) -> int:
        """Bytes of the object, about."""
        return len(orjson.dumps(self.obj))

    async def decoded(self) -> Object:
        """The object."""
        return self.obj


class DeletedComputedObjects:
    """Deletes the objects of a list while it is iterated over. Deleted objects stay deleted where the iteration ends early."""

    def __init__(
        self,
        request: WriteRequest,
        list_all: Callable[[], Awaitable[tuple[Sequence[Object], int]]],
        delete: Callable[[WriteRequest], Awaitable[Object | None]],
        *,
        limit: int,
    ) -> None:
        """Prepare; nothing is read before the first object.

        Args:
            request: the deletion of the collection.
            list_all: the objects that the client has selected, and the resourceVersion of their list.
            delete: deletes one of them; None where nothing is left of it.
            limit: objects that are deleted; 0 for all.
        """
        self._request = request
        self._list = list_all
        self._delete = delete
        self._limit = limit
        self.revision = 0
        """Of the list, once it was read."""

    async def __aiter__(self) -> AsyncIterator[DeletedComputedObject]:
        """Each object as its deletion has left it. Objects that are gone meanwhile are left out.

        Raises:
            StatusError: an object cannot be deleted.
        """
        items, self.revision = await self._list()
        turns = TimeSlice()
        for obj in items[: self._limit or None]:
            metadata = obj["metadata"]
            target = self._request.target._replace(namespace=metadata.get("namespace", ""), name=metadata["name"])
            try:
                left = await self._delete(self._request._replace(target=target))
            except StatusError as error:
                if error.code == 404:
                    continue
                raise
            yield DeletedComputedObject(obj if left is None else left)
            await turns.yield_if_due()
