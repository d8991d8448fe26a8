"""AdmissionReview: the request to a webhook, and its answer. Pure.

Source: k8s.io/apiserver `pkg/admission/plugin/webhook/request` and `pkg/admission/plugin/webhook/errors`, k8s.io/api `admission`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.golang.quoting import go_quote
from kcp_py.golang.types import json_type

GROUP: Final = "admission.k8s.io"
KIND: Final = "AdmissionReview"
_VERSIONS: Final = ("v1", "v1beta1")
_JSON_PATCH: Final = "JSONPatch"
_LEAST_REFUSAL, _MOST_REFUSAL = 400, 599


class AnswerError(Exception):
    """An answer that cannot be used. The message is upstream's."""


class Answer(NamedTuple):
    """What a webhook says about a write."""

    allowed: bool
    result: Mapping[str, Any]
    """A Status; empty where there is none."""
    patch: bytes = b""
    patch_type: str = ""
    warnings: Sequence[str] = ()
    audit_annotations: Mapping[str, str] = {}


def review_version(versions: Iterable[str]) -> str:
    """The version to ask in: the first of the webhook's that is spoken.

    Raises:
        AnswerError: none is.
    """
    for version in versions:
        if version in _VERSIONS:
            return version
    raise AnswerError("could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)")


def encode_review(version: str, uid: str, request: Mapping[str, Any]) -> bytes:
    """The body of a call.

    Args:
        version: of the review.
        uid: of the request.
        request: the rest of `request`.
    """
    return orjson.dumps({"kind": KIND, "apiVersion": f"{GROUP}/{version}", "request": {"uid": uid, **request}})


def read_answer(document: Any, version: str, uid: str, *, mutating: bool) -> Answer:
    """Check an answer and read it.

    Args:
        document: the decoded body.
        version: in which the webhook was asked.
        uid: of the request.
        mutating: whether the webhook may change the object.

    Raises:
        AnswerError: it cannot be used.
    """
    if not isinstance(document, dict):
        raise _uncalled(f"couldn't get version/kind; json parse error: json: cannot unmarshal {json_type(document)} into Go value")
    named = _check_type(document, version)
    response = document.get("response")
    if response is not None:
        _check_fields(response)
    if response is None:
        raise _invalid("webhook response was absent")
    patch = _decoded(response.get("patch") or "")
    patch_type = response.get("patchType")
    if version == "v1":
        if response.get("uid", "") != uid:
            raise _invalid(f"expected response.uid={go_quote(uid)}, got {go_quote(response.get('uid') or '')}")
        if not named:
            raise _invalid(f"expected webhook response of {GROUP}/v1, Kind={KIND}, got /, Kind=")
        _check_patch(patch, patch_type, mutating=mutating)
    elif patch:
        # As upstream: this version does not verify the type.
        patch_type = _JSON_PATCH
    return Answer(
        response.get("allowed") is True,
        response.get("status") or {},
        patch if mutating else b"",
        (patch_type or "") if mutating else "",
        tuple(response.get("warnings") or ()),
        response.get("auditAnnotations") or {},
    )


def refusal_of(webhook: str, result: Mapping[str, Any]) -> StatusError:
    """The answer to the client where a webhook denies a write."""
    code = result.get("code")
    if not isinstance(code, int) or code < _LEAST_REFUSAL:
        code = _LEAST_REFUSAL
    reason, message, details = result.get("reason") or "", result.get("message") or "", result.get("details")
    denied = f"admission webhook {go_quote(webhook)} denied the request"
    text = f"{denied}: {message or reason}" if message or reason else f"{denied} without explanation"
    # HTTP has no codes beyond these, which upstream fails to write.
    return StatusError(min(code, _MOST_REFUSAL), reason, text, details=details if isinstance(details, dict) else None)


def _invalid(text: str) -> AnswerError:
    return AnswerError(f"received invalid webhook response: {text}")


def _uncalled(text: str) -> AnswerError:
    return AnswerError(f"failed to call webhook: {text}")


def _check_type(document: Mapping[str, Any], version: str) -> bool:
    """Check apiVersion and kind of a document; whether it has any.

    Raises:
        AnswerError: they are others than were asked for.
    """
    api_version, kind = _text(document, "apiVersion"), _text(document, "kind")
    if not api_version and not kind:
        return False
    if kind != KIND or api_version not in {f"{GROUP}/{known}" for known in _VERSIONS}:
        raise _uncalled(f'no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"')
    if api_version != f"{GROUP}/{version}":
        given = api_version.rpartition("/")[2]
        raise _uncalled(f"converting ({given}.{KIND}) to ({version}.{KIND}): unknown conversion")
    return True


_TYPES: Final[Mapping[str, tuple[type, str, str]]] = {
    "uid": (str, "", "types.UID"),
    "allowed": (bool, "", "bool"),
    "patch": (str, "", "[]uint8"),
    "patchType": (str, "", "v1.PatchType"),
    "warnings": (list, "[]string", "[]string"),
    "auditAnnotations": (dict, "map[string]string", "map[string]string"),
    "status": (dict, "", "v1.Status"),
}


def _check_fields(response: Any) -> None:
    """Check the types of fields.

    Raises:
        AnswerError: a value is of another type.
    """
    if not isinstance(response, dict):
        raise _mistyped(response, "AdmissionReview.response", "v1.AdmissionResponse")
    for field, (kind, _, go_type) in _TYPES.items():
        value = response.get(field)
        if value is not None and not isinstance(value, kind):
            raise _mistyped(value, f"AdmissionResponse.response.{field}", go_type)
    for field in ("warnings", "auditAnnotations"):
        values = response.get(field) or ()
        for value in values.values() if isinstance(values, dict) else values:
            if not isinstance(value, str):
                raise _mistyped(value, f"AdmissionResponse.response.{field}", "string")
    status = response.get("status") or {}
    for field, wanted, go_type in (("message", str, "string"), ("reason", str, "v1.StatusReason"), ("code", int, "int32")):
        value = status.get(field)
        if value is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
            raise _mistyped(value, f"Status.response.status.{field}", go_type)


def _mistyped(value: Any, field: str, go_type: str) -> AnswerError:
    return _uncalled(f"json: cannot unmarshal {json_type(value)} into Go struct field {field} of type {go_type}")


def _decoded(patch: str) -> bytes:
    try:
        return base64.b64decode(patch, validate=True)
    except (binascii.Error, ValueError):
        at = next((index for index, character in enumerate(patch) if not (character.isalnum() or character in "+/=")), len(patch))
        raise _uncalled(f"illegal base64 data at input byte {at}") from None


def _check_patch(patch: bytes, patch_type: str | None, *, mutating: bool) -> None:
    """Check that a patch and its type come together, and from webhooks that may change the object.

    Raises:
        AnswerError: they do not.
    """
    if not mutating:
        if patch:
            raise _invalid("validating webhook may not return response.patch")
        if patch_type is not None:
            raise _invalid("validating webhook may not return response.patchType")
        return
    if patch and patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise _invalid("webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise _invalid('webhook returned invalid response.patchType of ""')


def _text(document: Mapping[str, Any], field: str) -> str:
    value = document.get(field)
    return value if isinstance(value, str) else ""
