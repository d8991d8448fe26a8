from __future__ import annotations

import pytest

from kcp_py.apimachinery.errors import StatusError, unauthorized
from kcp_py.authn import UserInfo
from kcp_py.authn.authenticator import UNDECIDED, Credentials, UnverifiedCredentialError
from kcp_py.authn.tokenfile import StaticTokens, parse_tokens
from kcp_py.authn.tokens import (
    MAX_TOKEN_BYTES,
    AudienceAgnosticTokens,
    AuthenticatedToken,
    BearerTokens,
    HeaderTokens,
    TokenRefusedError,
    TokenUnion,
    TokenUnverifiedError,
    bearer_token,
)
from kcp_py.logicalcluster import WILDCARD, ClusterSelection, parse_name

pytestmark = pytest.mark.anyio

TEAM = parse_name("team-a")
ALICE, BOB = UserInfo("alice"), UserInfo("bob")


class TokensOfTeam:
    """Knows one token, in the cluster `team-a` alone."""

    def __init__(self, token: str, user: UserInfo) -> None:
        self.token, self.user = token.encode(), user

    async def authenticate_token(self, token: bytes, cluster: ClusterSelection, audiences: tuple[str, ...]) -> AuthenticatedToken | None:
        return AuthenticatedToken(self.user, audiences) if (token, cluster) == (self.token, TEAM) else None


UNION = TokenUnion(TokensOfTeam("a", ALICE), TokensOfTeam("a", BOB), TokensOfTeam("b", BOB))


def bearer(token: str) -> dict[bytes, bytes]:
    return {b"authorization": f"Bearer {token}".encode()}


@pytest.mark.parametrize(("token", "user"), [("a", ALICE), ("b", BOB)])
async def test_the_first_issuer_that_knows_a_token_decides(token: str, user: UserInfo) -> None:
    """The user and the audiences are those of the first answer."""
    assert await UNION.authenticate_token(token.encode(), TEAM, ("x",)) == (user, ("x",))


class Refusing:
    """Knows why no token is valid."""

    def __init__(self, reason: str, kind: type[TokenRefusedError] = TokenRefusedError) -> None:
        self.reason, self.kind = reason, kind

    async def authenticate_token(self, token: bytes, cluster: ClusterSelection, audiences: tuple[str, ...]) -> AuthenticatedToken | None:
        del token, cluster, audiences
        raise self.kind(self.reason)


async def test_reasons_of_refusals() -> None:
    """A refusal does not stop the search. The error has the reasons of all authenticators, if none knows the token."""
    union = TokenUnion(Refusing("expired"), UNION, Refusing("unknown"), Refusing("expired"))
    assert await union.authenticate_token(b"a", TEAM, ("x",)) == (ALICE, ("x",))
    with pytest.raises(TokenRefusedError) as caught:
        await TokenUnion(union, Refusing("late")).authenticate_token(b"c", TEAM, ("x",))
    assert caught.value.reasons == ("expired", "unknown", "expired", "late")


@pytest.mark.parametrize(
    ("tokens", "error"),
    [
        (TokenUnion(Refusing("expired"), UNION), StatusError),
        (TokenUnion(Refusing("the address is 10.0.0.1", TokenUnverifiedError), Refusing("expired")), UnverifiedCredentialError),
    ],
)
async def test_requests_learn_no_reason(tokens: TokenUnion, error: type[StatusError]) -> None:
    """The answer to a request is 401 without a reason. The server knows whether the token could be valid."""
    with pytest.raises(StatusError) as caught:
        await BearerTokens(tokens, ("server",)).authenticate(Credentials(bearer("c"), None, TEAM, "/"))
    assert type(caught.value) is error
    assert caught.value.to_status() == unauthorized().to_status()


async def test_a_request_shows_its_token_where_it_goes() -> None:
    """A token of one logical cluster is 401 in another and over all of them; a request without a token has no user."""
    authenticator = BearerTokens(UNION, ("server",))
    assert await authenticator.authenticate(Credentials(bearer("a"), None, TEAM, "/")) is ALICE
    assert await authenticator.authenticate(Credentials({}, None, TEAM, "/")) is None
    for cluster in (parse_name("team-b"), WILDCARD):
        with pytest.raises(StatusError) as caught:
            await authenticator.authenticate(Credentials(bearer("a"), None, cluster, "/"))
        assert caught.value.code == 401


