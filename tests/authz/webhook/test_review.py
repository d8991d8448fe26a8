"""What a webhook is asked, and how its answer is read."""

from __future__ import annotations

import orjson
import pytest

from kcp_py.apimachinery.reviews import InvalidAnswerError
from kcp_py.authz.webhook.review import ReviewStatus, parse_status, review_body, review_spec
from kcp_py.logicalcluster import WILDCARD, Name
from kcp_py.request.requestinfo import parse_query, parse_request
from kcp_py.request.user import UserInfo

TEAM_A = Name("team-a")


def test_a_resource_request() -> None:
    """All attributes of user and request, with the cluster as an extra field that the user cannot choose."""
    user = UserInfo("alice", "1", ("dev",), {"scopes": ("a", "b"), "authorization.kcp.io/cluster-name": ("team-b",)})
    query = parse_query(b"labelSelector=tier%20in%20(a,b),!old&fieldSelector=metadata.namespace=x")
    info = parse_request("GET", "/apis/apps/v1/namespaces/default/deployments", query)
    assert review_spec(user, TEAM_A, info) == {
        "resourceAttributes": {
            "namespace": "default",
            "verb": "list",
            "group": "apps",
            "version": "v1",
            "resource": "deployments",
            "fieldSelector": {"requirements": [{"key": "metadata.namespace", "operator": "In", "values": ["x"]}]},
            "labelSelector": {
                "requirements": [{"key": "old", "operator": "DoesNotExist"}, {"key": "tier", "operator": "In", "values": ["a", "b"]}]
            },
        },
        "user": "alice",
        "groups": ["dev"],
        "extra": {"scopes": ["a", "b"], "authorization.kcp.io/cluster-name": ["team-a"]},
        "uid": "1",
    }


def test_other_requests() -> None:
    """Paths have a verb and a path alone; all clusters are a star; a selector that cannot be read is left out."""
    assert review_spec(UserInfo("alice"), WILDCARD, parse_request("GET", "/metrics", {})) == {
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        "user": "alice",
        "extra": {"authorization.kcp.io/cluster-name": ["*"]},
    }
    info = parse_request("GET", "/api/v1/pods", parse_query(b"labelSelector=(("))
    assert "labelSelector" not in review_spec(UserInfo("alice"), TEAM_A, info)["resourceAttributes"]


@pytest.mark.parametrize(("version", "field"), [("v1", "groups"), ("v1beta1", "group")])
def test_versions(version: str, field: str) -> None:
    """The versions differ in the name of one field."""
    spec = review_spec(UserInfo("alice", "", ("dev",)), TEAM_A, parse_request("GET", "/api", {}))
    sent = orjson.loads(review_body(spec, version))
    assert sent["apiVersion"] == f"authorization.k8s.io/{version}"
    assert sent["kind"] == "SubjectAccessReview"
    assert sent["spec"][field] == ["dev"]
    assert sent["status"] == {"allowed": False}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"status":{"allowed":true}}', ReviewStatus(allowed=True, denied=False, reason="")),
        (b'{"status":{"denied":true,"reason":"no"}}', ReviewStatus(allowed=False, denied=True, reason="no")),
        (b'{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1"}', ReviewStatus(allowed=False, denied=False, reason="")),
    ],
)
def test_answers(body: bytes, expected: ReviewStatus) -> None:
    """Fields that are left out are false and empty."""
    assert parse_status(body, "v1") == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"kind":"TokenReview"}',
        b'{"kind":[]}',
        b'{"apiVersion":"authorization.k8s.io/v1beta1"}',
        b'{"status":[1]}',
        b'{"status":{"allowed":"true"}}',
        b'{"status":{"allowed":true,"reason":1}}',
    ],
)
def test_answers_that_are_no_reviews(body: bytes) -> None:
    """Nothing is read into them."""
    with pytest.raises(InvalidAnswerError):
        parse_status(body, "v1")
