"""Events on real connections: shared frames are written without waking the task of a watch, in order and once, whatever the client does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kcp_py.controlplane import ControlPlane
from kcp_py.serving.server import listen, serve
from kcp_py.watchcache import Watcher, WatchRevokedError
from tests.server.handlers.conftest import config_map, options

pytestmark = pytest.mark.anyio

MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
PREFIX = "/registry/core/configmaps/"


class Stream:
    """A watch over a connection of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._left = b""

    async def chunk(self) -> bytes:
        """The next chunk; empty at the end."""
        size = int(await self._reader.readuntil(b"\r\n"), 16)
        data = await self._reader.readexactly(size + 2)
        assert data[-2:] == b"\r\n"
        return data[:-2]

    async def event(self) -> dict[str, Any] | None:
        while b"\n" not in self._left:
            data = await asyncio.wait_for(self.chunk(), 30)
            if not data:
                assert not self._left
                return None
            self._left += data
        line, _, self._left = self._left.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    async def names(self, count: int) -> list[str]:
        found = [await self.event() for _ in range(count)]
        return [event["object"]["metadata"]["name"] for event in found if event is not None]


class Server:
    """A control plane on a port."""

    def __init__(self, control_plane: ControlPlane, port: int) -> None:
        self.control_plane = control_plane
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, head: str, *, receive_bytes: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connection = socket.socket()
        if receive_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self._port))
        reader, writer = await asyncio.open_connection(sock=connection, limit=4096 if receive_bytes else 2**16)
        self._writers.append(writer)
        writer.write(f"{head}\r\nHost: x\r\nAuthorization: Bearer secret\r\n".encode())
        return reader, writer

    async def aclose(self) -> None:
        for writer in self._writers:
            writer.close()
        for writer in self._writers:
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def create(self, name: str, data: str = "") -> None:
        body = json.dumps(config_map(name, {"data": data})).encode()
        reader, writer = await self.connect(f"POST {MAPS} HTTP/1.1")
        writer.write(b"Content-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 201"), answer

    async def watch(self, query: str = "", *, accept: str = "application/json", receive_bytes: int = 0) -> Stream:
        """A watch of what comes from now on, whose task sleeps."""
        before = self.watchers
        revision = await self.control_plane.backend.access.storage.revision()
        head = f"GET {MAPS}?watch=true&resourceVersion={revision}{query} HTTP/1.1"
        reader, writer = await self.connect(head, receive_bytes=receive_bytes)
        writer.write(f"Accept: {accept}\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        while not (new := self.watchers - before):
            await asyncio.sleep(0)
        for watcher in new:
            await asleep(watcher)
        return Stream(reader, writer)

    @property
    def watchers(self) -> set[Watcher]:
        hub = self.control_plane.backend.fanout._hubs.get(PREFIX)
        return set() if hub is None else set(hub.by_cluster.get("a", ()))


async def asleep(watcher: Watcher) -> None:
    while watcher._waiter is None or watcher._waiter.done():
        await asyncio.sleep(0)


@asynccontextmanager
async def serving(root: Path, **more: Any) -> AsyncIterator[Server]:
    settings = options(root, secure_port=0, plain_http=True, shutdown_grace_period=5, **more)
    async with ControlPlane(settings) as control_plane:
        listener = listen(settings)
        server = Server(control_plane, listener.getsockname()[1])
        ready, stop = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(
            serve(
                control_plane.app,
                listener,
                settings,
                tls=None,
                on_shutdown=control_plane.begin_shutdown,
                on_ready=ready.set,
                stop=stop,
            )
        )
        await ready.wait()
        await server.create("zero")
        try:
            yield server
        finally:
            stop.set()
            await task
            await server.aclose()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as found:
        yield found


async def test_sleeping_watches_share_frames_without_waking(server: Server) -> None:
    """One frame for each event and form, equal to that of a watch with a selector, which its own task encodes."""
    partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    streams = [await server.watch() for _ in range(3)] + [await server.watch(accept=partial) for _ in range(2)]
    sleeps = {watcher: watcher._waiter for watcher in server.watchers}
    selective = await server.watch("&labelSelector=x!%3Dy")
    await server.create("one")
    *whole, bare, other = [await stream.event() for stream in streams]
    expected = await selective.event()
    assert expected is not None
    assert whole == [expected] * 3
    assert (
        bare
        == other
        == {
            "type": "ADDED",
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": expected["object"]["metadata"],
            },
        }
    )
    assert all(watcher._waiter is sleep and sleep is not None and not sleep.done() for watcher, sleep in sleeps.items())
    (event,) = list(server.control_plane.backend.fanout._ring._events)[-1:]
    assert len([value for value in event.memo.values() if getattr(value, "chunk", b"")]) == 2


