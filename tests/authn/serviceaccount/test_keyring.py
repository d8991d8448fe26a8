"""Keys that servers share: made once, rotated ahead of their use, kept for as long as their tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kcp_py.aio.clock import Clock
from kcp_py.authn.serviceaccount.keyring import MOST_KEYS, NEVER, SETTLING, GivenKeys, Keyring, Settings
from kcp_py.authn.serviceaccount.keys import parse_private
from kcp_py.authn.serviceaccount.newkeys import generate_pem
from kcp_py.storage.contract import Delete, Event, Storage
from kcp_py.storage.opening import open_storage
from kcp_py.watchcache import Fanout

pytestmark = pytest.mark.anyio

KEY = "/registry/.kcp-py/service-account-keys"
DAY = 86400.0
MONTH = Settings(max_age=30 * DAY)


class SetClock(Clock):
    """A clock that is set."""

    def __init__(self) -> None:
        super().__init__(time=lambda: self.now)
        self.now = 1_800_000_000.0


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    """An empty store."""
    async with open_storage("memory") as opened:
        yield opened


@pytest.fixture
def clock() -> SetClock:
    """The clock of all servers."""
    return SetClock()


async def keyring(storage: Storage, clock: SetClock, settings: Settings = MONTH, **more: Any) -> Keyring:
    """The keys of another server."""
    made = Keyring(storage, KEY, clock, settings=settings, **more)
    await made.start()
    return made


async def kid(keys: Keyring, token: str) -> str:
    """The key that has signed a token."""
    (found,) = [one.id for one in (await keys.verifying()).values() if one.verify(token.encode()) is not None]
    return found


async def test_servers_share_the_first_key(storage: Storage, clock: SetClock) -> None:
    """The first server makes it, and signs at once. The second one finds it."""
    first, second = await keyring(storage, clock), await keyring(storage, clock)
    assert await first.verifying() == await second.verifying()
    assert await kid(second, await first.sign({}, clock.now + 60))


async def test_servers_that_start_together_agree(storage: Storage, clock: SetClock) -> None:
    """Of two servers that both find no key, one stores its key, and the other one takes that."""
    first, second = Keyring(storage, KEY, clock), Keyring(storage, KEY, clock)
    await first.reload()
    await second.reload()
    await first.start()
    await second.start()
    assert list(await first.verifying()) == list(await second.verifying())


async def test_a_new_key_is_published_before_it_signs(storage: Storage, clock: SetClock) -> None:
    """All servers know the key for two hours before the first token of it, and old tokens stay valid."""
    first, second = await keyring(storage, clock), await keyring(storage, clock)
    old = await first.sign({}, clock.now + 60)
    assert not await first.rotate_if_due()
    clock.now += 30 * DAY
    assert await first.rotate_if_due()
    assert not await first.rotate_if_due()
    await second.reload()
    assert list(await second.verifying()) == list(await first.verifying())
    assert len(await first.verifying()) == 2
    before = await kid(first, await first.sign({}, clock.now + 60))
    assert before == await kid(first, old)
    clock.now += SETTLING
    assert await kid(second, await first.sign({}, clock.now + 60)) != before
    assert await kid(second, old) == before


async def test_only_one_server_rotates(storage: Storage, clock: SetClock) -> None:
    """A server that finds the record changed takes the key of the other one."""
    first, second = await keyring(storage, clock), await keyring(storage, clock)
    clock.now += 30 * DAY
    assert await first.rotate_if_due()
    assert not await second.rotate_if_due()
    assert list(await second.verifying()) == list(await first.verifying())


async def test_a_key_stays_for_as_long_as_its_tokens(storage: Storage, clock: SetClock) -> None:
    """A replaced key is removed when the last token has expired, and not before, on every server."""
    first, second = await keyring(storage, clock), await keyring(storage, clock)
    old = await second.sign({}, clock.now + 60 * DAY)
    clock.now += 30 * DAY
    # The server that rotates has not seen the record of the other one's token.
    await first.rotate_if_due()
    await first.rotate_if_due()
    clock.now += 29 * DAY
    await first.rotate_if_due()
    assert await kid(first, old)
    clock.now += 5 * DAY
    await first.rotate_if_due()
    await first.rotate_if_due()
    assert all(one.verify(old.encode()) is None for one in (await first.verifying()).values())


async def test_keys_of_endless_tokens_stay(storage: Storage, clock: SetClock) -> None:
    """A key that has signed a token without an end is never removed, and rotation pauses when there are too many of them."""
    keys = await keyring(storage, clock)
    tokens = []
    for _ in range(MOST_KEYS + 3):
        tokens.append(await keys.sign({}, NEVER))
        clock.now += 31 * DAY
        await keys.rotate_if_due()
        clock.now += SETTLING
    assert len({await kid(keys, token) for token in tokens}) == MOST_KEYS == len(await keys.verifying())


async def test_most_tokens_write_nothing(storage: Storage, clock: SetClock) -> None:
    """The record covers a day of tokens at a time."""
    keys = await keyring(storage, clock)
    await keys.sign({}, clock.now + 3600)
    revision = await storage.revision()
    clock.now += DAY / 2
    await keys.sign({}, clock.now + 3600)
    assert await storage.revision() == revision


async def test_another_algorithm_replaces_the_key(storage: Storage, clock: SetClock) -> None:
    """A changed setting is a rotation."""
    await keyring(storage, clock)
    keys = await keyring(storage, clock, Settings("RS256"))
    assert await keys.rotate_if_due()
    clock.now += SETTLING
    token = await keys.sign({}, clock.now + 60)
    assert [one.algorithm for one in (await keys.verifying()).values() if one.id == await kid(keys, token)] == ["RS256"]


async def test_a_deleted_record_ends_all_tokens(storage: Storage, clock: SetClock) -> None:
    """An operator who deletes the keys ends every token. The next one is signed with a new key."""
    keys = await keyring(storage, clock)
    old, generation = await keys.sign({}, clock.now + 60), keys.generation
    await storage.transact([], [Delete(KEY)])
    await keys.reload()
    assert await keys.verifying() == {}
    assert keys.generation is not generation
    token = await keys.sign({}, clock.now + 60)
    assert await kid(keys, token)
    assert all(one.verify(old.encode()) is None for one in (await keys.verifying()).values())


async def test_keys_of_the_operator(storage: Storage, clock: SetClock) -> None:
    """They sign and verify. The store gets no key, and those that it has verify on."""
    before = await keyring(storage, clock)
    old = await before.sign({}, clock.now + 60)
    signing, further = (parse_private(generate_pem("ES256").encode()) for _ in range(2))
    given = await keyring(storage, clock, given=GivenKeys(signing, (further.public,)))
    assert await kid(given, await given.sign({}, clock.now + 60)) == signing.public.id
    assert await kid(given, further.sign({})) == further.public.id
    assert await kid(given, old)
    assert not await given.rotate_if_due()
    async with open_storage("memory") as empty:
        await keyring(empty, clock, given=GivenKeys(signing))
        assert await empty.get(KEY) is None


async def test_servers_follow_the_store(storage: Storage, clock: SetClock) -> None:
    """The feed tells a server of the keys of another one, and of their deletion. Older states that come late change nothing."""
    fanout = Fanout(storage, "/registry")
    first = await keyring(storage, clock)
    second = await keyring(storage, clock)
    fanout.listen_internal(KEY, second.changed)
    fanout.listen_gaps(second.missed)
    started = asyncio.Event()
    running = asyncio.create_task(fanout.run(started=started))
    try:
        await asyncio.wait_for(started.wait(), 30)
        generation = second.generation
        clock.now += 30 * DAY
        assert await first.rotate_if_due()
        revision = await storage.revision()
        await asyncio.wait_for(fanout.reached(revision), 30)
        assert list(await second.verifying()) == list(await first.verifying())
        assert second.generation is not generation
        second.changed(Event(KEY, None, revision - 1, 1, None))
        assert len(await second.verifying()) == 2
        await asyncio.wait_for(fanout.reached(await storage.transact([], [Delete(KEY)])), 30)
        assert await second.verifying() == {}
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_missed_changes_are_read(storage: Storage, clock: SetClock) -> None:
    """Where the feed has a gap, the record is read again."""
    first, second = await keyring(storage, clock), await keyring(storage, clock)
    running = asyncio.create_task(second.run())
    try:
        clock.now += 30 * DAY
        assert await first.rotate_if_due()
        second.missed()
        async with asyncio.timeout(30):
            while list(await second.verifying()) != list(await first.verifying()):
                await asyncio.sleep(0)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
