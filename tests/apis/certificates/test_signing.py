"""The certificates that answer requests."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from kcp_py.apis.certificates.binding import ClusterBinding, binding_of
from kcp_py.apis.certificates.signing import AuthorityError, SigningAuthority, key_problem, life_of, sign
from kcp_py.logicalcluster import Name
from tests.apis.certificates.making import DAY, NOW, new_authority, new_request

BINDING = ClusterBinding(Name("team-a"), "0b5a")
AUTHORITY = new_authority()
HOUR = dt.timedelta(hours=1)
MINUTES = dt.timedelta(minutes=5)


def signed(request, *, life=DAY, usages=("client auth",), authority=AUTHORITY) -> x509.Certificate:
    return x509.load_pem_x509_certificate(sign(authority, request, BINDING, usages=usages, life=life, now=NOW))


def test_a_certificate_has_the_names_and_the_key_of_the_request():
    """And the cluster, and nothing else of the request."""
    request = new_request("x" * 64, groups=["dev", "ops"], extensions=[x509.BasicConstraints(ca=True, path_length=None)])
    certificate = signed(request)
    certificate.verify_directly_issued_by(AUTHORITY.certificate)
    assert certificate.subject == request.subject
    assert certificate.public_key() == request.public_key()
    assert binding_of(certificate) == BINDING
    extensions = certificate.extensions
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert len(extensions.get_extension_for_class(x509.SubjectAlternativeName).value) == 1


@pytest.mark.parametrize(("usages", "encipherment"), [(("client auth",), False), (("client auth", "key encipherment"), True)])
def test_key_usages(usages, encipherment):
    """A client can always sign with its key, as TLS wants it."""
    usage = signed(new_request("alice"), usages=usages).extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment, usage.key_cert_sign) == (True, encipherment, False)


@pytest.mark.parametrize(
    ("seconds", "life"), [(None, 30 * DAY), (600, 2 * MINUTES), (1, 2 * MINUTES), (86400, DAY), (2**31 - 1, 30 * DAY), (-5, 2 * MINUTES)]
)
def test_lives(seconds, life):
    """A request names its life, within ten minutes and what the server allows."""
    assert life_of(seconds, 30 * DAY) == life


def test_a_longest_life_below_ten_minutes_counts():
    """The setting of the operator is the stricter one."""
    assert life_of(600, MINUTES) == MINUTES


@pytest.mark.parametrize(("life", "end"), [(HOUR, NOW + HOUR), (DAY, NOW + DAY - MINUTES), (9000 * DAY, NOW + 3650 * DAY)])
def test_dates(life, end):
    """Certificates begin five minutes before now and end no later than their authority; as in upstream, short ones keep their length."""
    certificate = signed(new_request("alice"), life=life)
    assert (certificate.not_valid_before_utc, certificate.not_valid_after_utc) == (NOW - MINUTES, end)


def test_an_expired_authority_signs_nothing():
    """The error says since when it is expired."""
    with pytest.raises(AuthorityError, match="expired at 2029-12-31"):
        signed(new_request("alice"), authority=new_authority(start=NOW - 3 * DAY, end=NOW - DAY))


@pytest.mark.parametrize(
    ("key", "fine"),
    [
        (ec.generate_private_key(ec.SECP521R1()), True),
        (ed25519.Ed25519PrivateKey.generate(), True),
        (rsa.generate_private_key(65537, 2048), True),
        (rsa.generate_private_key(65537, 1024), False),
        (ec.generate_private_key(ec.SECP256K1()), False),
        (dsa.generate_private_key(1024), False),
    ],
    ids=["P-521", "Ed25519", "RSA 2048", "RSA 1024", "secp256k1", "DSA"],
)
def test_keys(key, *, fine):
    """Keys that are weak, or that TLS does not use, are refused."""
    assert (key_problem(new_request("alice", key=key)) == "") == fine


def test_an_authority_is_read_from_its_files():
    """A key that does not fit, and other bytes than a key, are errors."""
    certificate = AUTHORITY.certificate.public_bytes(Encoding.PEM)
    keys = [one.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) for one in (AUTHORITY, new_authority())]
    assert SigningAuthority.load(certificate, keys[0]).certificate == AUTHORITY.certificate
    with pytest.raises(AuthorityError, match="does not fit"):
        SigningAuthority.load(certificate, keys[1])
    with pytest.raises(AuthorityError, match="cannot be read"):
        SigningAuthority.load(certificate, b"junk")
