"""A control plane with service accounts, their tokens, and tokens that only the server's key can sign."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import orjson
import pytest

from kcp_py.authn.serviceaccount.keys import SigningKey, parse_private
from kcp_py.controlplane import ControlPlane
from tests.authz.conftest import api as _api
from tests.server.handlers.conftest import Api, options

api = _api
CORE: Final = "/clusters/team-a/api/v1/namespaces/default"
WHOAMI: Final = "apis/authentication.k8s.io/v1/selfsubjectreviews"
KEYS: Final = "/registry/.kcp-py/service-account-keys"
SERVER: Final = "https://127.0.0.1:6443"
Sign = Callable[[Mapping[str, Any]], str]


@asynccontextmanager
async def server(root: Path, **more: Any) -> AsyncIterator[Api]:
    """A control plane with options, as its administrator."""
    async with (
        ControlPlane(options(root, **more)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        yield Api(client, control_plane)


class Issued(NamedTuple):
    """A service account with its token."""

    token: str
    uid: str
    claims: Mapping[str, Any]


def claims_of(token: str) -> dict[str, Any]:
    """The payload of a token."""
    found: dict[str, Any] = orjson.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    return found


async def issue(api: Api, name: str = "builder", *, core: str = CORE, spec: Mapping[str, Any] | None = None) -> Issued:
    """The token of a service account, which is created if it does not exist."""
    await api("POST", f"{core}/serviceaccounts", {"metadata": {"name": name}})
    answer = await api.ok("POST", f"{core}/serviceaccounts/{name}/token", {"spec": dict(spec or {})})
    token = answer["status"]["token"]
    return Issued(token, answer["metadata"]["uid"], claims_of(token))


async def whoami(api: Api, token: str, cluster: str = "/clusters/team-a", **more: Any) -> httpx.Response:
    """The answer to the question who the owner of a token is in a cluster."""
    return await api("POST", f"{cluster}/{WHOAMI}", {}, token=f"Bearer {token}" if token else "", **more)


async def review(api: Api, token: str, cluster: str = "team-a", **spec: Any) -> Any:
    """The status of a TokenReview."""
    path = f"/clusters/{cluster}/apis/authentication.k8s.io/v1/tokenreviews"
    return (await api.ok("POST", path, {"spec": {"token": token, **spec}}))["status"]


async def server_key(api: Api) -> SigningKey:
    """The key of the server."""
    item = await api.control_plane.backend.access.storage.get(KEYS)
    assert item is not None
    return parse_private(orjson.loads(item.value)["keys"][0]["private"].encode())


@pytest.fixture
async def issued(api: Api) -> Issued:
    """A service account of team-a with its token."""
    return await issue(api)


@pytest.fixture
async def sign(api: Api) -> Sign:
    """Signs claims as the server would."""
    return (await server_key(api)).sign


def now() -> int:
    """Unix seconds."""
    return int(time.time())
