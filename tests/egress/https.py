"""A real HTTPS server, with a certificate authority of its own, that answers POSTs as a test says."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import orjson
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFETIME = dt.timedelta(days=2)


class Certificate(NamedTuple):
    """What a server shows, and what its clients trust."""

    authority: bytes
    """PEM."""
    chain_file: Path
    """Certificate and key, PEM."""

    @property
    def bundle(self) -> str:
        """As in `caBundle`."""
        return base64.b64encode(self.authority).decode()


def issue(folder: Path, *names: str, age: dt.timedelta = dt.timedelta(days=1)) -> Certificate:
    """A new authority and a certificate of its for addresses or host names."""
    now = dt.datetime.now(dt.UTC)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook authority")])
    base = x509.CertificateBuilder().issuer_name(subject).not_valid_before(now - age).not_valid_after(now - age + LIFETIME)
    authority = (
        base.subject_name(subject)
        .public_key(authority_key.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    leaf = (
        base.subject_name(x509.Name([]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / f"{authority.serial_number:x}.pem"
    file.write_bytes(leaf.public_bytes(pem) + private)
    return Certificate(authority.public_bytes(pem), file)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


class Request(NamedTuple):
    """What came."""

    target: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)


Respond = Callable[[Request], Awaitable[bytes]]
"""From a request to the bytes of a whole HTTP response; empty ones close the connection."""


def http(status: int, body: bytes = b"", *headers: str) -> bytes:
    """The bytes of a response."""
    lines = [f"HTTP/1.1 {status} OK", f"Content-Length: {len(body)}", "Content-Type: application/json", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


class HttpsServer:
    """The server. `respond` may be replaced at any time."""

    def __init__(self, certificate: Certificate, respond: Respond, *, client_authority: bytes | None = None, port: int = 0) -> None:
        """Prepare. With an authority (PEM) clients need a certificate of it. The port 0 is a free one."""
        self.certificate = certificate
        self._client_authority = client_authority
        self.respond = respond
        self.requests: list[Request] = []
        self.connections = 0
        self.port = port
        self._listener: socket.socket | None = None
        self._connections: dict[asyncio.Task[None], socket.socket] = {}
        self._conversing: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def origin(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate.chain_file)
        if self._client_authority is not None:
            context.load_verify_locations(cadata=self._client_authority.decode())
            context.verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=100)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener, context)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """End the server, unless a test has ended it before."""
        assert self._listener is not None
        if self._closed:
            return
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        self._closed = True
        tasks = list(self._connections)
        for connection in self._connections.values():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        # A handshake that is cancelled may leave its transport open. It ends with its connection.
        for task in self._conversing:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        """Serve a connection in a task that is known from the start.

        `asyncio.start_server` loses sight of connections in their handshake, which then stay open when it ends.
        """
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        task = asyncio.get_running_loop().create_task(self._serve(connection, context))
        self._connections[task] = connection
        task.add_done_callback(self._connections.pop)

    async def _serve(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=2**24)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, ssl=context)
        except OSError:
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        task = asyncio.current_task()
        assert task is not None
        self.connections += 1
        self._conversing.add(task)
        try:
            if not self._closed:
                await self._converse(reader, writer)
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass
        finally:
            self._conversing.discard(task)
            transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            request = Request(head[0].split(" ")[1], headers, body)
            self.requests.append(request)
            response = await self.respond(request)
            if not response:
                return
            writer.write(response)
            await writer.drain()