async def test_bursts_arrive_in_order(server: Server) -> None:
    """Also more than is written at once, to watches that sleep and to one whose task has to be woken."""
    streams = [await server.watch() for _ in range(3)] + [await server.watch("&labelSelector=x!%3Dy")]
    client = server.control_plane.backend.fanout
    before = client.revision
    for start in range(0, 300, 100):
        await asyncio.gather(*(server.create(f"m{number}") for number in range(start, start + 100)))
    received = [await stream.names(300) for stream in streams]
    assert sorted(received[0]) == sorted(f"m{number}" for number in range(300))
    assert received[1:] == received[:1] * 3
    assert client.revision > before
    for stream in streams:
        await server.create("after" + str(streams.index(stream)))
    assert [await stream.names(4) for stream in streams] == [["after0", "after1", "after2", "after3"]] * 4


async def test_a_client_that_does_not_read_holds_up_nobody(server: Server) -> None:
    """It gets everything once it reads, in order; others have it at once."""
    slow, fast = await server.watch(receive_bytes=4096), await server.watch()
    names = [f"big{number}" for number in range(40)]
    for name in names:
        await server.create(name, "x" * 400_000)
        assert await fast.names(1) == [name]
    assert max(watcher.unread for watcher in server.watchers) > 0
    assert await slow.names(40) == names
    for watcher in server.watchers:
        await asleep(watcher)
    await server.create("last")
    assert await slow.names(1) == await fast.names(1) == ["last"]


async def test_a_client_that_never_reads_has_to_list_again(tmp_path: Path) -> None:
    """410 behind the events that were sent before its buffer was full."""
    async with serving(tmp_path, watch_buffer_events=3) as server:
        slow, fast = await server.watch(receive_bytes=4096), await server.watch()
        for number in range(40):
            await server.create(f"big{number}", "x" * 400_000)
            assert await fast.names(1) == [f"big{number}"]
        events = []
        while (event := await slow.event()) is not None:
            events.append(event)
        *shown, last = events
        assert (last["type"], last["object"]["code"]) == ("ERROR", 410)
        assert [event["object"]["metadata"]["name"] for event in shown] == [f"big{number}" for number in range(len(shown))]
        assert len(shown) < 40


async def test_a_cut_connection_ends_its_watch_alone(server: Server) -> None:
    """Cut while events are on their way to it."""
    cut, stays = await server.watch(receive_bytes=4096), await server.watch()
    for number in range(20):
        await server.create(f"m{number}", "x" * 400_000)
    cut.writer.transport.abort()
    await server.create("last")
    assert (await stays.names(21))[-1] == "last"
    while len(server.watchers) > 1:
        await asyncio.sleep(0)


async def test_a_revocation_is_faster_than_what_waits(server: Server) -> None:
    """The event was offered and not written yet: the stream ends without it. Another watch has it."""
    revoked = await server.watch()
    (watcher,) = server.watchers
    other = await server.watch()
    (second,) = server.watchers - {watcher}
    await server.create("before")
    assert await revoked.names(1) == await other.names(1) == ["before"]
    event = list(server.control_plane.backend.fanout._ring._events)[-1]
    for one in (watcher, second):
        one._after = 0
        one.offer(event)
    watcher.end(WatchRevokedError())
    assert await revoked.event() is None
    assert await other.names(1) == ["before"]


async def test_bookmarks_follow_what_was_written(server: Server) -> None:
    """A bookmark has at least the revision of the event before it, and the next watch on the connection begins a response of its own."""
    server.control_plane.backend.limits.bookmark_seconds = 0.1
    stream = await server.watch("&allowWatchBookmarks=true&timeoutSeconds=1")
    seen = 0
    created = 1
    await server.create("m1")
    while (event := await stream.event()) is not None:
        revision = int(event["object"]["metadata"]["resourceVersion"])
        assert revision >= seen
        assert event["type"] == "BOOKMARK" or revision > seen
        seen = revision
        if event["type"] == "BOOKMARK" and created < 3:
            created += 1
            await server.create(f"m{created}")
    assert created == 3
    stream.writer.write(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n".encode())
    await server.create("m4")
    assert (await stream._reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")


async def test_the_end_of_the_server_is_behind_all_events(tmp_path: Path) -> None:
    """What happened before it is told, then the stream ends cleanly."""
    async with serving(tmp_path) as server:
        streams = [await server.watch() for _ in range(3)]
        await asyncio.gather(*(server.create(f"m{number}") for number in range(20)))
        server.control_plane.begin_shutdown()
        for stream in streams:
            assert sorted(await stream.names(20)) == sorted(f"m{number}" for number in range(20))
            assert await stream.event() is None
