"""The buffer of one watch, and the ends that drop it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest

from kcp_py.storage.contract import Event
from kcp_py.watchcache import ObjectEvent, WatchEndedError, Watcher, WatchOverflowError, WatchRevokedError
from tests.watchcache.test_ring import ROUTE

pytestmark = pytest.mark.anyio


def event(revision: int) -> ObjectEvent:
    return ObjectEvent(ROUTE, Event(ROUTE.key, b"{}", revision, revision, None))


def watcher(limit: int = 10) -> Watcher:
    return Watcher(ROUTE.prefix, cluster="", namespace="", name="", limit=limit, after=0)


async def test_a_clean_end_delivers_what_came_before_it() -> None:
    """The error follows the last event."""
    found = watcher()
    found.offer(event(1))
    found.end(WatchEndedError())
    assert len(await found.take()) == 1
    with pytest.raises(WatchEndedError):
        await found.take()


async def test_a_revocation_drops_what_was_not_taken() -> None:
    """Neither buffered nor older events are delivered, also where the watch had ended otherwise."""
    found = watcher()
    found.offer(event(1))
    found.end(WatchEndedError())
    found.end(WatchRevokedError())
    found.offer(event(2))
    with pytest.raises(WatchRevokedError):
        await found.take()

    async def backlog() -> AsyncGenerator[Sequence[ObjectEvent], None]:
        yield [event(1)]

    found = watcher()
    found.follow(backlog())
    found.end(WatchRevokedError())
    with pytest.raises(WatchRevokedError):
        await found.take()
    await found.aclose()


async def test_an_overflow_drops_the_buffer() -> None:
    """The client has to list again."""
    found = watcher(limit=1)
    found.offer(event(1))
    found.offer(event(2))
    with pytest.raises(WatchOverflowError):
        await found.take()
