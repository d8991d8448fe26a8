"""What a connection takes of the bounds for parsing, and gives back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcp_py.serving.context import ServerContext
from kcp_py.serving.http1.limits import ReadLimits
from kcp_py.serving.parsing import HeadBudget, ParsingQueue
from kcp_py.serving.parsingshare import ParsingShare

pytestmark = pytest.mark.anyio


class Waiting:
    """A connection whose bytes wait for a turn."""

    def __init__(self) -> None:
        self.turn = asyncio.Event()

    def take_turn(self) -> None:
        self.turn.set()


@pytest.fixture
async def context() -> ServerContext:
    """Room for 100 bytes of heads, and for one large head."""
    unused: Any = None
    found = ServerContext(unused, unused, ReadLimits(max_head_bytes=100, head_timeout=1, idle_timeout=1))
    found.head_budget = HeadBudget(total=100)
    found.large_heads = ParsingQueue(places=1)
    return found


async def test_heads_share_the_memory(context):
    """A head that grows takes more of the memory; a complete one, or a shorter one behind it, gives it back."""
    one, other = ParsingShare(context, ""), ParsingShare(context, "")
    assert one.count_head(40)
    assert one.count_head(60)
    assert not other.count_head(41)
    assert (one.head_bytes, other.head_bytes) == (60, 0)
    assert one.count_head(10)
    assert other.count_head(90)
    one.release(Waiting())
    assert other.count_head(100)
    other.count_head(0)
    assert one.count_head(100)


async def test_a_client_address_has_a_part_of_the_memory(context):
    """One address has half of it on all of its connections together; connections without an address may have all."""
    one, other = ParsingShare(context, "192.0.2.1"), ParsingShare(context, "192.0.2.1")
    assert one.count_head(30)
    assert not other.count_head(21)
    assert other.count_head(20)
    assert ParsingShare(context, "192.0.2.2").count_head(50)


async def test_large_heads_wait_for_their_turns(context):
    """A second large head has its turn once the first is complete."""
    one, other = ParsingShare(context, ""), ParsingShare(context, "")
    first, second = Waiting(), Waiting()
    one.want_head_turn(first)
    other.want_head_turn(second)
    assert (one.in_large_heads, other.in_large_heads) == (True, True)
    await first.turn.wait()
    assert not second.turn.is_set()
    one.head_complete(first)
    assert not one.in_large_heads
    await second.turn.wait()


async def test_a_connection_that_ends_wants_no_turns(context):
    """Places are given to others when the connection ends, and it has no turn later."""
    one, other = ParsingShare(context, ""), ParsingShare(context, "")
    ended, goes_on = Waiting(), Waiting()
    one.want_head_turn(ended)
    one.want_framing_turn(ended)
    one.release(ended)
    other.want_head_turn(goes_on)
    await goes_on.turn.wait()
    goes_on.turn.clear()
    other.want_framing_turn(goes_on)
    await goes_on.turn.wait()
    assert not ended.turn.is_set()
