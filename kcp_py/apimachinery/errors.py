"""`StatusError`: an API error as clients get it, with one constructor per reason (k8s.io/apimachinery `api/errors`).

Raised by every layer from here up; turned into a response in one place, the errors filter of the server. Clients decide by `reason` first,
then by `code`, and match on some of the messages: the texts are upstream's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, aggregate
from kcp_py.apimachinery.kinds import GroupResource

MAX_CAUSES: Final = 1000
"""Field errors in one answer."""


class StatusError(Exception):
    """A failure with an HTTP code, a machine-readable reason and a message."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata

    @property
    def retry_after_seconds(self) -> int | None:
        """What goes into the `Retry-After` header."""
        return self.details.get("retryAfterSeconds") if self.details else None

    def to_status(self) -> dict[str, Any]:
        """The `v1` Status object, with its keys in the order in which upstream writes them."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata or {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class DecodingError(StatusError):
    """400 for a body whose content does not have the types of its kind."""

    def __init__(self, kind: str, version: str, problem: str) -> None:
        """Make the error of a decoder.

        Args:
            kind: of the body.
            version: of the kind, without the group.
            problem: the message of the decoder.
        """
        super().__init__(400, "BadRequest", f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}')
        self.problem = problem


def _details(resource: GroupResource, name: str, **more: Any) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if resource.group:
        details["group"] = resource.group
    if resource.resource:
        details["kind"] = resource.resource
    details.update(more)
    return details


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(resource: GroupResource, name: str, detail: str) -> StatusError:
    """`pods "x" is forbidden: <detail>`; without a resource, `forbidden: <detail>`."""
    if not resource.resource:
        message = f"forbidden: {detail}"
    elif name:
        message = f'{resource} "{name}" is forbidden: {detail}'
    else:
        message = f"{resource} is forbidden: {detail}"
    return StatusError(403, "Forbidden", message, details=_details(resource, name))


def not_found(resource: GroupResource, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{resource} "{name}" not found', details=_details(resource, name))


def unknown_path() -> StatusError:
    """A path that nothing serves. Upstream answers in plain text; the errors filter does so for the empty reason and this code."""
    return StatusError(404, "", "404 page not found")


def unserved() -> StatusError:
    """404 for a path of a served API group that has no route, and for a client's resource that the server does not serve.

    It names no object.

    Source: apimachinery `pkg/api/errors` (`NewGenericServerResponse`).
    """
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def is_absent(error: StatusError) -> bool:
    """Whether an error says that an object does not exist, and not that its resource is not served."""
    return error.code == 404 and bool((error.details or {}).get("name"))


def method_not_supported(resource: GroupResource, verb: str, suffix: str = "") -> StatusError:
    message = f'{verb} is not supported on resources of kind "{resource}"{suffix}'
    return StatusError(405, "MethodNotAllowed", message, details=_details(resource, ""))


def not_acceptable(accepted: Sequence[str]) -> StatusError:
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return StatusError(406, "NotAcceptable", message)


def already_exists(resource: GroupResource, name: str) -> StatusError:
    return StatusError(409, "AlreadyExists", f'{resource} "{name}" already exists', details=_details(resource, name))


def conflict(resource: GroupResource, name: str, detail: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {resource} "{name}": {detail}'
    return StatusError(409, "Conflict", message, details=_details(resource, name))


OBJECT_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
"""The detail of the optimistic-lock conflict, which clients match on."""


LIST_EXPIRED = "The resourceVersion for the provided list is too old."
"""For a list at a revision that is no longer kept."""
WATCH_EXPIRED = "The resourceVersion for the provided watch is too old."
CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter."
)
INCONSISTENT_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue "
    "parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token "
    "results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and "
    "now may show up in the list."
)
"""For a page whose revision is no longer kept, sent with a token that goes on from the latest state."""


def expired(message: str, *, continue_token: str = "") -> StatusError:
    """A revision that is no longer kept; `continue_token` lets a paged list go on from the latest state."""
    return StatusError(410, "Expired", message, metadata={"continue": continue_token} if continue_token else None)


def too_large(limit: int) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return StatusError(415, "UnsupportedMediaType", message)


def invalid(group_kind: str, name: str, errors: Iterable[FieldError]) -> StatusError:
    """422 with one cause per field error. `group_kind` is `Widget.example.com` or, in the core group, `ConfigMap`.

    Of more than `MAX_CAUSES` errors the first ones are told: the answer would be many times as large as the body.
    """
    found = list(islice(errors, MAX_CAUSES + 1))
    more = len(found) > MAX_CAUSES
    del found[MAX_CAUSES:]
    kind, _, group = group_kind.partition(".")
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details["causes"] = [{"reason": error.reason, "message": error.text, "field": error.field} for error in found]
    message = f'{group_kind} "{name}" is invalid: {aggregate(found)}'
    return StatusError(422, "Invalid", f"{message} and more errors" if more else message, details=details)


def unprocessable(detail: str) -> StatusError:
    """422 for a patch that cannot be applied; upstream sends the text without the detail."""
    return StatusError(422, "Invalid", f"the server rejected our request due to an error in our request: {detail}")


def too_many_operations(maximum: int, actual: int) -> StatusError:
    """413 for a JSON patch."""
    message = f"Request entity too large: The allowed maximum operations in a JSON patch is {maximum}, got {actual}"
    return StatusError(413, "RequestEntityTooLarge", message)


def too_many_requests(message: str, retry_after_seconds: int) -> StatusError:
    return StatusError(429, "TooManyRequests", message, details={"retryAfterSeconds": retry_after_seconds})


def internal(message: str) -> StatusError:
    text = f"Internal error occurred: {message}"
    return StatusError(500, "InternalError", text, details={"causes": [{"message": message}]})


def service_unavailable(message: str, *, retry_after_seconds: int = 0) -> StatusError:
    details = {"retryAfterSeconds": retry_after_seconds} if retry_after_seconds else None
    return StatusError(503, "ServiceUnavailable", message, details=details)


def timeout(message: str, *, retry_after_seconds: int = 0) -> StatusError:
    details = {"retryAfterSeconds": retry_after_seconds} if retry_after_seconds else None
    return StatusError(504, "Timeout", f"Timeout: {message}", details=details)


def too_large_resource_version(asked: int, current: int) -> StatusError:
    """A read at a revision that has not happened yet; clients look for the cause."""
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )
