"""JSON Web Signatures and JSON Web Keys, verified by the library joserfc.

Source of the rules: k8s.io/apiserver `plugin/pkg/authenticator/token/oidc` (`allowedSigningAlgs`), go-oidc `jwks.go`, RFC 7515 and 7517.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey, import_key

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
"""The signature algorithms that upstream supports: those with a public key, except EdDSA."""

MOST_KEYS: Final = 100
"""Keys of one set that are used."""
MOST_TRIES: Final = 8
"""Keys that are tried for one token. A verification with P-521 takes half a millisecond of the event loop, which all clusters share."""
_RSA_BITS: Final = range(1024, 8193)
_MOST_EXPONENT: Final = 2**32
"""Larger exponents only make verification slow."""
_KEY_TYPES: Final = ("RSA", "EC")
_LONGEST_PARTS: Final[Mapping[str, int]] = {"n": 1366, "e": 8, "x": 88, "y": 88, "crv": 16}
"""Characters of the parts of the largest keys that are used."""
_CURVES: Final[Mapping[str, str]] = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
"""The curve of each algorithm with elliptic curves (RFC 7518, 3.4)."""


class Key(NamedTuple):
    """A public key of a provider."""

    id: str
    """`kid`; empty for a key without one."""
    value: RSAKey | ECKey


class Token(NamedTuple):
    """A JWT whose signature has not been verified."""

    compact: bytes
    algorithm: str
    key_id: str
    """`kid` of the header; empty without one."""
    claims: Mapping[str, Any]

    @property
    def issuer(self) -> str:
        """The claim `iss`; empty without one."""
        issuer = self.claims.get("iss")
        if issuer == "accounts.google.com":
            return "https://accounts.google.com"
        return issuer if isinstance(issuer, str) else ""


class _Registry(jws.JWSRegistry):
    """Headers may be longer than the library's default, and may have parameters that it does not know."""

    max_header_length = 16 * 1024


_REGISTRY: Final = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


def read_token(compact: bytes) -> Token | None:
    """Read a JWT without verifying it; None for anything else.

    Tokens with critical headers are refused: this server understands none.
    """
    parts = compact.split(b".")
    if len(parts) != 3:
        return None
    header, claims = _json(parts[0]), _json(parts[1])
    if header is None or claims is None or "crit" in header or "b64" in header:
        return None
    algorithm, key_id = header.get("alg"), header.get("kid", "")
    if not isinstance(algorithm, str) or not isinstance(key_id, str):
        return None
    return Token(compact, algorithm, key_id, claims)


def is_signed(token: Token, keys: Sequence[Key]) -> bool:
    """Whether one of the keys has signed the token.

    Keys of another type or with another id than those of the token are not tried, and of the others only the first `MOST_TRIES`.
    """
    fitting = (key for key in keys if (not token.key_id or key.id == token.key_id) and _fits(token.algorithm, key.value))
    return any(_is_signed_by(token, key) for key in islice(fitting, MOST_TRIES))


def _fits(algorithm: str, key: RSAKey | ECKey) -> bool:
    return key.curve_name == _CURVES.get(algorithm) if isinstance(key, ECKey) else algorithm not in _CURVES


def _is_signed_by(token: Token, key: Key) -> bool:
    try:
        jws.deserialize_compact(token.compact, key.value, algorithms=[token.algorithm], registry=_REGISTRY)
    except (JoseError, ValueError):
        return False
    return token.algorithm in ALGORITHMS


def read_keys(document: Mapping[str, Any]) -> tuple[Key, ...]:
    """The usable keys of a JSON Web Key Set: public RSA and EC keys. Others are left out, because providers add new types.

    Raises:
        ValueError: the document is not a key set.
    """
    members = document.get("keys")
    if not isinstance(members, list):
        raise ValueError("the document has no list of keys")  # noqa: TRY004 - a value from outside
    keys = (_read_key(member) for member in members[:MOST_KEYS] if isinstance(member, dict))
    return tuple(key for key in keys if key is not None)


def is_small(member: Mapping[str, Any]) -> bool:
    """Whether the parts of a key are texts that are no longer than those of the largest keys. Reading a longer one takes seconds."""
    return all(isinstance(part := member.get(name, ""), str) and len(part) <= longest for name, longest in _LONGEST_PARTS.items())


def _read_key(member: dict[str, Any]) -> Key | None:
    key_id = member.get("kid", "")
    # A type is required first: without it the library would read other formats.
    if member.get("kty") not in _KEY_TYPES or not isinstance(key_id, str) or member.get("use", "sig") != "sig":
        return None
    if not is_small(member):
        return None
    try:
        value = import_key({name: member[name] for name in ("kty", "n", "e", "crv", "x", "y") if name in member})
        public = value.public_key
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    if isinstance(public, rsa.RSAPublicKey) and (public.key_size not in _RSA_BITS or public.public_numbers().e >= _MOST_EXPONENT):
        return None
    return Key(key_id, value) if isinstance(value, RSAKey | ECKey) else None


def _json(part: bytes) -> dict[str, Any] | None:
    try:
        decoded = orjson.loads(base64.b64decode(part.translate(_FROM_URL) + b"=" * (-len(part) % 4), validate=True))
    except (binascii.Error, ValueError):
        return None
    return decoded if isinstance(decoded, dict) else None


_FROM_URL: Final = bytes.maketrans(b"-_+/", b"+/!!")
"""The alphabet of base64url to that of base64. The characters `+` and `/` become invalid."""
