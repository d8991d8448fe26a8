"""Nothing is stale: two servers on one etcd, one writes, the other reads at once, while connections, members and history go.

After each acknowledged write the reader gets its number without etcd, and must see it, or something later, in a key, in the
revision, and in a span of a list.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest

from kcp_py.storage.contract import Compare, ConflictError, Put, StorageError
from kcp_py.storage.etcd import EtcdOptions, EtcdStorage
from kcp_py.storage.rangecache import Span
from kcp_py.storage.watched import WatchedStorage
from kcp_py.testing.tcp_proxy import TcpProxy

pytestmark = pytest.mark.anyio

T = TypeVar("T")

_ROUNDS = 1_000
_KEYS = 5


class _Server:
    """A store with a cache, as a server has it, behind a proxy of its own."""

    def __init__(self, proxy: TcpProxy, prefix: str) -> None:
        self.proxy = proxy
        self.prefix = prefix
        self.storage = WatchedStorage(
            EtcdStorage(EtcdOptions((proxy.url,), prefix=prefix.rstrip("/"), request_timeout=2, connect_timeout=2)),
            prefix,
            max_bytes=1 << 20,
            patience=0.05,
        )

    async def write(self, key: str, number: int) -> None:
        """Write a number that is larger than all before, until it is known to be written."""
        while True:
            try:
                found = await self.storage.get(key)
                if found is not None and int(found.value) >= number:
                    return
                await self.storage.transact([Compare(key, mod_revision=found.mod_revision if found else 0)], [Put(key, b"%d" % number)])
            except ConflictError as error:
                # No other server writes the key meanwhile: the read was stale, unless an earlier attempt took effect whose answer was lost.
                if error.current is None or int(error.current.value) < number:
                    raise AssertionError((key, number, error.current)) from error
            except StorageError:
                await asyncio.sleep(0.01)
            else:
                return

    async def check(self, key: str, number: int) -> None:
        """Read the key by every way, and check that the number, or a later one, is there."""
        found = await _answered(lambda: self.storage.get(key))
        assert found is not None, (key, number)
        assert int(found.value) >= number, (key, number, found)
        assert await _answered(self.storage.revision) >= found.mod_revision
        listed = await _answered(self.list)
        assert listed[key] >= number, (key, number, listed)

    async def list(self) -> dict[str, int]:
        """All keys, as the lists of a server are answered: from a kept span, or from a read that keeps one."""
        cache, prefix = self.storage.range_cache, self.prefix
        with cache.reading(prefix) as reading:
            await self.storage.revision()
            span = cache.find(prefix, "test", prefix, 0) if cache.settled(prefix) else None
            if span is None:
                found = await self.storage.range(prefix)
                elements = [item.value for item in found.items]
                span = Span(prefix, prefix[:-1] + "0", found.revision, [item.key for item in found.items], elements)
                cache.keep(reading, "test", span, latest=True)
        return {key: int(span.element(at)) for at, key in enumerate(span.keys)}


async def _answered(read: Callable[[], Awaitable[T]]) -> T:
    """The answer of a read, once there is one."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await read()
            except StorageError:
                await asyncio.sleep(0.01)


@pytest.fixture
async def pair(own_etcd, start_proxy, prefix) -> AsyncIterator[tuple[_Server, _Server]]:
    """Two servers on one etcd."""
    servers = _Server(await start_proxy(own_etcd), prefix), _Server(await start_proxy(own_etcd), prefix)
    async with servers[0].storage, servers[1].storage:
        yield servers


async def _rounds(pair: tuple[_Server, _Server], rounds: int, disturb: Callable[[int], Awaitable[None]]) -> None:
    """Each round writes with one server and reads with both. `disturb` is called between the acknowledgement and the reads."""
    for number in range(1, rounds + 1):
        writer, reader = pair if number % 3 else pair[::-1]
        key = f"{writer.prefix}{number % _KEYS}"
        await writer.write(key, number)
        await disturb(number)
        await asyncio.gather(reader.check(key, number), reader.check(key, number), writer.check(key, number))


async def test_acknowledged_writes_are_read(pair):
    """Without disturbances, thousands of reads see the writes that came before them, and most of them come from memory."""
    calls = 0

    async def nothing(_number: int) -> None:
        nonlocal calls
        calls += 1

    await _rounds(pair, _ROUNDS, nothing)
    assert calls == _ROUNDS
    for server in pair:
        assert not server.storage.range_cache.is_read(server.prefix)
        assert f"{server.prefix}0" in server.storage._keys


async def test_cut_connections(pair):
    """Connections are reset at any moment, of either server."""
    chance = random.Random(1)

    async def cut(number: int) -> None:
        if number % 10 == 0:
            chance.choice(pair).proxy.cut()

    await _rounds(pair, _ROUNDS // 5, cut)


async def test_a_watch_that_delivers_nothing(pair, own_etcd, prefix):
    """Bytes of a server are held for some time; the other one writes meanwhile, and nothing old is answered afterwards."""
    writer, reader = pair
    async with EtcdStorage(EtcdOptions((own_etcd.url,))) as direct:
        for number in range(1, 40):
            key = f"{prefix}{number % _KEYS}"
            await writer.write(key, number)
            await reader.check(key, number)
            reader.proxy.hold()
            await writer.write(key, number * 1000)
            reading = asyncio.ensure_future(reader.check(key, number * 1000))
            found = await direct.get(key)
            assert found is not None
            assert found.value == b"%d" % (number * 1000)
            reader.proxy.resume()
            await reading
            await direct.transact([], [Put(key, b"0")])


async def test_a_paused_etcd(pair, own_etcd):
    """The member stops for some time, as in a long collection or on a stuck disk, and goes on."""

    async def pause(number: int) -> None:
        if number % 20 == 0:
            own_etcd.signal(signal.SIGSTOP)
            asyncio.get_running_loop().call_later(0.05, own_etcd.signal, signal.SIGCONT)

    await _rounds(pair, _ROUNDS // 5, pause)


async def test_a_restarted_etcd(pair, own_etcd):
    """The member is killed and starts again."""

    async def restart(number: int) -> None:
        if number % 20 == 0:
            own_etcd.stop()
            own_etcd.start()
            await own_etcd.wait()

    await _rounds(pair, 100, restart)


async def test_compaction_during_reads(pair):
    """History is compacted up to the present again and again, while connections are cut, so that watches cannot resume."""

    async def compact(number: int) -> None:
        if number % 10 == 0:
            pair[number % 2].proxy.refuse()
            other = pair[(number + 1) % 2]
            await other.write(f"{other.prefix}other", number)
            await other.storage.compact(await other.storage.revision())
            pair[number % 2].proxy.resume()

    await _rounds(pair, _ROUNDS // 10, compact)


async def test_writes_outside_of_the_prefix(pair, own_etcd):
    """Another user of the etcd raises its revision without events for the servers; their reads go on from memory."""
    async with EtcdStorage(EtcdOptions((own_etcd.url,))) as foreign:

        async def write(number: int) -> None:
            await foreign.transact([], [Put(f"/foreign/{number % 3}", b"x")])

        await _rounds(pair, _ROUNDS // 5, write)
        await write(0)
        # The watch follows without an event of its own.
        revision = await foreign.revision()
        assert await pair[0].storage.revision() >= revision
