"""When the keys of a provider are fetched, and which documents of it are accepted."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import orjson
import pytest

from tests.authn.oidc.conftest import Make, document
from tests.authn.oidc.provider import OIDCProvider, new_key, signed

pytestmark = pytest.mark.anyio

GROUPS = ("team-a", "developers", "system:authenticated")


def _claims(provider: OIDCProvider) -> dict[str, Any]:
    return {"iss": provider.issuer, "aud": "kcp", "sub": "mallory", "exp": int(time.time()) + 600}


async def test_new_keys_are_fetched_when_a_token_needs_them(provider: OIDCProvider, make: Make) -> None:
    """Not more often than every ten seconds, whatever tokens come; tokens of removed keys are refused then."""
    tokens = make(document(provider))
    old = provider.token()
    assert await tokens.user(old) is not None
    provider.rotate("second")
    new = provider.token()
    assert await tokens.user(new) is None
    assert len(provider.requests) == 2
    tokens.elapsed += 11
    assert await tokens.user(new) is not None
    assert await tokens.user(old) is None
    for _ in range(5):
        assert await tokens.user(signed(_claims(provider), new_key("ES256", "x"), "ES256", kid="x")) is None
    assert len(provider.requests) == 4


async def test_keys_without_ids_are_tried(provider: OIDCProvider, make: Make) -> None:
    """A token without a key id is verified by any key of its issuer, and keys are fetched again where none fits."""
    provider.rotate("")
    tokens = make(document(provider))
    assert await tokens.user(provider.token()) is not None
    provider.rotate("")
    tokens.elapsed += 11
    assert await tokens.user(provider.token()) is not None


async def test_large_key_sets(provider: OIDCProvider, make: Make) -> None:
    """A set of ninety keys is read in a thread. Each of its keys verifies tokens with its id."""
    provider.keys = {f"key-{number}": (new_key("ES256", f"key-{number}"), "ES256") for number in range(90)}
    assert len(orjson.dumps(provider.key_set())) > 8 * 1024
    key, algorithm = provider.keys["key-89"]
    tokens = make(document(provider))
    assert await tokens.user(signed(_claims(provider), key, algorithm, kid="key-89")) is not None
    assert await tokens.user(signed(_claims(provider), key, algorithm, kid="key-88")) is None


async def test_old_keys_are_fetched_again_while_requests_go_on(provider: OIDCProvider, make: Make) -> None:
    """A request with a token that is known does not wait for the provider, and a removed key ends its tokens."""
    tokens = make(document(provider))
    token = provider.token()
    assert await tokens.user(token) is not None
    provider.rotate("second")
    provider.held.clear()
    tokens.elapsed += 301
    assert await tokens.user(token) is not None
    before = tokens.providers[0].current
    provider.held.set()
    while tokens.providers[0].current is before:
        await asyncio.sleep(0.01)
    assert await tokens.user(token) is None


async def test_requests_share_one_fetch(provider: OIDCProvider, make: Make) -> None:
    """Tokens that come while the keys are being fetched wait for them together."""
    tokens = make(document(provider))
    provider.held.clear()
    waiting = [asyncio.ensure_future(tokens.user(provider.token(jti=str(number)))) for number in range(8)]
    while not provider.requests:
        await asyncio.sleep(0.01)
    provider.held.set()
    assert all(await asyncio.gather(*waiting))
    assert provider.requests == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/.well-known/openid-configuration", b'{"issuer":"https://other.example","jwks_uri":"https://127.0.0.1:1/keys"}'),
        ("/.well-known/openid-configuration", b'{"jwks_uri":"https://127.0.0.1:1/keys"}'),
        ("/.well-known/openid-configuration", b'["no", "object"]'),
        ("/.well-known/openid-configuration", b"no JSON"),
        ("/keys", b"no JSON"),
        ("/keys", b'{"keys":{}}'),
        ("/keys", b"{}"),
        ("/keys", b" " * ((1 << 20) + 1)),
    ],
)
async def test_wrong_documents_give_no_keys(provider: OIDCProvider, make: Make, path: str, answer: bytes) -> None:
    """A wrong issuer, no JSON, no list of keys, or a document that is too large: the provider is asked again after ten seconds."""
    tokens = make(document(provider))
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n".encode()
    provider.documents[path] = head + answer
    assert await tokens.user(provider.token()) is None
    asked = len(provider.requests)
    assert await tokens.user(provider.token()) is None
    assert len(provider.requests) == asked
    provider.documents.clear()
    tokens.elapsed += 11
    assert await tokens.user(provider.token()) is not None


async def test_key_sets_are_fetched_by_https_alone(provider: OIDCProvider, make: Make) -> None:
    """A discovery document cannot lead to a URL without TLS, and redirects are not followed."""
    tokens = make(document(provider))
    found = orjson.dumps({"issuer": provider.issuer, "jwks_uri": f"http://127.0.0.1:{provider.port}/keys"})
    provider.documents["/.well-known/openid-configuration"] = f"HTTP/1.1 200 OK\r\nContent-Length: {len(found)}\r\n\r\n".encode() + found
    assert await tokens.user(provider.token()) is None
    tokens.elapsed += 11
    redirect = f"HTTP/1.1 302 Found\r\nLocation: {provider.origin}/keys\r\nContent-Length: 0\r\n\r\n".encode()
    provider.documents["/.well-known/openid-configuration"] = redirect
    assert await tokens.user(provider.token()) is None
    assert "/keys" not in provider.requests


async def test_keys_stay_valid_while_a_provider_fails(provider: OIDCProvider, make: Make) -> None:
    """Tokens are verified with the last keys."""
    tokens = make(document(provider))
    assert await tokens.user(provider.token()) is not None
    provider.documents["/.well-known/openid-configuration"] = b""
    tokens.elapsed += 301
    assert await tokens.user(provider.token(jti="another")) is not None


async def test_the_discovery_document_may_have_another_address(provider: OIDCProvider, make: Make) -> None:
    """Its issuer still has to be the one of the configuration."""
    configured = document(provider)
    configured["issuer"]["discoveryURL"] = f"{provider.origin}/somewhere/else"
    tokens = make(configured)
    found = orjson.dumps({"issuer": provider.issuer, "jwks_uri": f"{provider.origin}/keys"})
    provider.documents["/somewhere/else"] = f"HTTP/1.1 200 OK\r\nContent-Length: {len(found)}\r\n\r\n".encode() + found
    assert await tokens.user(provider.token()) is not None
    assert provider.requests == ["/somewhere/else", "/keys"]
