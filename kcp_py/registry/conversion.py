"""Conversion by webhook: a `Converter` of the objects of one CRD.

Objects go out in batches: as many in one call as come together, within bounds that let other requests run in between. A batch is of one
logical cluster, since a list or a watch of all clusters converts cluster by cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import orjson

from kcp_py.aio.slot import released_slot
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersion
from kcp_py.egress import Answer, CallError, Endpoint, endpoint_of
from kcp_py.registry.rendering import strip_server_fields
from kcp_py.registry.uid import new_uid
from kcp_py.schema.crd.conversion_review import (
    ReviewError,
    check_converted,
    converted_objects,
    decode_answer,
    encode_review,
    group_version_kind,
    restored_metadata,
    review_version,
)

_BATCH_OBJECTS: Final = 500
_BATCH_BYTES: Final = 1024 * 1024
"""Limit of a request, except for larger objects: encoding and decoding in one step must not delay other work."""
_LARGEST_OBJECT: Final = 3 * 1024 * 1024
_ENCODED_PER_TURN: Final = 200
_LONGEST_TEXT: Final = 8192
"""Characters of the text of a webhook about a failure."""


class Webhooks(Protocol):
    """What calls webhooks: `egress.Caller`."""

    async def post(self, endpoint: Endpoint, body: bytes, *, max_bytes: int) -> Answer:
        """See `egress.Caller.post`."""


class NoWebhooks:
    """For registries that nothing is converted in."""

    async def post(self, endpoint: Endpoint, body: bytes, *, max_bytes: int) -> Answer:
        """Refuse."""
        del body, max_bytes
        raise CallError(f'Post "{endpoint.url}": webhooks are not called')


class WebhookConverter:
    """Converts by asking the webhook of a CRD. Immutable; equal CRDs of different clusters share one, as it holds nothing else."""

    def __init__(self, crd_spec: Mapping[str, Any], webhooks: Webhooks) -> None:
        """Read the settings.

        Args:
            crd_spec: `spec` of a CRD whose conversion strategy is `Webhook`.
            webhooks: how to call it.
        """
        webhook = crd_spec["conversion"]["webhook"]
        self._webhooks = webhooks
        self._review_versions: Sequence[str] = tuple(webhook.get("conversionReviewVersions") or ())
        self._endpoint = endpoint_of(webhook["clientConfig"])
        self._versions = frozenset(str(GroupVersion(crd_spec["group"], version["name"])) for version in crd_spec["versions"])

    async def __call__(self, objects: Sequence[dict[str, Any]], api_version: str) -> list[dict[str, Any]]:
        """Bring objects to a version; those that are in it already are not sent.

        Raises:
            StatusError: 500 InternalError with upstream's text.
        """
        result = list(objects)
        foreign = [at for at, obj in enumerate(objects) if obj["apiVersion"] != api_version]
        if not foreign:
            return result
        for at in foreign:
            if objects[at]["apiVersion"] not in self._versions:
                raise errors.internal(f"request to convert CR from an invalid group/version: {objects[at]['apiVersion']}")
        batch: list[int] = []
        bodies: list[bytes] = []
        size = 0
        for count, at in enumerate(foreign, start=1):
            body = orjson.dumps(objects[at])
            if batch and (len(batch) >= _BATCH_OBJECTS or size + len(body) > _BATCH_BYTES):
                await self._convert(result, batch, bodies, api_version)
                batch, bodies, size = [], [], 0
            batch.append(at)
            bodies.append(body)
            size += len(body)
            if count % _ENCODED_PER_TURN == 0:
                await asyncio.sleep(0)
        await self._convert(result, batch, bodies, api_version)
        return result

    async def _convert(self, objects: list[dict[str, Any]], batch: Sequence[int], bodies: Sequence[bytes], api_version: str) -> None:
        """Replace the objects at the places of a batch by what the webhook makes of them."""
        subject = f"conversion webhook for {group_version_kind(objects[batch[0]])}"
        try:
            answered = await self._ask(bodies, api_version)
        except (CallError, ReviewError) as error:
            raise _failure(f"{subject} failed: {error}") from None
        if len(answered) != len(batch):
            raise errors.internal(f"{subject} returned {len(answered)} objects, expected {len(batch)}")
        # Upstream's words for the objects of a list differ from those for a single one.
        alone = len(objects) == 1
        for index, (at, converted) in enumerate(zip(batch, answered, strict=True)):
            original = objects[at]
            try:
                check_converted(original, converted, api_version)
            except ReviewError as error:
                where = "object at index 0" if alone and str(error).startswith("invalid ") else "object"
                raise _failure(
                    f"{subject} returned invalid {where}: {error}"
                    if alone
                    else f"{subject} returned invalid converted object at index {index}: {error}"
                ) from None
            try:
                converted["metadata"] = restored_metadata(original, converted)
            except ReviewError as error:
                where = "metadata" if alone else f"metadata in object at index {index}"
                raise _failure(f"{subject} returned invalid {where}: {error}") from None
            strip_server_fields(converted)
            objects[at] = converted

    async def _ask(self, bodies: Sequence[bytes], api_version: str) -> list[Any]:
        version = review_version(self._review_versions)
        uid = new_uid()
        body = encode_review(version, uid, api_version, bodies)
        # Objects may grow by being converted: room for the largest there can be, or for all to double.
        async with released_slot():
            answer = await self._webhooks.post(self._endpoint, body, max_bytes=max(_LARGEST_OBJECT, 2 * len(body)))
        return converted_objects(version, uid, decode_answer(answer.status, answer.body))


def _failure(text: str) -> StatusError:
    return errors.internal(text[:_LONGEST_TEXT])
