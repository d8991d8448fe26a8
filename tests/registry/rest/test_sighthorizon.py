"""The order of events and of changes of sight in one watch."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence

import pytest

from kcp_py.logicalcluster import Name
from kcp_py.registry.rest.sighthorizon import SightHorizon
from kcp_py.registry.writerequest import Resolved
from kcp_py.request.sight import Sight, SightChange
from kcp_py.storage.contract import Event
from kcp_py.storage.keys import Route
from kcp_py.storage.memory import MemoryStorage
from kcp_py.watchcache import ObjectEvent, Watcher
from tests.client.registry import CONFIG_MAPS, config_map, open_registry
from tests.client.registry import Registry as World
from tests.registry.rest.test_stored import registry_of

pytestmark = pytest.mark.anyio

TEAM, OTHER = Name("team-a"), Name("team-b")


class ChangingSight(Sight):
    """All clusters are in sight. A test sends the changes."""

    scope = "test"
    known_since = changed_at = 0

    def __init__(self) -> None:
        self.change: Callable[[SightChange], None] = lambda _change: None

    def sees(self, cluster: str, revision: int = 0) -> bool:
        del cluster, revision
        return True

    def shows(self, cluster: str, revision: int) -> bool:
        del cluster, revision
        return True

    def few(self, revision: int = 0) -> Collection[str] | None:
        del revision
        return None

    def listen(self, listener: Callable[[SightChange], None]) -> Callable[[], None]:
        self.change = listener
        return lambda: None


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Two clusters with one config map each."""
    async with open_registry(MemoryStorage()) as opened:
        for cluster in (TEAM, OTHER):
            await opened.client.create(cluster, CONFIG_MAPS, config_map("stored"))
        yield opened


def event(world: World, revision: int) -> ObjectEvent:
    """A change of an object of the first cluster."""
    served = world.tables.builtin(*CONFIG_MAPS)
    assert served is not None
    return ObjectEvent(Route(served.resource.keys.prefix, TEAM, "default", "live"), Event("", b"{}", revision, 1, None))


def brief(events: Sequence[ObjectEvent]) -> list[tuple[int, str, bool]]:
    """Revision, cluster and existence of each."""
    return [(one.mod_revision, one.route.cluster, one.value is not None) for one in events]


async def test_changes_come_between_the_events(world: World) -> None:
    """After older events that are still to be delivered, and before the events of their own revision."""
    served = world.tables.builtin(*CONFIG_MAPS)
    assert served is not None
    sight = ChangingSight()
    now = await world.storage.revision()
    watcher = Watcher(served.resource.keys.prefix, cluster="", namespace="", name="", limit=100)
    horizon = SightHorizon(registry_of(world), Resolved(None, served, "", "", sight=sight), watcher)

    async def backlog() -> AsyncGenerator[Sequence[ObjectEvent], None]:
        yield [event(world, now - 3)]
        yield [event(world, now - 2), event(world, now)]

    sight.change(SightChange(now - 3, (), (OTHER,)))
    watcher.begin(now)
    watcher.follow(backlog())
    horizon.begin(now - 3)
    sight.change(SightChange(now, (OTHER,), ()))
    found = []
    while events := await horizon.take():
        found += brief(events)
    assert found == [(now - 3, TEAM, True), (now - 2, TEAM, True), (now, OTHER, True), (now, TEAM, True)]
    assert horizon.came_to == now
    woken = watcher.wait()
    sight.change(SightChange(now + 1, (), (OTHER,)))
    await woken
    assert brief(await horizon.take()) == [(now + 1, OTHER, False)]
    await horizon.aclose()
