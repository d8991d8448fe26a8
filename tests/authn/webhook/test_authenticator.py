"""Tokens that a real webhook knows: kept answers, repetitions, failures, and attacks on shared state."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcp_py.authn.tokens import AuthenticatedToken, TokenRefusedError, TokenUnverifiedError
from kcp_py.authn.webhook.authenticator import FAILED, MOST_TIMEOUTS, WebhookTokens
from kcp_py.egress.operatorwebhook import CallTimeoutError, WebhookAnswer
from kcp_py.kubeconfig.webhook import open_webhook
from kcp_py.logicalcluster import WILDCARD, ClusterSelection, Name
from kcp_py.request.user import UserInfo
from tests.authn.webhook.conftest import UNKNOWN, known, reviewed
from tests.egress.https import http
from tests.egress.webhook import Clock, Hook

pytestmark = pytest.mark.anyio

TEAM_A, TEAM_B = Name("team-a"), Name("team-b")
SERVER = ("https://kcp.test",)
ALICE = UserInfo("alice", "", ("system:authenticated",))


def tokens_of(hook: Hook, clock: Clock, *, version: str = "v1", kept: float = 120.0, **user: str) -> WebhookTokens:
    webhook = open_webhook(str(hook.kubeconfig(**user)), 30.0)
    return WebhookTokens(webhook, version, audiences=SERVER, kept_seconds=kept, clock=clock, sleep=clock.sleep)


async def ask(
    tokens: WebhookTokens, token: bytes = b"secret", cluster: ClusterSelection = TEAM_A, audiences: tuple[str, ...] = SERVER
) -> UserInfo | None:
    found = await tokens.authenticate_token(token, cluster, audiences)
    return None if found is None else found.user


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_users(hook: Hook, version: str) -> None:
    """The answer names a user or none. The request goes to the exact URL, with the credentials of the kubeconfig."""
    tokens = tokens_of(hook, Clock(), version=version, token="of-the-server")
    hook.answer = known("alice", "dev", version=version, uid="1", extra={"Scopes": ["a"]})
    assert await ask(tokens) == UserInfo("alice", "1", ("dev", "system:authenticated"), {"Scopes": ("a",)})
    hook.answer = reviewed({"authenticated": False}, version)
    assert await ask(tokens, b"other") is None
    request = hook.server.requests[0]
    assert request.target == "/authorize?timeout=30s"
    assert request.headers["authorization"] == "Bearer of-the-server"
    assert request.json()["apiVersion"] == f"authentication.k8s.io/{version}"
    assert request.json()["spec"] == {"token": "secret", "audiences": list(SERVER)}
    assert hook.server.connections == 1
    await tokens.aclose()


@pytest.mark.parametrize(
    ("wanted", "given", "shared"),
    [
        (("https://kcp.test",), None, ("https://kcp.test",)),
        (("https://kcp.test",), [], ("https://kcp.test",)),
        (("a", "https://kcp.test", "b"), None, ("https://kcp.test",)),
        (("a",), None, None),
        (("a", "b", "c"), ["c", "b", "x"], ("b", "c")),
        (("a",), ["https://kcp.test"], None),
        (("https://kcp.test",), ["a"], None),
    ],
)
async def test_audiences(hook: Hook, wanted: tuple[str, ...], given: list[str] | None, shared: tuple[str, ...] | None) -> None:
    """A token is for the audiences that the webhook names, and for those of the server where it names none."""
    tokens = tokens_of(hook, Clock())
    hook.answer = known(audiences=given)
    found = await tokens.authenticate_token(b"secret", TEAM_A, wanted)
    assert found == (None if shared is None else AuthenticatedToken(ALICE, shared))
    assert hook.asked[0]["audiences"] == list(wanted)
    await tokens.aclose()


async def test_answers_are_kept_for_each_cluster_and_audience(hook: Hook) -> None:
    """An answer says nothing about another cluster, other audiences, or another token."""
    tokens = tokens_of(hook, Clock())
    asked: list[dict[str, Any]] = [
        {},
        {"cluster": TEAM_B},
        {"cluster": WILDCARD},
        {"audiences": ("x", *SERVER)},
        {"audiences": (*SERVER, "x")},
        {"token": b"secret2"},
        {"token": b"secret", "cluster": Name("2")},
    ]
    for question in [*asked, *asked]:
        assert await ask(tokens, **question) == ALICE
    assert len(hook.asked) == len(asked)
    named = [request.json()["metadata"]["annotations"]["kcp.io/cluster"] for request in hook.server.requests]
    assert named == ["team-a", "team-b", "*", "team-a", "team-a", "team-a", "2"]
    await tokens.aclose()


async def test_a_token_of_one_cluster(hook: Hook) -> None:
    """A webhook that looks at the cluster gives a user there and nowhere else, whatever was asked before."""
    tokens = tokens_of(hook, Clock())

    def answer(review: dict[str, Any]) -> bytes:
        return known() if review["metadata"]["annotations"]["kcp.io/cluster"] == "team-a" else UNKNOWN

    hook.answer = answer
    for _ in range(2):
        assert [await ask(tokens, cluster=cluster) for cluster in (TEAM_A, TEAM_B, WILDCARD)] == [ALICE, None, None]
    await tokens.aclose()


@pytest.mark.parametrize("answer", [known(), UNKNOWN, known(audiences=["other"])])
async def test_answers_are_kept_for_a_time(hook: Hook, answer: bytes) -> None:
    """Answers with and without a user are kept equally long, as upstream keeps them."""
    clock = Clock()
    tokens = tokens_of(hook, clock)
    hook.answer = answer
    first = await ask(tokens)
    clock.now = 119.5
    assert await ask(tokens) == first
    assert len(hook.asked) == 1
    clock.now = 120.5
    await ask(tokens)
    assert len(hook.asked) == 2
    await tokens.aclose()


async def test_a_user_who_is_withdrawn(hook: Hook) -> None:
    """The next answer replaces the one before, in both directions."""
    clock = Clock()
    tokens = tokens_of(hook, clock)
    for answer, expected in ((known(), ALICE), (UNKNOWN, None), (known(), ALICE)):
        hook.answer = answer
        clock.now += 121
        assert await ask(tokens) == expected
        assert await ask(tokens) == expected
    assert len(hook.asked) == 3
    await tokens.aclose()


async def test_without_keeping(hook: Hook) -> None:
    """With a time of 0 the webhook is asked each time."""
    tokens = tokens_of(hook, Clock(), kept=0)
    assert [await ask(tokens), await ask(tokens)] == [ALICE, ALICE]
    assert len(hook.asked) == 2
    await tokens.aclose()


async def test_reasons(hook: Hook) -> None:
    """The webhook may say why a token is not valid. Such an answer is not kept, as upstream does not keep errors."""
    tokens = tokens_of(hook, Clock())
    hook.answer = reviewed({"authenticated": False, "error": "the token has expired"})
    for _ in range(2):
        with pytest.raises(TokenRefusedError, match=r"^the token has expired$") as caught:
            await ask(tokens)
        assert not isinstance(caught.value, TokenUnverifiedError)
    assert len(hook.asked) == 2
    await tokens.aclose()


async def test_equal_questions_are_asked_once(hook: Hook) -> None:
    """Requests with one token share a lookup, which goes on if the first of them leaves."""
    tokens = tokens_of(hook, Clock())
    hook.blocked = asyncio.Event()
    requests = [asyncio.ensure_future(ask(tokens)) for _ in range(20)]
    async with asyncio.timeout(30):
        while not hook.server.requests:
            await asyncio.sleep(0.005)
    requests[0].cancel()
    await asyncio.wait(requests[:1])
    hook.blocked.set()
    assert await asyncio.gather(*requests[1:]) == [ALICE] * 19
    assert len(hook.asked) == 1
    await tokens.aclose()


async def test_other_tokens_do_not_wait(hook: Hook) -> None:
    """While the webhook does not answer about one token, kept ones and other ones are answered."""
    tokens = tokens_of(hook, Clock())
    assert await ask(tokens, b"kept") == ALICE
    blocked = asyncio.Event()
    plain = hook.server.respond

    async def respond(request: Any) -> bytes:
        if request.json()["spec"]["token"] == "slow":
            await blocked.wait()
        return await plain(request)

    hook.server.respond = respond
    slow = asyncio.ensure_future(ask(tokens, b"slow"))
    async with asyncio.timeout(30):
        assert await ask(tokens, b"kept") == ALICE
        assert await ask(tokens, b"other") == ALICE
    assert not slow.done()
    blocked.set()
    assert await slow == ALICE
    await tokens.aclose()


@pytest.mark.parametrize("failure", [http(429), http(500), http(504), http(503, b"", "Retry-After: 1"), b""])
async def test_repetitions(hook: Hook, failure: bytes) -> None:
    """Failures that may pass are tried again after growing delays, five times in all."""
    clock = Clock()
    tokens = tokens_of(hook, clock)
    answers = [failure, failure, known()]
    hook.answer = lambda _: answers.pop(0)
    assert await ask(tokens) == ALICE
    assert len(clock.slept) == 2
    hook.answer = failure
    with pytest.raises(TokenUnverifiedError, match=f"^{FAILED}$"):
        await ask(tokens, b"other")
    assert len(hook.asked) == 3 + 5
    await tokens.aclose()


async def test_failures(hook: Hook) -> None:
    """Without a usable answer the token is refused. Nothing of it is kept, and the address is not shown."""
    tokens = tokens_of(hook, Clock())
    elsewhere = http(302, b"", f"Location: {hook.server.origin}/other")
    for answer in (http(403), http(404), elsewhere, http(200, b"<html>"), http(200, b"x" * (1024 * 1024 + 1)), reviewed({}, "v1beta1")):
        hook.answer = answer
        with pytest.raises(TokenUnverifiedError, match=f"^{FAILED}$"):
            await ask(tokens)
    assert len(hook.asked) == 6
    hook.answer = known()
    assert await ask(tokens) == ALICE
    await tokens.aclose()


async def test_a_webhook_that_is_gone(hook: Hook) -> None:
    """It is not tried again, and users who are kept stay."""
    clock = Clock()
    tokens = tokens_of(hook, clock)
    assert await ask(tokens) == ALICE
    await hook.server.__aexit__()
    with pytest.raises(TokenUnverifiedError):
        await ask(tokens, b"other")
    assert await ask(tokens) == ALICE
    assert clock.slept == []
    await tokens.aclose()


async def test_closing_ends_lookups(hook: Hook) -> None:
    """Requests that wait for the webhook do not hold up the end of the server."""
    tokens = tokens_of(hook, Clock())
    hook.blocked = asyncio.Event()
    waiting = asyncio.ensure_future(ask(tokens))
    async with asyncio.timeout(30):
        while not hook.server.requests:
            await asyncio.sleep(0.005)
        await tokens.aclose()
        await asyncio.wait([waiting])
    assert waiting.cancelled()


@pytest.mark.parametrize("token", [b"\xff\xfe", b"caf\xe9"])
async def test_tokens_that_are_not_text(hook: Hook, token: bytes) -> None:
    """A webhook cannot be asked about them: they are not valid."""
    tokens = tokens_of(hook, Clock())
    assert await ask(tokens, token) is None
    assert hook.asked == []
    await tokens.aclose()


async def test_accounts_of_other_clusters(hook: Hook) -> None:
    """Service accounts have the cluster that the webhook names. Elsewhere they have another name; without a cluster they are refused."""
    tokens = tokens_of(hook, Clock())
    account = "system:serviceaccount:default:builder"
    hook.answer = known(account, "system:serviceaccounts", extra={"authentication.kcp.io/cluster-name": ["team-a"]})
    own, foreign = await ask(tokens), await ask(tokens, cluster=TEAM_B)
    assert own is not None
    assert (own.name, own.groups) == (account, ("system:serviceaccounts", "system:authenticated"))
    assert foreign is not None
    assert (foreign.name, foreign.groups) == ("system:kcp:serviceaccount:team-a:default:builder", ("system:authenticated",))
    hook.answer = known(account, "system:serviceaccounts")
    assert await ask(tokens, b"of another control plane") is None
    await tokens.aclose()


class Hanging:
    """A webhook in memory that does not answer in time, and holds calls while it is asked to."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = False
        self.gate: asyncio.Event | None = None

    async def post(self, body: bytes) -> WebhookAnswer:
        del body
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if not self.answers:
            raise CallTimeoutError("context deadline exceeded")
        return WebhookAnswer(200, known().partition(b"\r\n\r\n")[2], retry_after=False)

    async def aclose(self) -> None:
        pass


async def refused(tokens: WebhookTokens, token: bytes) -> None:
    with pytest.raises(TokenUnverifiedError, match=f"^{FAILED}$"):
        await ask(tokens, token)


async def test_a_webhook_that_hangs_is_asked_once_at_a_time() -> None:
    """After some lookups without an answer others fail at once, while one is under way. The first answer ends that."""
    webhook = Hanging()
    tokens = WebhookTokens(webhook, "v1", audiences=SERVER, kept_seconds=120)
    for number in range(MOST_TIMEOUTS):
        await refused(tokens, b"%d" % number)
    assert webhook.asked == MOST_TIMEOUTS
    webhook.gate = asyncio.Event()
    probe = asyncio.ensure_future(ask(tokens, b"probe"))
    async with asyncio.timeout(30):
        while webhook.asked == MOST_TIMEOUTS:
            await asyncio.sleep(0.005)
        for number in range(100):
            await refused(tokens, b"other %d" % number)
    assert webhook.asked == MOST_TIMEOUTS + 1
    webhook.answers = True
    webhook.gate.set()
    assert await probe == ALICE
    users = await asyncio.gather(*(ask(tokens, b"later %d" % number) for number in range(20)))
    assert users == [ALICE] * 20
    assert webhook.asked == MOST_TIMEOUTS + 21


