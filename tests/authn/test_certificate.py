from __future__ import annotations

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from kcp_py.apimachinery.errors import StatusError
from kcp_py.authn.authenticator import UNDECIDED, Credentials
from kcp_py.authn.certificate import CREDENTIAL_ID, UID, ClientCertificates
from kcp_py.logicalcluster import ROOT, WILDCARD, ClusterSelection, Name
from kcp_py.request.user import CLUSTER_NAME_EXTRA

pytestmark = pytest.mark.anyio

KEY = ec.generate_private_key(ec.SECP256R1())
START = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def certificate(names: list[str], organizations: list[str], serial: int = 1, *, uids=(), uris: tuple[str, ...] = ()) -> bytes:
    subject = x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, value) for value in organizations),
            *(x509.NameAttribute(NameOID.COMMON_NAME, value) for value in names),
            *uids,
        ]
    )
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(KEY.public_key()).serial_number(serial)
    if uris:
        names_of = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in uris])
        builder = builder.add_extension(names_of, critical=False)
    return builder.not_valid_before(START).not_valid_after(START + DAY).sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def shown(der: bytes | None, cluster: ClusterSelection = ROOT) -> Credentials:
    return Credentials({}, der, cluster, "/")


async def uid_of(cluster: Name) -> str | None:
    return {"team-a": "0a", "team-b": "0b"}.get(cluster)


class Clock:
    def __init__(self) -> None:
        self.now = (START + DAY / 2).timestamp()

    def __call__(self) -> float:
        return self.now


async def test_names_and_groups():
    """The common name is the user, organizations are its groups."""
    der = certificate(["alice"], ["team-a", "system:masters", "team-a"])
    user = await ClientCertificates(uid_of, now=Clock()).authenticate(shown(der))
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
    user = await ClientCertificates(uid_of, now=Clock()).authenticate(shown(certificate(names, ["team"])))
    assert (None if user is None else user.name) == expected


async def test_no_certificate():
    """A connection without a certificate has no user by it."""
    assert await ClientCertificates(uid_of).authenticate(shown(None)) is None


@pytest.mark.parametrize(
    "der",
    [b"", b"\x30\x00garbage", certificate(["alice"], []).replace(b"\x02\x01\x02", b"\x02\x01\x07", 1)],
    ids=["nothing", "text", "version"],
)
async def test_garbage(der):
    """Bytes that are not a certificate are refused with 401, and so is the empty text, which stands for a certificate that was revoked."""
    with pytest.raises(StatusError) as caught:
        await ClientCertificates(uid_of).authenticate(shown(der))
    assert caught.value.code == 401


async def test_dates():
    """A certificate that ends while its connection lasts is refused from then on."""
    clock = Clock()
    authenticator = ClientCertificates(uid_of, now=clock)
    der = certificate(["alice"], [])
    assert await authenticator.authenticate(shown(der))
    for moment in (START + DAY + dt.timedelta(seconds=1), START - dt.timedelta(seconds=1)):
        clock.now = moment.timestamp()
        with pytest.raises(StatusError):
            await authenticator.authenticate(shown(der))


async def test_what_is_remembered_is_bounded():
    """Certificates are remembered by their complete bytes, the most recent ones only."""
    authenticator = ClientCertificates(uid_of, now=Clock(), size=2)
    ders = [certificate([f"user-{number}"], [], number + 1) for number in range(3)]
    first = await authenticator.authenticate(shown(ders[0]))
    await authenticator.authenticate(shown(ders[1]))
    assert await authenticator.authenticate(shown(ders[0])) is first
    await authenticator.authenticate(shown(ders[2]))
    assert [der for der, _ in authenticator._certificates.items()] == [ders[0], ders[2]]
    again = await authenticator.authenticate(shown(ders[1]))
    assert again is not None
    assert again.name == "user-1"


@pytest.mark.parametrize(
    ("uids", "expected"),
    [
        pytest.param([], "", id="none"),
        pytest.param([x509.NameAttribute(UID, "4711")], "4711", id="one"),
        pytest.param([x509.NameAttribute(UID, "4711"), x509.NameAttribute(UID, "4712")], None, id="two"),
        pytest.param([x509.NameAttribute(UID, "4711"), x509.NameAttribute(UID, "4711")], None, id="one twice"),
        pytest.param([x509.NameAttribute(UID, "", _validate=False)], None, id="empty"),
        pytest.param([x509.NameAttribute(NameOID.X500_UNIQUE_IDENTIFIER, b"4711", _ASN1Type.BitString)], "", id="another attribute"),
    ],
)
async def test_uids(uids, expected):
    """An attribute of the subject is the uid of the user. Several uids and an empty one are refused, as upstream refuses them."""
    authenticator = ClientCertificates(uid_of, now=Clock())
    der = certificate(["alice"], [], uids=uids)
    if expected is None:
        with pytest.raises(StatusError):
            await authenticator.authenticate(shown(der))
    else:
        user = await authenticator.authenticate(shown(der))
        assert user is not None
        assert user.uid == expected


