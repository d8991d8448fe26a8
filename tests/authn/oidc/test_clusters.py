"""Issuers that single logical clusters trust: their users, their limits, and their objects."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.authn.oidc.clusters import confined
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from kcp_py.request.user import UserInfo
from tests.authn.oidc.conftest import document
from tests.authn.oidc.provider import OIDCProvider
from tests.egress.https import Certificate
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

PATH = "apis/authentication.kcp-py.io/v1alpha1/clusterauthenticationconfigurations"
WHO = "apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A control plane whose tenants may name providers on this machine."""
    settings = options(tmp_path, webhook_networks=("127.0.0.0/8",), require_cluster_access=False)
    async with (
        ControlPlane(settings) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        yield Api(client, control_plane)


def configuration(*documents: Any, name: str = "sso") -> dict[str, Any]:
    kind = {"apiVersion": "authentication.kcp-py.io/v1alpha1", "kind": "ClusterAuthenticationConfiguration"}
    return {**kind, "metadata": {"name": name}, "spec": {"jwt": list(documents)}}


async def trust(api: Api, cluster: str, *documents: Any, name: str = "sso") -> None:
    await api.ok("POST", f"/clusters/{cluster}/{PATH}", configuration(*documents, name=name))


async def user(api: Api, cluster: str, token: str) -> dict[str, Any] | None:
    """The user of a token in a cluster; None for 401."""
    answer = await api("POST", f"/clusters/{cluster}/{WHO}", {}, token=f"Bearer {token}")
    if answer.status_code == 401:
        return None
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()["status"]["userInfo"]
    return found


async def test_users_exist_in_their_cluster_alone(api: Api, provider: OIDCProvider) -> None:
    """The token is 401 in every other cluster, in one that does not exist, and at the wildcard; the user has the cluster's name."""
    await trust(api, "team-a", document(provider))
    await trust(api, "team-b", document(provider, {"username": {"claim": "email", "prefix": ""}}, claimValidationRules=[]))
    token = provider.token()
    assert await user(api, "team-a", token) == {
        "username": "alice",
        "groups": ["team-a", "developers", "system:authenticated"],
        "extra": {"authentication.kcp.io/cluster-name": ["team-a"]},
    }
    found = await user(api, "team-b", token)
    assert found is not None
    assert found["username"] == "alice@example.com"
    assert await user(api, "root", token) is None
    assert await user(api, "missing", token) is None
    for path in ("/clusters/*/api/v1/configmaps", "/api/v1/namespaces/default/configmaps"):
        await api.fails(401, "GET", path, token=f"Bearer {token}")
    await api.fails(403, "GET", "/clusters/team-a/api/v1/configmaps", token=f"Bearer {token}")


async def test_token_reviews_are_those_of_the_cluster(api: Api, provider: OIDCProvider) -> None:
    """A service of one cluster learns the user; a review in another cluster finds the token invalid."""
    await trust(api, "team-a", document(provider))
    review = {"spec": {"token": provider.token()}}
    inside = await api.ok("POST", "/clusters/team-a/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert inside["status"]["user"]["username"] == "alice"
    outside = await api.ok("POST", "/clusters/root/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert "authenticated" not in outside["status"]


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "system:admin"},
        {"sub": "system:kcp:serviceaccount:team-b:default:builder"},
        {"sub": "system:serviceaccount:kube-system:namespace-controller"},
        {"groups": ["system:masters"]},
        {"groups": ["developers", "system:kcp:admin"]},
        {"groups": "system:serviceaccounts"},
    ],
)
async def test_names_of_the_server_are_refused(api: Api, provider: OIDCProvider, claims: dict[str, Any]) -> None:
    """A token with a reserved name or group is refused as a whole, and the provider's other users are not."""
    await trust(api, "team-a", document(provider))
    assert await user(api, "team-a", provider.token(**claims)) is None
    assert await user(api, "team-a", provider.token()) is not None


def test_confinement() -> None:
    """Reserved names, groups and extra fields give no user; all others belong to the cluster."""
    assert confined(UserInfo("alice", "1", ("a",), {"example.org/x": ("y",)}), Name("team-a")) == UserInfo(
        "alice", "1", ("a",), {"example.org/x": ("y",), "authentication.kcp.io/cluster-name": ("team-a",)}
    )
    for key in ("authentication.kcp.io/cluster-name", "authorization.kcp.io/warrant", "KCP.io/x", "a.k8s.io/b", "kcp-py.io/c"):
        assert confined(UserInfo("alice", "", (), {key: ("x",)}), Name("team-a")) is None


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (("issuer", "url", "http://idp.example"), ("spec.jwt[0].issuer.url", "URL scheme must be https")),
        (("claimMappings", "username", {"claim": "sub", "prefix": "system:"}), ("spec.jwt[0].claimMappings.username.prefix", "reserved")),
        (("claimMappings", "groups", {"claim": "g", "prefix": "system:x"}), ("spec.jwt[0].claimMappings.groups.prefix", "reserved")),
        (("claimMappings", "username", {"expression": "nothing.x"}), ("spec.jwt[0].claimMappings.username.expression", "undeclared")),
        (
            ("claimMappings", "extra", [{"key": "a.kcp.io/x", "valueExpression": "claims.x"}]),
            ("spec.jwt[0].claimMappings.extra[0].key", "reserved"),
        ),
        (("issuer", "audiences", []), ("spec.jwt[0].issuer.audiences", "at least one")),
    ],
)
async def test_invalid_objects_are_refused(api: Api, provider: OIDCProvider, change: tuple[str, str, Any], cause: tuple[str, str]) -> None:
    """With 422 and the paths of the fields, expressions included."""
    wrong = document(provider)
    part, member, value = change
    wrong[part][member] = value
    status = await api.fails(422, "POST", f"/clusters/team-a/{PATH}", configuration(wrong))
    assert any(one["field"] == cause[0] and cause[1] in one["message"] for one in status["details"]["causes"]), status
    too_many = configuration(*[document(provider)] * 17)
    await api.fails(422, "POST", f"/clusters/team-a/{PATH}", too_many)


