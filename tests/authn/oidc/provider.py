"""A small OpenID Connect provider: TLS, a discovery document, a key set, and a token endpoint for passwords.

Run as a program, it is a process of its own: `python -m tests.authn.oidc.provider DIRECTORY` prints its URL, and serves until its input
ends. The file `ca.pem` in the directory is its certificate authority.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

import orjson
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey, generate_key

from tests.egress.https import Certificate, http, issue

CLIENT = "kcp"
ALICE = {"sub": "alice", "email": "alice@example.com", "groups": ["team-a", "developers"]}

SigningKey = RSAKey | ECKey


def new_key(algorithm: str, kid: str) -> SigningKey:
    """A private key for an algorithm such as ES256."""
    parameters: Any = {"kid": kid} if kid else None
    if algorithm.startswith("ES"):
        curve: Any = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm]
        return generate_key("EC", curve, parameters)
    return generate_key("RSA", 2048, parameters)


def signed(claims: Mapping[str, Any], key: Any, algorithm: str, **header: Any) -> str:
    """A JWT."""
    return jws.serialize_compact({"alg": algorithm, **header}, orjson.dumps(claims), key, algorithms=[algorithm])


class OIDCProvider:
    """The provider. Its keys and documents may be changed at any time.

    Attributes:
        keys: kid -> private key and its algorithm. The first one signs.
        documents: path -> the whole answer, instead of the usual one. An empty answer closes the connection.
        held: requests wait while it is not set.
        requests: the paths that were asked for.
        authorizations: path -> the Authorization header of the last request; empty without one.
    """

    def __init__(self, certificate: Certificate, *, path: str = "", port: int = 0) -> None:
        self.certificate = certificate
        self.keys: dict[str, tuple[SigningKey, str]] = {"first": (new_key("ES256", "first"), "ES256")}
        self.documents: dict[str, bytes] = {}
        self.held = asyncio.Event()
        self.held.set()
        self.requests: list[str] = []
        self.authorizations: dict[str, str] = {}
        self.port = port
        self._path = path
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def origin(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def issuer(self) -> str:
        return self.origin + self._path

    @property
    def authority(self) -> str:
        return self.certificate.authority.decode()

    def rotate(self, kid: str, algorithm: str = "ES256") -> None:
        """Sign with a new key, and forget the others."""
        self.keys = {kid: (new_key(algorithm, kid), algorithm)}

    def token(self, *, lifetime: float = 3600, **claims: Any) -> str:
        """A token of alice, with claims added or replaced. Claims with the value None are left out."""
        kid, (key, algorithm) = next(iter(self.keys.items()))
        now = time.time()
        every = {"iss": self.issuer, "aud": CLIENT, "iat": int(now), "exp": int(now + lifetime), **ALICE, **claims}
        present = {name: value for name, value in every.items() if value is not None}
        return signed(present, key, algorithm, **({"kid": kid} if kid else {}))

    async def __aenter__(self) -> Self:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate.chain_file)
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def key_set(self) -> dict[str, Any]:
        return {"keys": [{**key.as_dict(private=False), "alg": algorithm, "use": "sig"} for key, algorithm in self.keys.values()]}

    def _answer(self, path: str, body: bytes) -> bytes:
        if path in self.documents:
            return self.documents[path]
        if path == f"{self._path}/.well-known/openid-configuration":
            endpoints = {"jwks_uri": f"{self.origin}/keys", "token_endpoint": f"{self.origin}/token"}
            return http(200, orjson.dumps({"issuer": self.issuer, **endpoints}))
        if path == "/keys":
            return http(200, orjson.dumps(self.key_set()))
        if path == "/token":
            return self._login(parse_qs(body.decode()))
        return http(404, b"{}")

    def _login(self, form: Mapping[str, list[str]]) -> bytes:
        if form.get("grant_type") != ["password"] or form.get("password") != ["wonderland"]:
            return http(400, b'{"error":"invalid_grant"}')
        lifetime = float(form.get("lifetime", ["3600"])[0])
        name = form["username"][0]
        claims = {"sub": name, "email": f"{name}@example.com", "groups": form.get("group", [])}
        token = self.token(lifetime=lifetime, aud=form.get("client_id", [CLIENT])[0], **claims)
        return http(200, orjson.dumps({"id_token": token, "token_type": "Bearer", "expires_in": lifetime}))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                path = head[0].split(" ")[1]
                self.requests.append(path)
                self.authorizations[path] = headers.get("authorization", "")
                await self.held.wait()
                answer = self._answer(path, body)
                if not answer:
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()


async def _main(directory: Path) -> None:
    certificate = issue(directory, "127.0.0.1")
    (directory / "ca.pem").write_bytes(certificate.authority)
    async with OIDCProvider(certificate) as provider:
        sys.stdout.write(f"{provider.issuer}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
