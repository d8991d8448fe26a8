"""Signatures of tokens, and the keys that verify them."""

from __future__ import annotations

import base64
import hmac
import time
from typing import Any

import orjson
import pytest

from kcp_py.authn.oidc.signatures import MOST_TRIES, is_signed, is_small, read_keys, read_token
from tests.authn.oidc.conftest import Make, document
from tests.authn.oidc.provider import OIDCProvider, new_key, signed

pytestmark = pytest.mark.anyio

GROUPS = ("team-a", "developers", "system:authenticated")


def _claims(provider: OIDCProvider) -> dict[str, Any]:
    return {"iss": provider.issuer, "aud": "kcp", "sub": "mallory", "exp": int(time.time()) + 600}


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"])
async def test_every_algorithm_of_upstream_is_verified(provider: OIDCProvider, make: Make, algorithm: str) -> None:
    """The user has the mapped name and groups, and belongs to all authenticated users."""
    provider.rotate("key", algorithm)
    user = await make(document(provider)).user(provider.token(jti="one"))
    assert user is not None
    assert (user.name, user.groups) == ("alice", GROUPS)
    assert user.extra == {"authentication.kubernetes.io/credential-id": ("JTI=one",)}


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _with_hmac(claims: dict[str, Any], key: bytes) -> str:
    """A token with a symmetric signature, for which the public key is the secret."""
    message = f"{_base64(orjson.dumps({'alg': 'HS256', 'kid': 'key'}))}.{_base64(orjson.dumps(claims))}"
    return f"{message}.{_base64(hmac.digest(key, message.encode(), 'sha256'))}"


async def test_forged_signatures_are_refused(provider: OIDCProvider, make: Make) -> None:
    """The algorithm none, an HMAC with the public key, another key, another algorithm, and changed or cut parts."""
    provider.rotate("key", "RS256")
    key, _ = provider.keys["key"]
    tokens = make(document(provider))
    good = provider.token()
    head, claims, signature = good.split(".")
    public = key.as_pem(private=False)
    none = _base64(b'{"alg":"none","kid":"key"}')
    forged = [
        f"{none}.{claims}.",
        f"{none}.{claims}.{signature}",
        _with_hmac(_claims(provider), public),
        signed(_claims(provider), new_key("RS256", "key"), "RS256", kid="key"),
        signed(_claims(provider), key, "PS256", kid="other"),
        f"{head}.{_base64(orjson.dumps(_claims(provider)))}.{signature}",
        f"{head}.{claims}.{signature[:-8]}",
        f"{head}.{claims}.",
        f"{head}.{claims}",
        f"{good}.{signature}",
        f" {good}",
        "",
        "..",
    ]
    for token in forged:
        assert await tokens.user(token) is None, token
    assert await tokens.user(good) is not None


async def test_critical_headers_are_refused(provider: OIDCProvider, make: Make) -> None:
    """A header that the verifier has to understand, and does not, makes the token invalid."""
    key, algorithm = provider.keys["first"]
    registered = signed(_claims(provider), key, algorithm, kid="first")
    head = _base64(b'{"alg":"ES256","kid":"first","crit":["exp"],"exp":1}')
    assert await make(document(provider)).user(registered) is not None
    assert await make(document(provider)).user(".".join((head, *registered.split(".")[1:]))) is None


def test_unusable_keys_are_left_out() -> None:
    """Symmetric, private, tiny and broken keys, keys for encryption, and unknown types do not spoil the set."""
    good = new_key("ES256", "good").as_dict(private=False)
    rsa = new_key("RS256", "rsa").as_dict(private=False)
    odd = [
        {"kty": "oct", "kid": "oct", "k": "c2VjcmV0"},
        {"kty": "OKP", "kid": "okp", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
        {"kty": "EC", "kid": "broken", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "RSA", "kid": "no-modulus", "e": "AQAB"},
        {"kty": "RSA", "kid": "tiny", "n": "3Q", "e": "AQAB"},
        {**rsa, "kid": "slow", "e": rsa["n"]},
        {**good, "kid": "encryption", "use": "enc"},
        {**good, "kid": 5},
        {"kty": ["EC"]},
        {},
        "text",
        None,
    ]
    assert [key.id for key in read_keys({"keys": [*odd, good, rsa]})] == ["good", "rsa"]


def test_keys_with_long_parts_are_not_read() -> None:
    """The library would compute with a modulus of millions of bits for seconds. The largest keys that are used fit."""
    largest = {"kty": "RSA", "n": _base64(b"\xff" * 1024), "e": _base64(b"\xff" * 4)}
    curve = new_key("ES512", "one").as_dict(private=False)
    assert is_small(largest)
    assert is_small(curve)
    for longer in ({"n": largest["n"] + "AA"}, {"n": ["AQAB"]}, {"e": "A" * 9}, {"x": "A" * 89}, {"y": 5}, {"crv": "P" * 17}):
        assert not is_small({**largest, **longer}), longer
        assert read_keys({"keys": [{**largest, **longer}]}) == ()


def test_private_parts_of_keys_are_dropped() -> None:
    """A provider that publishes a private key by mistake has its public part used."""
    (key,) = read_keys({"keys": [new_key("ES256", "one").as_dict(private=True)]})
    assert not key.value.is_private


def test_the_number_of_keys_is_limited() -> None:
    """The first hundred keys of a set are used."""
    key = new_key("ES256", "one").as_dict(private=False)
    assert len(read_keys({"keys": [key] * 150})) == 100


@pytest.mark.parametrize("document", [{}, {"keys": None}, {"keys": {}}, {"keys": "x"}])
def test_a_document_without_keys_is_an_error(document: dict[str, Any]) -> None:
    """It must have a list of keys."""
    with pytest.raises(ValueError, match="no list of keys"):
        read_keys(document)


def test_few_keys_are_tried_for_one_token() -> None:
    """Keys of other types and curves do not count, and of those that fit, the first ones are tried: verification takes time."""
    key = new_key("ES256", "")
    token = read_token(signed({"iss": "https://a"}, key, "ES256").encode())
    assert token is not None
    (good,) = read_keys({"keys": [key.as_dict(private=False)]})
    others = read_keys({"keys": [new_key("ES256", "").as_dict(private=False) for _ in range(MOST_TRIES)]})
    unfit = read_keys({"keys": [new_key(algorithm, "").as_dict(private=False) for algorithm in ("ES384", "ES512", "RS256")]})
    assert is_signed(token, (*unfit * MOST_TRIES, *others[1:], good))
    assert not is_signed(token, (*others, good))