async def test_changes_have_effect_with_their_answers(api: Api, provider: OIDCProvider) -> None:
    """A token is valid from the answer of the create on, follows updates, and is refused after the delete, however often it was used."""
    token = provider.token()
    for _ in range(3):
        assert await user(api, "team-a", token) is None
        await trust(api, "team-a", document(provider))
        assert await user(api, "team-a", token) is not None
        stored = await api.ok("GET", f"/clusters/team-a/{PATH}/sso")
        stored["spec"]["jwt"][0]["claimMappings"]["username"] = {"claim": "email", "prefix": "x:"}
        await api.ok("PUT", f"/clusters/team-a/{PATH}/sso", stored)
        found = await user(api, "team-a", token)
        assert found is not None
        assert found["username"] == "x:alice@example.com"
        await api.ok("DELETE", f"/clusters/team-a/{PATH}/sso")


async def test_objects_of_before_are_read(tmp_path: Path, provider: OIDCProvider) -> None:
    """After a restart the issuers of a cluster are trusted as before."""
    settings = dataclasses.replace(
        options(tmp_path, webhook_networks=("127.0.0.0/8",), require_cluster_access=False),
        storage="sqlite",
    )
    for start in range(2):
        async with (
            ControlPlane(settings) as control_plane,
            httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
        ):
            api = Api(client, control_plane)
            if not start:
                await trust(api, "team-a", document(provider))
            assert await user(api, "team-a", provider.token()) is not None


async def test_clusters_share_no_keys(api: Api, provider: OIDCProvider, certificate: Certificate) -> None:
    """Two clusters that name one issuer fetch its keys each for itself: what one of them says about it does not reach the other."""
    await trust(api, "team-a", document(provider))
    async with OIDCProvider(certificate) as impostor:
        # team-b says that the discovery document of the issuer is at its own server, which publishes its own keys.
        poisoned = document(provider)
        poisoned["issuer"]["discoveryURL"] = f"{impostor.origin}/fake"
        found = f'{{"issuer":"{provider.issuer}","jwks_uri":"{impostor.origin}/keys"}}'.encode()
        impostor.documents["/fake"] = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(found) + found
        await trust(api, "team-b", poisoned)
        forged = impostor.token(iss=provider.issuer, sub="mallory")
        assert await user(api, "team-b", forged) is not None
        assert await user(api, "team-a", forged) is None
        assert await user(api, "team-a", provider.token()) is not None
        assert await user(api, "team-b", provider.token()) is None


async def test_keys_are_fetched_in_the_networks_of_tenants(tmp_path: Path, provider: OIDCProvider) -> None:
    """A provider at an internal address is never asked, and its tokens are refused."""
    async with (
        ControlPlane(options(tmp_path, require_cluster_access=False)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api = Api(client, control_plane)
        await trust(api, "team-a", document(provider))
        assert await user(api, "team-a", provider.token()) is None
        assert provider.requests == []


async def test_several_objects_of_a_cluster_are_joined(api: Api, provider: OIDCProvider, certificate: Certificate) -> None:
    """The issuers of all objects are trusted; of two with one URL the first object by name counts."""
    async with OIDCProvider(certificate) as other:
        await trust(api, "team-a", document(provider), name="b")
        await trust(api, "team-a", document(other), document(provider, {"username": {"claim": "email", "prefix": ""}}), name="c")
        found = await user(api, "team-a", provider.token())
        assert found is not None
        assert found["username"] == "alice"
        assert await user(api, "team-a", other.token()) is not None


async def test_only_administrators_of_the_cluster_may_write(api: Api, provider: OIDCProvider) -> None:
    """The object makes users, so an editor of the cluster cannot create it and a member cannot read it."""
    binding = {
        "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    }
    await api.ok("POST", "/clusters/team-a/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    await api.fails(403, "POST", f"/clusters/team-a/{PATH}", configuration(document(provider)), token="Bearer user")
    await api.fails(403, "GET", f"/clusters/team-a/{PATH}", token="Bearer user")
