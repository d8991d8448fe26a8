"""The subresource `serviceaccounts/token`: its answers, its refusals, and who may use it."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from kcp_py.apimachinery.meta.timestamps import parse_time
from tests.authn.serviceaccount.conftest import CORE, SERVER, Issued, claims_of, issue, server, server_key, whoami
from tests.authz.conftest import ALICE, RBAC, binding, let_in, role, rule
from tests.server.handlers.conftest import Api, Watch

pytestmark = pytest.mark.anyio

TOKEN: Final = f"{CORE}/serviceaccounts/builder/token"
KIND: Final = "TokenRequest.authentication.k8s.io"


async def test_the_answer_and_its_claims(api: Api) -> None:
    """They are those of kube-apiserver, with the issuer and the name of the cluster."""
    account = await api.ok("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "builder"}})
    response = await api("POST", TOKEN, {"metadata": {"labels": {"a": "b"}}})
    answer = response.json()
    assert response.status_code == 201
    uid = account["metadata"]["uid"]
    token, expires = answer["status"].pop("token"), answer["status"].pop("expirationTimestamp")
    created = answer["metadata"].pop("creationTimestamp")
    assert answer == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"labels": {"a": "b"}, "name": "builder", "namespace": "default", "uid": uid},
        "spec": {"audiences": [SERVER], "expirationSeconds": 3600, "boundObjectRef": None},
        "status": {},
    }
    claims = claims_of(token)
    assert claims.pop("jti")
    assert claims == {
        "aud": [SERVER],
        "exp": parse_time(expires),
        "iat": parse_time(created),
        "iss": f"{SERVER}/clusters/team-a",
        "kubernetes.io": {"clusterName": "team-a", "namespace": "default", "serviceaccount": {"name": "builder", "uid": uid}},
        "nbf": parse_time(created),
        "sub": "system:serviceaccount:default:builder",
    }
    assert parse_time(expires) - parse_time(created) == 3600
    header = orjson.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))
    assert header == {"alg": "ES256", "kid": (await server_key(api)).public.id}


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            {"spec": {"expirationSeconds": 599}},
            422,
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
        ),
        (
            {"spec": {"expirationSeconds": 2**33}},
            422,
            "spec.expirationSeconds: Invalid value: 8589934592: may not specify a duration larger than 2^32 seconds",
        ),
        (
            {"spec": {"attestations": {"a": ["b"]}}},
            422,
            'spec.attestations: Invalid value: {"a":["b"]}: attestations may only be specified with a webhook bound object reference',
        ),
        ({"metadata": {"name": "other"}}, 422, 'metadata.name: Invalid value: "other": must match the service account name if specified'),
        (
            {"metadata": {"namespace": "other"}},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        ({"metadata": {"uid": "bad"}}, 409, "the UID in the token request (bad) does not match the UID of the service account ("),
        (
            {"spec": {"expirationSeconds": "x"}},
            400,
            "json: cannot unmarshal string into Go struct field TokenRequestSpec.spec.expirationSeconds of type int64",
        ),
        (
            {"spec": {"audiences": "a"}},
            400,
            "json: cannot unmarshal string into Go struct field TokenRequestSpec.spec.audiences of type []string",
        ),
    ],
    ids=str,
)
async def test_refused_requests(api: Api, issued: Issued, body: dict[str, Any], code: int, message: str) -> None:
    """The messages are those of kube-apiserver."""
    del issued
    answer = await api.fails(code, "POST", TOKEN, body)
    assert message in answer["message"]
    if code == 422:
        named = "builder" if "metadata" in body else ""
        assert answer["message"].startswith(f'{KIND} "{named}" is invalid: ')
        assert answer["details"]["kind"] == "TokenRequest"


@pytest.mark.parametrize(
    ("reference", "code", "message"),
    [
        ({"kind": "Secret", "name": "none"}, 404, 'secrets "none" not found'),
        ({"kind": "Pod", "name": "none"}, 404, 'pods "none" not found'),
        ({"kind": "Node", "name": "none"}, 404, 'nodes "none" not found'),
        ({"kind": "Secret", "name": "a/b"}, 404, 'secrets "a/b" not found'),
        ({"kind": "ConfigMap", "name": "x"}, 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
        ({"kind": "Deployment", "apiVersion": "apps/v1"}, 400, "cannot bind token to object of type apps/v1, Kind=Deployment"),
        ({"kind": "", "apiVersion": ""}, 400, "cannot bind token to object of type /, Kind="),
        (
            {"kind": "Secret", "name": "known", "uid": "bad"},
            409,
            'Operation cannot be fulfilled on Secret "known": the UID in the bound object reference (bad) does not match the UID in record',
        ),
    ],
    ids=str,
)
async def test_refused_bindings(api: Api, issued: Issued, reference: dict[str, str], code: int, message: str) -> None:
    """Tokens are bound to secrets, pods and nodes that exist. The messages are those of kube-apiserver."""
    del issued
    await api.ok("POST", f"{CORE}/secrets", {"metadata": {"name": "known"}})
    answer = await api.fails(code, "POST", TOKEN, {"spec": {"boundObjectRef": {"apiVersion": "v1", **reference}}})
    assert answer["message"].removesuffix(". The object might have been deleted and then recreated") == message


async def test_only_posts_to_existing_accounts_are_answered(api: Api, issued: Issued) -> None:
    """Other methods are 405, other accounts 404, also in a cluster that does not exist, which is not created then."""
    del issued
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        await api.fails(405, method, TOKEN, {} if method != "GET" else None)
    for path in (f"{CORE}/serviceaccounts/none/token", TOKEN.replace("team-a", "team-z")):
        answer = await api.fails(404, "POST", path, {})
        assert answer["message"] in {'serviceaccounts "none" not found', 'serviceaccounts "builder" not found'}
    await api.fails(404, "GET", "/clusters/team-z/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")


async def test_a_default_account(api: Api) -> None:
    """The token of an account that no store holds is valid, and creates its cluster. It ends with the account."""
    core = "/clusters/fresh/api/v1/namespaces/default"
    answer = await api.ok("POST", f"{core}/serviceaccounts/default/token", {})
    token = answer["status"]["token"]
    account = await api.ok("GET", f"{core}/serviceaccounts/default")
    assert account["metadata"]["uid"] == answer["metadata"]["uid"] == claims_of(token)["kubernetes.io"]["serviceaccount"]["uid"]
    for _ in range(2):
        assert (await whoami(api, token, "/clusters/fresh")).status_code == 201
    await api.ok("DELETE", f"{core}/serviceaccounts/default")
    assert (await whoami(api, token, "/clusters/fresh")).status_code == 401


async def test_a_namespace_that_ends_takes_the_token_of_its_default_account_along(tmp_path: Path) -> None:
    """The account has no object of its own whose deletion could be seen."""
    namespaces, core = "/clusters/team-a/api/v1/namespaces", "/clusters/team-a/api/v1/namespaces/shop"
    async with server(tmp_path, namespace_deletion_grace=0.0) as api:
        await api.ok("POST", namespaces, {"metadata": {"name": "shop"}})
        token = (await api.ok("POST", f"{core}/serviceaccounts/default/token", {}))["status"]["token"]
        assert (await whoami(api, token)).status_code == 201
        async with Watch(api, namespaces) as watch:
            await api.ok("DELETE", f"{namespaces}/shop")
            while (event := await watch.next()) is not None and event["type"] != "DELETED":
                pass
        assert (await whoami(api, token)).status_code == 401
        await api.ok("POST", namespaces, {"metadata": {"name": "shop"}})
        assert (await whoami(api, token)).status_code == 401


async def test_unknown_fields(api: Api, issued: Issued) -> None:
    """They are warned of, or refused where the client asks for that."""
    del issued
    response = await api("POST", TOKEN, {"spec": {"x": 1}})
    assert (response.status_code, response.headers["warning"]) == (201, '299 - "unknown field \\"spec.x\\""')
    answer = await api.fails(400, "POST", f"{TOKEN}?fieldValidation=Strict", {"spec": {"x": 1}})
    assert 'strict decoding error: unknown field "spec.x"' in answer["message"]


async def test_discovery(api: Api) -> None:
    """The subresource has the kind of another group, in both forms of discovery."""
    listed = (await api.ok("GET", "/clusters/team-a/api/v1"))["resources"]
    assert next(one for one in listed if one["name"] == "serviceaccounts/token") == {
        "name": "serviceaccounts/token",
        "singularName": "",
        "namespaced": True,
        "group": "authentication.k8s.io",
        "version": "v1",
        "kind": "TokenRequest",
        "verbs": ["create"],
    }


async def test_requests_need_the_permission_for_the_subresource(api: Api, issued: Issued) -> None:
    """Permissions for accounts are not enough, nor those in another namespace or in another cluster."""
    await let_in(api, "User:alice")
    rules = [rule("*", "serviceaccounts serviceaccounts/status", groups="-"), rule("get list", "serviceaccounts/token", groups="-")]
    await api.ok("POST", f"{RBAC}/clusterroles", role("accounts", *rules))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("accounts", "accounts", "User:alice"))
    refused = await api.fails(403, "POST", TOKEN, {}, token=ALICE)
    assert 'User "alice" cannot create resource "serviceaccounts/token" in API group "" in the namespace "default"' in refused["message"]
    await api.ok("POST", f"{RBAC}/clusterroles", role("issuer", rule("create", "serviceaccounts/token", groups="-")))
    await api.ok(
        "POST", f"{RBAC}/namespaces/default/rolebindings", binding("issuer", "issuer", "User:alice", "ServiceAccount:default:builder")
    )
    await api.ok("POST", TOKEN, {}, token=ALICE)
    bearer = f"Bearer {issued.token}"
    await api.ok("POST", TOKEN, {}, token=bearer)
    for path in (TOKEN.replace("namespaces/default", "namespaces/kube-system"), TOKEN.replace("team-a", "team-b")):
        for caller in (ALICE, bearer):
            await api.fails(403, "POST", path, {}, token=caller)


async def test_options(tmp_path: Path) -> None:
    """Issuer, audiences, the longest lifetime and the algorithm are the operator's."""
    settings: dict[str, Any] = {
        "service_account_issuer": ("https://kcp.example", "https://old.example"),
        "api_audiences": ("api", "other"),
        "service_account_max_token_expiration": 7200.0,
        "service_account_signing_algorithm": "RS256",
    }
    async with server(tmp_path, **settings) as api:
        issued = await issue(api)
        assert (issued.claims["iss"], issued.claims["aud"]) == ("https://kcp.example/clusters/team-a", ["api", "other"])
        response = await api("POST", TOKEN, {"spec": {"expirationSeconds": 7201}})
        assert response.headers["warning"] == '299 - "requested expiration of 7201 seconds shortened to 7200 seconds"'
        claims = claims_of(response.json()["status"]["token"])
        assert claims["exp"] - claims["iat"] == 7200
        assert response.json()["spec"]["expirationSeconds"] == 7200
        key = await server_key(api)
        assert key.public.algorithm == "RS256"
        for issuer, code in (("https://old.example", 201), ("https://evil.example", 401), ("https://kcp.example/clusters/x", 401)):
            token = key.sign({**issued.claims, "iss": f"{issuer}/clusters/team-a"})
            assert (await whoami(api, token)).status_code == code


