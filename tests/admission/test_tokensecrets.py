"""Secrets with tokens of service accounts, on a whole server: who a token speaks for, and when it ends."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.server.handlers.conftest import Api, Watch, api

__all__ = ["api"]
pytestmark = pytest.mark.anyio

CORE = "/clusters/team-a/api/v1/namespaces/default"
REVIEWS = "/clusters/team-a/apis/authentication.k8s.io/v1/selfsubjectreviews"


def secret(account: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "one", "annotations": {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token",
    }


async def token_of(watch: Watch) -> str:
    """The token, once a secret has one."""
    while True:
        event = await watch.next()
        assert event is not None
        if token := (event["object"].get("data") or {}).get("token"):
            return base64.b64decode(token).decode()


@pytest.mark.parametrize("account", ["builder", "default"])
async def test_a_token_speaks_for_its_account_until_that_is_deleted(api: Api, account: str) -> None:
    """Stored or not. The answer to the create has no token; the secret goes with the account."""
    if account != "default":
        await api.ok("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": account}})
    async with Watch(api, f"{CORE}/secrets") as watch:
        created = await api.ok("POST", f"{CORE}/secrets", secret(account))
        assert "data" not in created
        token = await token_of(watch)
        review = await api.ok("POST", REVIEWS, {}, token=f"Bearer {token}")
        uid = (await api.ok("GET", f"{CORE}/serviceaccounts/{account}"))["metadata"]["uid"]
        user = review["status"]["userInfo"]
        assert (user["username"], user["uid"]) == (f"system:serviceaccount:default:{account}", uid)
        await api.ok("DELETE", f"{CORE}/serviceaccounts/{account}")
        await api.fails(401, "POST", REVIEWS, {}, token=f"Bearer {token}")
        while (event := await watch.next()) is not None and event["type"] != "DELETED":
            pass
    await api.fails(404, "GET", f"{CORE}/secrets/one")


async def test_a_dry_run_signs_nothing_and_other_secrets_stay(api: Api) -> None:
    """Updates of ordinary users have what they send, token or none."""
    await api.ok("POST", f"{CORE}/secrets", {"metadata": {"name": "mine"}, "stringData": {"a": "b"}})
    updated = await api.ok("PUT", f"{CORE}/secrets/mine", {"metadata": {"name": "mine"}, "stringData": {"c": "d"}})
    assert updated["data"] == {"c": "ZA=="}
    tried = await api.ok("POST", f"{CORE}/secrets?dryRun=All", secret("default"))
    assert "data" not in tried
