"""`ClaimResolver`: reads groups that are not in a token but at an address that the token names (OpenID Connect Core 1.0, 5.6.2).

Source: k8s.io/apiserver `plugin/pkg/authenticator/token/oidc` (`claimResolver`). The documents are fetched by the caller that fetches the
keys of the issuer, with its networks and limits. The issuer of the token vouches for the address.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from kcp_py.aio.lru import LRU
from kcp_py.apis.jwt.authenticators import JWTAuthenticator
from kcp_py.authn.oidc.claims import ClaimError, Claims
from kcp_py.authn.oidc.keysets import WAIT_SECONDS, Getter, Provider
from kcp_py.authn.oidc.signatures import ALGORITHMS, read_token
from kcp_py.authn.oidc.verification import valid_until, verifying_keys
from kcp_py.egress import CallError, Endpoint

FRESH_SECONDS: Final = 60.0
"""How long resolved claims are used: the provider may change them while the token stays valid."""
MOST_BYTES: Final = 256 * 1024
"""The size of a token with claims."""
_PROVIDERS: Final = 8
"""Further issuers of tokens with claims whose keys are kept, for one issuer of tokens."""


class UnresolvedClaimsError(Exception):
    """Claims cannot be read now. `str()` is the reason, for logs."""


class Resolved(NamedTuple):
    """The claims of a token together with those that were resolved."""

    claims: Claims
    fresh_until: float
    """When they are to be resolved again, in seconds since the epoch."""


class _Source(NamedTuple):
    url: str
    access_token: str


class ClaimResolver:
    """Resolves one claim of the tokens of one issuer."""

    def __init__(
        self,
        authenticator: JWTAuthenticator,
        provider: Provider,
        caller: Getter,
        *,
        claim: str,
        cluster: str = "",
        algorithms: Collection[str] = ALGORITHMS,
        wait: float = WAIT_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Prepare.

        Args:
            authenticator: the issuer of the tokens.
            provider: the keys of this issuer.
            caller: fetches documents.
            claim: that of groups.
            cluster: the cluster that trusts the issuer, for logs; empty for an issuer of the operator.
            algorithms: the signature algorithms that are accepted.
            wait: seconds that a request waits.
            now: seconds since the epoch.
        """
        self._authenticator = authenticator
        self._provider = provider
        self._caller = caller
        self._claim = claim
        self._cluster = cluster
        self._algorithms = frozenset(algorithms)
        self._wait = wait
        self._now = now
        self._others: LRU[str, Provider] = LRU(_PROVIDERS)
        self._fetches: dict[bytes, asyncio.Task[Resolved]] = {}

    def close(self) -> None:
        """End all fetches."""
        for fetch in self._fetches.values():
            fetch.cancel()
        for provider in [provider for _, provider in self._others.items()]:
            provider.close()

    async def resolve(self, claims: Claims, digest: bytes) -> Resolved | None:
        """The claims with the resolved one; None where the token has no distributed claim of this name.

        Args:
            claims: of a verified token.
            digest: of the token. Requests with the same token share a fetch, which goes on if they leave.

        Raises:
            ClaimError: the token, or what its address answers, is not valid.
            UnresolvedClaimsError: the address does not answer.
        """
        source = _source_of(claims, self._claim)
        if source is None:
            return None
        fetch = self._fetches.get(digest)
        if fetch is None:
            fetch = self._fetches[digest] = asyncio.ensure_future(self._fetch(claims, source))
            fetch.add_done_callback(lambda done: self._ended(digest, done))
        await asyncio.wait((fetch,), timeout=self._wait)
        if not fetch.done():
            raise UnresolvedClaimsError(f"{source.url}: no answer in time")
        return fetch.result()

    def _ended(self, digest: bytes, fetch: asyncio.Task[Resolved]) -> None:
        del self._fetches[digest]
        if not fetch.cancelled():
            # All waiters may have left. asyncio would log the exception as never retrieved.
            fetch.exception()

    async def _fetch(self, claims: Claims, source: _Source) -> Resolved:
        try:
            endpoint = Endpoint(source.url, self._authenticator.authorities)
            answer = await self._caller.get(endpoint, max_bytes=MOST_BYTES, bearer=source.access_token)
        except CallError as error:
            raise UnresolvedClaimsError(str(error)) from None
        if not 200 <= answer.status <= 226:
            raise UnresolvedClaimsError(f"{source.url}: status {answer.status}")
        token = read_token(answer.body.strip())
        if token is None or token.algorithm not in self._algorithms:
            raise ClaimError(f"{source.url}: the answer is not a token")
        end = valid_until(token, self._authenticator.audiences, self._now())
        if end is None:
            raise ClaimError(f"{source.url}: the token is not valid now, or for other audiences")
        if await verifying_keys(token, self._provider_of(token.issuer)) is None:
            raise ClaimError(f'{source.url}: the token is not signed by a key of its issuer "{token.issuer}"')
        if self._claim not in token.claims:
            raise ClaimError(f'{source.url}: the token did not contain claim "{self._claim}"')
        return Resolved({**claims, self._claim: token.claims[self._claim]}, min(end, self._now() + FRESH_SECONDS))

    def _provider_of(self, issuer: str) -> Provider:
        """The keys of the issuer of a token with claims, which may be another one."""
        if issuer == self._authenticator.issuer:
            return self._provider
        provider = self._others.get(issuer)
        if provider is None:
            if len(self._others) >= _PROVIDERS:
                oldest, unused = next(iter(self._others.items()))
                self._others.pop(oldest)
                unused.close()
            discovery = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
            other = dataclasses.replace(self._authenticator, issuer=issuer, discovery_url=discovery)
            provider = Provider(other, self._caller, cluster=self._cluster, wait=self._wait)
            self._others.set(issuer, provider)
        return provider


def _source_of(claims: Claims, claim: str) -> _Source | None:
    """Where a claim is; None if it is in the token, if the token has none, or if it is an aggregated claim, which upstream skips, too.

    Raises:
        ClaimError: the token describes its claims in another form, or without their sources.
    """
    if "_claim_names" not in claims:
        return None
    names = _object(claims["_claim_names"], "distributed claim names")
    sources = {name: _read_source(source) for name, source in _object(claims.get("_claim_sources"), "claim sources").items()}
    for source in names.values():
        if not isinstance(source, str) or source not in sources:
            raise ClaimError("source does not exist")
    found = sources[names[claim]] if claim in names and claim not in claims else None
    return found if found is not None and found.url else None


def _read_source(given: Any) -> _Source:
    source = _object(given, "claim sources")
    url, token = source.get("endpoint") or "", source.get("access_token") or ""
    if not isinstance(url, str) or not isinstance(token, str):
        raise ClaimError("could not parse claim sources")
    if not token.isascii() or (token and not token.isprintable()):
        raise ClaimError("an access token has characters that cannot be sent")
    return _Source(url, token)


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ClaimError(f"could not parse {what}")
    return value
