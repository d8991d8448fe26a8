"""Turns of connections with large heads."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.serving.parsing import HeadBudget, ParsingQueue

pytestmark = pytest.mark.anyio


class Head:
    """Has some pieces, and takes note of its turns in a list that is shared."""

    def __init__(self, heads: ParsingQueue, name: str, pieces: int, turns: list[str]) -> None:
        self.heads = heads
        self.name = name
        self.pieces = pieces
        self.turns = turns
        self.done = asyncio.Event()

    def take_turn(self) -> None:
        self.turns.append(self.name)
        self.pieces -= 1
        if self.pieces:
            self.heads.want(self)
        else:
            self.heads.leave(self)
            self.done.set()


class Unfinished(Head):
    """Has a turn, and never the rest of its bytes."""

    def take_turn(self) -> None:
        self.turns.append(self.name)


async def test_heads_take_turns() -> None:
    """One piece each, so that the shortest is complete first."""
    heads = ParsingQueue()
    turns: list[str] = []
    all_of_them = [Head(heads, name, pieces, turns) for name, pieces in (("a", 3), ("b", 1), ("c", 2))]
    for head in all_of_them:
        heads.want(head)
    for head in all_of_them:
        await head.done.wait()
    assert turns == ["a", "b", "c", "a", "c", "a"]


async def test_as_many_as_there_are_places_are_read_at_once() -> None:
    """The next one enters when one is complete, or gone; who goes while it waits is not asked."""
    heads = ParsingQueue(places=1)
    turns: list[str] = []
    first, second, gone, last = (Head(heads, name, 2, turns) for name in "abcd")
    for head in (first, second, gone, last):
        heads.want(head)
    heads.leave(gone)
    await last.done.wait()
    assert turns == ["a", "a", "b", "b", "d", "d"]


async def test_a_head_that_has_left_gets_no_turn() -> None:
    """Its connection was lost while a piece waited; the place is free."""
    heads = ParsingQueue(places=1)
    turns: list[str] = []
    lost, other = Head(heads, "a", 1, turns), Head(heads, "b", 1, turns)
    heads.want(lost)
    heads.want(other)
    heads.leave(lost)
    heads.leave(lost)
    await other.done.wait()
    assert turns == ["b"]


async def test_one_client_address_cannot_take_all_places() -> None:
    """Its further heads wait for its own unfinished ones; those of other addresses do not, and loopback addresses have no share."""
    heads = ParsingQueue(places=8)
    turns: list[str] = []
    slow = [Unfinished(heads, "slow0", 1, turns), Unfinished(heads, "slow1", 1, turns), Head(heads, "slow2", 1, turns)]
    for head in slow:
        heads.want(head, "192.0.2.1")
    other, local = Head(heads, "other", 2, turns), [Head(heads, f"local{number}", 1, turns) for number in range(5)]
    heads.want(other, "192.0.2.2")
    for head in local:
        heads.want(head)
    for head in (other, *local):
        await head.done.wait()
    assert "slow2" not in turns
    heads.leave(slow[0])
    await slow[2].done.wait()
    assert turns[-1] == "slow2"


async def test_bytes_of_heads_are_bounded_in_all_and_for_each_client() -> None:
    """One address has half; returned bytes are available to others."""
    heads = HeadBudget(total=100)
    assert heads.acquire("a", 30)
    assert heads.acquire("a", 20)
    assert not heads.acquire("a", 1)
    assert heads.acquire("b", 40)
    assert not heads.acquire("c", 11)
    assert heads.acquire("", 10)
    assert not heads.acquire("", 1)
    heads.release("a", 50)
    assert heads.acquire("", 50)
    heads.release("", 60)
    assert heads.acquire("a", 50)
