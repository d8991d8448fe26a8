"""Watches over WebSocket, with a real client, a real server and a whole control plane behind it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
import websockets
from structlog.testing import capture_logs
from uvicorn.server import ServerState
from websockets.asyncio.client import ClientConnection, connect

from kcp_py.apimachinery.serializer.protobuf import encode_object, encode_watch_event
from kcp_py.controlplane import ControlPlane
from kcp_py.options import Options
from kcp_py.server.connection import Connection
from kcp_py.serving import websocket
from kcp_py.serving.context import ServerContext
from kcp_py.serving.http1.events import Request
from kcp_py.serving.http1.limits import ReadLimits
from kcp_py.serving.scope import offers_watch_socket
from kcp_py.serving.tls import ReloadingContext
from kcp_py.serving.websocket import TWO_WAY, WatchSocket, request_head
from tests.serving.authorities import client_context as identified
from tests.serving.authorities import new_authority

pytestmark = pytest.mark.anyio

CONFIG_MAPS = "/clusters/root/api/v1/namespaces/default/configmaps"
TOKEN = "secret"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
ORIGIN: Any = "https://console.example"
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
PROTOCOL = "base64url.bearer.authorization.k8s.io."


class Server:
    """A control plane in memory behind the server of the command line."""

    def __init__(self, control_plane: ControlPlane, port: int, tls: ssl.SSLContext | None) -> None:
        self.control_plane = control_plane
        self.port = port
        self._tls = tls
        self.http = httpx.AsyncClient(base_url=f"http{'s' if tls else ''}://127.0.0.1:{port}", headers=BEARER, verify=tls or False)

    @contextlib.asynccontextmanager
    async def watch(
        self, path: str = CONFIG_MAPS, *, query: str = "", origin: Any = ORIGIN, token: bool = True, **more: Any
    ) -> AsyncIterator[ClientConnection]:
        """Connect, and leave again."""
        headers = {**(BEARER if token else {}), **more.pop("headers", {})}
        url = f"ws{'s' if self._tls else ''}://127.0.0.1:{self.port}{path}?watch=1{query}"
        async with connect(url, origin=origin, additional_headers=headers, ssl=self._tls, max_size=None, **more) as client:
            yield client

    async def refused(self, **arguments: Any) -> tuple[int, bytes]:
        """The answer to a request for a WebSocket that is not granted."""
        with pytest.raises(websockets.InvalidStatus) as caught:
            async with self.watch(**arguments):
                pass
        response = caught.value.response
        return response.status_code, bytes(response.body or b"")

    async def create(self, name: str, size: int = 1) -> dict[str, Any]:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v" * size}}
        made: dict[str, Any] = (await self.http.post(CONFIG_MAPS, json=body)).raise_for_status().json()
        return made


async def event(client: ClientConnection) -> dict[str, Any]:
    text = await asyncio.wait_for(client.recv(), 60)
    assert isinstance(text, str)
    assert text.endswith("}\n")
    found: dict[str, Any] = json.loads(text)
    return found


@contextlib.asynccontextmanager
async def running(
    serving: Any,
    options: Options,
    tls: ssl.SSLContext | None = None,
    client: ssl.SSLContext | None = None,
    create: Callable[[Options], ControlPlane] = ControlPlane,
) -> AsyncIterator[Server]:
    options.root_directory.mkdir(exist_ok=True)
    (options.root_directory / "admin-tokens.csv").write_text(f'{TOKEN},shard-admin,1,"system:masters"\n')
    options = replace(options, storage="memory")
    async with (
        create(options) as control_plane,
        serving(control_plane.app, options, tls=tls, on_shutdown=control_plane.begin_shutdown) as port,
    ):
        server = Server(control_plane, port, client)
        async with server.http:
            yield server


@pytest.fixture
async def server(serving, options) -> AsyncIterator[Server]:
    async with running(serving, options) as started:
        yield started


async def test_events_in_text(server):
    """Each event is a text message of JSON with its line feed, with what a chunked watch would say."""
    made = await server.create("a")
    async with server.watch() as client:
        assert client.response.status_code == 101
        assert client.subprotocol is None
        first = await event(client)
        assert (first["type"], first["object"]) == ("ADDED", made)
        await server.http.delete(f"{CONFIG_MAPS}/a")
        assert (await event(client))["type"] == "DELETED"


async def test_events_in_binary(server):
    """Protobuf comes in binary messages, without the lengths of the chunked form."""
    async with server.watch(headers={"Accept": "application/vnd.kubernetes.protobuf"}) as client:
        made = await server.create("a")
        message = await asyncio.wait_for(client.recv(), 60)
        assert message == encode_watch_event("ADDED", encode_object(made))[4:]


async def test_transforms(server):
    """Tables and metadata are events like any others."""
    await server.create("a")
    async with server.watch(headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}) as client:
        assert (await event(client))["object"]["kind"] == "Table"
    async with server.watch(
        "/clusters/*/api/v1/configmaps", headers={"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    ) as client:
        found = await event(client)
        assert (found["object"]["kind"], found["object"]["metadata"]["clusterName"]) == ("PartialObjectMetadata", "root")


async def test_end(server):
    """A watch that is over is closed with 1000, an error before it."""
    async with server.watch(query="&timeoutSeconds=1") as client:
        with pytest.raises(websockets.ConnectionClosedOK):
            await asyncio.wait_for(client.recv(), 60)
        assert client.close_code == 1000
    await server.http.post(
        CONFIG_MAPS.replace("root", "younger"), json={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    )
    async with server.watch(CONFIG_MAPS.replace("root", "younger"), query="&resourceVersion=1") as client:
        assert (await event(client))["object"]["reason"] == "Expired"
        await asyncio.wait_for(client.wait_closed(), 60)
        assert client.close_code == 1000


async def test_token_as_subprotocol(server):
    """A browser sends its token as a subprotocol, which is not echoed; another one is."""
    token = PROTOCOL + base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("=")
    async with server.watch(token=False, subprotocols=[token, "watch.example"]) as client:
        assert client.subprotocol == "watch.example"
        await server.create("a")
        assert (await event(client))["type"] == "ADDED"
    wrong = PROTOCOL + base64.urlsafe_b64encode(b"wrong").decode().rstrip("=")
    for protocols in ([token], [wrong, "a"], [token, token, "a"], [PROTOCOL + "!", "a"]):
        status, body = await server.refused(token=False, subprotocols=protocols)
        assert (status, json.loads(body)["reason"]) == (401, "Unauthorized")


async def test_refusals(server):
    """Everything that stands before a watch stands before a WebSocket, and is answered over HTTP."""
    assert (await server.refused(token=False))[0] == 403
    assert (await server.refused(origin=None))[0] == 403
    assert (await server.refused(origin="null"))[0] == 403
    assert (await server.refused(subprotocols=["a", "b"]))[0] == 400
    assert (await server.refused(headers={"Accept": "application/yaml"}))[0] == 406
    assert (await server.refused(path="/clusters/root/apis/nosuch.example/v1/things"))[0] == 404
    status, body = await server.refused(query="&labelSelector=)")
    assert (status, json.loads(body)["kind"]) == (400, "Status")


async def test_other_requests_are_not_upgraded(server):
    """A wish to go on over WebSocket is ignored where there is no watch, and the connection goes on with HTTP."""
    await server.create("a")
    for _ in range(2):
        answer = await server.http.get(f"{CONFIG_MAPS}/a", headers=UPGRADE)
        assert (answer.status_code, answer.json()["metadata"]["name"]) == (200, "a")
    listed = await server.http.get(f"{CONFIG_MAPS}?fieldSelector=metadata.name=watch", headers={**UPGRADE, "Origin": "https://x"})
    assert (listed.status_code, listed.json()["items"]) == (200, [])


async def test_upgrades_with_bodies(server):
    """A body behind a wish to upgrade is never taken for the next request, which may be meant to look like another's."""
    inner = f"GET {CONFIG_MAPS}/smuggled HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    for upgrade in ("websocket", "h2c"):
        for path in (f"{CONFIG_MAPS}?watch=1", CONFIG_MAPS):
            headers = {**UPGRADE, "Upgrade": upgrade}
            assert (await server.http.post(path, headers=headers, content=inner)).status_code == 400
    posted = await server.http.post(CONFIG_MAPS, headers={**UPGRADE, "Content-Length": "0"})
    assert posted.json()["reason"] == "BadRequest"


