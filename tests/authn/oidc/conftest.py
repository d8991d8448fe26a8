"""A provider, and what verifies its tokens."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest

from kcp_py.apis.jwt.authenticators import JWTAuthenticator
from kcp_py.apis.jwt.validation import validate_configuration
from kcp_py.authn.oidc.building import issuer_of
from kcp_py.authn.oidc.tokens import JWTTokens
from kcp_py.authn.tokens import TokenRefusedError
from kcp_py.egress import ANY_NETWORK, Caller
from kcp_py.logicalcluster import Name
from kcp_py.request.user import UserInfo
from tests.authn.oidc.provider import CLIENT, OIDCProvider
from tests.egress.https import Certificate, issue

AUDIENCES = ("https://kcp.test",)
SUBJECT: Mapping[str, Any] = {"username": {"claim": "sub", "prefix": ""}, "groups": {"claim": "groups", "prefix": ""}}


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return issue(tmp_path_factory.mktemp("pki"), "127.0.0.1")


@pytest.fixture
async def provider(certificate: Certificate) -> AsyncIterator[OIDCProvider]:
    async with OIDCProvider(certificate) as started:
        yield started


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    opened = Caller(ANY_NETWORK, timeout=60)
    yield opened
    await opened.aclose()


def document(provider: OIDCProvider, mappings: Mapping[str, Any] = SUBJECT, **more: Any) -> dict[str, Any]:
    """A JWT authenticator for the provider, as it is configured."""
    issuer = {"url": provider.issuer, "audiences": [CLIENT], "certificateAuthority": provider.authority}
    return {"issuer": issuer, "claimMappings": deepcopy(dict(mappings)), **more}


def compiled(*documents: Mapping[str, Any]) -> tuple[JWTAuthenticator, ...]:
    found, problems = validate_configuration({"jwt": list(documents)})
    assert problems == []
    return tuple(found)


class Tokens:
    """The authenticator of some issuers, with clocks that a test moves."""

    def __init__(self, caller: Caller, *documents: Mapping[str, Any], **more: Any) -> None:
        self.elapsed = 0.0
        self.time = time.time()
        clocks: Any = {"now": lambda: self.time, "clock": lambda: self.elapsed}
        issuers = [issuer_of(one, caller, wait=60, **clocks) for one in compiled(*documents)]
        self.providers = [issuer.provider for issuer in issuers]
        self.tokens = JWTTokens(issuers, now=lambda: self.time, **more)

    async def user(self, token: str | bytes) -> UserInfo | None:
        """The user; None for a token that is refused."""
        try:
            return await self.verify(token)
        except TokenRefusedError:
            return None

    async def verify(self, token: str | bytes) -> UserInfo | None:
        compact = token.encode() if isinstance(token, str) else token
        found = await self.tokens.authenticate_token(compact, Name("team-a"), AUDIENCES)
        assert found is None or found.audiences == AUDIENCES
        return None if found is None else found.user


Make = Callable[..., Tokens]


@pytest.fixture
async def make(caller: Caller) -> AsyncIterator[Make]:
    """Makes authenticators of documents."""
    made: list[Tokens] = []

    def new(*documents: Mapping[str, Any], **more: Any) -> Tokens:
        made.append(Tokens(caller, *documents, **more))
        return made[-1]

    yield new
    for one in made:
        one.tokens.close()
