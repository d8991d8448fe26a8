"""Status errors."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.fielderrors import invalid, required
from kcp_py.apimachinery.kinds import GroupResource

PODS = GroupResource("", "pods")
DEPLOYMENTS = GroupResource("apps", "deployments")


@pytest.mark.parametrize(
    ("error", "code", "reason", "message"),
    [
        (errors.bad_request("x"), 400, "BadRequest", "x"),
        (errors.unauthorized(), 401, "Unauthorized", "Unauthorized"),
        (errors.forbidden(PODS, "a", "d"), 403, "Forbidden", 'pods "a" is forbidden: d'),
        (errors.forbidden(PODS, "", "d"), 403, "Forbidden", "pods is forbidden: d"),
        (errors.forbidden(GroupResource("", ""), "", "d"), 403, "Forbidden", "forbidden: d"),
        (errors.not_found(DEPLOYMENTS, "a"), 404, "NotFound", 'deployments.apps "a" not found'),
        (errors.already_exists(PODS, "a"), 409, "AlreadyExists", 'pods "a" already exists'),
        (errors.conflict(PODS, "a", "d"), 409, "Conflict", 'Operation cannot be fulfilled on pods "a": d'),
        (errors.expired("m"), 410, "Expired", "m"),
        (errors.too_large(5), 413, "RequestEntityTooLarge", "Request entity too large: limit is 5"),
        (errors.unprocessable("d"), 422, "Invalid", "the server rejected our request due to an error in our request: d"),
        (errors.too_many_requests("m", 1), 429, "TooManyRequests", "m"),
        (errors.internal("m"), 500, "InternalError", "Internal error occurred: m"),
        (errors.service_unavailable("m"), 503, "ServiceUnavailable", "m"),
        (errors.too_large_resource_version(9, 5), 504, "Timeout", "Timeout: Too large resource version: 9, current: 5"),
    ],
)
def test_forms(error, code, reason, message):
    """Each constructor gives upstream's code, reason and message."""
    assert (error.code, error.reason, error.message) == (code, reason, message)
    assert error.to_status()["code"] == code


def test_status_of_validation_errors():
    """The kind is named without its group in the details, each error is a cause."""
    status = errors.invalid("Widget.example.com", "a", [required("spec.x"), required("spec.y")]).to_status()
    assert status["message"] == 'Widget.example.com "a" is invalid: [spec.x: Required value, spec.y: Required value]'
    assert status["details"] == {
        "name": "a",
        "group": "example.com",
        "kind": "Widget",
        "causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.x"},
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.y"},
        ],
    }


def test_expired_lists_can_go_on():
    """The token for the inconsistent rest stands in the list metadata."""
    assert errors.expired(errors.INCONSISTENT_CONTINUE, continue_token="t").to_status()["metadata"] == {"continue": "t"}


def test_retry_after_is_in_the_details():
    """Servers copy it into the header."""
    assert errors.too_many_requests("m", 3).retry_after_seconds == 3
    assert errors.bad_request("m").retry_after_seconds is None


def test_an_answer_tells_of_a_thousand_errors():
    """An object with a mistake in each of many values does not make an answer that is many times as large."""
    status = errors.invalid("ConfigMap", "a", [invalid(f"data[k{number}]", "v", "wrong") for number in range(1234)]).to_status()
    assert len(status["details"]["causes"]) == 1000
    assert status["message"].endswith('data[k999]: Invalid value: "v": wrong] and more errors')


def test_an_absent_object_is_named() -> None:
    """An error about a resource that is not served names no object."""
    widgets = GroupResource("example.com", "widgets")
    assert errors.is_absent(errors.not_found(widgets, "one"))
    assert not errors.is_absent(errors.unserved())
    assert not errors.is_absent(errors.conflict(widgets, "one", "changed"))
