"""`WebhookTokens`: asks a webhook of the operator about tokens, and keeps its answers for a time.

Source: k8s.io/apiserver `plugin/pkg/authenticator/token/webhook/webhook.go` (audiences, failures) and `pkg/authentication/token/cache`
(which answers are kept, and that equal questions are asked once).
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Final, NamedTuple

import orjson
import structlog

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.reviews import InvalidAnswerError
from kcp_py.authn.tokens import Audiences, AuthenticatedToken, TokenRefusedError, TokenUnverifiedError
from kcp_py.authn.vouched import Place, UnplacedUserError, user_in
from kcp_py.authn.webhook.review import TokenStatus, cluster_text, parse_status, review_body
from kcp_py.egress.endpoint import CallError
from kcp_py.egress.operatorwebhook import CallTimeoutError
from kcp_py.egress.repeating import Webhook, ask
from kcp_py.logicalcluster import ClusterSelection

LOOKUP_SECONDS: Final = 25.0
"""How long a question may take with its repetitions. Less than upstream's 30 s, which is the time for the check of a running watch."""
CALL_SECONDS: Final = 30.0
FAILED: Final = "the authentication webhook failed"
"""The reason that callers see after a failure. The address of the webhook is in the log alone."""
_KNOWN_BYTES: Final = 16 * 1024 * 1024
"""Bound of the kept users."""
_LEAST_BYTES: Final = 2048
"""What a user counts at least, so that 8,192 are kept at most."""
_UNKNOWN: Final = 8192
"""Tokens of no user that are kept. They have a bound of their own: callers make them up, and must not displace users."""
MOST_TIMEOUTS: Final = 8
"""After so many lookups in a row that took too long, one is made at a time, until one is answered. Others fail at once: running watches of
all clusters are checked by a few workers, which a webhook that hangs must not hold up."""
_REPORT_SECONDS: Final = 10.0
"""Failures are logged at this interval."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.authn")


class _Answer(NamedTuple):
    """The meaning of an answer, for one cluster and some audiences."""

    token: AuthenticatedToken | None
    until: float
    size: int
    refusal: TokenRefusedError | None = None
    """Is never kept."""


class WebhookTokens:
    """A `TokenAuthenticator` of the tokens that one webhook knows."""

    def __init__(
        self,
        webhook: Webhook,
        version: str,
        *,
        audiences: Audiences,
        kept_seconds: float,
        place: Place = user_in,
        names_cluster: bool = True,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Prepare.

        Args:
            webhook: receives the questions.
            version: of the reviews: `v1` or `v1beta1`.
            audiences: of this server. Tokens are for them where the webhook does not name audiences.
            kept_seconds: how long answers are kept; 0: not at all.
            place: makes a user of a logical cluster of the one that the webhook names.
            names_cluster: whether questions have the logical cluster.
            clock: seconds.
            sleep: waits between attempts; replaced in tests.
        """
        self._webhook = webhook
        self._version = version
        self._audiences = audiences
        self._kept_seconds = kept_seconds
        self._place = place
        self._names_cluster = names_cluster
        self._clock = clock
        self._sleep = sleep
        self._secret = secrets.token_bytes(32)
        self._known: LRU[bytes, _Answer] = LRU(_KNOWN_BYTES, weigh=lambda answer: max(_LEAST_BYTES, 2 * answer.size))
        self._unknown: LRU[bytes, _Answer] = LRU(_UNKNOWN)
        self._lookups: dict[bytes, asyncio.Task[_Answer]] = {}
        self._report_after = -math.inf
        self._timeouts = 0
        """Lookups in a row that took too long."""
        self._is_probing = False

    async def aclose(self) -> None:
        """End all lookups and close the connections."""
        lookups = list(self._lookups.values())
        for lookup in lookups:
            lookup.cancel()
        await asyncio.gather(*lookups, return_exceptions=True)
        await self._webhook.aclose()

    async def authenticate_token(self, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> AuthenticatedToken | None:
        """See `TokenAuthenticator`.

        Raises:
            TokenRefusedError: the webhook says why the token is not valid.
            TokenUnverifiedError: the webhook has no usable answer.
        """
        key = self._key(token, cluster, audiences)
        answer = self._known.get(key) or self._unknown.get(key)
        if answer is None or answer.until <= self._clock():
            answer = await self._looked_up(key, token, cluster, audiences)
        if answer.refusal is not None:
            # Each caller raises an exception of its own.
            raise type(answer.refusal)(*answer.refusal.reasons)
        return answer.token

    def _key(self, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> bytes:
        """A hash of all that an answer depends on. It cannot be computed outside of this process, and tokens do not stay in memory."""
        parts = b"%d:%b%b" % (len(token), token, orjson.dumps((cluster_text(cluster), *audiences)))
        return blake2b(parts, key=self._secret, digest_size=32).digest()

    async def _looked_up(self, key: bytes, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> _Answer:
        """The answer of a lookup, which all requests with the same question share. It goes on if they leave."""
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = asyncio.ensure_future(self._look_up(key, token, cluster, audiences))
            self._lookups[key] = lookup
            lookup.add_done_callback(lambda _: self._lookups.pop(key, None))
        return await asyncio.shield(lookup)

    async def _look_up(self, key: bytes, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> _Answer:
        try:
            text = token.decode()
        except UnicodeDecodeError:
            return _Answer(None, -math.inf, 0)
        try:
            status = await self._ask(review_body(text, audiences, cluster if self._names_cluster else None, self._version))
        except (CallError, InvalidAnswerError) as error:
            self._report(str(error))
            return _Answer(None, -math.inf, 0, TokenUnverifiedError(FAILED))
        answer = self._meaning(status, cluster, audiences)
        if self._kept_seconds and answer.refusal is None:
            self._known.pop(key)
            self._unknown.pop(key)
            (self._unknown if answer.token is None else self._known).set(key, answer)
        return answer

    async def _ask(self, body: bytes) -> TokenStatus:
        """The answer of the webhook.

        Raises:
            CallError: there is none.
            InvalidAnswerError: it is not a review.
        """
        is_probe = self._timeouts >= MOST_TIMEOUTS
        if is_probe and self._is_probing:
            raise CallTimeoutError("the webhook does not answer, and is asked about one token at a time")
        self._is_probing = is_probe
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                status = await ask(
                    self._webhook, body, lambda found: parse_status(found, self._version), clock=self._clock, sleep=self._sleep
                )
        except (TimeoutError, CallTimeoutError) as error:
            self._timeouts += 1
            raise CallTimeoutError(str(error) or f"no answer in {LOOKUP_SECONDS:g} s") from None
        except (CallError, InvalidAnswerError):
            self._timeouts = 0
            raise
        finally:
            if is_probe:
                self._is_probing = False
        self._timeouts = 0
        return status

    def _meaning(self, status: TokenStatus, cluster: ClusterSelection, audiences: Audiences) -> _Answer:
        unknown = _Answer(None, self._clock() + self._kept_seconds, 0)
        given = status.audiences or self._audiences
        shared = tuple(audience for audience in audiences if audience in given)
        # Without audiences in the question the one who is asked decides whether the token is for it.
        if audiences and not shared:
            return unknown
        if status.user is None:
            return unknown._replace(refusal=TokenRefusedError(status.error)) if status.error else unknown
        try:
            user = self._place(cluster, status.user)
        except UnplacedUserError as error:
            _log.debug("token_refused", issuer="webhook", error=str(error))
            return unknown
        return unknown._replace(token=AuthenticatedToken(user, shared), size=status.size)

    def _report(self, error: str) -> None:
        if self._clock() >= self._report_after:
            self._report_after = self._clock() + _REPORT_SECONDS
            _log.warning("authentication_webhook_failed", error=error)
