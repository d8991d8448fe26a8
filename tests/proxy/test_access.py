"""In whose name requests are made."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kcp_py.apimachinery.errors import StatusError
from kcp_py.proxy.access import Access, Caller, Callers
from kcp_py.proxy.reads import parse_read
from kcp_py.proxy.upstream import Answer, Header, UnreachableError
from tests.serving.authorities import new_authority

BEARER = (b"authorization", b"Bearer abc")
AS_ADMIN = (b"impersonate-user", b"admin")
AUTHORITY = new_authority()
BOB = AUTHORITY.issue("bob", "dev", "ops").certificate.public_bytes(Encoding.DER)


def certificate(*names: str, groups: tuple[str, ...] = (), uris: tuple[str, ...] = (), start: int = -1, end: int = 1) -> bytes:
    """With these common names, organizations and alternative names; `start` and `end` are days from now."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group, _validate=False) for group in groups]
    attributes += [x509.NameAttribute(NameOID.COMMON_NAME, name, _validate=False) for name in names]
    now, key = dt.datetime.now(dt.UTC), AUTHORITY.key
    subject, issuer = x509.Name(attributes), AUTHORITY.certificate.subject
    start_at, end_at = now + dt.timedelta(days=start), now + dt.timedelta(days=end)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number(), start_at, end_at)
    if uris:
        alternatives = [x509.UniformResourceIdentifier(uri) for uri in uris]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def test_certificates_name_users() -> None:
    """Where they are accepted: with a token the token counts, and a user with a certificate impersonates no other one."""
    callers = Callers(share_credentials=False, accept_certificates=True)
    named = callers.of([(b"host", b"proxy")], BOB)
    assert named == Caller(True, ((b"impersonate-user", b"bob"), (b"impersonate-group", b"dev"), (b"impersonate-group", b"ops")))
    assert callers.of([BEARER, AS_ADMIN], BOB) == Caller(False, (BEARER, AS_ADMIN))
    with pytest.raises(StatusError, match="cannot impersonate"):
        callers.of([AS_ADMIN], BOB)
    with pytest.raises(StatusError):
        callers.of([], b"no certificate")
    # A certificate whose authority is not accepted any more.
    assert callers.of([], b"") == Caller(False, ())
    ignored = Callers(share_credentials=False, accept_certificates=False)
    assert ignored.of([], BOB) == Caller(False, ())


UID = "6f1c9a9e-2f8e-4b0e-9a53-0f6e8b0d4a11"


@pytest.mark.parametrize(
    "der",
    [
        pytest.param(certificate("bob", uris=(f"kcp://cluster/team-a?uid={UID}",)), id="of-one-cluster"),
        pytest.param(certificate("bob", uris=("kcp://cluster/team-a",)), id="of-a-cluster-that-cannot-be-read"),
        pytest.param(certificate("bob\r\nImpersonate-Group: system:masters"), id="line-breaks"),
        pytest.param(certificate("bob", groups=("dev\r\nImpersonate-User: admin",)), id="line-breaks-in-a-group"),
        pytest.param(certificate("bob\0"), id="control-characters"),
        pytest.param(certificate("bob", groups=("system:masters ",)), id="a-space-that-a-header-loses"),
        pytest.param(certificate("bob", groups=("\u2028dev",)), id="a-separator"),
        pytest.param(certificate(groups=("dev",)), id="no-name"),
        pytest.param(certificate("bob", start=-2, end=-1), id="expired"),
        pytest.param(certificate("bob", start=1, end=2), id="not-yet-valid"),
        pytest.param(b"\x30\x03\x02\x01\x07", id="not-a-certificate"),
    ],
)
def test_certificates_that_name_nobody(der: bytes) -> None:
    """Those of one logical cluster, those whose names a header changes, and those of another time: always, also when they are known."""
    callers = Callers(share_credentials=True, accept_certificates=True)
    for _ in range(2):
        with pytest.raises(StatusError) as refused:
            callers.of([(b"host", b"localhost")], der)
        assert refused.value.code == 401


def test_names_of_certificates_are_utf8() -> None:
    """The last common name counts, and the dates count for each request."""
    now = dt.datetime.now(dt.UTC).timestamp()
    callers = Callers(share_credentials=False, accept_certificates=True, now=lambda: now)
    der = certificate("first", "J\u00fcrgen \u6f22", groups=("\u00e9quipe", "two words"))
    expected = [(b"impersonate-user", "J\u00fcrgen \u6f22".encode()), (b"impersonate-group", "\u00e9quipe".encode())]
    assert callers.of([], der).headers == (*expected, (b"impersonate-group", b"two words"))
    now += 2 * 86400
    with pytest.raises(StatusError):
        callers.of([], der)


