"""New keys of service account tokens, and the algorithm of a key.

Every start needs one of the two, and so this module imports no library for tokens.
"""

from __future__ import annotations

from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

_RSA_BITS: Final = 2048


def generate_pem(algorithm: str) -> str:
    """A new private key as PEM. `algorithm` is ES256 or RS256; the latter takes tens of milliseconds."""
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = (
        ec.generate_private_key(ec.SECP256R1())
        if algorithm == "ES256"
        else rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS)
    )
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


def algorithm_of(pem: str) -> str:
    """The algorithm of a key that `generate_pem` has made."""
    key = serialization.load_pem_private_key(pem.encode(), None)
    return "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
