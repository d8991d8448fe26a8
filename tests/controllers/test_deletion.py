"""What controllers that empty things have in common; what they empty is tested with each."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.client import ObjectChange
from kcp_py.controllers.deletion import DeletionController, finalizers_remain
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import NAMESPACES, namespace, open_registry

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")


class Emptied(DeletionController):
    """Remembers what it was to empty, and is done at once."""

    name = "emptied"
    resource = NAMESPACES
    per_cluster = 1

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.seen: list[str] = []

    async def _empty(self, key: Key, obj: dict[str, Any]) -> int:
        self.seen.append(obj["metadata"]["name"])
        await self._let_go(key, obj, "kubernetes")
        return 0


async def test_only_what_is_being_deleted_is_emptied() -> None:
    """A live object is left alone, a missing one is done, and the removal of the finalizer removes the object."""
    async with open_registry(MemoryStorage()) as registry:
        controller = Emptied(registry.client, registry.tap, now=str)
        changes: list[ObjectChange] = []
        for name in ("alive", "ending"):
            await registry.client.create(TEAM, NAMESPACES, namespace(name))
        await registry.client.delete(TEAM, NAMESPACES, "", "ending")
        for name in ("alive", "ending", "absent"):
            item = await registry.storage.get(f"/registry/core/namespaces/{TEAM}/{name}")
            value = None if item is None else item.value
            changes.append(ObjectChange(TEAM, NAMESPACES.group_resource, "", name, value, None))
            assert controller.wanted.matches(value or b"") is (name == "ending")
            assert await controller.reconcile(Key(TEAM, "", name)) == 0
        assert [key for change in changes for key in controller.keys(change)] == [Key(TEAM, "", "ending")]
        assert controller.seen == ["ending"]
        await registry.until_gone(TEAM, NAMESPACES, "", "ending")


def test_finalizers_remain() -> None:
    """Upstream's sentence, in the order of the finalizers' names."""
    remaining = {"b.io/x": 1, "a.io/y": 2}
    assert finalizers_remain(remaining, "namespace") == (
        "Some content in the namespace has finalizers remaining: a.io/y in 2 resource instances, b.io/x in 1 resource instances"
    )
