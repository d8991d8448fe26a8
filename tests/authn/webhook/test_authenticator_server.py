"""A server that asks a webhook about tokens: the order of authenticators, reviews, and answers about failures."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from tests.authn.webhook.conftest import known, reviewed
from tests.authz.conftest import MAPS, let_in
from tests.egress.webhook import Hook
from tests.server.handlers.conftest import Api, config_map, options

pytestmark = pytest.mark.anyio

GROUP = "/clusters/team-a/apis/authentication.k8s.io/v1"
TOKENS = {"alice-token": "alice", "master-token": "max"}


def answer(review: dict[str, Any]) -> bytes:
    """Users with the cluster in which they are asked about as a group."""
    name = TOKENS.get(review["spec"]["token"])
    if name is None:
        return reviewed({"authenticated": False, "error": "no such token"})
    cluster = review["metadata"]["annotations"]["kcp.io/cluster"]
    return known(name, "system:masters" if name == "max" else f"seen-in-{cluster}")


@pytest.fixture
async def api(tmp_path: Path, hook: Hook) -> AsyncIterator[Api]:
    """A control plane that asks the webhook. Its administrator is known by a file."""
    hook.answer = answer
    settings = options(tmp_path, authentication_token_webhook_config_file=hook.kubeconfig(), authentication_token_webhook_version="v1")
    async with (
        ControlPlane(settings) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        yield Api(client, control_plane)


async def test_users_of_the_webhook(api: Api, hook: Hook) -> None:
    """They are ordinary users, in all clusters that let them in. Equal requests cost one question."""
    await let_in(api, "User:alice")
    for _ in range(2):
        found = await api.ok("POST", f"{GROUP}/selfsubjectreviews", {}, token="Bearer alice-token")
        assert found["status"]["userInfo"] == {"username": "alice", "groups": ["seen-in-team-a", "system:authenticated"]}
    await api.fails(403, "GET", MAPS, token="Bearer alice-token")
    assert len(hook.asked) == 1
    await api.fails(403, "GET", "/clusters/team-b/api/v1/configmaps", token="Bearer alice-token")
    await api.ok("GET", "/clusters/*/api/v1/configmaps", token="Bearer master-token")
    await api.fails(401, "GET", MAPS, token="Bearer other")


async def test_the_webhook_is_asked_last(api: Api, hook: Hook) -> None:
    """Tokens of files and of service accounts are verified without it, and it cannot give them other users."""
    hook.answer = known("mallory", "system:masters")
    await api.ok("POST", MAPS, config_map("one"))
    account = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
    issued = await api.ok("POST", "/clusters/team-a/api/v1/namespaces/default/serviceaccounts/default/token", account)
    found = await api.ok("POST", f"{GROUP}/selfsubjectreviews", {}, token=f"Bearer {issued['status']['token']}")
    assert found["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"
    await api("GET", MAPS, token="")
    assert hook.asked == []


async def test_token_reviews_ask_the_webhook(api: Api) -> None:
    """A service learns the user of a token, or the reason of the webhook."""
    status = (await api.ok("POST", f"{GROUP}/tokenreviews", {"spec": {"token": "alice-token"}}))["status"]
    assert status["authenticated"] is True
    assert status["user"] == {"username": "alice", "groups": ["seen-in-team-a", "system:authenticated"]}
    status = (await api.ok("POST", f"{GROUP}/tokenreviews", {"spec": {"token": "other"}}))["status"]
    assert status == {"user": {}, "error": "[invalid bearer token, no such token]"}
    status = (await api.ok("POST", f"{GROUP}/tokenreviews", {"spec": {"token": "alice-token", "audiences": ["other"]}}))["status"]
    assert status == {"user": {}, "error": "invalid bearer token"}


@pytest.mark.parametrize("token", ["\x00", "a\x00b", "\ud800", "caf\u00e9", "a b", "alice-token\n", "alice-token ", "x" * 20_000])
async def test_odd_tokens_in_reviews(api: Api, token: str) -> None:
    """No form of a token in a review is another token, or a failure of the server."""
    body = b'{"spec":{"token":%b}}' % json.dumps(token).encode()
    response = await api("POST", f"{GROUP}/tokenreviews", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in {201, 400}
    assert response.status_code == 400 or response.json()["status"].get("authenticated", False) is False


async def test_a_webhook_that_is_gone(api: Api, hook: Hook) -> None:
    """Its users get 401, with the same bytes as for an unknown token. Others are served, and no answer has its address."""
    await let_in(api, "User:alice")
    unknown = await api.fails(401, "GET", MAPS, token="Bearer other")
    await hook.server.__aexit__()
    assert await api.fails(401, "GET", MAPS, token="Bearer alice-token") == unknown
    await api.ok("GET", MAPS)
    status = (await api.ok("POST", f"{GROUP}/tokenreviews", {"spec": {"token": "alice-token"}}))["status"]
    assert status == {"user": {}, "error": "[invalid bearer token, the authentication webhook failed]"}
