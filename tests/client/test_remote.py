"""The client over HTTP."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.client.remote import RemoteClient
from kcp_py.client.transport import Transport
from kcp_py.controlplane import ControlPlane
from kcp_py.kubeconfig import KubeconfigContext
from kcp_py.request.user import UserInfo
from kcp_py.testing.client_objects import CONFIG_MAPS, TEAM, config_map
from kcp_py.testing.client_suite import ClientSuite
from tests.client.served import options_of, served

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[RemoteClient]:
    async with (
        ControlPlane(options_of(tmp_path)) as control_plane,
        served(control_plane) as context,
        RemoteClient(Transport(context)) as client,
    ):
        yield client


class TestRemoteClient(ClientSuite):
    """The suite of clients, over HTTP."""


async def test_a_user_without_rights_is_refused(client: RemoteClient) -> None:
    """The client acts as the user that it was told, and as no other."""
    with pytest.raises(StatusError) as caught:
        await client.acting_as(UserInfo("jane")).get(TEAM, CONFIG_MAPS, "default", "one")
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")


async def test_wrong_credentials_are_refused(client: RemoteClient) -> None:
    """With 401."""
    context = KubeconfigContext(Path("kubeconfig"), {"server": client.transport.base_url}, {"token": "wrong"}, "admin")
    async with RemoteClient(Transport(context)) as other:
        with pytest.raises(StatusError) as caught:
            await other.create(TEAM, CONFIG_MAPS, config_map("one"))
    assert (caught.value.code, caught.value.reason) == (401, "Unauthorized")


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    """The error names its URL; a watch fails in the same way."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with RemoteClient(Transport(KubeconfigContext(Path("kubeconfig"), {"server": url}, {"token": "t"}, "u"))) as client:
            for attempt in (client.get(TEAM, CONFIG_MAPS, "default", "one"), anext(client.watch(TEAM, CONFIG_MAPS, resource_version="1"))):
                with pytest.raises(StatusError) as caught:
                    await attempt
                assert (caught.value.code, caught.value.reason) == (503, "ServiceUnavailable")
                assert caught.value.message.startswith(f"{url}: ")
