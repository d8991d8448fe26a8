"""Test servers whose tests were killed."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.cli.envtest.orphans import IDLE_SECONDS, Orphan

pytestmark = pytest.mark.anyio


async def nothing(_scope: Any, _receive: Any, _send: Any) -> None:
    """Answers nothing."""


async def test_an_orphan_is_unused_some_time_after_its_last_request() -> None:
    """A server with its parent is not, however long it waits."""
    now, parent = 0.0, 7
    orphan = Orphan(nothing, parent=lambda: parent, clock=lambda: now)
    now = IDLE_SECONDS * 2
    assert not orphan.is_unused
    parent = 1
    assert orphan.is_unused
    await orphan({}, None, None)
    assert not orphan.is_unused
    now += IDLE_SECONDS
    assert orphan.is_unused


async def test_an_orphan_with_a_running_watch_is_used() -> None:
    """Besides the lifespan, which is a call as well."""
    parent = 7
    seen = []

    async def look(_scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(orphan.is_unused)
        if len(seen) < 2:
            await orphan({}, None, None)

    orphan = Orphan(look, parent=lambda: parent, clock=lambda: 0.0)
    orphan._used_at = -IDLE_SECONDS
    parent = 1
    await orphan({}, None, None)
    assert seen == [True, False]


@pytest.mark.parametrize(("started_by", "parent"), [(7, 1), (7, 900), (1, 1)], ids=["killed since", "subreaper", "killed before"])
async def test_a_test_that_was_killed_at_the_start_is_noticed(started_by: int, parent: int) -> None:
    """The parent had ended before the server looked at it."""
    now = 0.0
    orphan = Orphan(nothing, started_by=started_by, parent=lambda: parent, clock=lambda: now)
    now = IDLE_SECONDS
    assert orphan.is_unused
