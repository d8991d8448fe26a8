from __future__ import annotations

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kcp_py.apimachinery.errors import StatusError
from kcp_py.authn.authenticator import Credentials
from kcp_py.authn.certificate import CREDENTIAL_ID, ClientCertificates
from kcp_py.logicalcluster import ROOT

pytestmark = pytest.mark.anyio

KEY = ec.generate_private_key(ec.SECP256R1())
START = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def certificate(names: list[str], organizations: list[str], serial: int = 1) -> bytes:
    subject = x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, value) for value in organizations),
            *(x509.NameAttribute(NameOID.COMMON_NAME, value) for value in names),
        ]
    )
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(KEY.public_key()).serial_number(serial)
    return builder.not_valid_before(START).not_valid_after(START + DAY).sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def shown(der: bytes | None) -> Credentials:
    return Credentials({}, der, ROOT, "/")


class Clock:
    def __init__(self) -> None:
        self.now = (START + DAY / 2).timestamp()

    def __call__(self) -> float:
        return self.now


async def test_names_and_groups():
    """The common name is the user, organizations are its groups."""
    der = certificate(["alice"], ["team-a", "system:masters", "team-a"])
    user = await ClientCertificates(now=Clock()).authenticate(shown(der))
    assert user is not None
    assert (user.name, user.groups) == ("alice", ("team-a", "system:masters", "system:authenticated"))
    fingerprint = x509.load_der_x509_certificate(der).fingerprint(hashes.SHA256()).hex()
    assert user.extra[CREDENTIAL_ID] == (f"X509SHA256={fingerprint}",)


@pytest.mark.parametrize(
    ("names", "expected"),
    [pytest.param([], None, id="none"), pytest.param(["a", "b"], "b", id="two"), pytest.param(["système, O=x"], "système, O=x", id="odd")],
)
async def test_common_names(names, expected):
    """The last common name counts, and a certificate without one says nothing."""
    user = await ClientCertificates(now=Clock()).authenticate(shown(certificate(names, ["team"])))
    assert (None if user is None else user.name) == expected


async def test_no_certificate():
    """A connection without a certificate has no user by it."""
    assert await ClientCertificates().authenticate(shown(None)) is None


async def test_garbage():
    """Bytes that are not a certificate are refused with 401."""
    with pytest.raises(StatusError) as caught:
        await ClientCertificates().authenticate(shown(b"\x30\x00garbage"))
    assert caught.value.code == 401


async def test_dates():
    """A certificate that ends while its connection lasts is refused from then on."""
    clock = Clock()
    authenticator = ClientCertificates(now=clock)
    der = certificate(["alice"], [])
    assert await authenticator.authenticate(shown(der))
    for moment in (START + DAY + dt.timedelta(seconds=1), START - dt.timedelta(seconds=1)):
        clock.now = moment.timestamp()
        with pytest.raises(StatusError):
            await authenticator.authenticate(shown(der))


async def test_what_is_remembered_is_bounded():
    """Certificates are remembered by their complete bytes, the most recent ones only."""
    authenticator = ClientCertificates(now=Clock(), size=2)
    ders = [certificate([f"user-{number}"], [], number + 1) for number in range(3)]
    first = await authenticator.authenticate(shown(ders[0]))
    await authenticator.authenticate(shown(ders[1]))
    assert await authenticator.authenticate(shown(ders[0])) is first
    await authenticator.authenticate(shown(ders[2]))
    assert [der for der, _ in authenticator._certificates.items()] == [ders[0], ders[2]]
    again = await authenticator.authenticate(shown(ders[1]))
    assert again is not None
    assert again.name == "user-1"