async def test_a_certificate_of_a_cluster_is_valid_there():
    """In its cluster the holder is a user of the cluster, whose extra fields name it."""
    der = certificate(["alice"], ["team"], uris=("kcp://cluster/team-a?uid=0a",))
    user = await ClientCertificates(uid_of, now=Clock()).authenticate(shown(der, Name("team-a")))
    assert user is not None
    assert (user.name, user.groups, user.extra[CLUSTER_NAME_EXTRA]) == ("alice", ("team", "system:authenticated"), ("team-a",))


@pytest.mark.parametrize("cluster", [Name("team-b"), Name("missing"), ROOT, WILDCARD], ids=str)
async def test_a_certificate_of_a_cluster_is_no_credential_elsewhere(cluster):
    """In every other cluster, whether it exists or not, and in the wildcard the answer is 401."""
    authenticator = ClientCertificates(uid_of, now=Clock())
    der = certificate(["alice"], ["team"], uris=("kcp://cluster/team-a?uid=0a",))
    assert await authenticator.authenticate(shown(der, Name("team-a")))
    with pytest.raises(StatusError) as caught:
        await authenticator.authenticate(shown(der, cluster))
    assert caught.value.code == 401


@pytest.mark.parametrize("uri", ["kcp://cluster/team-a?uid=0c", "kcp://cluster/missing?uid=0a"])
async def test_a_certificate_of_an_earlier_cluster_is_refused(uri):
    """A cluster that was created again under its name, or is gone, accepts no certificate of the earlier one."""
    der = certificate(["alice"], [], uris=(uri,))
    for cluster in ("team-a", "missing"):
        with pytest.raises(StatusError):
            await ClientCertificates(uid_of, now=Clock()).authenticate(shown(der, Name(cluster)))


@pytest.mark.parametrize(
    "uris",
    [
        ("kcp://cluster/team-a?uid=0a", "kcp://cluster/team-b?uid=0b"),
        ("kcp://cluster/team-a?uid=0a", "kcp://cluster/team-a?uid=0a"),
        ("KCP://cluster/team-a?uid=0a",),
        ("kcp://cluster/team-a",),
        ("kcp://cluster/team-a?uid=",),
        ("kcp://cluster/*?uid=0a",),
        ("kcp://cluster/%74eam-a?uid=0a",),
        ("kcp://cluster/team-a?uid=0a&uid=0b",),
        ("kcp://cluster/team-a?uid=0a\n",),
        ("kcp:team-a",),
    ],
)
async def test_a_binding_that_is_not_understood_is_refused(uris):
    """A certificate that says anything about a cluster in another form is valid nowhere."""
    der = certificate(["alice"], [], uris=uris)
    for cluster in (Name("team-a"), Name("team-b"), ROOT, WILDCARD):
        with pytest.raises(StatusError):
            await ClientCertificates(uid_of, now=Clock()).authenticate(shown(der, cluster))


async def test_other_alternative_names_bind_to_nothing():
    """Certificates of an operator's authority may have any other URI."""
    der = certificate(["alice"], [], uris=("spiffe://example.org/alice",))
    assert await ClientCertificates(uid_of, now=Clock()).authenticate(shown(der, WILDCARD))


async def test_recall():
    """A certificate that was read is recalled while it is valid; one that names a cluster is always looked at."""
    clock = Clock()
    authenticator = ClientCertificates(uid_of, now=clock)
    assert authenticator.recall(shown(None)) is None
    plain, bound = certificate(["alice"], []), certificate(["alice"], [], uris=("kcp://cluster/team-a?uid=0a",))
    for der in (plain, bound):
        credentials = shown(der, Name("team-a"))
        assert authenticator.recall(credentials) is UNDECIDED
        user = await authenticator.authenticate(credentials)
        assert authenticator.recall(credentials) is (user if der is plain else UNDECIDED)
    clock.now = (START + 2 * DAY).timestamp()
    assert authenticator.recall(shown(plain)) is UNDECIDED
