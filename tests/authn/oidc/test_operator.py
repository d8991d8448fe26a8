"""The operator's issuers: options, the configuration file, its changes, and anonymous requests."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.authn.oidc.errors import AuthenticationError
from kcp_py.authn.oidc.operator import OperatorIssuers
from kcp_py.controlplane import ControlPlane
from kcp_py.egress import Caller
from kcp_py.logicalcluster import WILDCARD, Name
from kcp_py.options import Options
from kcp_py.request.user import UserInfo
from tests.authn.oidc.conftest import AUDIENCES, document
from tests.authn.oidc.provider import OIDCProvider
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

WHO = "/clusters/root/apis/authentication.k8s.io/v1/selfsubjectreviews"
CONFIG_MAPS = "/clusters/root/api/v1/namespaces/default/configmaps"


def write(path: Path, *jwt: Any, **more: Any) -> Path:
    path.write_text(json.dumps({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": jwt, **more}))
    return path


@asynccontextmanager
async def serving(path: Path, **settings: Any) -> AsyncIterator[Api]:
    async with (
        ControlPlane(options(path, require_cluster_access=False, **settings)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        yield Api(client, control_plane)


async def user(issuers: OperatorIssuers, token: str) -> UserInfo | None:
    found = await issuers.authenticate_token(token.encode(), Name("root"), AUDIENCES)
    return None if found is None else found.user


def flags(provider: OIDCProvider, path: Path, **more: Any) -> Options:
    authority = path / "ca.pem"
    authority.write_text(provider.authority)
    return Options(oidc_issuer_url=provider.issuer, oidc_client_id="kcp", oidc_ca_file=authority, oidc_signing_algs=("ES256",), **more)


@pytest.mark.parametrize(
    ("settings", "name", "groups"),
    [
        ({}, "{issuer}#alice", ()),
        ({"oidc_username_prefix": "-"}, "alice", ()),
        ({"oidc_username_prefix": "oidc:"}, "oidc:alice", ()),
        ({"oidc_username_claim": "email"}, "alice@example.com", ()),
        ({"oidc_groups_claim": "groups", "oidc_groups_prefix": "g:"}, "{issuer}#alice", ("g:team-a", "g:developers")),
        ({"oidc_required_claim": ("sub=alice", "email=alice@example.com")}, "{issuer}#alice", ()),
        ({"oidc_required_claim": ("sub=bob",)}, None, ()),
        ({"oidc_signing_algs": ("RS256",)}, None, ()),
    ],
)
async def test_options_describe_one_issuer(
    provider: OIDCProvider, caller: Caller, tmp_path: Path, *, settings: dict[str, Any], name: str | None, groups: tuple[str, ...]
) -> None:
    """Prefixes, required claims and algorithms have the meaning of kube-apiserver's options."""
    given = dataclasses.replace(flags(provider, tmp_path), **settings)
    found = await user(OperatorIssuers(given, caller), provider.token())
    if name is None:
        assert found is None
    else:
        assert found is not None
        assert (found.name, found.groups) == (name.format(issuer=provider.issuer), (*groups, "system:authenticated"))


@pytest.mark.parametrize("settings", [{"oidc_signing_algs": ("HS256",)}, {"oidc_issuer_url": "http://idp.example"}])
async def test_invalid_options_are_refused(provider: OIDCProvider, caller: Caller, tmp_path: Path, settings: dict[str, Any]) -> None:
    """Symmetric algorithms and issuers without TLS prevent the start."""
    given = dataclasses.replace(flags(provider, tmp_path), **settings)
    with pytest.raises(AuthenticationError, match="invalid authentication configuration: "):
        OperatorIssuers(given, caller)


