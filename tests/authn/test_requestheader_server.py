"""A server behind a front proxy, over real TLS: whose requests are made in whose name."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import kcp_py
from kcp_py.options import Options
from tests.authz.conftest import binding
from tests.serving.authorities import Issued, client_context, new_authority
from tests.serving.test_embedding import Running

pytestmark = pytest.mark.anyio

WHO = "/clusters/team-a/apis/authentication.k8s.io/v1/selfsubjectreviews"
MAPS = "/clusters/team-a/api/v1/namespaces/default/configmaps"
ALICE = {"X-Remote-User": "alice"}


class Server:
    """A running server, and clients with certificates."""

    def __init__(self, options: Options, url: str, proxies: Issued, users: Issued, folder: Path) -> None:
        self.options, self.url, self.proxies, self.users, self._folder = options, url, proxies, users, folder

    @asynccontextmanager
    async def client(self, issued: Issued | None, headers: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
        if issued is None:
            context = ssl.create_default_context(cafile=self.options.ca_file)
        else:
            context = client_context(self.options.ca_file, issued, self._folder)
        async with httpx.AsyncClient(verify=context, base_url=self.url, headers=headers) as client:
            yield client

    async def who(self, issued: Issued | None, **headers: str) -> tuple[int, Any]:
        """Status and user of a request."""
        async with self.client(issued, headers) as client:
            answer = await client.post(WHO, json={})
        return answer.status_code, answer.json().get("status", {}).get("userInfo") if answer.status_code == 201 else None


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """Every user may enter the cluster."""
    proxies, users = new_authority("proxies"), new_authority("users")
    for name, authority in (("proxies.crt", proxies), ("users.crt", users)):
        (tmp_path / name).write_bytes(authority.pem)
    root = tmp_path / "root"
    (tmp_path / "users.csv").write_text('admin,admin,,"system:masters"\nbob,bob,\n')
    options = Options(
        root_directory=root,
        storage="memory",
        secure_port=0,
        token_auth_file=tmp_path / "users.csv",
        client_ca_file=tmp_path / "users.crt",
        requestheader_client_ca_file=tmp_path / "proxies.crt",
        requestheader_allowed_names=("front-proxy",),
    )
    async with kcp_py.ControlPlane(options) as control_plane, Running(control_plane) as running:
        server = Server(options, running.url, proxies, users, tmp_path)
        async with server.client(None, {"Authorization": "Bearer admin"}) as admin:
            body = binding("members", "system:kcp:workspace:access", "Group:system:authenticated")
            answer = await admin.post("/clusters/team-a/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", json=body)
            assert answer.status_code == 201, answer.text
        yield server


async def test_who_may_name_users(server: Server) -> None:
    """A front proxy names users. Headers of users, of administrators and of other certificates are ignored."""
    alice = {"username": "alice", "groups": ["dev", "system:authenticated"]}
    proxy = server.proxies.issue("front-proxy")
    assert await server.who(proxy, **ALICE, **{"X-Remote-Group": "dev"}) == (201, alice)
    assert await server.who(proxy, **ALICE, **{"X-Remote-Group": "dev", "Authorization": "Bearer bob"}) == (201, alice)
    status, mallory = await server.who(server.users.issue("front-proxy"), **ALICE)
    assert (status, mallory["username"]) == (201, "front-proxy")
    status, bob = await server.who(None, **ALICE, Authorization="Bearer bob")
    assert (status, bob["username"]) == (201, "bob")
    async with server.client(None, ALICE) as client:
        assert (await client.get(MAPS)).status_code == 403
    assert await server.who(server.proxies.issue("other"), **ALICE) == (401, None)
    assert await server.who(server.proxies.issue("other"), **ALICE, Authorization="Bearer nobody") == (401, None)


async def test_a_front_proxy_without_a_user(server: Server) -> None:
    """Its certificate gives it no identity of its own, so the request needs another credential."""
    proxy = server.proxies.issue("front-proxy", "system:masters")
    assert await server.who(proxy) == (401, None)
    assert await server.who(proxy, **{"X-Remote-Group": "system:masters", "X-Remote-Uid": "1"}) == (401, None)
    assert (await server.who(proxy, Authorization="Bearer bob"))[1]["username"] == "bob"
    async with server.client(proxy, {}) as client:
        assert (await client.get("/readyz")).status_code == 401


async def test_the_user_of_a_front_proxy_has_the_users_permissions(server: Server) -> None:
    """Roles, the wildcard and impersonation are decided for the user whom the headers name."""
    proxy = server.proxies.issue("front-proxy")
    async with server.client(proxy, ALICE) as client:
        assert (await client.get(MAPS)).status_code == 403
        assert (await client.get("/clusters/*/api/v1/configmaps")).status_code == 403
        assert (await client.get(MAPS, headers={"Impersonate-User": "admin", "Impersonate-Group": "system:masters"})).status_code == 403
    async with server.client(proxy, {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}) as client:
        assert (await client.get(MAPS)).status_code == 200
        found = await client.post(WHO, json={}, headers={"Impersonate-User": "alice"})
        assert found.json()["status"]["userInfo"]["username"] == "alice"


async def test_one_connection_serves_many_users(server: Server) -> None:
    """Nothing of a request stays for the next one on the connection."""
    async with server.client(server.proxies.issue("front-proxy"), {}) as client:
        for headers, expected in (
            ({"X-Remote-User": "alice", "X-Remote-Group": "a", "X-Remote-Extra-Key": "v"}, {"groups": ["a"], "extra": {"key": ["v"]}}),
            ({"X-Remote-User": "bob"}, {"groups": []}),
        ):
            answer = await client.post(WHO, json={}, headers=headers)
            user = answer.json()["status"]["userInfo"]
            assert user == {"username": headers["X-Remote-User"], **expected, "groups": [*expected["groups"], "system:authenticated"]}
        assert (await client.post(WHO, json={})).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Remote-User", "alice"), ("X-Remote-User", "root")],
        [("X-Remote-User", "alice"), ("x-remote-user", "root")],
        [("X-Remote-User", "alice"), ("Connection", "close, X-Remote-User")],
        [("X-Remote-User", "alice"), ("X-Remote-Uid", "1"), ("X-Remote-Uid", "2")],
    ],
)
async def test_tricks_with_headers(server: Server, headers: list[tuple[str, str]]) -> None:
    """Headers that a proxy in between, or a client of the proxy, could have added or removed are refused."""
    async with server.client(server.proxies.issue("front-proxy"), {}) as client:
        assert (await client.post(WHO, json={}, headers=headers)).status_code == 400
