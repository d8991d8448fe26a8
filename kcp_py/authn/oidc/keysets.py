"""`Provider`: the keys of one issuer, found through its discovery document (OpenID Connect Discovery 1.0).

Keys are fetched when a token first needs them, once for all requests that wait. Tokens of other issuers and other credentials never wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final, Protocol

import orjson
import structlog

from kcp_py.aio.offload import offload
from kcp_py.apis.jwt.authenticators import JWTAuthenticator
from kcp_py.authn.oidc.signatures import Key, read_keys
from kcp_py.egress import Answer, CallError, Endpoint

RETRY_SECONDS: Final = 10.0
"""The time between two attempts, as upstream's poll of a provider that does not answer."""
REFRESH_SECONDS: Final = 300.0
"""The age at which keys that are in use are fetched again. Meanwhile, and while the provider does not answer, the old ones are valid."""
WAIT_SECONDS: Final = 5.0
"""How long a request waits for a provider."""
MOST_BYTES: Final = 1 << 20
"""The size of a discovery document and of a key set."""
_INLINE_BYTES: Final = 8 * 1024
"""Key sets up to this size are read on the event loop: some ten keys, each of which takes a fraction of a millisecond."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.authn")


class ProviderError(Exception):
    """The provider has no usable answer. `str()` is one line."""


class Getter(Protocol):
    """Fetches documents: a `Caller`, or one with further limits."""

    async def get(self, endpoint: Endpoint, *, max_bytes: int, bearer: str = "") -> Answer: ...


class KeySet:
    """The keys of an issuer at one time. Compared by identity."""

    __slots__ = ("digest", "keys")

    def __init__(self, keys: Sequence[Key], digest: bytes) -> None:
        self.keys = tuple(keys)
        self.digest = digest
        """Of the document."""


class Provider:
    """The keys of one issuer. Each authenticator has its own: clusters share none, whatever issuers they name."""

    def __init__(
        self,
        authenticator: JWTAuthenticator,
        caller: Getter,
        *,
        cluster: str = "",
        wait: float = WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare. Nothing is fetched before the first token.

        Args:
            authenticator: names the issuer, its discovery document and its authorities.
            caller: fetches documents, with its limits of time and networks.
            cluster: the cluster that trusts the issuer, for logs; empty for an issuer of the operator.
            wait: seconds that a request waits for a fetch, which goes on without it.
            clock: seconds of a monotonic clock.
        """
        self._authenticator = authenticator
        self._caller = caller
        self._cluster = cluster
        self._wait = wait
        self._clock = clock
        self._attempted = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self._failing = False
        self.current: KeySet | None = None
        """The latest keys; None before the first answer of the provider."""

    async def keys(self) -> KeySet | None:
        """The present keys. Where there are none, the first answer of the provider is awaited for a short time."""
        if self.current is None:
            return await self.newer_than(None)
        self.refresh_if_old()
        return self.current

    async def newer_than(self, keys: KeySet | None) -> KeySet | None:
        """Keys that were fetched after others, for a token that these have not signed.

        The provider is asked again, but not within `RETRY_SECONDS` of the last attempt, and awaited for a short time.

        Returns:
            The keys; None if there are no newer ones.
        """
        if self._clock() - self._attempted >= RETRY_SECONDS:
            self._fetch()
        if self._fetching is not None:
            await asyncio.wait((self._fetching,), timeout=self._wait)
        return self.current if self.current is not keys else None

    def refresh_if_old(self) -> None:
        """Begin to fetch the keys again if they are old. It does not wait."""
        if self._clock() - self._attempted >= REFRESH_SECONDS:
            self._fetch()

    def close(self) -> None:
        """End a fetch that is under way."""
        if self._fetching is not None:
            self._fetching.cancel()

    def _fetch(self) -> None:
        if self._fetching is None:
            self._attempted = self._clock()
            self._fetching = asyncio.ensure_future(self._refresh())

    async def _refresh(self) -> None:
        try:
            keys = await self._read()
        except (CallError, ProviderError) as error:
            if not self._failing:
                _log.warning("provider_failed", issuer=self._authenticator.issuer, cluster=self._cluster, error=str(error))
            self._failing = True
        else:
            if self.current is None or self.current.digest != keys.digest:
                self.current = keys
            if self._failing:
                _log.info("provider_recovered", issuer=self._authenticator.issuer, cluster=self._cluster)
            self._failing = False
        finally:
            self._fetching = None

    async def _read(self) -> KeySet:
        issuer, authorities = self._authenticator.issuer, self._authenticator.authorities
        discovery, _ = await self._document(Endpoint(self._authenticator.discovery_url, authorities))
        found = discovery.get("issuer")
        if found != issuer:
            raise ProviderError(f'issuer did not match the issuer returned by provider, expected "{issuer}" got "{found}"')
        url = discovery.get("jwks_uri")
        if not isinstance(url, str) or not url.startswith("https://"):
            raise ProviderError("the discovery document has no jwks_uri with the scheme https")
        document, body = await self._document(Endpoint(url, authorities))
        try:
            keys = read_keys(document) if len(body) <= _INLINE_BYTES else await offload(read_keys, document)
            return KeySet(keys, sha256(body).digest())
        except ValueError as error:
            raise ProviderError(f"{url}: {error}") from None

    async def _document(self, endpoint: Endpoint) -> tuple[dict[str, Any], bytes]:
        answer = await self._caller.get(endpoint, max_bytes=MOST_BYTES)
        if answer.status != 200:
            raise ProviderError(f"{endpoint.url}: status {answer.status}")
        try:
            document = orjson.loads(answer.body)
        except ValueError:
            raise ProviderError(f"{endpoint.url}: the answer is not JSON") from None
        if not isinstance(document, dict):
            raise ProviderError(f"{endpoint.url}: the answer is not a JSON object")
        return document, answer.body
