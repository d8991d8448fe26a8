"""Reviews of users: who the caller is, and whose token it is that a service was shown."""

from __future__ import annotations

import pytest

from tests.authz.conftest import ALICE, let_in
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

GROUP = "/clusters/team-a/apis/authentication.k8s.io/v1"


async def test_whoami(api: Api) -> None:
    """Every caller that enters a cluster may ask who it is there."""
    await let_in(api, "User:alice")
    answer = await api.ok("POST", f"{GROUP}/selfsubjectreviews", {}, token=ALICE)
    assert answer["status"] == {"userInfo": {"username": "alice", "uid": "a1", "groups": ["dev", "system:authenticated"]}}
    assert set(answer["metadata"]) == {"creationTimestamp"}


async def test_an_impersonated_user_is_the_caller(api: Api) -> None:
    """The answer is about the user as whom the request is made."""
    await let_in(api, "User:carol")
    headers = {"Impersonate-User": "carol", "Impersonate-Group": "team"}
    answer = await api.ok(
        "POST", f"{GROUP}/selfsubjectreviews", {}, headers={**headers, "Impersonate-Extra-Scopes": "x"}, token="Bearer secret"
    )
    assert answer["status"]["userInfo"] == {
        "username": "carol",
        "groups": ["team", "system:authenticated"],
        "extra": {"scopes": ["x"]},
    }


async def test_tokens(api: Api) -> None:
    """A known token has a user; an unknown one, and one for another audience, has none."""
    asked = {"spec": {"token": "alice"}}
    status = (await api.ok("POST", f"{GROUP}/tokenreviews", asked))["status"]
    assert (status["authenticated"], status["user"]["username"]) == (True, "alice")
    (audience,) = status["audiences"]
    for spec, known in (
        ({"token": "nobody"}, False),
        ({"token": "x" * 100_000}, False),
        ({"token": "alice", "audiences": ["other"]}, False),
        ({"token": "alice", "audiences": ["other", audience]}, True),
    ):
        status = (await api.ok("POST", f"{GROUP}/tokenreviews", {"spec": spec}))["status"]
        assert status.get("authenticated", False) is known
        assert known or status == {"user": {}, "error": "invalid bearer token"}


async def test_a_review_needs_a_token_and_a_permission(api: Api) -> None:
    """An empty one is 400, and callers without the permission are refused."""
    assert (await api.fails(400, "POST", f"{GROUP}/tokenreviews", {"spec": {}}))["message"] == (
        "token is required for TokenReview in authentication"
    )
    await let_in(api, "User:alice")
    await api.fails(403, "POST", f"{GROUP}/tokenreviews", {"spec": {"token": "bob"}}, token=ALICE)
