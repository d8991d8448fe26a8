"""Tokens of secrets: valid for as long as their secret holds them and their account exists."""

from __future__ import annotations

import base64
from typing import Any, Final

import pytest

from kcp_py.authn.serviceaccount.claims import Account, Issuers, legacy_claims
from kcp_py.logicalcluster import Name
from tests.authn.serviceaccount.conftest import CORE, Issued, Sign, issue, review, whoami
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

SECRET: Final = f"{CORE}/secrets/builder-token"


def legacy(issued: Issued, cluster: str = "team-a", secret: str = "builder-token", **change: Any) -> dict[str, Any]:
    """The claims of the token of a secret, some of them changed."""
    claims = dict(legacy_claims(Account(Name(cluster), "default", "builder", issued.uid), secret, issuers=Issuers(())))
    return claims | {name if name in {"sub", "iss"} else f"kubernetes.io/serviceaccount/{name}": value for name, value in change.items()}


async def keep(api: Api, token: str, **metadata: Any) -> None:
    """Store a token in the secret."""
    await api("DELETE", SECRET)
    annotations = {"kubernetes.io/service-account.name": "builder"}
    secret = {
        "metadata": {"name": "builder-token", "annotations": annotations, **metadata},
        "type": "kubernetes.io/service-account-token",
        "data": {"token": base64.b64encode(token.encode()).decode()},
    }
    await api.ok("POST", f"{CORE}/secrets", secret)


async def test_a_secret_holds_its_token(api: Api, issued: Issued, sign: Sign) -> None:
    """The token has no end, and no other audience than the server. It ends with the secret, and with its content."""
    token = sign(legacy(issued))
    assert (await whoami(api, token)).status_code == 401
    await keep(api, token)
    user = (await whoami(api, token)).json()["status"]["userInfo"]
    assert (user["username"], user["uid"]) == ("system:serviceaccount:default:builder", issued.uid)
    assert user["extra"] == {"authentication.kcp.io/cluster-name": ["team-a"]}
    assert (await review(api, token, audiences=["other"])).get("authenticated") is None
    await keep(api, sign(legacy(issued)))
    assert (await whoami(api, token)).status_code == 401
    await keep(api, token)
    assert (await whoami(api, token)).status_code == 201
    await api.ok("DELETE", SECRET)
    assert (await whoami(api, token)).status_code == 401


async def test_a_deleted_account_ends_it(api: Api, issued: Issued, sign: Sign) -> None:
    """An account of the same name that comes later does not bring it back."""
    token = sign(legacy(issued))
    await keep(api, token)
    await api.ok("DELETE", f"{CORE}/serviceaccounts/builder")
    await issue(api)
    await keep(api, token)
    assert (await whoami(api, token)).status_code == 401


async def test_a_token_can_be_marked_as_invalid(api: Api, issued: Issued, sign: Sign) -> None:
    """As by the controller that cleans up, which marks tokens before it deletes their secrets."""
    token = sign(legacy(issued))
    await keep(api, token, labels={"kubernetes.io/legacy-token-invalid-since": "2026-01-01"})
    assert (await whoami(api, token)).status_code == 401


@pytest.mark.parametrize(
    "change",
    [
        {"clusterName": "team-b"},
        {"clusterName": "*"},
        {"clusterName": 5},
        {"clusterName": ""},
        {"namespace": "kube-system"},
        {"namespace": ""},
        {"secret.name": "other"},
        {"secret.name": "a/b"},
        {"secret.name": 5},
        {"service-account.name": "default"},
        {"service-account.uid": "x"},
        {"service-account.uid": ""},
        {"sub": "system:admin"},
    ],
    ids=str,
)
async def test_claims_that_do_not_agree(api: Api, issued: Issued, sign: Sign, change: dict[str, Any]) -> None:
    """A valid signature, and a secret that holds the token, do not help it."""
    token = sign(legacy(issued, **change))
    await keep(api, token)
    for cluster in ("/clusters/team-a", "/clusters/team-b", ""):
        assert (await whoami(api, token, cluster)).status_code == 401


async def test_in_another_cluster(api: Api, issued: Issued, sign: Sign) -> None:
    """It is the foreign account there, and a request that names no cluster goes to that of the token."""
    token = sign(legacy(issued))
    await keep(api, token)
    refused = (await whoami(api, token, "/clusters/team-b")).json()
    assert 'User "system:kcp:serviceaccount:team-a:default:builder"' in refused["message"]
    assert (await whoami(api, token, "")).status_code == 201
