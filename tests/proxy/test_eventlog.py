"""The latest events of a cache, and the clients that wait for them."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.proxy import eventlog
from kcp_py.proxy.eventlog import EventLog, Watcher
from kcp_py.proxy.items import Event, Item, differences

pytestmark = pytest.mark.anyio


def item(name: str, version: int, size: int = 0) -> Item:
    raw = b'{"metadata":{"resourceVersion":"%d"},"x":"%b"}' % (version, b"x" * size)
    return Item(raw, "default", name, {}, version)


def added(version: int, size: int = 0) -> Event:
    return Event("ADDED", item(f"map-{version}", version, size), None, version)


def versions(begun: tuple[Watcher, list[Event]] | None) -> list[int] | None:
    return None if begun is None else [event.version for event in begun[1]]


async def test_watches_go_on_where_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the events since their version are kept."""
    monkeypatch.setattr(eventlog, "_EVENTS", 3)
    log = EventLog()
    log.begin(10)
    for version in range(11, 16):
        log.append(added(version))
    assert versions(log.watch(13)) == [14, 15]
    assert versions(log.watch(12)) == [13, 14, 15]
    assert versions(log.watch(11)) is None
    assert versions(log.watch(None)) == []
    log.begin(20)
    assert log.size == 0
    assert versions(log.watch(19)) is None
    assert versions(log.watch(20)) == []


async def test_events_are_bounded_by_their_size() -> None:
    """A few large ones take as much as many small ones, also where they wait for a client."""
    log = EventLog()
    begun = log.watch(None)
    assert begun is not None
    for version in range(1, 101):
        log.append(added(version, 1_000_000))
    assert 25_000_000 < log.size < 34_000_000
    waiting = await begun[0].take()
    assert 25_000_000 < sum(len(event.item.raw) for event in waiting if event.item is not None) < 34_000_000
    assert begun[0].ended


async def test_nothing_follows_a_lost_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that reads again behind too many events gets those before the gap, and then the end, from which it can go on."""
    monkeypatch.setattr(eventlog, "_EVENTS", 2)
    watcher = Watcher()
    for version in (1, 2, 3):
        watcher.put(added(version))
    assert [event.version for event in await watcher.take()] == [1, 2]
    watcher.put(added(4))
    assert await watcher.take() == []


async def test_the_end() -> None:
    """A client that waits wakes up; one that is cut off does not get what waits for it."""
    waiting, ended, cut = Watcher(), Watcher(), Watcher()
    taking = asyncio.create_task(waiting.take())
    await asyncio.sleep(0)
    waiting.end()
    assert await taking == []
    for watcher in (ended, cut):
        watcher.put(added(1))
    ended.end()
    assert len(await ended.take()) == 1
    cut.cut(expired=True)
    assert await cut.take() == []
    assert cut.expired


async def test_deletions_of_one_list_share_a_version() -> None:
    """A client that has seen some of them cannot go on from there: it would miss the others."""
    log = EventLog()
    log.begin(10)
    begun = log.watch(10)
    assert begun is not None
    old = {("default", name): item(name, 5) for name in ("one", "two", "three")}
    log.append_differences(differences(old, {("default", "one"): item("one", 5)}, 20), 20)
    assert [(event.kind, event.version) for event in await begun[0].take()] == [("DELETED", 20)] * 2
    assert versions(log.watch(20)) is None
    log.append(added(21))
    assert versions(log.watch(21)) == []
    # One event alone has the version for itself.
    log.append_differences(differences({("default", "one"): item("one", 5)}, {}, 30), 30)
    assert versions(log.watch(21)) == [30]
    assert versions(log.watch(30)) == []
