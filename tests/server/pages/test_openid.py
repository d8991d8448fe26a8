"""The documents of the issuer of each cluster: who may read them, and that they verify its tokens."""

from __future__ import annotations

import base64

import orjson
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from tests.authn.serviceaccount.conftest import SERVER, api, issue
from tests.authz.conftest import ALICE, binding, let_in
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio
__all__ = ["api"]

CONFIGURATION = "/.well-known/openid-configuration"
KEYS = "/openid/v1/jwks"
TEAM_A = "/clusters/team-a"


async def test_the_documents(api: Api) -> None:
    """Each cluster is an issuer, and its keys are found through its document. The bodies and headers are those of kube-apiserver."""
    await api.ok("POST", f"{TEAM_A}/api/v1/namespaces/default/configmaps", {"metadata": {"name": "x"}})
    for path in (CONFIGURATION, f"{CONFIGURATION}/"):
        response = await api("GET", f"{TEAM_A}{path}")
        assert response.headers["content-type"] == "application/json"
        assert response.headers["cache-control"] == "public, max-age=3600"
        assert response.text == (
            f'{{"issuer":"{SERVER}/clusters/team-a","jwks_uri":"{SERVER}/clusters/team-a/openid/v1/jwks",'
            '"response_types_supported":["id_token"],"subject_types_supported":["public"],'
            '"id_token_signing_alg_values_supported":["ES256"]}'
        )
    response = await api("GET", f"{TEAM_A}{KEYS}")
    assert response.headers["content-type"] == "application/jwk-set+json"
    assert response.headers["cache-control"] == "public, max-age=3600"
    (key,) = response.json()["keys"]
    assert list(key) == ["use", "kty", "kid", "crv", "alg", "x", "y"]
    # Without a path they are those of the root cluster.
    assert (await api.ok("GET", CONFIGURATION))["issuer"] == f"{SERVER}/clusters/root"


async def test_another_system_verifies_a_token(api: Api) -> None:
    """With nothing but the issuer of the token."""
    issued = await issue(api, spec={"audiences": ["cloud"]})
    issuer = issued.claims["iss"]
    document = await api.ok("GET", f"{issuer.removeprefix(SERVER)}{CONFIGURATION}")
    keys = await api.ok("GET", document["jwks_uri"].removeprefix(SERVER))
    algorithms = document["id_token_signing_alg_values_supported"]
    verified = jwt.decode(issued.token, KeySet.import_key_set(keys), algorithms=algorithms)
    assert document["issuer"] == issuer == verified.claims["iss"]
    header = orjson.loads(base64.urlsafe_b64decode(issued.token.split(".")[0] + "=="))
    assert header["kid"] in [key["kid"] for key in keys["keys"]]


async def test_who_may_read_them(api: Api) -> None:
    """The accounts of the cluster, and callers to whom the role is granted, anonymous ones too."""
    issued = await issue(api)
    for path in (CONFIGURATION, KEYS):
        assert (await api("GET", f"{TEAM_A}{path}", token=f"Bearer {issued.token}")).status_code == 200
        # A request that names no cluster goes to that of the token.
        answer = await api("GET", path, token=f"Bearer {issued.token}")
        assert answer.status_code == 200
        for token in (ALICE, ""):
            await api.fails(403, "GET", f"{TEAM_A}{path}", token=token)
    await let_in(api, "Group:system:unauthenticated", "User:alice")
    opened = binding("issuer", "system:service-account-issuer-discovery", "Group:system:unauthenticated")
    await api.ok("POST", f"{TEAM_A}/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", opened)
    for path in (CONFIGURATION, KEYS):
        assert (await api("GET", f"{TEAM_A}{path}", token="")).status_code == 200
        await api.fails(403, "GET", f"{TEAM_A}{path}", token=ALICE)


async def test_a_missing_cluster_is_not_told_from_a_closed_one(api: Api) -> None:
    """Callers that may not enter get the same bytes."""
    issued = await issue(api)
    await api.ok("POST", "/clusters/team-b/api/v1/namespaces/default/configmaps", {"metadata": {"name": "x"}})
    for token in (ALICE, "", f"Bearer {issued.token}"):
        for path in (CONFIGURATION, KEYS):
            answers = [await api("GET", f"/clusters/{cluster}{path}", token=token) for cluster in ("team-b", "team-z")]
            assert [answer.status_code for answer in answers] == [403, 403]
            assert answers[0].content == answers[1].content


async def test_other_methods_and_types(api: Api) -> None:
    """They are refused as by kube-apiserver. All clusters together have no issuer."""
    for method in ("POST", "PUT", "DELETE"):
        answer = await api.fails(405, method, f"{TEAM_A}{KEYS}")
        assert answer["message"] == "the server does not allow this method on the requested resource"
    answer = await api.fails(406, "GET", f"{TEAM_A}{KEYS}", headers={"Accept": "text/html"})
    assert answer["message"] == "406: Not Acceptable\n\nAvailable representations: application/jwk-set+json"
    for path in ("/clusters/*/openid/v1/jwks", f"{TEAM_A}/openid/v1", f"{TEAM_A}/.well-known/x"):
        assert (await api("GET", path)).status_code == 404
