"""TLS, users, and choosing between members."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from kcp_py.storage.contract import Compare, Put, StorageError, UnavailableError
from kcp_py.storage.etcd import EtcdOptions, EtcdStorage
from kcp_py.storage.etcd.channel import RECONNECTION, Connection

pytestmark = pytest.mark.anyio


async def test_tls_with_client_certificate(start_etcd, open_storage, certificates):
    """An etcd that asks for client certificates serves who has one, and the member's own certificate is checked."""
    server = start_etcd(
        scheme="https",
        arguments=(
            *("--cert-file", certificates.server_cert, "--key-file", certificates.server_key),
            *("--client-cert-auth", "--trusted-ca-file", certificates.ca_file),
        ),
    )
    client = {"ca_file": certificates.ca_file, "cert_file": certificates.client_cert, "key_file": certificates.client_key}
    await server.wait(**client)
    storage = await open_storage(server.url, **client)
    revision = await storage.transact([], [Put("/a", b"1")])
    async with aclosing(storage.watch("/", start_revision=revision)) as watch:
        assert (await anext(watch)).events[0].value == b"1"
    named = await open_storage(server.url, server_name="etcd.test", **client)
    assert await named.get("/a") is not None
    for wrong in ({"ca_file": certificates.ca_file}, {**client, "server_name": "other.test"}, {**client, "ca_file": ""}):
        stranger = await open_storage(server.url, connect_timeout=0.3, **wrong)
        with pytest.raises(UnavailableError):
            await stranger.check()


async def test_unreadable_certificate_is_named(open_storage, tmp_path):
    """A certificate file that is not there is one clear error."""
    with pytest.raises(StorageError, match="nothing-here"):
        await open_storage("https://127.0.0.1:1", ca_file=str(tmp_path / "nothing-here"))


async def test_users(start_etcd, open_storage):
    """A user with a password logs in, goes on when its token has run out, and is unavailable with a wrong password."""
    server = start_etcd(arguments=("--auth-token-ttl", "1"))
    await server.wait()
    server.control("user", "add", "root:secret")
    server.control("user", "grant-role", "root", "root")
    server.control("auth", "enable")
    storage = await open_storage(server.url, username="root", password="secret")
    first = await storage.transact([Compare("/a", mod_revision=0)], [Put("/a", b"1")])
    async with aclosing(storage.watch("/", start_revision=first)) as watch:
        assert (await anext(watch)).events[0].value == b"1"
        # A restart forgets all tokens.
        server.stop()
        server.start()
        await server.wait(username="root", password="secret")
        second = await storage.transact([], [Put("/a", b"2")])
        while not (batch := await anext(watch)).events:
            pass
        assert [event.mod_revision for event in batch.events] == [second]
    assert second == first + 1
    for options in ({"username": "root", "password": "wrong"}, {}):
        stranger = await open_storage(server.url, **options)
        with pytest.raises(StorageError):
            await stranger.check()


async def test_a_dead_member_is_passed_over(etcd, open_storage, prefix):
    """With a dead and a living endpoint everything works, writes included, whichever is named first."""
    dead = "http://127.0.0.1:1"
    for endpoints in ((dead, etcd.url), (etcd.url, dead)):
        storage = await open_storage(*endpoints)
        revision = await storage.transact([], [Put(prefix + "a", b"1")])
        assert (await storage.range(prefix)).items[0].mod_revision == revision
        async with aclosing(storage.watch(prefix, start_revision=revision)) as watch:
            assert (await anext(watch)).events[0].mod_revision == revision


async def test_moving_to_another_member(etcd, open_storage, start_proxy, prefix):
    """When the address in use dies, the next call and the watch go to another one."""
    one, two = await start_proxy(etcd), await start_proxy(etcd)
    storage = await open_storage(one.url, two.url)
    first = await storage.transact([], [Put(prefix + "a", b"1")])
    async with aclosing(storage.watch(prefix, start_revision=first)) as watch:
        while not (await anext(watch)).events:
            pass
        await one.stop()
        assert await storage.get(prefix + "a") is not None
        second = await storage.transact([], [Put(prefix + "a", b"2")])
        while not (batch := await anext(watch)).events:
            pass
        assert [event.mod_revision for event in batch.events] == [second]
    assert two.connections == 1


async def test_host_names(etcd, open_storage):
    """An endpoint may be a host name."""
    storage = await open_storage(f"http://localhost:{etcd.port}")
    await storage.check()


def test_a_member_that_is_back_is_found_within_a_second():
    """Pauses between attempts, with gRPC's jitter of a fifth, and failed attempts are within their bounds."""
    arguments = dict(RECONNECTION)
    assert arguments["grpc.max_reconnect_backoff_ms"] * 1.2 < 1000
    assert arguments["grpc.min_reconnect_backoff_ms"] <= 1000
    assert arguments["grpc.initial_reconnect_backoff_ms"] >= 100


async def test_all_who_wait_for_a_member_look_for_it_once(open_storage, monkeypatch):
    """However many calls and watches lost their member, one task asks after the connections, and it ends with the last who waits."""
    looking = set()
    connect = Connection.connect

    def connect_seen(self):
        looking.add(asyncio.current_task())
        return connect(self)

    monkeypatch.setattr(Connection, "connect", connect_seen)
    storage = await open_storage("http://127.0.0.1:1", "http://127.0.0.1:2", connect_timeout=0.05)
    outcomes = await asyncio.gather(*(storage.check() for _ in range(200)), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {UnavailableError}
    (task,) = looking
    assert task is not None
    assert await asyncio.wait_for(task, 60) is None


async def test_a_member_is_found_by_all_who_wait(start_etcd, open_storage):
    """Calls that were made while no member was there are answered when one is."""
    server = start_etcd()
    server.stop()
    storage = await open_storage(server.url, connect_timeout=60)
    calls = [asyncio.create_task(storage.revision()) for _ in range(50)]
    await asyncio.sleep(0)
    server.start()
    assert set(await asyncio.gather(*calls)) == {1}


async def test_pauses_of_a_watch_without_etcd():
    """A watch tries again after pauses that grow to at most half a second and stay above a tenth, so that it is soon back and no burden."""
    pauses = []
    enough = asyncio.Event()

    async def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 60:
            enough.set()
        await asyncio.sleep(0)

    async with EtcdStorage(EtcdOptions(("http://127.0.0.1:1",), connect_timeout=0.001), sleep=sleep) as storage:
        watch = storage.watch("/", start_revision=1)
        reading = asyncio.ensure_future(anext(watch))
        await enough.wait()
    with pytest.raises(UnavailableError):
        await reading
    assert max(pauses) <= 0.5
    assert min(pauses[10:]) >= 0.1
