"""The server's own certificates: one authority, the serving certificate and the administrator's client certificate.

All are P-256 and live in `Options.pki_directory` as PEM. They are made at the first start, reused later, and made again, by the same
authority, when they come near their end or when the serving certificate lacks a name. Certificates that the operator brings are never
touched.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kcp_py.options import Options
from kcp_py.options.kinds import is_host
from kcp_py.serving.files import make_private_directory, write_private_file

CA_LIFETIME: Final = dt.timedelta(days=3650)
LEAF_LIFETIME: Final = dt.timedelta(days=365)
RENEW_BEFORE: Final = dt.timedelta(days=30)
RENEW_LAST_PART: Final = 0.2
"""A certificate too short-lived for `RENEW_BEFORE` is renewed in the last fifth of its life."""
CLOCK_SKEW: Final = dt.timedelta(minutes=5)
"""Certificates are valid from a little before now, for clients whose clocks are behind."""

ADMIN_USER: Final = "kcp-admin"
ADMIN_GROUP: Final = "system:masters"


class CertificateError(Exception):
    """A certificate or key file is missing, unreadable or does not fit. `str()` is one line that begins with the file."""


class KeyMismatchError(CertificateError):
    """A certificate and the key in its directory are not a pair: a renewal was cut off between the two files."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate with its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class _Files:
    certificate: Path
    key: Path
    durable: bool = True


def ensure_certificates(options: Options, *, now: dt.datetime, durable: bool = True) -> bool:
    """Make missing certificates and renew those that are near their end.

    Args:
        options: says where the files are and which names the serving certificate needs.
        now: the present, with a time zone.
        durable: whether the files have to outlive a power cut.

    Returns:
        Whether any file was written.

    Raises:
        CertificateError: a file is there and cannot be used. It is left as it is.
        OSError: a file cannot be written.
    """
    make_private_directory(options.root_directory)
    make_private_directory(options.pki_directory)
    authority, written = _ensure_authority(options, now, durable=durable)
    if options.tls_cert_file is None:
        names = serving_names(options)
        written |= _ensure_serving(_Files(options.serving_cert_file, options.serving_key_file, durable), authority, names, now=now)
    return _ensure_admin(_admin_files(options, durable=durable), authority, now) or written


def temporary_serving_pair(names: Sequence[str], *, now: dt.datetime) -> tuple[bytes, bytes]:
    """A serving certificate of an authority whose key is forgotten, as PEM: the certificate followed by the authority, and the key.

    Args:
        names: DNS names and IP addresses.
        now: the present, with a time zone.
    """
    authority = _issue_authority(ec.generate_private_key(ec.SECP256R1()), now)
    pair = _issue_serving(authority, names, now=now)
    return certificate_pem(pair.certificate) + certificate_pem(authority.certificate), key_pem(pair.key)


def serving_certificates(options: Options) -> list[tuple[Path, x509.Certificate]]:
    """The certificates that the server presents or verifies clients with, and their files.

    Files that cannot be read are left out: the server does not start with them.
    """
    found: list[tuple[Path, x509.Certificate]] = []
    for path in dict.fromkeys((options.serving_cert_file, *options.client_ca_files, *options.proxy_ca_files)):
        with contextlib.suppress(CertificateError, OSError):
            found += [(path, certificate) for certificate in load_certificates(path)]
    return found


def expiring_certificates(options: Options, *, now: dt.datetime) -> list[tuple[Path, dt.datetime]]:
    """Those of `serving_certificates` that `needs_renewal` is true of; the server's own ones have been renewed by then."""
    return [
        (path, certificate.not_valid_after_utc) for path, certificate in serving_certificates(options) if needs_renewal(certificate, now)
    ]


def admin_key_pair(options: Options) -> KeyPair:
    """The administrator's client certificate.

    Raises:
        CertificateError: it is missing or unusable.
    """
    return _load(_admin_files(options))


def serving_names(options: Options, machine: str | None = None) -> tuple[str, ...]:
    """The DNS names and IP addresses that the serving certificate must hold.

    Args:
        options: gives the bind address and the external host name.
        machine: the name of this machine; asked from the system where not given.
    """
    machine = socket.gethostname() if machine is None else machine
    wanted = ["localhost", "127.0.0.1", "::1", options.bind_address, options.external_hostname, machine]
    names = [name for name in wanted if name and is_host(name) and not _is_unspecified(name)]
    if options.cluster_hostnames:
        names.append(f"*.{options.external_hostname}")
    return tuple(dict.fromkeys(names))


def certificate_names(certificate: x509.Certificate) -> frozenset[str]:
    """The DNS names and IP addresses in a certificate."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(names.get_values_for_type(x509.DNSName)) | {str(address) for address in names.get_values_for_type(x509.IPAddress)}


def needs_renewal(certificate: x509.Certificate, now: dt.datetime) -> bool:
    """Whether the certificate is in its last 30 days, or in the last fifth of a life shorter than 150 days."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return end - now < min(RENEW_BEFORE, (end - start) * RENEW_LAST_PART)