async def test_client_leaves(server):
    """The watch of a client that is gone ends, whether it says goodbye or not."""
    fanout = server.control_plane.backend.fanout
    before = fanout.watchers
    for abrupt in (False, True):
        async with server.watch() as client:
            await server.create(f"a{abrupt}".lower())
            await event(client)
            assert fanout.watchers == before + 1
            if abrupt:
                client.transport.abort()
        async with asyncio.timeout(60):
            while fanout.watchers != before:
                await asyncio.sleep(0)


async def test_what_clients_send(server):
    """Messages and pings of a client change nothing; more than a little ends the connection."""
    async with server.watch() as client:
        await asyncio.wait_for(await client.ping(), 60)
        await client.send("hello")
        await client.send([b"a"] * 100)
        await server.create("a")
        assert (await event(client))["object"]["metadata"]["name"] == "a"
        await client.send("x" * 70_000)
        await asyncio.wait_for(client.wait_closed(), 60)
        assert client.close_code == 1009


async def test_bad_frames(server):
    """A client that does not speak the protocol is cut off."""
    async with server.watch() as client:
        await server.create("a")
        await event(client)
        client.transport.write(b"\xff" * 64)
        await asyncio.wait_for(client.wait_closed(), 60)
    assert (await server.http.get(f"{CONFIG_MAPS}/a")).status_code == 200