async def test_a_probe_that_fails_is_followed_by_another() -> None:
    """A webhook that still hangs is asked about the next token."""
    webhook = Hanging()
    tokens = WebhookTokens(webhook, "v1", audiences=SERVER, kept_seconds=120)
    for number in range(MOST_TIMEOUTS + 5):
        await refused(tokens, b"%d" % number)
    assert webhook.asked == MOST_TIMEOUTS + 5
    webhook.answers = True
    assert await ask(tokens, b"later") == ALICE


class AnyToken:
    """A webhook in memory, for numbers of tokens that would take too long over TLS."""

    def __init__(self) -> None:
        self.asked = 0

    async def post(self, body: bytes) -> WebhookAnswer:
        self.asked += 1
        answer = known("x" * 1000) if b"user-" in body else UNKNOWN
        return WebhookAnswer(200, answer.partition(b"\r\n\r\n")[2], retry_after=False)

    async def aclose(self) -> None:
        pass


async def test_tokens_that_are_made_up_displace_no_user() -> None:
    """However many unknown tokens are shown, a user who was asked about stays, and the number of kept tokens has a bound."""
    webhook = AnyToken()
    tokens = WebhookTokens(webhook, "v1", audiences=SERVER, kept_seconds=120)
    assert await ask(tokens, b"user-1") is not None
    for number in range(20_000):
        assert await ask(tokens, b"%d" % number) is None
    asked = webhook.asked
    assert await ask(tokens, b"user-1") is not None
    assert webhook.asked == asked
    assert await ask(tokens, b"0") is None
    assert webhook.asked == asked + 1
