"""`WebhookAuthorizer`: leaves decisions to a webhook of the operator, and keeps its answers for a time.

Source: k8s.io/apiserver `plugin/pkg/authorizer/webhook/webhook.go`.

The texts of failures go to the log alone. Callers are strangers: they do not learn the addresses and the conditions of the operator.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import orjson
import structlog

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.reviews import InvalidAnswerError
from kcp_py.authz.authorizer import Decision
from kcp_py.authz.rbac.resolver import Rules
from kcp_py.authz.webhook.conditions import MatchConditions, MatchError
from kcp_py.authz.webhook.metrics import WebhookMetrics
from kcp_py.authz.webhook.review import ReviewStatus, parse_status, review_body, review_spec
from kcp_py.egress.endpoint import CallError
from kcp_py.egress.repeating import Webhook, ask
from kcp_py.logicalcluster import ClusterSelection, Name
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.sight import EVERY_CLUSTER
from kcp_py.request.user import UserInfo

MAX_KEY_BYTES: Final = 10_000
"""Answers to longer questions are not kept: their length is in the hands of callers."""
_KEPT_BYTES: Final = 16 * 1024 * 1024
"""Bound of the kept answers of one webhook with their questions."""
_LEAST_BYTES: Final = 2048
"""What an answer counts at least, so that 8,192 are kept at most, as upstream."""
_REPORT_SECONDS: Final = 10.0
"""Failures are logged at this interval."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.authz")


class WebhookSettings(NamedTuple):
    """How a webhook is asked and what its answers and failures mean."""

    name: str
    version: str
    """Of the reviews: `v1` or `v1beta1`."""
    authorized_seconds: float
    """How long an answer that allows is kept; 0: not at all."""
    unauthorized_seconds: float
    """How long any other answer is kept; 0: not at all."""
    denies_on_failure: bool
    """Whether requests are denied when the webhook or a condition fails. Otherwise other authorizers decide."""
    conditions: MatchConditions
    names_cluster: bool = True
    """Whether questions have the logical cluster."""


class _Kept(NamedTuple):
    status: ReviewStatus
    until: float
    weight: int


class WebhookAuthorizer:
    """Asks one webhook."""

    def __init__(
        self,
        webhook: Webhook,
        settings: WebhookSettings,
        *,
        metrics: WebhookMetrics,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Prepare.

        Args:
            webhook: receives the questions.
            settings: see `WebhookSettings`.
            metrics: counts calls.
            clock: seconds.
            sleep: waits between attempts; replaced in tests.
        """
        self._webhook = webhook
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._sleep = sleep
        self._report_after = -math.inf
        self._kept: LRU[bytes, _Kept] = LRU(_KEPT_BYTES, weigh=lambda kept: kept.weight)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._webhook.aclose()

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        """See `Authorizer`."""
        settings = self._settings
        spec = review_spec(user, cluster if settings.names_cluster else None, info)
        try:
            if not settings.conditions.match(spec):
                return None
        except MatchError as error:
            return self._failed(error)
        # The question contains the cluster, so answers are kept for each cluster by itself.
        key = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
        kept = self._kept.get(key)
        if kept is not None and kept.until > self._clock():
            return self._decision(kept.status)
        try:
            status = await self._ask(review_body(spec, settings.version))
        except (CallError, InvalidAnswerError) as error:
            return self._failed(error)
        seconds = settings.authorized_seconds if status.allowed else settings.unauthorized_seconds
        if seconds and len(key) < MAX_KEY_BYTES:
            weight = max(_LEAST_BYTES, len(key) + 4 * len(status.reason))
            self._kept.set(key, _Kept(status, self._clock() + seconds, weight))
        return self._decision(status)

    async def rules_for(self, user: UserInfo, cluster: Name, namespace: str) -> Rules:
        """No rules: a webhook is asked about one request at a time."""
        del user, cluster, namespace
        return Rules((), ("webhook authorizer does not support user rule resolution",), incomplete=True)

    def _decision(self, status: ReviewStatus) -> Decision | None:
        if status.denied:
            if not status.allowed:
                return Decision(allowed=False, reason=status.reason)
            self._report("the answer both allows and denies")
            return Decision(allowed=False, reason=status.reason, error=self._problem)
        if status.allowed:
            # The answer about the wildcard is one about all clusters.
            return Decision(allowed=True, reason=status.reason, sight=EVERY_CLUSTER)
        return Decision(allowed=False, reason=status.reason, final=False)

    def _failed(self, error: Exception) -> Decision:
        self._report(str(error))
        return Decision(allowed=False, final=self._settings.denies_on_failure, error=self._problem)

    def _report(self, error: str) -> None:
        if self._clock() >= self._report_after:
            self._report_after = self._clock() + _REPORT_SECONDS
            _log.warning("authorization_webhook_failed", webhook=self._settings.name, error=error)

    @property
    def _problem(self) -> str:
        return f'the authorization webhook "{self._settings.name}" failed'

    async def _ask(self, body: bytes) -> ReviewStatus:
        """The answer, of the last attempt.

        Raises:
            CallError: the webhook cannot be reached, or answers with an error.
            InvalidAnswerError: the answer is not a review.
        """
        name, metrics, version = self._settings.name, self._metrics, self._settings.version
        latest = "error"

        def record(result: str, seconds: float) -> None:
            nonlocal latest
            latest = result
            metrics.record(name, result, seconds)

        try:
            return await ask(
                self._webhook, body, lambda answer: parse_status(answer, version), record=record, clock=self._clock, sleep=self._sleep
            )
        except CallError:
            if not self._settings.denies_on_failure:
                metrics.record_fail_open(name, latest)
            raise