@pytest.mark.parametrize(("name", "value"), [("Sec-WebSocket-Version", "8"), ("Sec-WebSocket-Key", ""), ("Sec-WebSocket-Key", "short")])
async def test_bad_handshake(server, name, value):
    """A malformed handshake is refused, whatever the request is."""
    answer = await server.http.get(f"{CONFIG_MAPS}?watch=1", headers={**UPGRADE, name: value, "Origin": "https://x"})
    assert 400 <= answer.status_code < 500


async def test_slow_reader(serving, options):
    """A client that does not read delays no other, and a bounded part of its messages is kept."""
    async with running(serving, options) as server, server.watch(max_queue=1) as slow, server.watch() as fast:
        slow.transport.pause_reading()
        for number in range(20):
            await server.create(f"a{number}", size=400_000)
            assert (await event(fast))["object"]["metadata"]["name"] == f"a{number}"
        slow.transport.resume_reading()
        assert (await event(slow))["object"]["metadata"]["name"] == "a0"
        slow.transport.abort()


async def test_shutdown(serving, options):
    """A server that stops closes its watches, and ends."""
    async with contextlib.AsyncExitStack() as stack:
        async with running(serving, options) as server:
            client = await stack.enter_async_context(server.watch())
            await server.create("a")
            await event(client)
        await asyncio.wait_for(client.wait_closed(), 60)
        assert client.close_code in {1000, 1012}


async def test_tls(serving, certified, client_context):
    """Over TLS it is the same, with a client certificate for an identity too."""

    context = client_context(certified, certificate=True)
    async with running(serving, certified, ReloadingContext(certified).context, context) as server, server.watch(token=False) as client:
        await server.create("a")
        assert (await event(client))["object"]["metadata"]["name"] == "a"


async def test_a_watch_ends_when_its_authority_is_removed(serving, certified, tmp_path):
    """A client whose certificate is not accepted any more is cut off."""
    authority, bundle = new_authority(), tmp_path / "clients.crt"
    bundle.write_bytes(authority.pem)
    options = replace(certified, client_ca_file=bundle)
    tls = ReloadingContext(options)
    context = identified(certified.ca_file, authority.issue("alice", "system:masters"), tmp_path)
    async with running(serving, options, tls.context, context) as server, server.watch(token=False) as client:
        await server.create("a")
        await event(client)
        bundle.write_bytes(new_authority().pem)
        assert tls.reload_if_changed()
        await asyncio.wait_for(client.wait_closed(), 60)


