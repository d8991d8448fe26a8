"""The keys of service account tokens: PEM, key IDs, signatures.

Source: kubernetes `pkg/serviceaccount/jwt.go`, client-go `util/keyutil`. Signatures are those of joserfc.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_HEADERS: Final = frozenset(("alg", "kid", "typ"))
"""The header parameters of tokens. Others could name keys or extensions (`jku`, `jwk`, `x5c`, `crit`, `b64`)."""
_PEM_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)

_Public = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


class UnusableKeyError(ValueError):
    """A text holds no usable key. `str()` is one line without any of its content."""


class VerifyingKey(NamedTuple):
    """A public key, and the one algorithm that it is used with."""

    id: str
    algorithm: str
    key: ECKey | RSAKey

    def document(self) -> Mapping[str, Any]:
        """The JSON Web Key, with its members in the order in which kube-apiserver writes them."""
        found = self.key.as_dict(private=False)
        members = {"use": "sig", "kty": found["kty"], "kid": self.id, "crv": found.get("crv"), "alg": self.algorithm}
        values = {name: found.get(name) for name in ("x", "y", "n", "e")}
        return {name: value for name, value in (members | values).items() if value is not None}

    def verify(self, token: bytes) -> bytes | None:
        """The payload of a token that this key has signed, or None. Headers and algorithm are checked."""
        try:
            signature = jws.deserialize_compact(token, self.key, algorithms=[self.algorithm])
        except (JoseError, ValueError, TypeError):
            return None
        protected = signature.protected
        if not _HEADERS.issuperset(protected) or protected.get("kid") != self.id or protected.get("typ", "JWT") != "JWT":
            return None
        return signature.payload


class SigningKey(NamedTuple):
    """A private key, and its public part."""

    public: VerifyingKey
    key: ECKey | RSAKey

    def sign(self, claims: Mapping[str, Any]) -> str:
        """A token with the claims, which are sorted as kube-apiserver sorts them."""
        header = {"alg": self.public.algorithm, "kid": self.public.id}
        payload = orjson.dumps(claims, option=orjson.OPT_SORT_KEYS)
        return jws.serialize_compact(header, payload, self.key, algorithms=[self.public.algorithm])


def parse_private(pem: bytes) -> SigningKey:
    """The first private key of a PEM text: PKCS #8, PKCS #1 or SEC 1, without a password.

    Raises:
        UnusableKeyError: there is none, or not one of RSA, P-256, P-384 or P-521.
    """
    for kind, block in _blocks(pem):
        if kind.endswith("PRIVATE KEY"):
            return _signing(_loaded_private(block))
    raise UnusableKeyError("it holds no private key")


def parse_public(pem: bytes) -> Sequence[VerifyingKey]:
    """The keys of a PEM text: public ones, those of certificates, and the public parts of private ones.

    Raises:
        UnusableKeyError: there is none, or one that is not RSA, P-256, P-384 or P-521.
    """
    found: list[VerifyingKey] = []
    for kind, block in _blocks(pem):
        try:
            if kind == "CERTIFICATE":
                found.append(_verifying(x509.load_pem_x509_certificate(block).public_key()))
            elif kind.endswith("PUBLIC KEY"):
                found.append(_verifying(serialization.load_pem_public_key(block)))
            elif kind.endswith("PRIVATE KEY"):
                found.append(_signing(_loaded_private(block)).public)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise error if isinstance(error, UnusableKeyError) else UnusableKeyError("it holds a key that cannot be read") from None
    if not found:
        raise UnusableKeyError("it holds no key")
    return found


def key_id(public: _Public) -> str:
    """The `kid` of a key: the base64url form, without padding, of the SHA-256 of its DER form."""
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()


def _blocks(pem: bytes) -> list[tuple[str, bytes]]:
    return [(match[1].decode(), match[0] + b"\n") for match in _PEM_BLOCK.finditer(pem)]


def _loaded_private(block: bytes) -> object:
    try:
        # The operator's key: proving that its numbers are primes would take 50 ms of each start.
        return serialization.load_pem_private_key(block, None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UnusableKeyError("it holds a private key that cannot be read") from None


def _signing(key: object) -> SigningKey:
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise UnusableKeyError("its key is neither RSA nor of an elliptic curve")
    public = _verifying(key.public_key())
    return SigningKey(public, RSAKey(key, key) if isinstance(key, rsa.RSAPrivateKey) else ECKey(key, key))


def _verifying(key: object) -> VerifyingKey:
    if isinstance(key, rsa.RSAPublicKey):
        return VerifyingKey(key_id(key), "RS256", RSAKey(key, key))
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise UnusableKeyError("its key is neither RSA nor of an elliptic curve")
    algorithm = _CURVES.get(key.curve.name)
    if algorithm is None:
        raise UnusableKeyError(f"the curve {key.curve.name} is not one of P-256, P-384 and P-521")
    return VerifyingKey(key_id(key), algorithm, ECKey(key, key))
