"""Authorities of the tests, and certificates that they issue."""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = dt.timedelta(days=1)
CLIENT_AUTH = ExtendedKeyUsageOID.CLIENT_AUTH


class Issued:
    """A certificate with its key."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = certificate
        self.key = key

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, *groups: str, authority: bool = False, usages=(CLIENT_AUTH,), start: int = -1, end: int = 1) -> Issued:
        """A certificate of this authority; `start` and `end` are days from now."""
        return _issued(self, name, groups, authority=authority, usages=usages, start=start, end=end)


def new_authority(name: str = "test-ca", *, key: ec.EllipticCurvePrivateKey | None = None) -> Issued:
    """An authority that nothing has issued."""
    return _issued(None, name, (), authority=True, usages=(), start=-1, end=2, key=key)


def _issued(issuer: Issued | None, name: str, groups: Sequence[str], *, authority: bool, usages, start: int, end: int, key=None) -> Issued:
    key = key or ec.generate_private_key(ec.SECP256R1())
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + start * DAY)
        .not_valid_after(now + end * DAY)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return Issued(builder.sign(key if issuer is None else issuer.key, hashes.SHA256()), key)


def client_context(trusted: Path, issued: Issued, directory: Path, *chain: Issued) -> ssl.SSLContext:
    """The TLS settings of a client with a certificate and the intermediate ones of `chain`."""
    private = issued.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = directory / f"{x509.random_serial_number()}.pem"
    file.write_bytes(b"".join((private, issued.pem, *(one.pem for one in chain))))
    context = ssl.create_default_context(cafile=trusted)
    context.load_cert_chain(file)
    return context
