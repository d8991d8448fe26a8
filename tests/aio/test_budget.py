"""Amounts that owners share in turns."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.aio.budget import BudgetExceededError, FairBudget
from tests.eventloop import until_idle

pytestmark = pytest.mark.anyio


def asking(budget: FairBudget, *requests: tuple[str, int]) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(budget.acquire(owner, amount)) for owner, amount in requests]


async def test_owners_have_their_share_and_all_have_the_total() -> None:
    """What exceeds the share of its owner waits, and so does what exceeds the total."""
    budget = FairBudget(10, 4)
    tasks = asking(budget, ("a", 3), ("a", 2), ("b", 4), ("c", 4))
    await until_idle()
    assert [task.done() for task in tasks] == [True, False, True, False]
    assert (budget.given, budget.given_to("a"), budget.waiting) == (7, 3, 2)
    budget.release("a", 3)
    await until_idle()
    assert [task.done() for task in tasks] == [True, True, True, True]
    assert budget.given == 10


async def test_owners_take_turns() -> None:
    """A crowd of one owner delays another by one request."""
    budget = FairBudget(1, 1)
    await budget.acquire("a", 1)
    order: list[str] = []

    async def ask(owner: str) -> None:
        await budget.acquire(owner, 1)
        order.append(owner)
        budget.release(owner, 1)

    tasks = [asyncio.create_task(ask(owner)) for owner in "aaaabbc"]
    await until_idle()
    budget.release("a", 1)
    await asyncio.gather(*tasks)
    assert order == list("abcabaa")
    assert (budget.given, budget.waiting) == (0, 0)


async def test_any_amount_is_given_where_there_is_nothing_else() -> None:
    """The only amount of an owner may exceed its share, and the only one of all the total."""
    budget = FairBudget(10, 4)
    await budget.acquire("a", 9)
    (waiting,) = asking(budget, ("b", 100))
    await until_idle()
    assert not waiting.done()
    budget.release("a", 9)
    await waiting
    assert budget.given == 100


async def test_large_amounts_are_not_overtaken_for_ever() -> None:
    """While the amount whose turn it is waits for room, others wait behind it."""
    budget = FairBudget(10, 10)
    await budget.acquire("a", 5)
    large, small = asking(budget, ("b", 8), ("c", 1))
    await until_idle()
    assert not large.done()
    assert not small.done()
    budget.release("a", 5)
    await until_idle()
    assert large.done()
    assert small.done()


async def test_few_may_wait() -> None:
    """The requests that wait are bounded, those of one owner and those of all."""
    budget = FairBudget(1, 1, queue=2, queues=3)
    await budget.acquire("a", 1)
    tasks = asking(budget, ("a", 1), ("a", 1), ("a", 1), ("b", 1), ("c", 1))
    await until_idle()
    refused = [task for task in tasks if task.done()]
    assert refused == [tasks[2], tasks[4]]
    for task in refused:
        assert isinstance(task.exception(), BudgetExceededError)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert budget.waiting == 0


async def test_patience_ends() -> None:
    """Who waits too long is refused, and does not stand in the way of others any more."""
    budget = FairBudget(2, 2, patience=0.01)
    await budget.acquire("a", 1)
    with pytest.raises(BudgetExceededError):
        await budget.acquire("b", 2)
    assert budget.waiting == 0
    await budget.acquire("c", 1)
    assert budget.given == 2


async def test_a_cancelled_request_holds_nothing() -> None:
    """A request is cancelled while it waits, or when it was just served: what it was given goes to the next one."""
    budget = FairBudget(1, 1)
    await budget.acquire("a", 1)
    first, second, third = asking(budget, ("b", 1), ("c", 1), ("d", 1))
    await until_idle()
    first.cancel()
    await until_idle()
    budget.release("a", 1)
    second.cancel()
    await third
    assert (budget.given_to("c"), budget.given_to("d"), budget.waiting) == (0, 1, 0)


async def test_requests_that_are_cut_off_together_leak_nothing() -> None:
    """Those that have an amount end in the same moment as those that wait for it."""
    budget = FairBudget(2, 2)

    async def hold() -> None:
        await budget.acquire("a", 1)
        try:
            await asyncio.Event().wait()
        finally:
            budget.release("a", 1)

    tasks = [asyncio.create_task(hold()) for _ in range(5)]
    await until_idle()
    assert (budget.given, budget.waiting) == (2, 3)
    for task in tasks:
        task.cancel()
    assert all(isinstance(ended, asyncio.CancelledError) for ended in await asyncio.gather(*tasks, return_exceptions=True))
    assert (budget.given, budget.waiting) == (0, 0)
    await budget.acquire("a", 2)
