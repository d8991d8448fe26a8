"""Watches of callers whose permissions or credentials are withdrawn: each ends, and the next one is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.types import Message, Scope

from kcp_py.client.tap import ObjectFilter
from kcp_py.client.tapwire import filter_text
from kcp_py.controlplane import ControlPlane
from tests.authn.oidc.conftest import certificate, document, provider
from tests.authn.oidc.provider import OIDCProvider
from tests.authn.oidc.test_clusters import PATH, configuration
from tests.authn.oidc.test_operator import write
from tests.authz.conftest import ALICE, BOB, MAPS, RBAC, binding, let_in, role, rule
from tests.authz.grants.conftest import GRANTS, grant
from tests.server.handlers.conftest import Api, Watch, config_map, options

__all__ = ["certificate", "provider"]

pytestmark = pytest.mark.anyio

USERS = 'alice,alice,a1,"dev"\nbob,bob,b1\nmaster,max,m1,"system:masters"\n'
MASTER = "Bearer master"
CONFIGURATIONS = f"/clusters/team-a/{PATH}"


@pytest.fixture
def users(tmp_path: Path) -> Path:
    file = tmp_path / "users.csv"
    file.write_text(USERS)
    return file


@pytest.fixture
def settings() -> dict[str, Any]:
    """Further settings of the server."""
    return {}


@pytest.fixture
async def api(tmp_path: Path, users: Path, settings: dict[str, Any]) -> AsyncIterator[Api]:
    """Alice and Bob may watch config maps of a cluster. Tenants may name providers on this machine."""
    async with (
        ControlPlane(options(tmp_path, token_auth_file=users, webhook_networks=("127.0.0.0/8",), **settings)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api = Api(client, control_plane)
        await let_in(api, "User:alice", "User:bob")
        await api.ok("POST", f"{RBAC}/clusterroles", role("maps", rule("watch list get", "configmaps")))
        for name in ("alice", "bob"):
            await api.ok("POST", f"{RBAC}/clusterrolebindings", binding(name, "maps", f"User:{name}"))
        yield api


def replace(file: Path, text: str) -> None:
    """Replace a file at once: the server may read it at any time."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def watch(api: Api, token: str, path: str = MAPS, **headers: str) -> Watch:
    return Watch(api, path, {"Authorization": token, **headers})


async def end_of(stream: Watch) -> None:
    """Read events until the stream ends cleanly."""
    async with asyncio.timeout(30):
        while (event := await stream.next()) is not None:
            assert event["type"] in {"ADDED", "BOOKMARK"}


async def test_a_binding_that_is_removed(api: Api) -> None:
    """It ends the watches of its subject, and not those of others."""
    async with watch(api, ALICE) as mine, watch(api, BOB) as other:
        assert (mine.started["status"], other.started["status"]) == (200, 200)
        await api.ok("DELETE", f"{RBAC}/clusterrolebindings/alice")
        await end_of(mine)
        await api.fails(403, "GET", MAPS, token=ALICE, params={"watch": "true"})
        await api.ok("POST", MAPS, config_map("one"))
        assert await other.brief() == ("ADDED", "one")


async def test_a_role_that_is_changed(api: Api) -> None:
    """A role that does not allow watches any more ends them."""
    async with watch(api, ALICE) as mine:
        await api.ok("PUT", f"{RBAC}/clusterroles/maps", role("maps", rule("list get", "configmaps")))
        await end_of(mine)


async def test_an_impersonated_watch(api: Api) -> None:
    """It ends with the permission of the caller to impersonate, although the other user may still watch."""
    await api.ok("POST", f"{RBAC}/clusterroles", role("as-bob", rule("impersonate", "users", names="bob")))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("as-bob", "as-bob", "User:alice"))
    async with watch(api, ALICE, **{"Impersonate-User": "bob"}) as mine:
        assert mine.started["status"] == 200
        await api.ok("DELETE", f"{RBAC}/clusterrolebindings/as-bob")
        await end_of(mine)


@pytest.mark.parametrize(
    ("token", "path"),
    [
        (ALICE, MAPS),
        (MASTER, "/clusters/*/api/v1/configmaps"),
        (MASTER, "/clusters/*/tap/v1/changes"),
    ],
    ids=["cluster", "wildcard", "tap"],
)
async def test_a_token_that_is_removed(api: Api, users: Path, token: str, path: str) -> None:
    """Watches of its user end, and the token is refused from then on."""
    everything = quote(filter_text(ObjectFilter()))
    stream = Watch(api, path, {"Authorization": token}, resource="configmaps", version="v1", filter=everything)
    async with stream:
        assert stream.started["status"] == 200
        await asyncio.to_thread(replace, users, "bob,bob,b1\n")
        async with asyncio.timeout(30):
            while (await stream._messages.get()).get("more_body", False):
                pass
        await api.fails(401, "GET", MAPS, token=token)


