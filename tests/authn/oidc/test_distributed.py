"""Groups that a provider keeps at an address: requests, verification, and waiting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcp_py.authn.oidc import distributed
from kcp_py.authn.tokens import TokenUnverifiedError
from kcp_py.egress import Caller, Networks
from tests.authn.oidc.conftest import SUBJECT, Make, Tokens, document
from tests.authn.oidc.provider import CLIENT, OIDCProvider
from tests.egress.https import http

pytestmark = pytest.mark.anyio

GROUPS = ("a", "b", "system:authenticated")


def distributed_token(provider: OIDCProvider, *, path: str = "/groups", **claims: Any) -> str:
    """A token whose groups are at an address of the provider."""
    source = {"endpoint": f"{provider.origin}{path}", "access_token": "opaque"}
    found = {"groups": None, "_claim_names": {"groups": "src"}, "_claim_sources": {"src": source}, **claims}
    return provider.token(**found)


def answer(provider: OIDCProvider, **claims: Any) -> bytes:
    """A response with the groups."""
    found = {"sub": None, "email": None, "groups": ["a", "b"], **claims}
    return http(200, provider.token(**found).encode())


async def groups(tokens: Tokens, token: str) -> tuple[str, ...] | None:
    user = await tokens.user(token)
    return None if user is None else user.groups


async def test_groups_are_fetched(provider: OIDCProvider, make: Make) -> None:
    """The token with the groups is fetched with the access token, and used for a time."""
    tokens = make(document(provider))
    provider.documents["/groups"] = answer(provider)
    token = distributed_token(provider)
    assert await groups(tokens, token) == GROUPS
    assert await groups(tokens, token) == GROUPS
    assert provider.requests.count("/groups") == 1
    assert provider.authorizations["/groups"] == "Bearer opaque"
    assert provider.authorizations["/keys"] == ""
    provider.documents["/groups"] = answer(provider, groups=["c"])
    tokens.time += distributed.FRESH_SECONDS + 1
    assert await groups(tokens, token) == ("c", "system:authenticated")
    assert provider.requests.count("/groups") == 2


async def test_prefixes_and_expressions(provider: OIDCProvider, make: Make) -> None:
    """Fetched groups are mapped as those of a token, and rules see them."""
    mappings = {**SUBJECT, "groups": {"claim": "groups", "prefix": "sso:"}}
    rules = [{"expression": "'b' in claims.groups", "message": "not in b"}]
    tokens = make(document(provider, mappings, claimValidationRules=rules))
    provider.documents["/groups"] = answer(provider)
    assert await groups(tokens, distributed_token(provider)) == ("sso:a", "sso:b", "system:authenticated")
    provider.documents["/groups"] = answer(provider, groups=["a"])
    assert await groups(tokens, distributed_token(provider, jti="2")) is None


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param({"groups": ["own"]}, ("own", "system:authenticated"), id="claims of the token count"),
        pytest.param({"_claim_names": None}, ("system:authenticated",), id="no names"),
        pytest.param({"_claim_names": {}, "_claim_sources": None}, ("system:authenticated",), id="empty names"),
        pytest.param({"_claim_names": {"roles": "src"}}, ("system:authenticated",), id="another claim"),
        pytest.param({"_claim_sources": {"src": {"JWT": "e30.e30."}}}, ("system:authenticated",), id="aggregated claims"),
        pytest.param({"_claim_sources": {"src": None}}, ("system:authenticated",), id="null as a source"),
        pytest.param({"_claim_sources": None}, None, id="no sources"),
        pytest.param({"_claim_sources": {}}, None, id="another source"),
        pytest.param({"_claim_names": {"groups": "src", "roles": "other"}}, None, id="no source of another claim"),
        pytest.param({"_claim_names": ["groups"]}, None, id="names as a list"),
        pytest.param({"_claim_names": {"groups": ["src"]}}, None, id="list in names"),
        pytest.param({"_claim_sources": ["src"]}, None, id="sources as a list"),
        pytest.param({"_claim_sources": {"src": "https://x"}}, None, id="text as a source"),
        pytest.param({"_claim_sources": {"src": {"endpoint": 1}}}, None, id="number as an address"),
        pytest.param({"_claim_sources": {"src": {"endpoint": "https://x", "access_token": "a\r\nX: y"}}}, None, id="line in a token"),
    ],
)
async def test_forms_of_tokens(provider: OIDCProvider, make: Make, claims: dict[str, Any], expected: tuple[str, ...] | None) -> None:
    """Nothing is fetched for a token with its own groups or with none. Tokens of other forms are refused."""
    assert await groups(make(document(provider)), distributed_token(provider, **claims)) == expected
    assert "/groups" not in provider.requests


@pytest.mark.parametrize(
    "claims",
    [
        {"groups": None},
        {"aud": "other"},
        {"aud": None},
        {"exp": 1},
        {"exp": None},
        {"nbf": 9_999_999_999},
        {"iss": None},
        {"iss": "http://127.0.0.1:1"},
        {"groups": {"a": "b"}},
        {"groups": [1]},
    ],
)
async def test_tokens_with_groups_are_verified(provider: OIDCProvider, make: Make, claims: dict[str, Any]) -> None:
    """Their audience, times, issuer and signature count as those of any token, and they must have the claim."""
    provider.documents["/groups"] = answer(provider, **claims)
    assert await groups(make(document(provider)), distributed_token(provider)) is None


async def test_signatures_of_others(certificate: Any, provider: OIDCProvider, make: Make) -> None:
    """A token with groups in the name of an issuer is signed by this issuer, which need not be that of the user's token."""
    async with OIDCProvider(certificate) as other:
        tokens = make(document(provider))
        for response, expected in (
            (answer(other, iss=provider.issuer), None),
            (answer(provider, iss=other.issuer), None),
            (answer(other), GROUPS),
            (answer(provider), GROUPS),
        ):
            provider.documents["/groups"] = response
            assert await groups(tokens, distributed_token(provider, jti=str(hash(response)))) == expected
        assert await tokens.user(other.token()) is None


