"""A small OpenID Connect provider: TLS, a discovery document, a key set, and a token endpoint for passwords.

Run as a program, it is a process of its own: `python -m tests.authn.oidc.provider DIRECTORY` prints its URL, and serves until its input
ends. The file `ca.pem` in the directory is its certificate authority.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

import orjson
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey, generate_key

from tests.egress.https import Certificate, HttpsServer, Request, http, issue

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
        self._path = path
        self._server = HttpsServer(certificate, self._respond, port=port)

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def origin(self) -> str:
        return self._server.origin

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
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._server.__aexit__(*exc_info)

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

    async def _respond(self, request: Request) -> bytes:
        self.requests.append(request.target)
        self.authorizations[request.target] = request.headers.get("authorization", "")
        await self.held.wait()
        return self._answer(request.target, request.body)


async def _main(directory: Path) -> None:
    certificate = issue(directory, "127.0.0.1")
    (directory / "ca.pem").write_bytes(certificate.authority)
    async with OIDCProvider(certificate) as provider:
        sys.stdout.write(f"{provider.issuer}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