@pytest.mark.parametrize("removed", [True, False], ids=["removed", "for another audience"])
async def test_an_issuer_of_a_cluster(api: Api, provider: OIDCProvider, *, removed: bool) -> None:
    """The watches of its users end soon after the change that takes their tokens away, and those of others go on."""
    trusted = document(provider)
    await api.ok("POST", CONFIGURATIONS, configuration(trusted))
    token = f"Bearer {provider.token()}"
    async with watch(api, token) as mine, watch(api, BOB) as other:
        assert (mine.started["status"], other.started["status"]) == (200, 200)
        if removed:
            await api.ok("DELETE", f"{CONFIGURATIONS}/sso")
        else:
            trusted["issuer"]["audiences"] = ["other"]
            await api.ok("PUT", f"{CONFIGURATIONS}/sso", configuration(trusted))
        await end_of(mine)
        await api.fails(401, "GET", MAPS, token=token)
        await api.ok("POST", MAPS, config_map("one"))
        assert await other.brief() == ("ADDED", "one")


class TestIssuersOfTheOperator:
    """The file of `--authentication-config` changes while the server runs."""

    @pytest.fixture
    def file(self, tmp_path: Path, provider: OIDCProvider) -> Path:
        return write(tmp_path / "authentication.json", document(provider))

    @pytest.fixture
    def settings(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        monkeypatch.setattr("kcp_py.controlplane.issuers._FILE_POLL_SECONDS", 0.02)
        return {"authentication_config": file}

    async def test_an_issuer_that_is_removed(self, api: Api, provider: OIDCProvider, file: Path) -> None:
        """The watches of its users end soon after the file is read, and those of others go on."""
        token = f"Bearer {provider.token()}"
        async with watch(api, token) as mine, watch(api, BOB) as other:
            assert (mine.started["status"], other.started["status"]) == (200, 200)
            await asyncio.to_thread(write, file)
            await end_of(mine)
            await api.fails(401, "GET", MAPS, token=token)
            await api.ok("POST", MAPS, config_map("one"))
            assert await other.brief() == ("ADDED", "one")


async def test_a_group_that_is_left(api: Api, users: Path) -> None:
    """A user that is no longer in a group loses the watches that the group allows."""
    await api.ok("DELETE", f"{RBAC}/clusterrolebindings/alice")
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("devs", "maps", "Group:dev"))
    async with watch(api, ALICE) as mine:
        assert mine.started["status"] == 200
        await asyncio.to_thread(replace, users, USERS.replace(',"dev"', ',"ops"'))
        await end_of(mine)
        await api.fails(403, "GET", MAPS, token=ALICE)


async def test_a_watch_over_websocket(api: Api) -> None:
    """It is closed as by its timeout. The token came as a subprotocol."""
    sent: asyncio.Queue[Message] = asyncio.Queue()
    events: list[dict[str, Any]] = [{"type": "websocket.connect"}]

    async def receive() -> Message:
        if events:
            return events.pop()
        await asyncio.Event().wait()
        raise AssertionError

    scope: Scope = {
        "type": "websocket", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "wss", "path": MAPS, "raw_path": MAPS.encode(),
        "query_string": b"watch=true", "headers": [(b"origin", b"https://kcp.test")], "state": {},
        "subprotocols": ["base64url.bearer.authorization.k8s.io.YWxpY2U", "base64.binary.k8s.io"],
    }  # fmt: skip
    task = asyncio.ensure_future(api.control_plane.app(scope, receive, sent.put))
    async with asyncio.timeout(30):
        assert (await sent.get())["type"] == "websocket.accept"
        await api.ok("POST", MAPS, config_map("one"))
        assert json.loads((await sent.get())["text"])["type"] == "ADDED"
        await api.ok("DELETE", f"{RBAC}/clusterrolebindings/alice")
        assert await sent.get() == {"type": "websocket.close", "code": 1000}
        await task


async def test_a_group_that_a_grant_names_is_left(api: Api, users: Path) -> None:
    """A watch over all clusters ends when its caller is another subject of grants, although another grant allows it still."""
    await api.ok("POST", GRANTS, grant("by-group", {"names": ["team-a"]}, subjects=({"kind": "Group", "name": "dev"},)))
    await api.ok("POST", GRANTS, grant("by-name", {"names": ["root"]}))
    async with watch(api, ALICE, "/clusters/*/api/v1/configmaps") as stream:
        assert stream.started["status"] == 200
        await asyncio.to_thread(replace, users, "alice,alice,a1\n")
        await end_of(stream)


async def test_a_privileged_group_is_left(api: Api, users: Path) -> None:
    """A watch over all clusters that a privileged caller has opened does not go on under a grant for one cluster."""
    await api.ok("POST", GRANTS, grant("one", {"names": ["root"]}, subjects=({"kind": "User", "name": "max"},)))
    async with watch(api, MASTER, "/clusters/*/api/v1/configmaps") as stream:
        assert stream.started["status"] == 200
        await asyncio.to_thread(replace, users, "master,max,m1\n")
        await end_of(stream)