@pytest.mark.parametrize("response", [http(200, b"x"), http(200, b"a.b.c"), http(200, b'{"groups":["system:masters"]}'), http(200)])
async def test_other_answers(provider: OIDCProvider, make: Make, response: bytes) -> None:
    """An answer that is not a signed token gives no groups, and no user."""
    provider.documents["/groups"] = response
    assert await groups(make(document(provider)), distributed_token(provider)) is None


@pytest.mark.parametrize(
    "response",
    [
        http(404),
        http(500),
        http(401),
        http(302, b"", "Location: /elsewhere"),
        http(200, b"x" * (distributed.MOST_BYTES + 1)),
        b"",
    ],
)
async def test_failures(provider: OIDCProvider, make: Make, response: bytes) -> None:
    """Without the groups the token is not verified: a user without them would have other permissions. The next request tries again."""
    tokens, token = make(document(provider)), distributed_token(provider)
    provider.documents["/groups"] = response
    with pytest.raises(TokenUnverifiedError, match=r"^distributed claims cannot be read$"):
        await tokens.verify(token)
    assert "/elsewhere" not in provider.requests
    provider.documents["/groups"] = answer(provider)
    assert await groups(tokens, token) == GROUPS


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/groups", "file:///etc/passwd", "https://", "https://127.0.0.1:x/", "//127.0.0.1", "x", "https://\u00e9"]
)
async def test_other_addresses(provider: OIDCProvider, make: Make, url: str) -> None:
    """Only HTTPS addresses are asked."""
    tokens = make(document(provider))
    with pytest.raises(TokenUnverifiedError):
        await tokens.verify(distributed_token(provider, _claim_sources={"src": {"endpoint": url}}))


async def test_networks_of_tenants(provider: OIDCProvider) -> None:
    """A provider of a tenant cannot have addresses called that the operator does not allow."""
    caller = Caller(Networks(("public",)), timeout=60)
    open_caller = Caller(Networks(("127.0.0.0/8",)), timeout=60)
    try:
        keys = Tokens(open_caller, document(provider))
        assert await keys.user(provider.token()) is not None
        (issuer,) = keys.tokens._issuers.values()
        assert issuer.resolver is not None
        issuer.resolver._caller = caller
        provider.documents["/groups"] = answer(provider)
        with pytest.raises(TokenUnverifiedError):
            await keys.verify(distributed_token(provider))
        assert "/groups" not in provider.requests
    finally:
        await caller.aclose()
        await open_caller.aclose()


async def test_requests_with_one_token_share_a_fetch(provider: OIDCProvider, make: Make) -> None:
    """It goes on if the first of them leaves. Tokens with groups of their own do not wait."""
    tokens, token = make(document(provider)), distributed_token(provider)
    provider.documents["/groups"] = answer(provider)
    assert await tokens.user(provider.token()) is not None
    provider.held.clear()
    requests = [asyncio.ensure_future(groups(tokens, token)) for _ in range(10)]
    async with asyncio.timeout(30):
        while "/groups" not in provider.requests:
            await asyncio.sleep(0.005)
        requests[0].cancel()
        await asyncio.wait(requests[:1])
        assert await groups(tokens, provider.token(jti="2")) == ("team-a", "developers", "system:authenticated")
    provider.held.set()
    assert await asyncio.gather(*requests[1:]) == [GROUPS] * 9
    assert provider.requests.count("/groups") == 1


async def test_many_issuers_of_claims(provider: OIDCProvider, make: Make) -> None:
    """Tokens with groups may name any issuer. The keys of few are kept, and none of an issuer that does not exist."""
    tokens = make(document(provider))
    for number in range(20):
        provider.documents["/groups"] = answer(provider, iss=f"{provider.origin}/{number}")
        assert await groups(tokens, distributed_token(provider, jti=str(number))) is None
    (issuer,) = tokens.tokens._issuers.values()
    assert issuer.resolver is not None
    assert len(issuer.resolver._others) <= 8
    assert provider.requests.count("/19/.well-known/openid-configuration") == 1


async def test_the_end_of_the_groups(provider: OIDCProvider, make: Make) -> None:
    """Groups are used no longer than their own token is valid."""
    tokens, token = make(document(provider)), distributed_token(provider)
    provider.documents["/groups"] = answer(provider, exp=int(tokens.time) + 20, aud=[CLIENT])
    assert await groups(tokens, token) == GROUPS
    tokens.time += 25
    assert await groups(tokens, token) is None
