"""Following a resource through failures."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.client.reflecting import Backoff, Selection, follow
from kcp_py.logicalcluster import WILDCARD
from kcp_py.testing.client_objects import CONFIG_MAPS
from tests.client.scripted import Scripted, item

pytestmark = pytest.mark.anyio

ALL = Selection(WILDCARD, CONFIG_MAPS)
EXPIRED = StatusError(410, "Expired", "too old resource version")


async def steps_of(scripted: Scripted) -> list[str]:
    """Steps until the script is at its end."""
    shown: list[str] = []

    async def read() -> None:
        async for kind, obj in follow(scripted.client, ALL, sleep=scripted.sleep, backoff=scripted.backoff):
            name = obj.get("metadata", {}).get("name")
            shown.append(f"{kind} {name}" if name else kind)

    reading = asyncio.create_task(read())
    waiting = asyncio.create_task(scripted.done.wait())
    async with asyncio.timeout(30):
        await asyncio.wait((reading, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    reading.cancel()
    await asyncio.wait((reading, waiting))
    if not reading.cancelled():
        reading.result()
    return shown


async def test_a_list_comes_in_pages_and_a_watch_goes_on_behind_its_last_event() -> None:
    """An event, and a bookmark alone, move the revision on; a watch that ended is continued at once."""
    scripted = Scripted(
        ([item("a", 1)], 9, "token"),
        ([item("b", 2)], 9),
        [("ADDED", item("c", 10))],
        [("BOOKMARK", {"metadata": {"resourceVersion": "20"}})],
    )
    assert await steps_of(scripted) == ["LISTING", "LISTED a", "LISTED b", "SYNCED", "ADDED c"]
    assert scripted.calls == [("list", ""), ("list", "token"), ("watch", "9"), ("watch", "10"), ("watch", "20")]
    assert scripted.delays == []


@pytest.mark.parametrize("failure", [EXPIRED, ValueError("not JSON"), KeyError("metadata")], ids=["410", "garbage", "half"])
async def test_all_is_listed_again_where_the_watch_cannot_go_on(failure: Exception) -> None:
    """After 410 and after an answer that cannot be read, with a delay before the list."""
    scripted = Scripted(([], 1), [("ADDED", item("a", 2)), failure], ([item("a", 2)], 5))
    assert await steps_of(scripted) == ["LISTING", "SYNCED", "ADDED a", "LISTING", "LISTED a", "SYNCED"]
    assert scripted.delays == [0.8]


async def test_other_failures_are_tried_again() -> None:
    """A fault in the code of a resource or of a client does not leave those who follow with old objects for ever."""
    scripted = Scripted(RuntimeError("secret"), ([], 1), [TypeError("odd")], ([item("a", 2)], 5))
    assert await steps_of(scripted) == ["LISTING", "LISTING", "SYNCED", "LISTING", "LISTED a", "SYNCED"]
    assert scripted.delays == [0.8, 1.6]


async def test_a_token_that_expired_begins_the_list_anew() -> None:
    """Objects of the first pages are shown again."""
    scripted = Scripted(([item("a", 1)], 1, "token"), EXPIRED, ([item("b", 2)], 3))
    assert await steps_of(scripted) == ["LISTING", "LISTED a", "LISTING", "LISTED b", "SYNCED"]


async def test_lost_permission_keeps_what_was_shown() -> None:
    """The watch is asked for again from where it was, ever more slowly."""
    refused = errors.forbidden(CONFIG_MAPS.group_resource, "", "no")
    scripted = Scripted(([item("a", 1)], 4), [refused], [refused], [("ADDED", item("b", 6))])
    assert await steps_of(scripted) == ["LISTING", "LISTED a", "SYNCED", "ADDED b"]
    assert scripted.calls == [("list", ""), ("watch", "4"), ("watch", "4"), ("watch", "4"), ("watch", "6")]
    assert scripted.delays == [0.8, 1.6]


async def test_an_unserved_resource_has_no_objects() -> None:
    """Its list is empty at once, and it is asked for every two seconds at the least; a watch that ends with 404 is followed by a list."""
    scripted = Scripted(*[errors.unserved()] * 4, ([item("a", 1)], 4), [errors.unserved()], ([], 5))
    empty = ["LISTING", "SYNCED"]
    assert await steps_of(scripted) == [*(["LISTING", *empty] * 4), "LISTING", "LISTED a", "SYNCED", *empty]
    assert max(scripted.delays[:4]) == 2.0


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_loop() -> None:
    """Each further watch waits longer."""
    scripted = Scripted(([], 4), [], [], [])
    await steps_of(scripted)
    assert scripted.delays == [0.8, 1.6, 3.2]


def test_delays_are_spread_and_bounded() -> None:
    """From 0.8 to 30 seconds, each between a half and the whole of it."""
    longest, shortest = Backoff(lambda: 1.0), Backoff(lambda: 0.0)
    assert [longest.delay() for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    assert shortest.delay() == 0.4
    longest.reset()
    assert longest.delay() == 0.8