def test_ambiguous_credentials_are_refused() -> None:
    """Two tokens, a token that the next server does not get, and a cluster that the cache does not see."""
    callers = Callers(share_credentials=True, accept_certificates=False)
    cases = [
        ([BEARER, BEARER], 401),
        ([BEARER, (b"connection", b"close, Authorization")], 400),
        ([BEARER, (b"x-kubernetes-cluster", b"other")], 400),
    ]
    for headers, code in cases:
        with pytest.raises(StatusError) as refused:
            callers.of(headers, None)
        assert refused.value.code == code


class Server:
    """Answers reviews; keeps the questions."""

    def __init__(self) -> None:
        self.questions: list[tuple[str, dict[str, str], Caller]] = []
        self.answer: Answer | None = Answer(201, (), b'{"status":{"allowed":true}}')

    @property
    def asked(self) -> int:
        return len(self.questions)

    async def fetch(self, method: str, target: bytes, *, headers: Sequence[Header], own: bool, body: bytes) -> Answer:
        review = json.loads(body)
        assert (method, review["kind"], list(review["spec"])) == ("POST", "SelfSubjectAccessReview", ["resourceAttributes"])
        caller = Caller(own, tuple((name, value) for name, value in headers if name.islower()))
        self.questions.append((target.decode(), review["spec"]["resourceAttributes"], caller))
        if self.answer is None:
            raise UnreachableError("gone")
        return self.answer


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/api/v1/namespaces/a/pods/one", {"verb": "get", "version": "v1", "resource": "pods", "namespace": "a", "name": "one"}),
        ("/api/v1/pods", {"verb": "list", "version": "v1", "resource": "pods"}),
        (
            "/clusters/root:x/apis/apps/v1/deployments?watch=1&fieldSelector=metadata.name%3Done",
            {"verb": "watch", "group": "apps", "version": "v1", "resource": "deployments", "name": "one"},
        ),
    ],
)
async def test_questions_are_about_the_very_request(target: str, expected: dict[str, str]) -> None:
    """In the name of the caller, in the logical cluster of the request. What one caller may read says nothing about another one."""
    server = Server()
    access = Access(server, kept_seconds=10, offline_seconds=100)  # type: ignore[arg-type]
    path, _, query = target.partition("?")
    read = parse_read(path, query, "")
    assert read is not None
    callers = [Caller(False, (BEARER,)), Caller(False, (BEARER, AS_ADMIN)), Caller(True, (AS_ADMIN,)), Caller(False, ())]
    for caller in callers * 2:
        assert await access.allows(caller, read)
    assert server.questions == [(f"{read.place.prefix}{REVIEWS}", expected, caller) for caller in callers]
    # The cache has been read by the proxy itself.
    assert await access.allows(Caller(True, ()), read)
    assert server.asked == len(callers)


@pytest.mark.anyio
async def test_decisions_are_kept_for_a_time() -> None:
    """For each caller, verb and object; without the server a permission counts longer, and a refusal does not become one."""
    now = 0.0
    server = Server()
    access = Access(server, kept_seconds=10, offline_seconds=100, clock=lambda: now)  # type: ignore[arg-type]
    bob, carol = Caller(False, (BEARER,)), Caller(False, ((b"authorization", b"Bearer def"),))
    lists, gets = (parse_read(path, "", "") for path in ("/api/v1/namespaces/a/pods", "/api/v1/namespaces/a/pods/one"))
    assert lists is not None
    assert gets is not None
    for _ in range(3):
        assert await access.allows(bob, lists)
    assert server.asked == 1
    server.answer = Answer(201, (), b'{"status":{"allowed":true,"denied":true}}')
    assert not await access.allows(carol, lists)
    assert not await access.allows(bob, gets)
    assert server.asked == 3
    now = 50.0
    server.answer = None
    assert await access.allows(bob, lists)
    for caller, read in ((carol, lists), (bob, gets)):
        with pytest.raises(UnreachableError):
            await access.allows(caller, read)
    now = 101.0
    with pytest.raises(UnreachableError):
        await access.allows(bob, lists)
    server.answer = Answer(401, (), b"")
    assert not await access.allows(bob, lists)
