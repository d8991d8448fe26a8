"""Why tokens are not valid, as reviews say it. The texts were recorded from kube-apiserver 1.37.2."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from kcp_py.authn.serviceaccount.claims import Account
from kcp_py.authn.serviceaccount.facts import Fact
from kcp_py.authn.serviceaccount.keys import parse_private
from kcp_py.authn.serviceaccount.newkeys import generate_pem
from kcp_py.authn.serviceaccount.refusals import account_problem, bound_problem, legacy_account_problem, marked_invalid
from kcp_py.logicalcluster import Name
from tests.authn.serviceaccount.conftest import CORE, SERVER, Issued, Sign, issue, now, review, whoami
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

INVALID = "invalid bearer token"
LEGACY = "kubernetes.io/serviceaccount/"
ACCOUNT = Account(Name("team-a"), "default", "builder", "u1")


def changed(issued: Issued, private: Mapping[str, Any] | None = None, **claims: Any) -> dict[str, Any]:
    """The claims of a token with others."""
    return {**issued.claims, **claims, "kubernetes.io": {**issued.claims["kubernetes.io"], **(private or {})}}


async def reasons(api: Api, token: str, cluster: str = "team-a", **spec: Any) -> str:
    """The error of a review; the request with the token gets 401 without a reason."""
    answer = await whoami(api, token, f"/clusters/{cluster}")
    status = await review(api, token, cluster, **spec)
    assert set(status) == {"user", "error"}
    assert status["user"] == {}
    if not spec:
        assert (answer.status_code, answer.json()["message"]) == (401, "Unauthorized")
    found: str = status["error"]
    return found


@pytest.mark.parametrize(
    ("private", "claims", "reason"),
    [
        ({}, {"exp": 100, "nbf": 1}, "service account token has expired"),
        ({}, {"nbf": now() + 3600}, "service account token is not valid yet"),
        ({}, {"aud": ["other"]}, f'token audiences ["other"] is invalid for the target audiences ["{SERVER}"]'),
        ({}, {"aud": ["b", 'c"'], "exp": 100}, f'token audiences ["b" "c\\""] is invalid for the target audiences ["{SERVER}"]'),
        ({"serviceaccount": {"name": "builder", "uid": "other"}}, {}, "service account UID (UID) does not match claim (other)"),
        ({"secret": {"name": "gone", "uid": "x"}}, {}, "service account token has been invalidated"),
        ({"secret": {"name": "held", "uid": "x"}}, {}, "secret UID (SECRET) does not match service account secret ref claim (x)"),
        ({"pod": {"name": "gone", "uid": "x"}}, {}, "service account token has been invalidated"),
        ({"node": {"name": "gone", "uid": "x"}}, {}, "service account token has been invalidated"),
    ],
)
async def test_reasons(api: Api, sign: Sign, private: Mapping[str, Any], claims: Mapping[str, Any], reason: str) -> None:
    """The cluster of the token sees the reason. Other clusters see none: it would be about an account of this one."""
    issued = await issue(api)
    held = await api.ok("POST", f"{CORE}/secrets", {"metadata": {"name": "held"}})
    token = sign(changed(issued, private, **claims))
    expected = reason.replace("UID (UID)", f"UID ({issued.uid})").replace("SECRET", held["metadata"]["uid"])
    assert await reasons(api, token) == f"[{INVALID}, {expected}]"
    await issue(api, core="/clusters/team-b/api/v1/namespaces/default")
    assert await reasons(api, token, "team-b") == INVALID
    assert await reasons(api, token, "missing") == INVALID


async def test_accounts_that_are_gone(api: Api, issued: Issued, sign: Sign) -> None:
    """An account that does not exist has no token, in the cluster and in others."""
    gone = changed(issued, {"serviceaccount": {"name": "gone", "uid": "x"}}, sub="system:serviceaccount:default:gone")
    assert await reasons(api, sign(gone)) == f'[{INVALID}, serviceaccounts "gone" not found]'
    await api.ok("DELETE", f"{CORE}/serviceaccounts/builder")
    assert await reasons(api, issued.token) == f'[{INVALID}, serviceaccounts "builder" not found]'
    later = await issue(api)
    assert await reasons(api, issued.token) == f"[{INVALID}, service account UID ({later.uid}) does not match claim ({issued.uid})]"
    assert await reasons(api, issued.token, "team-b") == INVALID


async def test_other_audiences_in_a_review(api: Api, issued: Issued) -> None:
    """A review for an audience that the token is not for."""
    reason = f'token audiences ["{SERVER}"] is invalid for the target audiences ["a" "b"]'
    assert await reasons(api, issued.token, audiences=["a", "b"]) == f"[{INVALID}, {reason}]"
    assert await reasons(api, issued.token, "team-b", audiences=["a", "b"]) == INVALID


async def test_signatures(api: Api, issued: Issued) -> None:
    """A token that no key of the server has signed gives its cluster no more than that, even if its account does not exist."""
    head, payload, signature = issued.token.split(".")
    forged = f"{head}.{payload}.{'A' * len(signature)}"
    assert await reasons(api, forged) == f"[{INVALID}, go-jose/go-jose: error in cryptographic primitive]"
    gone = changed(issued, {"serviceaccount": {"name": "gone", "uid": "x"}}, sub="system:serviceaccount:default:gone")
    other = parse_private(generate_pem("ES256").encode()).sign(gone)
    assert await reasons(api, other) == f"[{INVALID}, invalid signature, no keys found]"
    for token in (forged, other):
        assert await reasons(api, token, "team-b") == INVALID
    body = base64.urlsafe_b64encode(orjson.dumps(changed(issued, {"clusterName": "team-b"}))).decode().rstrip("=")
    assert await reasons(api, f"{head}.{body}.{signature}", "team-b") == INVALID


@pytest.mark.parametrize("token", ["x", "a.b.c", "e30.e30.e30", "..", "a.b.c.d"])
async def test_other_texts(api: Api, token: str) -> None:
    """Texts that are not tokens of service accounts have no reason."""
    assert await reasons(api, token) == INVALID


async def test_tokens_of_secrets(api: Api, issued: Issued, sign: Sign) -> None:
    """They end with their secret, with its content, and with the mark of the cleaner."""
    claims = {
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:default:builder",
        f"{LEGACY}clusterName": "team-a",
        f"{LEGACY}namespace": "default",
        f"{LEGACY}secret.name": "held",
        f"{LEGACY}service-account.name": "builder",
        f"{LEGACY}service-account.uid": issued.uid,
    }
    token = sign(claims)
    assert await reasons(api, token) == f"[{INVALID}, Token has been invalidated]"
    await api.ok("POST", f"{CORE}/secrets", {"metadata": {"name": "held"}})
    assert await reasons(api, token) == f"[{INVALID}, Token does not match server's copy]"
    content = {"data": {"token": base64.b64encode(token.encode()).decode()}}
    merge = {"Content-Type": "application/merge-patch+json"}
    await api.ok("PATCH", f"{CORE}/secrets/held", content, headers={**merge, "Authorization": "Bearer secret"})
    assert (await review(api, token))["authenticated"] is True
    label = {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2020-01-01"}}}
    await api.ok("PATCH", f"{CORE}/secrets/held", label, headers={**merge, "Authorization": "Bearer secret"})
    assert await reasons(api, token) == f"[{INVALID}, {marked_invalid(ACCOUNT, 'held')}]"
    assert await reasons(api, token, "team-b") == INVALID


@pytest.mark.parametrize(
    ("fact", "since", "account", "legacy"),
    [
        (Fact("u1"), 10, "", ""),
        (Fact("u1", 20), 10, "", "ServiceAccount default/builder has been deleted"),
        (Fact("u1", 5), 10, "service account default/builder has been deleted", "ServiceAccount default/builder has been deleted"),
        (Fact("u2"), 10, "service account UID (u2) does not match claim (u1)", "ServiceAccount UID (u2) does not match claim (u1)"),
        (Fact(), 10, 'serviceaccounts "builder" not found', 'serviceaccounts "builder" not found'),
    ],
)
def test_accounts(fact: Fact, since: float, account: str, legacy: str) -> None:
    """A deleted account counts for a minute more, but not for tokens of secrets."""
    assert account_problem(fact, ACCOUNT, since) == account
    assert legacy_account_problem(fact, ACCOUNT) == legacy


@pytest.mark.parametrize("kind", ["secret", "pod", "node"])
def test_bound_objects(kind: str) -> None:
    """An object that is absent, is another one, or was deleted."""
    gone = "service account token has been invalidated"
    assert bound_problem(kind, Fact("u1", 20), "u1", 10) == ""
    assert bound_problem(kind, Fact("u1", 5), "u1", 10) == gone
    assert bound_problem(kind, Fact(), "u1", 10) == gone
    assert bound_problem(kind, Fact("u2", 5), "u1", 10) == f"{kind} UID (u2) does not match service account {kind} ref claim (u1)"
