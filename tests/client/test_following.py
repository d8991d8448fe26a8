"""How far readers of changes have come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import pytest

from kcp_py.aio.cooperative import Throttle
from kcp_py.client import EVERYTHING, ObjectChange
from kcp_py.client.following import Followers, scan_changes
from kcp_py.logicalcluster import Name
from kcp_py.storage.keys import resource_keys
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import CONFIG_MAPS, ROOT, Registry, config_map, open_registry
from tests.eventloop import until_idle

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
KEYS = resource_keys(ROOT, "", "configmaps", namespaced=True)
MANY = 130
"""Objects on three pages."""


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with open_registry(MemoryStorage()) as opened:
        yield opened


def follow(registry: Registry, followers: Followers, throttle: Throttle | None = None) -> AsyncGenerator[ObjectChange, None]:
    resource = CONFIG_MAPS.group_resource
    throttle = throttle or Throttle(seconds=1e9)  # always open
    return scan_changes(registry.storage, followers, KEYS, resource=resource, wanted=EVERYTHING, throttle=throttle)


def closed() -> Throttle:
    """A throttle that never opens."""
    return Throttle(seconds=0, pause=1e12)


async def test_a_change_counts_when_its_reader_is_done_with_it(registry: Registry) -> None:
    """The revision of the readers stays before a change that one of them still looks at."""
    followers = Followers(registry.fanout)
    async with aclosing(follow(registry, followers)) as changes:
        first = asyncio.ensure_future(anext(changes))
        await until_idle()
        before = registry.fanout.revision
        assert followers.revision == before
        await registry.client.create(TEAM, CONFIG_MAPS, config_map("one"))
        assert (await first).name == "one"
        assert followers.revision is not None
        assert followers.revision < registry.fanout.revision == await registry.storage.revision()
        second = asyncio.ensure_future(anext(changes))
        await until_idle()
        assert followers.revision == registry.fanout.revision
        second.cancel()
        await asyncio.wait([second])
    assert followers.positions == {}


async def test_reads_continue_at_a_position_and_return_to_the_beginning(registry: Registry) -> None:
    """Every object is shown once, those before the position at the end; the positions on the way are those of the next start."""
    names = [f"m{number:03}" for number in range(MANY)]
    for name in names:
        await registry.client.create(TEAM, CONFIG_MAPS, config_map(name))
    await registry.fanout.reached(await registry.storage.revision())
    followers = Followers(registry.fanout)
    followers.starts = {KEYS.prefix: KEYS.object_key(TEAM, "default", "m070")}
    seen: list[str] = []
    positions: set[str] = set()
    async with aclosing(follow(registry, followers)) as changes:
        while len(seen) < MANY:
            seen.append((await anext(changes)).name)
            positions.update(followers.positions.values())
        last = asyncio.ensure_future(anext(changes))
        await until_idle()
        assert followers.positions == {}
        last.cancel()
        await asyncio.wait([last])
    assert seen == [*names[70:], *names[:70]]
    assert len(positions) > 2


async def test_a_position_of_another_resource_is_not_used(registry: Registry) -> None:
    """All objects are read."""
    await registry.client.create(TEAM, CONFIG_MAPS, config_map("one"))
    followers = Followers(registry.fanout)
    followers.starts = {KEYS.prefix: f"{ROOT}/zzz"}
    async with aclosing(follow(registry, followers)) as changes:
        assert (await anext(changes)).name == "one"


async def test_missed_changes_are_dealt_with_when_all_is_read(registry: Registry) -> None:
    """Until then it is not known what the readers know."""
    followers = Followers(registry.fanout)
    await registry.client.create(TEAM, CONFIG_MAPS, config_map("one"))
    async with aclosing(follow(registry, followers, closed())) as changes:
        waiting = asyncio.ensure_future(anext(changes))
        await until_idle()
        assert followers.revision == registry.fanout.revision
        followers.miss()
        assert followers.revision is None
        waiting.cancel()
        await asyncio.wait([waiting])
    followers.miss()
    async with aclosing(follow(registry, followers)) as changes:
        assert (await anext(changes)).name == "one"
        waiting = asyncio.ensure_future(anext(changes))
        await until_idle()
        assert followers.revision == registry.fanout.revision
        waiting.cancel()
        await asyncio.wait([waiting])
