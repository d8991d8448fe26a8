"""Keys of tokens: PEM in all its forms, key IDs, and signatures that only the right key and algorithm verify."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from joserfc import jws
from joserfc.jwk import OctKey

from kcp_py.authn.serviceaccount.keys import SigningKey, UnusableKeyError, parse_private, parse_public
from kcp_py.authn.serviceaccount.newkeys import generate_pem

UPSTREAM_KEY = b"""-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA249XwEo9k4tM8fMxV7zx
OhcrP+WvXn917koM5Qr2ZXs4vo26e4ytdlrV0bQ9SlcLpQVSYjIxNfhTZdDt+ecI
zshKuv1gKIxbbLQMOuK1eA/4HALyEkFgmS/tleLJrhc65tKPMGD+pKQ/xhmzRuCG
51RoiMgbQxaCyYxGfNLpLAZK9L0Tctv9a0mJmGIYnIOQM4kC1A1I1n3EsXMWmeJU
j7OTh/AjjCnMnkgvKT2tpKxYQ59PgDgU8Ssc7RDSmSkLxnrv+OrN80j6xrw0OjEi
B4Ycr0PqfzZcvy8efTtFQ/Jnc4Bp1zUtFXt7+QeevePtQ2EcyELXE0i63T1CujRM
WwIDAQAB
-----END PUBLIC KEY-----
"""
UPSTREAM_ID = "JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU"


def encoded(part: Any) -> bytes:
    return base64.urlsafe_b64encode(part if isinstance(part, bytes) else json.dumps(part).encode()).rstrip(b"=")


@pytest.fixture(scope="module", params=["ES256", "RS256"])
def key(request: pytest.FixtureRequest) -> SigningKey:
    """A new key of each algorithm."""
    return parse_private(generate_pem(request.param).encode())


def test_a_key_has_the_id_that_upstream_gives_it() -> None:
    """The ID is the hash of the public key, with the value of Kubernetes' own test."""
    (public,) = parse_public(UPSTREAM_KEY)
    assert (public.id, public.algorithm) == (UPSTREAM_ID, "RS256")


def test_a_signed_token_is_verified(key: SigningKey) -> None:
    """The payload has sorted members, and the header names algorithm and key alone."""
    token = key.sign({"sub": "x", "aud": ["y"]})
    header, payload, _ = (base64.urlsafe_b64decode(part + "==") for part in token.split("."))
    assert json.loads(header) == {"alg": key.public.algorithm, "kid": key.public.id}
    assert payload == b'{"aud":["y"],"sub":"x"}'
    assert key.public.verify(token.encode()) == payload


def test_other_keys_do_not_verify(key: SigningKey) -> None:
    """A token of another key is refused, also with the ID of this one."""
    other = parse_private(generate_pem(key.public.algorithm).encode())
    assert key.public.verify(other.sign({}).encode()) is None
    disguised = SigningKey(key.public, other.key)
    assert key.public.verify(disguised.sign({}).encode()) is None


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none"},
        {"alg": "HS256"},
        {"alg": "RS512"},
        {"alg": "PS256"},
        {"alg": "ES384"},
        {"alg": 5},
        {"alg": None},
        {},
        [],
    ],
    ids=str,
)
def test_the_algorithm_is_that_of_the_key(key: SigningKey, header: Any) -> None:
    """No header chooses another algorithm, or none."""
    signature = key.sign({}).encode().split(b".")[2]
    named = {"kid": key.public.id, **header} if isinstance(header, dict) else header
    for end in (b"", signature):
        assert key.public.verify(b".".join((encoded(named), encoded({}), end))) is None


def test_the_public_key_is_no_shared_secret(key: SigningKey) -> None:
    """A token that is signed by HMAC with the text of the public key is refused."""
    public = key.public.key.as_pem(private=False)
    forged = jws.serialize_compact({"alg": "HS256", "kid": key.public.id}, b"{}", OctKey.import_key(encoded(public)), algorithms=["HS256"])
    assert key.public.verify(forged.encode()) is None


