"""Real etcd servers for the tests of the driver."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kcp_py.storage.contract import StorageError
from kcp_py.storage.etcd import EtcdOptions, EtcdStorage, messages
from kcp_py.testing.tcp_proxy import TcpProxy
from tests.ports import reserve_port
from tests.storage.etcd.binaries import BUILDS, default_folder, folder_of

_START_SECONDS = 120


class EtcdServer:
    """One etcd process on a data directory; it can be stopped, killed and started again on the same ports."""

    def __init__(self, directory: Path, *, scheme: str = "http", arguments: tuple[str, ...] = (), programs: Path | None = None) -> None:
        self.directory = directory
        self.programs = programs or default_folder()
        """Where `etcd`, `etcdctl` and others are."""
        self.port = reserve_port()
        self.peer_url = f"http://127.0.0.1:{reserve_port()}"
        self.members = [self]
        """The members of the cluster that it forms."""
        self._scheme = scheme
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        cluster = ",".join(f"{member.directory.name}={member.peer_url}" for member in self.members)
        with (self.directory / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(str(self.programs / "etcd"), "--name", self.directory.name, "--data-dir", str(self.directory / "data")),
                    *("--unsafe-no-fsync", "--log-level", "error", "--heartbeat-interval", "50", "--election-timeout", "500"),
                    *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
                    *("--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url, "--initial-cluster", cluster),
                    *self._arguments,
                ],
                stdout=log,
                stderr=log,
            )

    def stop(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def signal(self, number: int) -> None:
        """Send a signal, such as SIGSTOP."""
        if self._process is not None:
            self._process.send_signal(number)

    def version(self) -> tuple[int, ...]:
        """Of the program, such as `(3, 5, 1)`."""
        shown = subprocess.run([self.programs / "etcd", "--version"], capture_output=True, text=True, check=True).stdout
        return tuple(map(int, shown.split()[2].split(".")))

    async def wait(self, **more: str) -> None:
        """Until it answers."""
        options = EtcdOptions((self.url,), connect_timeout=0.2, **more)  # type: ignore[arg-type]
        async with EtcdStorage(options) as storage:
            until = time.monotonic() + _START_SECONDS
            while time.monotonic() < until:
                assert self._process is not None
                assert self._process.poll() is None, (self.directory / "etcd.log").read_text()
                try:
                    await storage.check()
                except StorageError:
                    await asyncio.sleep(0.02)
                else:
                    return
        raise AssertionError((self.directory / "etcd.log").read_text())

    def control(self, *arguments: str) -> str:
        """Run etcdctl."""
        command = [str(self.programs / "etcdctl"), "--endpoints", self.url, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "ETCDCTL_API": "3"}).stdout


class ScriptedMember:
    """Speaks the API as a test says: for answers that a real member gives too rarely to wait for. Not a store."""

    def __init__(self) -> None:
        self.version = "3.5.21"
        self.revision = 10
        self.watches: asyncio.Queue[ScriptedWatch] = asyncio.Queue()
        """The watch streams, as they are opened."""
        self.requests: list[str] = []
        """The paths called, but for streams and `Status`."""
        self.failures: dict[str, list[tuple[grpc.StatusCode, str]]] = {}
        """For a path: what its next calls fail with."""
        self._server = grpc.aio.server()
        self.url = ""

    async def start(self) -> None:
        handlers: dict[str, Any] = {
            "KV/Range": self._unary(messages.RANGE, "RangeRequest", dict),
            "KV/Txn": self._unary(messages.TXN, "TxnRequest", lambda: {"succeeded": True}),
            "Maintenance/Status": self._unary(messages.STATUS, "StatusRequest", lambda: {"version": self.version}),
            "Watch/Watch": grpc.stream_stream_rpc_method_handler(
                self._watch,
                request_deserializer=messages.WatchRequest.FromString,
                response_serializer=messages.message_class("WatchResponse").SerializeToString,
            ),
        }
        for path, handler in handlers.items():
            service, method = path.split("/")
            generic = grpc.method_handlers_generic_handler(f"etcdserverpb.{service}", {method: handler})
            self._server.add_generic_rpc_handlers((generic,))
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    def _unary(self, method: messages.Method, request_name: str, fields: Callable[[], dict[str, object]]) -> Any:
        path = method.path.removeprefix("/etcdserverpb.")
        response_class = messages.message_class(request_name.replace("Request", "Response"))

        async def handle(_request: Any, context: Any) -> Any:
            if path != "Maintenance/Status":
                self.requests.append(path)
            if failures := self.failures.get(path):
                await context.abort(*failures.pop(0))
            return response_class(header={"revision": self.revision}, **fields())

        return grpc.unary_unary_rpc_method_handler(
            handle,
            request_deserializer=messages.message_class(request_name).FromString,
            response_serializer=response_class.SerializeToString,
        )

    async def _watch(self, requests: AsyncIterator[Any], context: Any) -> None:
        watch = ScriptedWatch(await anext(requests), context)
        await self.watches.put(watch)
        try:
            async for request in requests:
                if request.HasField("progress_request"):
                    watch.progress_requests += 1
                    watch.progress_requested.set()
        finally:
            watch.ended.set()


class ScriptedWatch:
    """One watch stream at a scripted member."""

    def __init__(self, request: Any, context: Any) -> None:
        self.create: Any = request.create_request
        self.progress_requests = 0
        self.progress_requested = asyncio.Event()
        self.ended = asyncio.Event()
        self._context = context

    async def send(self, revision: int, *events: dict[str, object], **fields: object) -> None:
        """Send a response with this revision in its header."""
        await self._context.write(messages.message_class("WatchResponse")(header={"revision": revision}, events=events, **fields))


@pytest.fixture(scope="session", autouse=True)
async def one_event_loop(anyio_backend: str) -> None:
    """Keep the tests' event loop open: gRPC may hand a finished call to the loop that made it after the test is over."""
    del anyio_backend