@pytest.mark.parametrize(
    ("audiences", "expected"), [(("server",), ("server",)), (("other", "server"), ("server",)), (("other",), None), ((), None)]
)
async def test_tokens_without_audiences_are_for_the_server(audiences: tuple[str, ...], expected: tuple[str, ...] | None) -> None:
    """They are valid if the server is among the audiences in question, and for the server alone."""
    found = await AudienceAgnosticTokens(UNION, ("server",)).authenticate_token(b"a", TEAM, audiences)
    assert found == (None if expected is None else (ALICE, expected))


class Header:
    """Knows the token `a`, and refuses `b`."""

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        token = bearer_token(credentials.headers)
        if token == b"b":
            raise unauthorized()
        return ALICE if token == b"a" and credentials.cluster == TEAM else None


@pytest.mark.parametrize(("token", "expected"), [(b"a", (ALICE, ("x",))), (b"b", None), (b"c", None)])
async def test_authenticators_of_requests_know_tokens(token: bytes, expected: AuthenticatedToken | None) -> None:
    """What they refuse, and what they do not know, has no user."""
    assert await HeaderTokens(Header()).authenticate_token(token, TEAM, ("x",)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (b"", None),
        (b"Bearer", None),
        (b"Bearer ", None),
        (b"Basic dXNlcjpwYXNz", None),
        (b"Bearer abc", b"abc"),
        (b"bearer abc", b"abc"),
        (b"BEARER abc", b"abc"),
        (b"  Bearer abc  ", b"abc"),
        (b"Bearer abc def", b"abc"),
        (b"Bearer  abc", None),
        (b"Token abc", None),
        (b"Bearer\tabc", None),
    ],
)
def test_bearer(value, expected):
    """The header is read as upstream reads it."""
    assert bearer_token({} if value is None else {b"authorization": value}) == expected


def test_huge_token():
    """A token longer than any issuer makes is 401 without being looked up."""
    with pytest.raises(StatusError):
        bearer_token(bearer("x" * (MAX_TOKEN_BYTES + 1)))


MINE = ("server",)
STATIC = StaticTokens(parse_tokens("a,alice,1\n", "tokens"))


@pytest.mark.parametrize(
    ("tokens", "token", "expected"),
    [
        pytest.param(AudienceAgnosticTokens(STATIC, MINE), "a", "alice", id="a static token"),
        pytest.param(AudienceAgnosticTokens(STATIC, MINE), "b", UNDECIDED, id="an unknown token"),
        pytest.param(AudienceAgnosticTokens(STATIC, ("other",)), "a", UNDECIDED, id="other audiences"),
        pytest.param(TokenUnion(AudienceAgnosticTokens(STATIC, MINE), UNION), "a", "alice", id="the first of several"),
        pytest.param(TokenUnion(UNION, AudienceAgnosticTokens(STATIC, MINE)), "a", UNDECIDED, id="behind one that has to be waited for"),
        pytest.param(TokenUnion(), "a", UNDECIDED, id="no issuers"),
        pytest.param(STATIC, "a" * (MAX_TOKEN_BYTES + 1), UNDECIDED, id="a token that is too long"),
    ],
)
async def test_recall(tokens, token, expected):
    """A token of a file needs no waiting. The answer is that of `authenticate`, which has it for all others."""
    authenticator = BearerTokens(tokens, MINE)
    credentials = Credentials(bearer(token), None, TEAM, "/")
    found = authenticator.recall(credentials)
    assert (found.name if isinstance(found, UserInfo) else found) == expected
    if isinstance(found, UserInfo):
        assert await authenticator.authenticate(credentials) is found
    assert authenticator.recall(credentials._replace(headers={})) is None


def test_a_removed_token_is_not_recalled():
    """From the next request on."""
    tokens = StaticTokens(parse_tokens("a,alice,1\n", "tokens"))
    authenticator = BearerTokens(tokens, MINE)
    credentials = Credentials(bearer("a"), None, TEAM, "/")
    assert isinstance(authenticator.recall(credentials), UserInfo)
    tokens.replace({})
    assert authenticator.recall(credentials) is UNDECIDED
