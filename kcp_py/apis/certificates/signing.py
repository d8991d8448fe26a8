"""Making the certificates that answer requests, for one logical cluster each.

Source: kubernetes `pkg/controller/certificates/{authority,signer}`. Unlike there nothing but names and key is taken from a request.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kcp_py.apis.certificates.binding import ClusterBinding
from kcp_py.apis.certificates.requests import common_names, organizations

BACKDATE: Final = dt.timedelta(minutes=5)
"""Certificates are valid from a little before now, for servers whose clocks are behind."""
SHORTEST: Final = dt.timedelta(minutes=10)
SHORT_LIFE: Final = dt.timedelta(hours=8)
"""Certificates with a shorter life do not end earlier because they begin earlier."""

_SMALLEST_RSA, _LARGEST_RSA = 2048, 8192
_KEYS: Final = "the key must be of ECDSA (P-256, P-384, P-521), Ed25519, or RSA with 2048 to 8192 bits"


class AuthorityError(Exception):
    """The authority cannot sign. `str()` is one line."""


class SigningAuthority(NamedTuple):
    """A certificate authority with its key."""

    certificate: x509.Certificate
    key: CertificateIssuerPrivateKeyTypes

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> SigningAuthority:
        """Read an authority from PEM.

        Raises:
            AuthorityError: one of them cannot be read, or they are not a pair.
        """
        try:
            loaded = cls(x509.load_pem_x509_certificate(certificate), load_pem_private_key(key, password=None))  # type: ignore[arg-type]
            fits = loaded.key.public_key() == loaded.certificate.public_key()
        except (ValueError, TypeError, AttributeError) as error:
            raise AuthorityError(f"the signing authority cannot be read: {error}") from None
        if not fits:
            raise AuthorityError("the key of the signing authority does not fit its certificate")
        return loaded


def key_problem(request: x509.CertificateSigningRequest) -> str:
    """Why no certificate is made for the key of a request; empty where one is."""
    match request.public_key():
        case ec.EllipticCurvePublicKey(curve=ec.SECP256R1() | ec.SECP384R1() | ec.SECP521R1()) | ed25519.Ed25519PublicKey():
            return ""
        case rsa.RSAPublicKey(key_size=size) if _SMALLEST_RSA <= size <= _LARGEST_RSA:
            return ""
        case _:
            return _KEYS


def life_of(seconds: int | None, longest: dt.timedelta) -> dt.timedelta:
    """How long a certificate is valid that is requested with `spec.expirationSeconds`, and at the longest."""
    return longest if seconds is None else min(longest, max(SHORTEST, dt.timedelta(seconds=seconds)))


def sign(
    authority: SigningAuthority,
    request: x509.CertificateSigningRequest,
    binding: ClusterBinding,
    *,
    usages: Sequence[str],
    life: dt.timedelta,
    now: dt.datetime,
) -> bytes:
    """A client certificate in PEM.

    Args:
        authority: signs it.
        request: has passed `signing_problem` and `key_problem`.
        binding: the cluster in which it is valid.
        usages: `spec.usages`.
        life: see `life_of`.
        now: the present, with a time zone.

    Raises:
        AuthorityError: the authority has expired.
    """
    end = min(now + life - (BACKDATE if life >= SHORT_LIFE else dt.timedelta()), authority.certificate.not_valid_after_utc)
    if end <= now:
        raise AuthorityError(f"the signing authority expired at {end.isoformat()}")
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations(request)]
    names += [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in common_names(request)]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(names))
        .issuer_name(authority.certificate.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(usages), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.certificate.public_key()), critical=False)  # type: ignore[arg-type]
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(binding.uri)]), critical=False)
    )
    unhashed = isinstance(authority.key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
    return builder.sign(authority.key, None if unhashed else hashes.SHA256()).public_bytes(Encoding.PEM)


def _key_usage(usages: Sequence[str]) -> x509.KeyUsage:
    return x509.KeyUsage(
        # Always: TLS refuses certificates of clients that may not sign.
        digital_signature=True,
        key_encipherment="key encipherment" in usages,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
