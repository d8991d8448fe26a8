"""No object is created in a namespace that does not exist or is being deleted, also with concurrent requests."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.registry.clusterstate import StaleStateError
from tests.client.registry import NAMESPACES, config_map, namespace
from tests.registry.store.conftest import TEAM, World

pytestmark = pytest.mark.anyio


async def test_the_namespace_has_to_be_there(world: World) -> None:
    """404 names the namespace; the default ones are always there."""
    with pytest.raises(StatusError, match='namespaces "shop" not found') as missing:
        await world.create(config_map("one", "shop"))
    assert missing.value.code == 404
    assert (await world.create(config_map("one", "kube-system"))).mod_revision


async def test_the_namespace_must_not_be_terminating(world: World) -> None:
    """403 with upstream's cause."""
    held = {**namespace("shop"), "metadata": {"name": "shop", "finalizers": ["a.b/c"]}}
    await world.client.create(TEAM, NAMESPACES, held)
    await world.client.delete(TEAM, NAMESPACES, "", "shop")
    with pytest.raises(StatusError) as refused:
        await world.create(config_map("one", "shop"))
    message = "unable to create new content in namespace shop because it is being terminated"
    assert (refused.value.code, refused.value.message) == (403, f'configmaps "one" is forbidden: {message}')
    assert [cause["reason"] for cause in (refused.value.details or {})["causes"]] == ["NamespaceTerminating"]


async def test_a_deletion_in_between_is_seen_by_the_transaction(world: World) -> None:
    """The decision holds when the object is stored: it is worked out again otherwise."""
    await world.client.create(TEAM, NAMESPACES, namespace("shop"))
    world.storage.before_write(lambda: world.client.delete(TEAM, NAMESPACES, "", "shop"))
    with pytest.raises(StaleStateError):
        await world.create(config_map("one", "shop"))
