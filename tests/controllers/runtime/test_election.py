"""Which process runs the controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kcp_py.aio.clock import Clock
from kcp_py.apimachinery import errors
from kcp_py.controllers.runtime.election import (
    CLUSTER,
    LEASES,
    NAME,
    NAMESPACE,
    LeaderElection,
    Record,
    next_record,
)
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import Registry, open_registry
from tests.eventloop import until_idle

pytestmark = pytest.mark.anyio

THEN, NOW = "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:09.000000Z"


class Time:
    """Time that passes when the test says so; sleepers are woken then."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def clock(self) -> Clock:
        return Clock(time=lambda: self.now, monotonic=lambda: self.now, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, sleeper))
        await sleeper

    async def pass_by(self, seconds: float) -> None:
        """Let time pass second by second, with all that follows from it in the store in memory."""
        for _ in range(int(seconds)):
            self.now += 1
            due = [one for one in self._sleepers if one[0] <= self.now]
            self._sleepers = [one for one in self._sleepers if one[0] > self.now]
            for _, sleeper in due:
                if not sleeper.done():
                    sleeper.set_result(None)
            await until_idle()


class Work:
    """Says whether it is being done."""

    def __init__(self) -> None:
        self.running = False
        self.begun = asyncio.Event()

    async def __call__(self) -> None:
        self.running = True
        self.begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.running = False
            self.begun.clear()


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with open_registry(MemoryStorage()) as opened:
        yield opened


async def lease(registry: Registry) -> dict[str, Any]:
    found: dict[str, Any] = (await registry.client.get(CLUSTER, LEASES, NAMESPACE, NAME))["spec"]
    return found


def test_the_first_leader_begins_and_the_next_ones_are_counted() -> None:
    """A renewal changes its time alone; a change of leaders is a transition."""
    first = next_record(None, "a", THEN)
    assert first == Record("a", 15.0, THEN, THEN, 0)
    assert next_record(first, "a", NOW) == Record("a", 15.0, THEN, NOW, 0)
    assert next_record(first, "b", NOW) == Record("b", 15.0, NOW, NOW, 1)
    assert Record.of({"spec": first.spec()}) == first


async def test_one_of_two_leads_until_it_steps_down(registry: Registry) -> None:
    """The other one begins when the first has ended its work, without waiting for the end of the lease."""
    time, first, second = Time(), Work(), Work()
    a = asyncio.ensure_future(LeaderElection(registry.client, identity="a", clock=time.clock()).run(first))
    await first.begun.wait()
    b = asyncio.ensure_future(LeaderElection(registry.client, identity="b", clock=time.clock()).run(second))
    await time.pass_by(60)
    assert (first.running, second.running) == (True, False)
    assert ((await lease(registry))["holderIdentity"], (await lease(registry))["leaseTransitions"]) == ("a", 0)
    a.cancel()
    await asyncio.wait((a,))
    assert ((await lease(registry)).get("holderIdentity") or "", first.running) == ("", False)
    await time.pass_by(6)
    assert second.running
    assert ((await lease(registry))["holderIdentity"], (await lease(registry))["leaseTransitions"]) == ("b", 1)
    b.cancel()
    await asyncio.wait((b,))


async def test_a_lease_whose_holder_is_gone_is_taken_when_it_ends(registry: Registry) -> None:
    """Fifteen seconds after the candidate has seen it first, whatever the times in it say."""
    spec = Record("gone", 15.0, "2030-01-01T00:00:00.000000Z", "2030-01-01T00:00:00.000000Z", 4).spec()
    await registry.client.create(CLUSTER, LEASES, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec})
    time, work = Time(), Work()
    task = asyncio.ensure_future(LeaderElection(registry.client, identity="b", clock=time.clock()).run(work))
    await time.pass_by(14)
    assert not work.running
    await time.pass_by(6)
    assert work.running
    assert (await lease(registry))["leaseTransitions"] == 5
    task.cancel()
    await asyncio.wait((task,))


class Failing:
    """A client that the store does not answer while `down`."""

    def __init__(self, registry: Registry) -> None:
        self._client = registry.client
        self.down = False

    def __getattr__(self, name: str) -> Any:
        if self.down:
            raise errors.service_unavailable("down")
        return getattr(self._client, name)


async def test_a_leader_that_cannot_renew_stops_its_work(registry: Registry) -> None:
    """After ten seconds, before another one may begin; it leads again when the store is back."""
    time, work, client = Time(), Work(), Failing(registry)
    task = asyncio.ensure_future(LeaderElection(client, identity="a", clock=time.clock()).run(work))
    await work.begun.wait()
    client.down = True
    await time.pass_by(9)
    assert work.running
    await time.pass_by(5)
    assert not work.running
    client.down = False
    await time.pass_by(10)
    assert work.running
    task.cancel()
    await asyncio.wait((task,))


async def test_work_that_fails_ends_the_leadership(registry: Registry) -> None:
    """The failure reaches the caller, and the lease is free."""

    async def fail() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await LeaderElection(registry.client, identity="a", clock=Time().clock()).run(fail)
    assert not (await lease(registry)).get("holderIdentity")