@pytest.mark.parametrize(("extend", "seconds"), [(True, 365 * 86400), (False, 3607)])
async def test_tokens_of_kubelets_are_extended(tmp_path: Path, *, extend: bool, seconds: int) -> None:
    """A token of a pod that asks for 3607 seconds is valid for a year, and the claim says from when on that is a mistake."""
    async with server(tmp_path, builtin_kinds=("pods",), service_account_extend_token_expiration=extend) as api:
        await api.ok("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "builder"}})
        pod = {"serviceAccountName": "builder", "containers": [{"name": "c", "image": "i"}]}
        await api.ok("POST", f"{CORE}/pods", {"metadata": {"name": "p1"}, "spec": pod})
        spec: dict[str, Any] = {"expirationSeconds": 3607, "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p1"}}
        claims = (await issue(api, spec=spec)).claims
        assert claims["exp"] - claims["iat"] == seconds
        assert claims["kubernetes.io"].get("warnafter", 0) == (claims["iat"] + 3607 if extend else 0)
        other = await issue(api, spec={**spec, "audiences": ["vault"]})
        assert other.claims["exp"] - other.claims["iat"] == 3607
        await api.ok("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "other"}})
        refused = await api.fails(400, "POST", f"{CORE}/serviceaccounts/other/token", {"spec": spec})
        assert refused["message"] == 'cannot bind token for serviceaccount "other" to pod running with different serviceaccount name.'