def load_certificates(path: Path) -> list[x509.Certificate]:
    """Read every certificate of a PEM file.

    Raises:
        CertificateError: the file cannot be read or holds none.
    """
    try:
        return x509.load_pem_x509_certificates(_read(path))
    except ValueError as error:
        raise CertificateError(f"{path}: not a PEM certificate ({error})") from None


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """The certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The private key as unencrypted PKCS#8 PEM."""
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _admin_files(options: Options, *, durable: bool = True) -> _Files:
    return _Files(options.pki_directory / "admin.crt", options.pki_directory / "admin.key", durable)


def _ensure_authority(options: Options, now: dt.datetime, *, durable: bool) -> tuple[KeyPair, bool]:
    files = _Files(options.ca_file, options.pki_directory / "ca.key", durable)
    if not _exist(files):
        pair = _issue_authority(ec.generate_private_key(ec.SECP256R1()), now)
    else:
        pair = _load(files)
        if not needs_renewal(pair.certificate, now):
            return pair, False
        # Key and name stay: issued certificates, and the copies of the authority that clients hold, stay valid for their time.
        pair = _issue_authority(pair.key, now)
    _store(files, pair)
    return pair, True


def _ensure_serving(files: _Files, authority: KeyPair, names: Sequence[str], *, now: dt.datetime) -> bool:
    present = _load_leaf(files)
    if present is not None and _is_good(present, authority, now) and certificate_names(present) >= set(names):
        return False
    _store(files, _issue_serving(authority, names, now=now))
    return True


def _issue_serving(authority: KeyPair, names: Sequence[str], *, now: dt.datetime) -> KeyPair:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kcp-py")])
    alternatives: list[x509.GeneralName] = []
    for name in names:
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            alternatives.append(x509.DNSName(name))
    extensions = [x509.SubjectAlternativeName(alternatives), x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])]
    return _issue_leaf(subject, extensions, authority, now=now)


def _ensure_admin(files: _Files, authority: KeyPair, now: dt.datetime) -> bool:
    present = _load_leaf(files)
    if present is not None and _is_good(present, authority, now):
        return False
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, ADMIN_GROUP), x509.NameAttribute(NameOID.COMMON_NAME, ADMIN_USER)])
    _store(files, _issue_leaf(subject, [x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])], authority, now=now))
    return True


def _issue_authority(key: ec.EllipticCurvePrivateKey, now: dt.datetime) -> KeyPair:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kcp-py-ca")])
    builder = (
        _builder(name, name, key.public_key(), not_before=now - CLOCK_SKEW, not_after=now + CA_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
    )
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def _issue_leaf(subject: x509.Name, extensions: Sequence[x509.ExtensionType], authority: KeyPair, *, now: dt.datetime) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + LEAF_LIFETIME, authority.certificate.not_valid_after_utc)
    builder = (
        _builder(subject, authority.certificate.subject, key.public_key(), not_before=now - CLOCK_SKEW, not_after=end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    *,
    not_before: dt.datetime,
    not_after: dt.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _load_leaf(files: _Files) -> x509.Certificate | None:
    if not _exist(files):
        return None
    try:
        return _load(files).certificate
    except KeyMismatchError:
        return None


def _is_good(certificate: x509.Certificate, authority: KeyPair, now: dt.datetime) -> bool:
    return not needs_renewal(certificate, now) and _is_issued_by(certificate, authority)


def _is_issued_by(certificate: x509.Certificate, authority: KeyPair) -> bool:
    try:
        certificate.verify_directly_issued_by(authority.certificate)
    except Exception:  # noqa: BLE001 - any reason means that it has to be issued again
        return False
    return True


def _is_unspecified(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_unspecified
    except ValueError:
        return False


def _exist(files: _Files) -> bool:
    return files.certificate.exists() and files.key.exists()


def _load(files: _Files) -> KeyPair:
    certificate = load_certificates(files.certificate)[0]
    try:
        key = serialization.load_pem_private_key(_read(files.key), password=None)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"{files.key}: not a PEM private key ({error})") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{files.key}: not an elliptic curve key, as the server makes them")
    if key.public_key() != certificate.public_key():
        raise KeyMismatchError(f"{files.key}: not the key of {files.certificate.name}")
    return KeyPair(certificate, key)


def _store(files: _Files, pair: KeyPair) -> None:
    # The key first: a certificate without its key would be refused at the next start, a key without its certificate is written anew.
    write_private_file(files.key, key_pem(pair.key), durable=files.durable)
    write_private_file(files.certificate, certificate_pem(pair.certificate), durable=files.durable)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror or error}") from None