@pytest.mark.parametrize(
    "more",
    [
        {"crit": ["exp"], "exp": 1},
        {"crit": ["b64"], "b64": False},
        {"jku": "https://evil.example"},
        {"jwk": {"kty": "oct", "k": "AA"}},
        {"x5u": "https://evil.example"},
        {"typ": "at+jwt"},
        {"cty": "JWT"},
        {"kid": "other"},
        {"kid": ["x"]},
    ],
    ids=str,
)
def test_other_header_parameters_are_refused(key: SigningKey, more: dict[str, Any]) -> None:
    """A correct signature does not help a header that names keys, extensions or another type."""
    header = encoded({"alg": key.public.algorithm, "kid": key.public.id, **more})
    content = header + b"." + encoded({})
    assert key.public.verify(content + b"." + encoded(raw_signature(key, content))) is None


def raw_signature(key: SigningKey, content: bytes) -> bytes:
    """A correct signature."""
    raw = key.key.raw_value
    if isinstance(raw, rsa.RSAPrivateKey):
        return raw.sign(content, padding.PKCS1v15(), hashes.SHA256())
    assert isinstance(raw, ec.EllipticCurvePrivateKey)
    pair = decode_dss_signature(raw.sign(content, ec.ECDSA(hashes.SHA256())))
    return b"".join(number.to_bytes(32, "big") for number in pair)


def test_signatures_of_the_tests_are_correct(key: SigningKey) -> None:
    """The tokens of the test above fail for their headers, and not for their signatures."""
    content = encoded({"alg": key.public.algorithm, "kid": key.public.id, "typ": "JWT"}) + b"." + encoded({})
    assert key.public.verify(content + b"." + encoded(raw_signature(key, content))) == b"{}"


@pytest.mark.parametrize("token", [b"", b".", b"..", b"...", b"a.b.c", b"\xff.\xff.\xff", b"e30.e30.", b"e30.e30.e30", b"bnVsbA.e30.e30"])
def test_malformed_tokens_are_refused(key: SigningKey, token: bytes) -> None:
    """Nothing but a compact signature is verified, and nothing raises."""
    assert key.public.verify(token) is None


def test_private_keys_are_read_in_all_forms() -> None:
    """PKCS #8, PKCS #1 and SEC 1, behind other blocks."""
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for private, form in (
        (rsa_key, serialization.PrivateFormat.TraditionalOpenSSL),
        (rsa_key, serialization.PrivateFormat.PKCS8),
        (ec.generate_private_key(ec.SECP521R1()), serialization.PrivateFormat.TraditionalOpenSSL),
        (ec.generate_private_key(ec.SECP384R1()), serialization.PrivateFormat.PKCS8),
    ):
        pem = private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        key = parse_private(UPSTREAM_KEY + pem)
        assert key.public.verify(key.sign({"a": 1}).encode()) == b'{"a":1}'
        assert [one.id for one in parse_public(UPSTREAM_KEY + pem)] == [UPSTREAM_ID, key.public.id]


def test_unusable_keys_are_refused() -> None:
    """Errors name the problem and nothing of the content."""
    edwards = ed25519.Ed25519PrivateKey.generate()
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    small = ec.generate_private_key(ec.SECP256K1())
    for pem, problem in (
        (b"", "no private key"),
        (UPSTREAM_KEY, "no private key"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "cannot be read"),
        (edwards.private_bytes(*form), "neither RSA"),
        (small.private_bytes(*form), "the curve secp256k1"),
    ):
        with pytest.raises(UnusableKeyError, match=problem):
            parse_private(pem)
    for pem, problem in ((b"x", "holds no key"), (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "cannot be read")):
        with pytest.raises(UnusableKeyError, match=problem):
            parse_public(pem)


def test_documents_hold_no_private_part(key: SigningKey) -> None:
    """The JSON Web Key of a private key has the members of the public one, in upstream's order."""
    members = list(key.public.document())
    curve = ["use", "kty", "kid", "crv", "alg", "x", "y"]
    assert members == (curve if key.public.algorithm == "ES256" else ["use", "kty", "kid", "alg", "n", "e"])
