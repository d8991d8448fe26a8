"""What a webhook is asked about a token, and how its answer is read."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.reviews import InvalidAnswerError
from kcp_py.authn.webhook.review import TokenStatus, parse_status, review_body
from kcp_py.logicalcluster import WILDCARD, ClusterSelection, Name
from kcp_py.request.user import UserInfo


@pytest.mark.parametrize(("cluster", "text"), [(Name("team-a"), "team-a"), (WILDCARD, "*")])
def test_the_question(cluster: ClusterSelection, text: str) -> None:
    """The token, the audiences, and the cluster as an annotation."""
    assert orjson.loads(review_body("secret", ("one", "two"), cluster, "v1beta1")) == {
        "kind": "TokenReview",
        "apiVersion": "authentication.k8s.io/v1beta1",
        "metadata": {"annotations": {"kcp.io/cluster": text}},
        "spec": {"token": "secret", "audiences": ["one", "two"]},
        "status": {"user": {}},
    }


def parsed(status: Any) -> TokenStatus:
    body = orjson.dumps({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status})
    return parse_status(body, "v1")._replace(size=0)


def test_a_user() -> None:
    """All fields of the user are read, and those that are null are empty."""
    user = {"username": "alice", "uid": "1", "groups": ["dev"], "extra": {"Scopes": ["a", "b"], "none": None}}
    expected = UserInfo("alice", "1", ("dev",), {"Scopes": ("a", "b"), "none": ()})
    assert parsed({"authenticated": True, "user": user, "audiences": ["x"]}) == TokenStatus(expected, ("x",), "", 0)
    empty = {"authenticated": True, "user": {"username": "bob", "uid": None, "groups": None, "extra": None}, "audiences": None}
    assert parsed(empty) == TokenStatus(UserInfo("bob"), (), "", 0)


@pytest.mark.parametrize("status", [None, {}, {"authenticated": False, "user": {"username": "alice"}}, {"authenticated": None}])
def test_no_user(status: Any) -> None:
    """A token without `authenticated` has no user, whatever else the answer says."""
    assert parsed(status) == TokenStatus(None, (), "", 0)
    assert parsed({**(status or {}), "error": "expired"}).error == "expired"


@pytest.mark.parametrize(
    "status",
    [
        [],
        "yes",
        {"authenticated": "true", "user": {"username": "alice"}},
        {"authenticated": 1, "user": {"username": "alice"}},
        {"authenticated": True},
        {"authenticated": True, "user": {"username": ""}},
        {"authenticated": True, "user": ["alice"]},
        {"authenticated": True, "user": {"username": ["alice"]}},
        {"authenticated": True, "user": {"username": "alice", "uid": 1}},
        {"authenticated": True, "user": {"username": "alice", "groups": "system:masters"}},
        {"authenticated": True, "user": {"username": "alice", "groups": [["system:masters"]]}},
        {"authenticated": True, "user": {"username": "alice", "extra": ["a"]}},
        {"authenticated": True, "user": {"username": "alice", "extra": {"a": "b"}}},
        {"authenticated": True, "user": {"username": "alice"}, "audiences": "x"},
        {"authenticated": False, "error": 1},
    ],
)
def test_odd_answers(status: Any) -> None:
    """An answer of other types, and a valid token without a user, is a failure of the webhook."""
    with pytest.raises(InvalidAnswerError):
        parsed(status)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"<html>",
        b'{"kind":"SubjectAccessReview","status":{"authenticated":true,"user":{"username":"a"}}}',
        b'{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1beta1","status":{"authenticated":true,"user":{"username":"a"}}}',
        b'{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":{"username":"\xff"}}}',
        b"[" * 100_000,
    ],
)
def test_other_documents(body: bytes) -> None:
    """Documents of another kind or version, and those that are not JSON, are refused."""
    with pytest.raises(InvalidAnswerError):
        parse_status(body, "v1")
