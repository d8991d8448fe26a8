"""`ConversionReview`: what a conversion webhook is asked, and what of its answer is believed.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/conversion/webhook_converter.go`; the texts for answers that are not reviews are those
of client-go's REST client (apimachinery `pkg/api/errors`, `NewGenericServerResponse`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from kcp_py.apimachinery.fielderrors import aggregate
from kcp_py.apimachinery.meta.objectmeta import annotation_problems, label_problems
from kcp_py.apimachinery.serializer.json.codec import decode_json
from kcp_py.golang.quoting import go_quote
from kcp_py.golang.types import go_type, json_type
from kcp_py.schema.webhookclient import ACCEPTED_REVIEW_VERSIONS

_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"
_SUCCESS: Final = "Success"
_EMPTY_RESPONSE: Final = b',"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}'
"""Upstream sends the empty response along."""

_STATUS_TEXTS: Final[Mapping[int, str]] = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "unknown",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    415: "unknown",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


class ReviewError(Exception):
    """An answer that cannot be used."""


def review_version(versions: Iterable[str]) -> str:
    """The version to ask in: the first one of the webhook's that is spoken.

    Raises:
        ReviewError: none is.
    """
    for version in versions:
        if version in ACCEPTED_REVIEW_VERSIONS:
            return version
    raise ReviewError("no supported conversion review versions")


def encode_review(version: str, uid: str, api_version: str, objects: Sequence[bytes]) -> bytes:
    """The body of a request.

    Args:
        version: of the review.
        uid: of the request.
        api_version: wanted.
        objects: each as JSON.
    """
    head = {"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": []}}
    return b"".join((orjson.dumps(head)[:-3], b",".join(objects), b"]}", _EMPTY_RESPONSE))


def decode_answer(status: int, body: bytes) -> Any:
    """The document of an answer.

    Raises:
        ReviewError: not 2xx, empty, or not JSON. Of the body, the text shows only the message of a `Status`: a tenant
            must not read other services through the URL of a webhook.
    """
    if not 200 <= status < 300:
        raise ReviewError(_refusal(status, body))
    if not body:
        raise ReviewError(f"0-length response with status code: {status} and content type: application/json")
    try:
        return decode_json(body)
    except ValueError as error:
        raise ReviewError(f"couldn't get version/kind; json parse error: {error}") from None


def _refusal(status: int, body: bytes) -> str:
    try:
        document = decode_json(body) if body.startswith(b"{") else None
    except ValueError:
        document = None
    if isinstance(document, dict) and document.get("kind") == "Status" and document.get("apiVersion") == "v1":
        message = document.get("message")
        if isinstance(message, str) and message:
            return message
    text = _STATUS_TEXTS.get(status)
    if text is None and status >= 500:
        text = 'an error on the server ("unknown") has prevented the request from succeeding'
    return text or f"the server responded with the status code {status} but did not return more information"


def converted_objects(version: str, uid: str, document: Any) -> list[Any]:
    """The objects of an answer, unchecked.

    Raises:
        ReviewError: it is not a review, or not of this request, or reports that conversion failed, in the webhook's own words.
    """
    if not isinstance(document, dict):
        raise ReviewError(f"couldn't get version/kind; json parse error: json: cannot unmarshal {json_type(document)} into Go value")
    response = document.get("response")
    if version == "v1":
        expected, got = f"{_GROUP}/v1, Kind={_KIND}", group_version_kind(document)
        if got != expected:
            raise ReviewError(f"expected webhook response of {expected}, got {got}")
    if not isinstance(response, dict):
        raise ReviewError("no response provided")
    if version == "v1" and response.get("uid") != uid:
        raise ReviewError(f"expected response.uid={go_quote(uid)}, got {go_quote(_text(response, 'uid'))}")
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != _SUCCESS:
        raise ReviewError(_text(result, "message") or f"response.result.status was '{_text(result, 'status')}', not 'Success'")
    objects = response.get("convertedObjects")
    return objects if isinstance(objects, list) else []


def group_version_kind(obj: Mapping[str, Any]) -> str:
    """`example.com/v1, Kind=Widget`, as Go prints what an object says it is."""
    api_version, kind = _text(obj, "apiVersion"), _text(obj, "kind")
    group, slash, version = api_version.rpartition("/")
    return f"{group if slash else ''}/{version}, Kind={kind}"


def check_converted(original: Mapping[str, Any], converted: Any, api_version: str) -> None:
    """Whether an answered object is the one that was asked for, in the version that was asked for.

    Raises:
        ReviewError: it is not.
    """
    if not isinstance(converted, dict):
        raise ReviewError(f"json: cannot unmarshal {json_type(converted)} into Go value of type map[string]interface {{}}")
    kind = _text(converted, "kind")
    if not kind:
        raise ReviewError("Object 'Kind' is missing in the converted object")
    got = _text(converted, "apiVersion")
    if got != api_version:
        raise ReviewError(f"invalid groupVersion (expected {api_version}, received {got})")
    if kind != original["kind"]:
        raise ReviewError(f"invalid kind (expected {original['kind']}, received {kind})")
    before, after = original["metadata"], converted.get("metadata")
    after = after if isinstance(after, dict) else {}
    for field, name in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (old := _text(before, field)) != (new := _text(after, field)):
            raise ReviewError(f"must have the same {name}: {old} != {new}")


def restored_metadata(original: Mapping[str, Any], converted: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a converted object: that of the original, with the labels and annotations of the answer, which alone may change.

    Raises:
        ReviewError: the answer has no metadata, or invalid labels or annotations.
    """
    if "metadata" not in converted:
        raise ReviewError("missing metadata in converted object")
    answered = converted["metadata"]
    if not isinstance(answered, dict):
        raise ReviewError(f"invalid metadata of type {go_type(answered)} in converted object")
    before = original.get("metadata", {})
    if not isinstance(before, dict):
        raise ReviewError(f"invalid metadata of type {go_type(before)} in input object")
    metadata = dict(before)
    for field, problems_of, path in (
        ("labels", label_problems, "metadata.labels"),
        ("annotations", annotation_problems, "metadata.annotation"),
    ):
        value = answered.get(field)
        if value is None:
            metadata.pop(field, None)
            continue
        if not isinstance(value, dict):
            raise ReviewError(f"invalid metadata.{field} of type {go_type(value)} in converted object")
        for key, text in value.items():
            if not isinstance(text, str):
                raise ReviewError(f"metadata.{field}[{key}] must be a string, but is {go_type(text)} in converted object")
        if value != metadata.get(field) and (problems := problems_of(value, path)):
            raise ReviewError(aggregate(problems))
        metadata[field] = value
    return metadata


def _text(obj: Mapping[str, Any], field: str) -> str:
    value = obj.get(field)
    return value if isinstance(value, str) else ""
