"""Tokens of OpenID Connect providers: which are valid, and when a provider is asked."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from kcp_py.authn.tokens import TokenRefusedError, TokenUnverifiedError
from tests.authn.oidc.conftest import Make, document
from tests.authn.oidc.provider import OIDCProvider

pytestmark = pytest.mark.anyio

GROUPS = ("team-a", "developers", "system:authenticated")


@pytest.mark.parametrize(
    ("claims", "valid"),
    [
        ({}, True),
        ({"aud": ["other", "kcp"]}, True),
        ({"aud": "other"}, False),
        ({"aud": []}, False),
        ({"aud": None}, False),
        ({"aud": {"kcp": True}}, False),
        ({"iss": "https://other.example"}, False),
        ({"iss": None}, False),
        ({"exp": 1}, False),
        ({"exp": None}, False),
        ({"exp": "9999999999"}, False),
        ({"exp": 9999999999.5}, True),
        ({"nbf": int(time.time()) + 120}, True),
        ({"nbf": int(time.time()) + 6000}, False),
        ({"nbf": "soon"}, False),
        ({"sub": None}, False),
        ({"sub": 5}, False),
        ({"sub": ""}, False),
        ({"groups": "one"}, True),
        ({"groups": None}, True),
        ({"groups": [1]}, False),
        ({"groups": {"a": "b"}}, False),
    ],
)
async def test_claims_of_the_standard_decide(provider: OIDCProvider, make: Make, claims: dict[str, Any], *, valid: bool) -> None:
    """Issuer, audience and times must be right, and the mapped claims must have their types."""
    assert (await make(document(provider)).user(provider.token(**claims)) is not None) is valid


async def test_only_configured_algorithms_are_accepted(provider: OIDCProvider, make: Make) -> None:
    """A valid signature with an algorithm that is not configured is refused."""
    assert await make(document(provider), algorithms=["RS256"]).user(provider.token()) is None


async def test_a_token_belongs_to_the_issuer_that_it_names(certificate: Any, make: Make) -> None:
    """A token that one issuer has signed in the name of another is refused by both."""
    async with OIDCProvider(certificate) as one, OIDCProvider(certificate) as other:
        tokens = make(document(one), document(other))
        assert await tokens.user(one.token()) is not None
        assert await tokens.user(other.token()) is not None
        assert await tokens.user(one.token(iss=other.issuer)) is None


async def test_verified_tokens_are_kept_until_they_expire(provider: OIDCProvider, make: Make) -> None:
    """The second request reads nothing of the provider; after its end the token is refused."""
    tokens = make(document(provider))
    token = provider.token(lifetime=600)
    first = await tokens.user(token)
    assert first is not None
    assert await tokens.user(token) is first
    assert provider.requests == ["/.well-known/openid-configuration", "/keys"]
    tokens.time += 601
    assert await tokens.user(token) is None


async def test_a_provider_that_hangs_delays_no_other(certificate: Any, make: Make) -> None:
    """Tokens of other issuers are verified meanwhile, and those that are known stay valid."""
    async with OIDCProvider(certificate) as dead, OIDCProvider(certificate) as other:
        tokens = make(document(dead), document(other))
        dead.held.clear()
        hanging = asyncio.ensure_future(tokens.user(dead.token()))
        while not dead.requests:
            await asyncio.sleep(0.01)
        assert await tokens.user(other.token()) is not None
        assert not hanging.done()
        dead.held.set()
        assert await hanging is not None


async def test_reasons_of_refusals(provider: OIDCProvider, make: Make) -> None:
    """As kube-apiserver 1.37.2 says them in reviews. A provider that has not answered leaves the question open."""
    tokens = make(document(provider))
    with pytest.raises(
        TokenRefusedError, match=r"^oidc: verify token: oidc: token is expired \(Token Expiry: 2001-09-09 01:46:40 \+0000 UTC\)$"
    ):
        await tokens.verify(provider.token(exp=1_000_000_000))
    token = provider.token()
    provider.documents["/keys"] = b""
    with pytest.raises(TokenUnverifiedError, match=r"^oidc: authenticator not initialized$"):
        await tokens.verify(token)
    del provider.documents["/keys"]
    tokens.elapsed += 60
    assert await tokens.verify(token) is not None
    head, payload, signature = token.split(".")
    with pytest.raises(TokenRefusedError, match=r"^oidc: verify token: failed to verify signature: failed to verify id token signature$"):
        await tokens.verify(f"{head}.{payload}.{'A' * len(signature)}")
    for claims in ({"aud": "other"}, {"sub": None}, {"exp": -(10**17)}, {"iss": "https://other"}):
        assert await tokens.verify(provider.token(**claims)) is None
