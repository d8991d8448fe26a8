"""Requests for certificates, as the tests make them."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Sequence
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kcp_py.apis.certificates.signing import SigningAuthority
from kcp_py.apis.certificates.validation import CLIENT_SIGNER

KEY = ec.generate_private_key(ec.SECP256R1())
NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def subject_of(names: Sequence[str], groups: Sequence[str] = ()) -> x509.Name:
    """A subject with common names and organizations."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group, _validate=False) for group in groups]
    return x509.Name([*attributes, *(x509.NameAttribute(NameOID.COMMON_NAME, name, _validate=False) for name in names)])


def new_request(
    *names: str, groups: Sequence[str] = (), key: Any = KEY, extensions: Sequence[x509.ExtensionType] = ()
) -> x509.CertificateSigningRequest:
    """A signed request."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject_of(names, groups))
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())


def in_base64(request: x509.CertificateSigningRequest) -> str:
    """A request as the field `spec.request` has it."""
    return base64.b64encode(request.public_bytes(Encoding.PEM)).decode("ascii")


def signing_request(name: str, *users: str, groups: Sequence[str] = (), **spec: Any) -> dict[str, Any]:
    """A CertificateSigningRequest."""
    request = in_base64(new_request(*(users or ("alice",)), groups=groups))
    return {"metadata": {"name": name}, "spec": {"request": request, "signerName": CLIENT_SIGNER, "usages": ["client auth"], **spec}}


def condition(kind: str, status: str = "True", **more: Any) -> dict[str, Any]:
    """A condition of a request."""
    return {"type": kind, "status": status, **more}


def new_authority(*, start: dt.datetime = NOW - DAY, end: dt.datetime = NOW + 3650 * DAY) -> SigningAuthority:
    """An authority of the tests."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = subject_of(["test-ca"])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(start).not_valid_after(end)
    return SigningAuthority(builder.sign(key, hashes.SHA256()), key)
