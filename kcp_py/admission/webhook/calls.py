"""`WebhookCalls`: calls webhooks of clusters, none of which holds up the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from kcp_py.admission.webhook.definitions import Webhook
from kcp_py.admission.webhook.review import Answer, AnswerError, encode_review, read_answer, review_version
from kcp_py.aio.offload import Inline, offload
from kcp_py.aio.slot import released_slot
from kcp_py.apimachinery import errors
from kcp_py.egress import Answer as Response
from kcp_py.egress import CallError, Endpoint
from kcp_py.golang.quoting import go_quote
from kcp_py.logicalcluster import Name
from kcp_py.registry.uid import new_uid
from kcp_py.schema.crd.conversion_review import ReviewError, decode_answer

MOST_WRITES: Final = 128
"""Writes of one cluster that wait for webhooks at a time. They are not among the writes that the server runs at a time."""
_CROWD: Final = 1000
"""Writes of all clusters that wait for webhooks, from which on one cluster may have `_SHARE` only."""
_SHARE: Final = 16
_MOST_BYTES: Final = 8 * 1024 * 1024
_LONGEST_TEXT: Final = 8192
"""Characters of the text about a failure."""
_NO_BUNDLE: Final = "unable to load root certificates"


class CallFailedError(Exception):
    """A webhook could not be asked, or its answer cannot be used. The message is upstream's."""

    def __init__(self, webhook: str, reason: str) -> None:
        super().__init__(f"failed calling webhook {go_quote(webhook)}: {reason}"[:_LONGEST_TEXT])


class Caller(Protocol):
    """What calls endpoints: `egress.Caller`."""

    async def post(self, endpoint: Endpoint, body: bytes, *, max_bytes: int, timeout: int = 0, tenant: str = "") -> Response:
        """See `egress.Caller.post`."""


class WebhookCalls:
    """Calls of all clusters, bounded for each."""

    def __init__(self, caller: Caller, *, most_writes: int = MOST_WRITES) -> None:
        self._caller = caller
        self._most_writes = most_writes
        self._writes: Counter[Name] = Counter()
        self._all = 0

    @asynccontextmanager
    async def waiting(self, cluster: Name) -> AsyncIterator[None]:
        """Within it, a write of a cluster waits for webhooks.

        Raises:
            StatusError: 429 where too many writes of the cluster wait already.
        """
        if self._writes[cluster] >= (self._most_writes if self._all < _CROWD else min(_SHARE, self._most_writes)):
            raise errors.too_many_requests("Too many requests wait for admission webhooks, please try again later.", 1)
        self._writes[cluster] += 1
        self._all += 1
        try:
            async with released_slot():
                yield
        finally:
            self._all -= 1
            self._writes[cluster] -= 1
            if not self._writes[cluster]:
                del self._writes[cluster]

    async def ask(self, webhook: Webhook, cluster: Name, request: Mapping[str, Any], *, size: int, mutating: bool) -> Answer:
        """Ask a webhook about a write.

        Args:
            webhook: whom.
            cluster: of the write.
            request: what the review says about it.
            size: bytes of the request of the client, about.
            mutating: whether the webhook may change the object.

        Raises:
            CallFailedError: there is no answer that can be used.
        """
        uid = new_uid()
        try:
            version = review_version(webhook.review_versions)
            if size > Inline.TRANSFORM:
                body = await offload(encode_review, version, uid, request)
            else:
                body = encode_review(version, uid, request)
            response = await self._caller.post(webhook.endpoint, body, max_bytes=_MOST_BYTES, timeout=webhook.timeout, tenant=cluster)
            if len(response.body) > Inline.PARSE["json"]:
                return await offload(_read, response.status, response.body, version, uid, mutating=mutating)
            return _read(response.status, response.body, version, uid, mutating=mutating)
        except CallError as error:
            text = str(error)
            if (at := text.find(_NO_BUNDLE)) >= 0:
                raise CallFailedError(webhook.name, f"could not get REST client: {text[at:]}") from None
            raise CallFailedError(webhook.name, f"failed to call webhook: {text}") from None
        except ReviewError as error:
            raise CallFailedError(webhook.name, f"failed to call webhook: {error}") from None
        except AnswerError as error:
            raise CallFailedError(webhook.name, str(error)) from None


def _read(status: int, body: bytes, version: str, uid: str, *, mutating: bool) -> Answer:
    return read_answer(decode_answer(status, body), version, uid, mutating=mutating)