async def test_users_of_the_file_have_the_permissions_of_their_names(provider: OIDCProvider, tmp_path: Path) -> None:
    """A token is a user in every cluster and in reviews; a wrong one is refused without a reason."""
    config = write(tmp_path / "authentication.yaml", document(provider))
    async with serving(tmp_path, authentication_config=config) as api:
        token = provider.token()
        bearer = f"Bearer {token}"
        who = await api.ok("POST", WHO, {}, token=bearer)
        groups = ["team-a", "developers", "system:authenticated"]
        assert who["status"]["userInfo"] == {"username": "alice", "groups": groups}
        await api.fails(403, "GET", CONFIG_MAPS, token=bearer)
        binding = {
            "metadata": {"name": "alice"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "developers"}],
        }
        await api.ok("POST", "/clusters/root/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        await api.ok("GET", CONFIG_MAPS, token=bearer)
        review = {"spec": {"token": token}}
        reviewed = await api.ok("POST", "/clusters/root/apis/authentication.k8s.io/v1/tokenreviews", review)
        assert reviewed["status"]["user"]["username"] == "alice"
        refused = await api.fails(401, "GET", CONFIG_MAPS, token=f"Bearer {provider.token(aud='other')}")
        assert refused["message"] == "Unauthorized"


async def test_a_changed_file_is_used(provider: OIDCProvider, caller: Caller, tmp_path: Path) -> None:
    """New issuers and mappings hold from the reload on, also for tokens that were verified before."""
    path = write(tmp_path / "authentication.yaml", document(provider))
    issuers = OperatorIssuers(Options(authentication_config=path), caller)
    token = provider.token()
    found = await user(issuers, token)
    assert found is not None
    assert found.name == "alice"
    await issuers.reload_if_changed()
    assert issuers.reloads == {("success",): 0, ("failure",): 0}
    write(path, document(provider, {"username": {"claim": "email", "prefix": "x:"}}))
    await issuers.reload_if_changed()
    found = await user(issuers, token)
    assert found is not None
    assert found.name == "x:alice@example.com"
    write(path)
    await issuers.reload_if_changed()
    assert await user(issuers, token) is None
    assert issuers.reloads == {("success",): 2, ("failure",): 0}
    issuers.close()


@pytest.mark.parametrize("content", ["", "no object", '{"kind":"Other","apiVersion":"v1"}', "anonymous", "invalid", None])
async def test_an_invalid_file_changes_nothing(provider: OIDCProvider, caller: Caller, tmp_path: Path, content: str | None) -> None:
    """The old issuers stay, the failure is counted, and a valid file is used afterwards."""
    path = write(tmp_path / "authentication.yaml", document(provider))
    issuers = OperatorIssuers(Options(authentication_config=path), caller)
    match content:
        case None:
            path.unlink()
        case "anonymous":
            write(path, document(provider), anonymous={"enabled": True})
        case "invalid":
            write(path, document(provider), document(provider))
        case _:
            path.write_text(content)
    await issuers.reload_if_changed()
    assert issuers.reloads == {("success",): 0, ("failure",): 1}
    assert await user(issuers, provider.token()) is not None
    write(path, document(provider, {"username": {"claim": "email", "prefix": ""}}))
    await issuers.reload_if_changed()
    found = await user(issuers, provider.token())
    assert found is not None
    assert found.name == "alice@example.com"
    issuers.close()


@pytest.mark.parametrize(
    ("anonymous", "open_paths"),
    [
        (None, {"/livez", "/version"}),
        ({"enabled": True}, {"/livez", "/version"}),
        ({"enabled": True, "conditions": [{"path": "/livez"}]}, {"/livez"}),
        ({"enabled": False}, set()),
    ],
)
async def test_anonymous_requests_follow_the_file(tmp_path: Path, anonymous: Any, open_paths: set[str]) -> None:
    """They are allowed, refused, or allowed for some paths; permissions decide afterwards as always."""
    config = write(tmp_path / "authentication.yaml", **({} if anonymous is None else {"anonymous": anonymous}))
    async with serving(tmp_path, authentication_config=config) as api:
        for path in ("/livez", "/version"):
            answer = await api("GET", path, token="")
            assert answer.status_code == (200 if path in open_paths else 401)
        answer = await api("GET", CONFIG_MAPS, token="")
        assert answer.status_code == (403 if open_paths == {"/livez", "/version"} else 401)


async def test_anonymous_requests_are_configured_once(caller: Caller, tmp_path: Path) -> None:
    """The option and the field of the file exclude each other."""
    config = write(tmp_path / "authentication.yaml", anonymous={"enabled": True})
    with pytest.raises(AuthenticationError) as caught:
        OperatorIssuers(Options(authentication_config=config, anonymous_auth=True), caller)
    assert str(caught.value) == (
        "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file"
    )


async def test_the_wildcard_knows_the_users_of_the_operator(provider: OIDCProvider, caller: Caller, tmp_path: Path) -> None:
    """Issuers of the operator are trusted for all clusters; what their users may do there, permissions decide."""
    issuers = OperatorIssuers(flags(provider, tmp_path), caller)
    assert await issuers.authenticate_token(provider.token().encode(), WILDCARD, AUDIENCES) is not None
    issuers.close()
