"""The deletion of a collection of computed objects, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.options import DeleteOptions
from kcp_py.registry.rest.computeddeletion import DeletedComputedObjects
from kcp_py.registry.writerequest import Resolved, WriteRequest

pytestmark = pytest.mark.anyio

SHIPS = GroupResource("example.com", "ships")
NOTHING: Any = None


class Ships:
    """Objects that are deleted by name."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.asked: list[tuple[str, str]] = []

    async def list(self) -> tuple[Sequence[dict[str, Any]], int]:
        """All, and one that is gone."""
        return [{"metadata": {"name": name, "namespace": "default"}} for name in [*self.names, "gone"]], 7

    async def delete(self, request: WriteRequest) -> dict[str, Any] | None:
        """Delete one; finalizers hold those that begin with `h`."""
        name = request.target.name
        self.asked.append((request.target.namespace, name))
        if name.startswith("x"):
            raise errors.forbidden(SHIPS, name, "it stays")
        if name not in self.names:
            raise errors.not_found(SHIPS, name)
        if name.startswith("h"):
            return {"metadata": {"name": name, "deletionTimestamp": "2026-01-01T00:00:00Z"}}
        self.names.remove(name)
        return None


def deletion(ships: Ships, limit: int = 0) -> DeletedComputedObjects:
    request = WriteRequest(NOTHING, Resolved(NOTHING, NOTHING, "", ""), DeleteOptions())
    return DeletedComputedObjects(request, ships.list, ships.delete, limit=limit)


async def test_objects_are_deleted_one_after_the_other() -> None:
    """Each is answered as its deletion has left it, and one that is gone is left out."""
    ships = Ships("a", "held", "b")
    deleted = deletion(ships)
    found = [await one.decoded() async for one in deleted]
    assert [one["metadata"]["name"] for one in found] == ["a", "held", "b"]
    assert ["deletionTimestamp" in one["metadata"] for one in found] == [False, True, False]
    assert (ships.names, deleted.revision) == (["held"], 7)
    assert ships.asked == [("default", name) for name in ("a", "held", "b", "gone")]


async def test_an_iteration_that_ends_early() -> None:
    """By a limit, by the caller, or by a refusal: objects that were deleted before stay deleted, and the others stay."""
    ships = Ships("a", "b", "x", "c")
    assert [one.size > 0 async for one in deletion(ships, limit=1)] == [True]
    assert ships.names == ["b", "x", "c"]
    with pytest.raises(errors.StatusError, match="it stays"):
        assert [one async for one in deletion(ships)]
    assert ships.names == ["x", "c"]
