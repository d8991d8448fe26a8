"""`ask`: a question to a webhook of the operator, which is repeated while the failure may pass.

Source: k8s.io/apiserver `pkg/util/webhook/webhook.go` (`WithExponentialBackoff`, `DefaultShouldRetry`).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from kcp_py.egress.endpoint import CallError
from kcp_py.egress.operatorwebhook import CallResetError, CallTimeoutError, WebhookAnswer

RETRIES: Final = 4
_FIRST_DELAY_SECONDS: Final = 0.5
_FACTOR: Final = 1.5
_JITTER: Final = 0.2
_REPEATED: Final = frozenset((429, 500, 504))

T = TypeVar("T")


class Webhook(Protocol):
    """Sends questions: an `OperatorWebhook`."""

    async def post(self, body: bytes) -> WebhookAnswer: ...
    async def aclose(self) -> None: ...


def _unrecorded(result: str, seconds: float) -> None:
    """Drop what a call has taken."""


async def ask(
    webhook: Webhook,
    body: bytes,
    read: Callable[[bytes], T],
    *,
    record: Callable[[str, float], None] = _unrecorded,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> T:
    """The answer to a question, of the last attempt.

    Args:
        webhook: receives the question.
        body: JSON.
        read: from the body of an answer to its meaning. What it raises ends the attempts.
        record: receives the result of each call (`success`, `error`, `timeout` or `canceled`) and its seconds.
        clock: seconds.
        sleep: waits between attempts; replaced in tests.

    Raises:
        CallError: the webhook cannot be reached, or answers with an error.
    """
    delay = _FIRST_DELAY_SECONDS
    for retries_left in range(RETRIES, -1, -1):
        begun = clock()
        result = "error"
        try:
            answer = await webhook.post(body)
            if 200 <= answer.status < 300:
                meaning = read(answer.body)
                result = "success"
                return meaning
            again = answer.status in _REPEATED or answer.retry_after
            result = "timeout" if answer.status == 504 else "error"
            failure = CallError(f"the webhook answered with status {answer.status}")
        except CallTimeoutError as error:
            result, again, failure = "timeout", False, error
        except CallResetError as error:
            again, failure = True, error
        except CallError as error:
            again, failure = False, error
        except asyncio.CancelledError:
            result = "canceled"
            raise
        finally:
            record(result, clock() - begun)
        if not again or not retries_left:
            raise failure
        await sleep(delay * random.uniform(1, 1 + _JITTER))
        delay *= _FACTOR
    raise AssertionError  # pragma: no cover - the last attempt returns or raises