async def test_client_that_only_pings():
    """Who has the server answer pings and reads no answer is cut off before they fill the memory."""

    class Unread(asyncio.Transport):
        written = 0
        aborted = False

        def get_extra_info(self, name, default=None):
            del name
            return default

        def get_write_buffer_size(self):
            return self.written

        def is_closing(self):
            return self.aborted

        def write(self, data):
            self.written += len(data)

        def abort(self):
            self.aborted = True

        close = abort

    async def app(scope, receive, send):
        del scope
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass

    state: Any = ServerState()
    context = ServerContext(app, state, ReadLimits(max_head_bytes=1000, head_timeout=60, idle_timeout=60))
    headers = [(name.lower().encode(), value.encode()) for name, value in {"Host": "x", **UPGRADE}.items()]
    scope = {"method": "GET", "scheme": "http", "raw_path": b"/", "query_string": b"watch=1", "headers": headers}
    socket, transport = WatchSocket(context, scope, None), Unread()
    socket.start(transport, b"")
    async with asyncio.timeout(60):
        while not transport.written:
            await asyncio.sleep(0)
    ping = b"\x89\xfd\0\0\0\0" + b"p" * 125
    for _ in range(100):
        if not transport.aborted:
            socket.data_received(ping * 1000)
    assert transport.aborted
    assert transport.written < 9 * 1024 * 1024
    socket.connection_lost(None)
    await asyncio.wait(list(state.tasks), timeout=60)


@pytest.mark.parametrize(
    "answer",
    [{"type": "websocket.accept"}, {"type": "websocket.close"}, {"type": "websocket.http.response.start", "status": 403}, None],
    ids=["accepted", "refused", "refused over HTTP", "not answered"],
)
async def test_an_answer_behind_the_end_of_the_connection(answer):
    """Nothing is written on a transport that closes, and the application is told that the client is gone."""

    class Closing(asyncio.Transport):
        closing = False
        written = b""

        def get_extra_info(self, name, default=None):
            del name
            return default

        def get_write_buffer_size(self):
            return 0

        def is_closing(self):
            return self.closing

        def write(self, data):
            self.written += data

        def close(self):
            self.closing = True

        abort = close

    failures: list[BaseException] = []

    async def app(scope, receive, send):
        del scope
        assert (await receive())["type"] == "websocket.connect"
        transport.close()
        for message in (answer, {"type": "websocket.send", "text": "a"}) if answer else ():
            try:
                await send(message)
            except OSError as error:
                failures.append(error)

    state: Any = ServerState()
    context = ServerContext(app, state, ReadLimits(max_head_bytes=1000, head_timeout=60, idle_timeout=60))
    headers = [(name.lower().encode(), value.encode()) for name, value in {"Host": "x", **UPGRADE}.items()]
    scope = {"method": "GET", "scheme": "http", "raw_path": b"/", "query_string": b"watch=1", "headers": headers}
    socket, transport = WatchSocket(context, scope, None), Closing()
    socket.start(transport, b"")
    with capture_logs() as logs:
        await asyncio.wait(list(state.tasks), timeout=60)
    socket.connection_lost(None)
    assert [type(failure) for failure in failures] == [ConnectionResetError] * (2 if answer else 0)
    assert transport.written == b""
    assert logs == []


async def test_a_client_that_has_ended_its_side(server):
    """It has nothing to say over WebSocket any more: the connection ends, and its watch with it."""
    fanout = server.control_plane.backend.fanout
    before = fanout.watchers
    lines = {"Host": "x", "Origin": ORIGIN, **BEARER, **UPGRADE}
    head = f"GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    with capture_logs() as logs:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head.encode())
        writer.write_eof()
        received = await asyncio.wait_for(reader.read(), 60)
        async with asyncio.timeout(60):
            while fanout.watchers != before:
                await asyncio.sleep(0)
        writer.close()
    assert received.partition(b"\r\n")[0] in {b"", b"HTTP/1.1 101 Switching Protocols"}
    assert [log for log in logs if log["log_level"] == "error"] == []


