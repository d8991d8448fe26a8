"""What each cluster serves: remembered while nothing changes, and never longer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from kcp_py.watchcache import WatchEndedError
from tests.client.registry import ROOT, WIDGETS, Registry, open_registry

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
KEY = f"{ROOT}/apiextensions.k8s.io/customresourcedefinitions/{TEAM}/widgets.example.com"


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    """A cluster with an established definition."""
    async with open_registry(MemoryStorage()) as opened:
        await opened.establish(TEAM)
        await opened.feed.reached(await opened.storage.revision())
        yield opened


async def rewrite(registry: Registry, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the definition as another server would, and wait until that is known."""
    await registry.feed.reached(await registry.rewrite(KEY, change))


async def test_a_table_is_kept_until_a_definition_changes(registry: Registry) -> None:
    """Of its own cluster; clusters without definitions share one table."""
    other = await registry.tables.get(Name("team-b"))
    assert other is registry.tables.builtin_table
    before = await registry.tables.get(TEAM)
    assert await registry.tables.get(TEAM) is before
    await rewrite(registry, lambda crd: crd["metadata"].update(labels={"a": "b"}))
    after = await registry.tables.get(TEAM)
    assert after is not before
    assert after.digest == before.digest
    assert registry.tables.cached(Name("team-b")) is other


async def test_nothing_is_remembered_while_a_definition_is_written(registry: Registry) -> None:
    """What is read then may be old or new, and is good for the one who reads it only."""
    registry.tables.writing(TEAM)
    assert (await registry.tables.get(TEAM)).find(*WIDGETS) is not None
    assert registry.tables.cached(TEAM) is None
    registry.tables.written(TEAM)
    await registry.tables.get(TEAM)
    assert registry.tables.cached(TEAM) is not None


@pytest.mark.parametrize("cached", [True, False], ids=["table at hand", "table forgotten"])
async def test_watches_end_with_a_change_of_what_is_served_only(registry: Registry, *, cached: bool) -> None:
    """Labels and unimportant conditions change nothing for who watches, whether or not the table is in use at the time."""
    prefix = f"{ROOT}/example.com/widgets/customresources/"
    watcher = registry.feed.attach(prefix, cluster=TEAM, after=registry.feed.revision)

    async def change(change: Callable[[dict[str, Any]], object]) -> None:
        registry.tables.invalidate(TEAM)
        if cached:
            await registry.tables.get(TEAM)
        await rewrite(registry, change)

    await change(lambda crd: crd["metadata"].update(labels={"a": "b"}))
    await change(lambda crd: crd["status"]["conditions"].append({"type": "Other", "status": "True"}))
    assert not await watcher.take()
    await change(lambda crd: crd["spec"]["names"].update(shortNames=["wd"]))
    with pytest.raises(WatchEndedError):
        await watcher.take()
    await registry.feed.detach(watcher)


async def test_one_of_many_tables_goes_for_a_new_one(registry: Registry) -> None:
    """The number of tables is bounded; the one that was not used for longest is worked out again."""
    registry.tables._capacity = 2
    table = await registry.tables.get(TEAM)
    for name in ("b", "c"):
        await registry.tables.get(Name(name))
    assert len(registry.tables) == 2
    assert await registry.tables.get(TEAM) is not table
