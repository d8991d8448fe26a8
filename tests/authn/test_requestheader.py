"""Users that front proxies name in headers, and certificates that are not those of front proxies."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from kcp_py.apimachinery.errors import StatusError
from kcp_py.authn.authenticator import AuthenticatorUnion, Credentials
from kcp_py.authn.requestheader import ProxyHeaders, RequestHeaders
from kcp_py.logicalcluster import WILDCARD, ClusterSelection, Name
from kcp_py.request.user import UserInfo
from tests.authn.test_certificate import DAY, START, certificate
from tests.serving.authorities import new_authority

pytestmark = pytest.mark.anyio

TEAM_A = Name("team-a")
PROXY = certificate(["front-proxy"], ["proxies"])
HEADERS = ProxyHeaders.of(["X-Remote-User", "X-User"], ["X-Remote-Uid"], ["X-Remote-Group", "X-Group"], ["X-Remote-Extra-", "X-Extra-"])
USER = (b"x-remote-user", b"alice")
Headers = Sequence[tuple[bytes, bytes]]


def now() -> float:
    return (START + DAY / 2).timestamp()


def shown(*headers: tuple[bytes, bytes], proxy: bytes | None = PROXY, cluster: ClusterSelection = TEAM_A) -> Credentials:
    repeated = headers if len(dict(headers)) != len(headers) else ()
    return Credentials(dict(reversed(headers)), None, cluster, "/", proxy, repeated)


async def user_of(credentials: Credentials, *allowed: str, at: float | None = None) -> UserInfo | None:
    return await RequestHeaders(HEADERS, allowed, now=lambda: now() if at is None else at).authenticate(credentials)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param([USER], UserInfo("alice"), id="name"),
        pytest.param([(b"x-user", b"bob")], UserInfo("bob"), id="second header"),
        pytest.param([(b"x-user", b"bob"), USER], UserInfo("alice"), id="first header in the order of the option"),
        pytest.param([(b"x-remote-user", b""), (b"x-user", b"bob")], UserInfo("bob"), id="empty header"),
        pytest.param([USER, (b"x-remote-uid", b"1")], UserInfo("alice", "1"), id="uid"),
        pytest.param(
            [USER, (b"x-group", b"c"), (b"x-remote-group", b"a, b"), (b"x-remote-group", b""), (b"x-remote-group", b"a")],
            UserInfo("alice", "", ("a, b", "a", "c")),
            id="all groups, each header one",
        ),
        pytest.param(
            [USER, (b"x-remote-extra-scopes", b"one"), (b"x-extra-scopes", b"two"), (b"x-remote-extra-scopes", b"")],
            UserInfo("alice", "", (), {"scopes": ("one", "", "two")}),
            id="all values of extra fields",
        ),
        pytest.param(
            [USER, (b"x-remote-extra-acme.com%2fproject", b"a%2fb"), (b"x-remote-extra-%zz", b"c"), (b"x-remote-extra-%4", b"d")],
            UserInfo("alice", "", (), {"acme.com/project": ("a%2fb",), "%zz": ("c",), "%4": ("d",)}),
            id="keys are percent-encoded, values are not",
        ),
        pytest.param([(b"x-remote-user", "zo\u00eb".encode())], UserInfo("zo\u00eb"), id="UTF-8"),
        pytest.param(
            [(b"x-remote-user", b"system:admin"), (b"x-remote-group", b"system:masters")],
            UserInfo("system:admin", "", ("system:masters",)),
            id="any user",
        ),
        pytest.param([USER, (b"x-remote-group", b"system:authenticated")], UserInfo("alice"), id="authenticated already"),
        pytest.param([(b"x-remote-user", b"system:anonymous")], UserInfo("system:anonymous"), id="anonymous"),
    ],
)
async def test_users(headers: Headers, expected: UserInfo) -> None:
    """Name, uid, groups and extra fields, as kube-apiserver reads them."""
    if expected.name != "system:anonymous":
        expected = expected._replace(groups=(*expected.groups, "system:authenticated"))
    assert await user_of(shown(*headers)) == expected


@pytest.mark.parametrize(
    "header",
    [
        b"x_remote_user",
        b"x-remote_user",
        b"x-remote-user-",
        b"x-remote-users",
        b"xremote-user",
        b"remote-user",
        b"x-forwarded-user",
        b"x-remote-extra-name",
        b"x-remote-group",
    ],
)
async def test_other_headers_name_no_user(header: bytes) -> None:
    """Only the exact header counts: underscores are not hyphens. The request goes on to other authenticators."""
    assert await user_of(shown((header, b"alice"))) is None


async def test_headers_of_other_clients() -> None:
    """Without the certificate of a front proxy no header has a meaning, whatever other certificate the client has."""
    assert await user_of(shown(USER, proxy=None)) is None
    assert await user_of(shown(USER, proxy=None)._replace(peer_certificate_der=PROXY)) is None


@pytest.mark.parametrize(
    ("names", "allowed", "accepted"),
    [
        (["front-proxy"], (), True),
        (["front-proxy"], ("other", "front-proxy"), True),
        (["other", "front-proxy"], ("front-proxy",), True),
        (["front-proxy", "other"], ("front-proxy",), False),
        (["Front-Proxy"], ("front-proxy",), False),
        (["front-proxy "], ("front-proxy",), False),
        (["front-proxy,other"], ("front-proxy", "other"), False),
        (["alice"], ("front-proxy",), False),
        ([], ("front-proxy",), False),
        ([], (), True),
    ],
)
async def test_allowed_names(names: list[str], allowed: tuple[str, ...], *, accepted: bool) -> None:
    """The last common name of the certificate must be in the list, if there is one."""
    credentials = shown(USER, proxy=certificate(names, []))
    if accepted:
        assert await user_of(credentials, *allowed) is not None
        return
    with pytest.raises(StatusError) as caught:
        await user_of(credentials, *allowed)
    assert caught.value.code == 401


@pytest.mark.parametrize("days", [-0.1, 1.1])
async def test_dates(days: float) -> None:
    """A connection may outlive the certificate: its dates count at each request."""
    with pytest.raises(StatusError):
        await user_of(shown(USER), at=(START + days * DAY).timestamp())


@pytest.mark.parametrize(
    "uris",
    [("kcp://cluster/team-a?uid=0a",), ("KCP://cluster/team-a?uid=0a",), ("kcp://cluster/team-a",), ("https://x", "kcp:team-a")],
)
async def test_certificates_of_clusters_are_not_proxies(uris: tuple[str, ...]) -> None:
    """A tenant chooses the name in its certificate. The allowed name does not help, in its own cluster neither."""
    with pytest.raises(StatusError) as caught:
        await user_of(shown(USER, proxy=certificate(["front-proxy"], [], uris=uris)), "front-proxy")
    assert caught.value.code == 401


@pytest.mark.parametrize(
    ("usages", "accepted"),
    [
        ((ExtendedKeyUsageOID.CLIENT_AUTH,), True),
        ((ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH), True),
        ((ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,), True),
        ((), True),
        ((ExtendedKeyUsageOID.SERVER_AUTH,), False),
        ((ExtendedKeyUsageOID.CODE_SIGNING,), False),
    ],
)
async def test_extended_key_usages(usages: tuple[ExtendedKeyUsageOID, ...], *, accepted: bool) -> None:
    """A certificate with usages must be one for clients."""
    issued = new_authority().issue("front-proxy", usages=usages)
    credentials = shown(USER, proxy=issued.certificate.public_bytes(Encoding.DER))
    authenticator = RequestHeaders(HEADERS, ())
    if accepted:
        assert await authenticator.authenticate(credentials) is not None
        return
    with pytest.raises(StatusError):
        await authenticator.authenticate(credentials)


@pytest.mark.parametrize("der", [b"", b"\x30", b"x" * 100, PROXY[:-1], PROXY + b"x"], ids=["nothing", "byte", "text", "short", "long"])
async def test_damaged_certificates(der: bytes) -> None:
    """Bytes that are not a certificate are refused."""
    with pytest.raises(StatusError):
        await user_of(shown(USER, proxy=der))


ACCOUNT = (b"x-remote-user", b"system:serviceaccount:default:builder")
CLUSTER = b"x-remote-extra-authentication.kcp.io%2fcluster-name"


async def test_service_accounts_have_a_cluster() -> None:
    """A proxy passes on the cluster of an account. Elsewhere the account has another name; without a cluster it is refused."""
    own = await user_of(shown(ACCOUNT, (CLUSTER, b"team-a")))
    assert own is not None
    assert own.name == "system:serviceaccount:default:builder"
    for cluster in (Name("team-b"), WILDCARD):
        foreign = await user_of(shown(ACCOUNT, (CLUSTER, b"team-a"), cluster=cluster))
        assert foreign is not None
        assert (foreign.name, foreign.groups) == ("system:kcp:serviceaccount:team-a:default:builder", ("system:authenticated",))
    for more in ((), ((CLUSTER, b"team-a"), (CLUSTER, b"team-b")), ((CLUSTER, b"*"),)):
        with pytest.raises(StatusError):
            await user_of(shown(ACCOUNT, *more))


async def test_users_of_one_cluster() -> None:
    """A user whom a proxy bound to a cluster is refused in another one."""
    assert await user_of(shown(USER, (CLUSTER, b"team-a"))) is not None
    with pytest.raises(StatusError):
        await user_of(shown(USER, (CLUSTER, b"team-a"), cluster=Name("team-b")))


async def test_a_refused_proxy_may_have_other_credentials() -> None:
    """As in kube-apiserver, a certificate with another name does not exclude other credentials of the request."""

    class Tokens:
        async def authenticate(self, credentials: Credentials) -> UserInfo | None:
            return UserInfo("bob") if b"authorization" in credentials.headers else None

    union = AuthenticatorUnion(RequestHeaders(HEADERS, ["other"], now=now), Tokens())
    assert await union.authenticate(shown(USER, (b"authorization", b"x"))) == UserInfo("bob")
    with pytest.raises(StatusError):
        await union.authenticate(shown(USER))


@pytest.mark.parametrize(
    ("header", "read"),
    [
        (b"x-remote-user", True),
        (b"x-user", True),
        (b"x-remote-uid", True),
        (b"x-group", True),
        (b"x-remote-extra-", True),
        (b"x-extra-a", True),
        (b"x-remote-extra", False),
        (b"authorization", False),
        (b"x-remote-users", False),
    ],
)
def test_which_headers_are_read(header: bytes, *, read: bool) -> None:
    """Those that are named, and those that begin with a prefix."""
    assert HEADERS.reads(header) is read
    assert ProxyHeaders.of([], [], [], []).reads(header) is False
