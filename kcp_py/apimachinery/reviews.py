"""The answers to reviews that webhooks give: SubjectAccessReview and TokenReview. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson


class InvalidAnswerError(Exception):
    """The answer of a webhook is not a review."""


def review_status(body: bytes, api_version: str, kind: str) -> Mapping[str, Any]:
    """The status of a review; empty where it has none.

    Raises:
        InvalidAnswerError: the body is not a review of the kind in this version.
    """
    try:
        document = orjson.loads(body)
    except ValueError:
        raise InvalidAnswerError("the answer is not JSON") from None
    if not isinstance(document, dict):
        raise InvalidAnswerError("the answer is not a JSON object")
    for field, wanted in (("kind", kind), ("apiVersion", api_version)):
        if document.get(field, wanted) not in (wanted, ""):
            raise InvalidAnswerError(f"the {field} of the answer is not {wanted}")
    status = document.get("status")
    if status is None:
        return {}
    if not isinstance(status, dict):
        raise InvalidAnswerError("the status of the answer is not an object")
    return status