def test_request_head():
    """The head equals the sent one, except for the parts of the target that the API does not use."""
    scope = {"raw_path": b"/a%20b", "query_string": b"watch=1", "headers": [(b"host", b"h")]}
    assert request_head(scope) == b"GET /a%20b?watch=1 HTTP/1.1\r\nhost: h\r\n\r\n"
    assert request_head({**scope, "query_string": b""}) == b"GET /a%20b HTTP/1.1\r\nhost: h\r\n\r\n"


@pytest.mark.parametrize(
    ("path", "goes_on"),
    [
        ("/clusters/a/api/v1/namespaces/default/pods/web/exec", True),
        ("/api/v1/namespaces/default/pods/web/exec", True),
        ("/apis/example.com/v1/widgets/one/console/deeper", True),
        ("/clusters/a/api/v1/namespaces/default/pods/web", False),
        ("/apis/example.com/v1/widgets/one", False),
        ("/clusters/a", False),
        ("/", False),
        ("*", False),
    ],
)
def test_subresources_go_on_over_websocket(path, goes_on):
    """Only paths of subresources and watches; all others ignore the wish."""
    request = Request(b"GET", path.encode(), b"", "1.1", [(b"upgrade", b"websocket")], None, False, True, True)
    assert offers_watch_socket(request) is goes_on


@pytest.mark.parametrize("messages", [20, 100], ids=["that wait for the function", "that wait in the connection"])
@pytest.mark.parametrize("abruptly", [False, True], ids=["clean", "abrupt"])
async def test_a_client_that_leaves_behind_messages_that_nothing_reads(serving, options, monkeypatch, messages, abruptly):
    """The function is cancelled."""
    monkeypatch.setattr(websocket, "_PROBE_SECONDS", 0.01)
    started, cancelled = asyncio.Event(), asyncio.Event()

    def create(options: Options) -> ControlPlane:
        control_plane = ControlPlane(options)

        @control_plane.subresource("configmaps", "log", verb="connect")
        async def log(connection: Connection) -> None:
            await connection.start(b"application/octet-stream")
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        return control_plane

    async with running(serving, options, create=create) as server, asyncio.timeout(60):
        url = f"ws://127.0.0.1:{server.port}{CONFIG_MAPS}/one/log"
        client = await connect(url, additional_headers=BEARER, close_timeout=0)
        await started.wait()
        for _ in range(messages):
            await client.send(b"x")
        if abruptly:
            client.transport.abort()
        await client.close()
        await cancelled.wait()


async def test_messages_of_clients_reach_an_application_that_asks_for_them():
    """Whole and in fragments, without a message being lost while the connection is not read."""

    class Pausable(asyncio.Transport):
        def __init__(self):
            super().__init__()
            self.pauses = []
            self.closed = False

        def get_write_buffer_size(self):
            return 0

        def is_closing(self):
            return self.closed

        def write(self, data):
            del data

        def pause_reading(self):
            self.pauses.append(True)

        def resume_reading(self):
            self.pauses.append(False)

        def close(self):
            self.closed = True

        abort = close

    accepted, go_on = asyncio.Event(), asyncio.Event()
    received = []

    async def app(scope, receive, send):
        del scope
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept", TWO_WAY: True})
        accepted.set()
        await go_on.wait()
        while (message := await receive())["type"] == "websocket.receive":
            received.append(message["bytes"])

    state: Any = ServerState()
    context = ServerContext(app, state, ReadLimits(max_head_bytes=1000, head_timeout=60, idle_timeout=60))
    headers = [(name.lower().encode(), value.encode()) for name, value in {"Host": "x", **UPGRADE}.items()]
    scope = {"method": "GET", "scheme": "http", "raw_path": b"/", "query_string": b"", "headers": headers}
    socket, transport = WatchSocket(context, scope, None), Pausable()
    socket.start(transport, b"")
    async with asyncio.timeout(60):
        await accepted.wait()
        socket.data_received(b"\x02\x81\0\0\0\0a" + b"\x80\x81\0\0\0\0b")
        for _ in range(20):
            socket.data_received(b"\x82\x81\0\0\0\0c")
        assert transport.pauses == [True]
        go_on.set()
        socket.connection_lost(None)
        await asyncio.wait(list(state.tasks))
    assert received == [b"ab", *[b"c"] * 20]
    assert transport.pauses == [True, False]