@pytest.fixture
async def member() -> AsyncIterator[ScriptedMember]:
    """A scripted member, started."""
    scripted = ScriptedMember()
    await scripted.start()
    yield scripted
    await scripted.stop()


@pytest.fixture
async def start_proxy() -> AsyncIterator[Callable[[EtcdServer], object]]:
    """Starts a `TcpProxy` in front of a server: `await start_proxy(server)`."""
    async with AsyncExitStack() as stack:

        async def start(server: EtcdServer) -> TcpProxy:
            proxy = TcpProxy(server.port)
            await proxy.start()
            stack.push_async_callback(proxy.stop)
            return proxy

        yield start


StartEtcd = Callable[..., EtcdServer]


@pytest.fixture(scope="session", params=BUILDS)
def etcd_programs(request: pytest.FixtureRequest) -> Path:
    """The folder of each version of etcd in turn."""
    return folder_of(request.param)


@pytest.fixture(scope="session")
def _shared_server(etcd_programs: Path) -> Iterator[EtcdServer]:
    with tempfile.TemporaryDirectory(prefix="etcd-") as directory:
        server = EtcdServer(Path(directory), programs=etcd_programs)
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="session")
def suite_url(etcd_programs: Path) -> Iterator[str]:
    """The address of an etcd for the shared suite, ready; it may be emptied and compacted."""
    with tempfile.TemporaryDirectory(prefix="etcd-") as directory:
        server = EtcdServer(Path(directory), programs=etcd_programs)
        server.start()
        asyncio.run(server.wait())
        yield server.url
        server.stop()


@pytest.fixture
async def etcd(_shared_server: EtcdServer) -> EtcdServer:
    """An etcd shared by all tests: use the `prefix` fixture, and do not compact or stop it."""
    await _shared_server.wait()
    return _shared_server


@pytest.fixture
def start_etcd(tmp_path: Path) -> Iterator[StartEtcd]:
    """Starts an etcd of the test's own: `start_etcd(scheme=…, arguments=…, programs=…)`."""
    with ExitStack() as stack:

        def start(*, scheme: str = "http", arguments: tuple[str, ...] = (), programs: Path | None = None) -> EtcdServer:
            directory = tmp_path / uuid.uuid4().hex
            directory.mkdir()
            server = EtcdServer(directory, scheme=scheme, arguments=arguments, programs=programs)
            server.start()
            stack.callback(server.stop)
            return server

        yield start


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[list[EtcdServer]]:
    """Three members that form one etcd, ready."""
    members = []
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        members.append(EtcdServer(tmp_path / name))
    for member in members:
        member.members = members
        member.start()
    for member in members:
        await member.wait()
    yield members
    for member in members:
        member.stop()


@pytest.fixture
async def own_etcd(start_etcd: StartEtcd) -> EtcdServer:
    """An etcd of the test's own, ready."""
    server = start_etcd()
    await server.wait()
    return server


@pytest.fixture
def prefix() -> str:
    """A key prefix that no other test uses, with a slash at the end."""
    return f"/{uuid.uuid4().hex}/"


@pytest.fixture
async def open_storage() -> AsyncIterator[Callable[..., object]]:
    """Opens storages that are closed after the test: `await open_storage(url, …, option=…)`."""
    async with AsyncExitStack() as stack:

        async def open_one(*endpoints: str, **options: object) -> EtcdStorage:
            return await stack.enter_async_context(EtcdStorage(EtcdOptions(endpoints, **options)))  # type: ignore[arg-type]

        yield open_one


@pytest.fixture
async def storage(etcd: EtcdServer) -> AsyncIterator[EtcdStorage]:
    """A storage on the shared etcd."""
    async with EtcdStorage(EtcdOptions((etcd.url,))) as opened:
        yield opened


class Certificates(NamedTuple):
    """PEM files: an authority, a server's certificate for 127.0.0.1 and `etcd.test`, and a client's."""

    ca_file: str
    server_cert: str
    server_key: str
    client_cert: str
    client_key: str


@pytest.fixture(scope="session")
def certificates() -> Iterator[Certificates]:
    with tempfile.TemporaryDirectory(prefix="etcd-tls-") as directory:
        yield _certificates(Path(directory))


def _certificates(directory: Path) -> Certificates:
    now = dt.datetime.now(dt.UTC)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])

    def builder(name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(authority_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
        )

    def write(name: str, data: bytes) -> str:
        (directory / name).write_bytes(data)
        return str(directory / name)

    def issue(name: str) -> tuple[str, str]:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("etcd.test")]), critical=False
            )
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return write(f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM)), write(f"{name}.key", pem)

    authority = (
        builder(authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    ca_file = write("ca.crt", authority.public_bytes(serialization.Encoding.PEM))
    return Certificates(ca_file, *issue("server"), *issue("client"))
