"""Health and metrics of the process of the controllers. With a server behind them they are tested in e2e/test_controllers_apart.py."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from kcp_py.aio.supervisor import Supervisor
from kcp_py.cli.controllerspages import ControllersHealth, served_pages
from kcp_py.cli.exits import CommandError
from kcp_py.client.remote import RemoteClient
from kcp_py.client.remotetap import RemoteTap
from kcp_py.client.transport import Transport
from kcp_py.controllers import LeaderElection, start_controllers
from kcp_py.kubeconfig import KubeconfigContext
from kcp_py.options import Options
from tests.ports import reserve_port

PATHS = ("/livez", "/healthz", "/readyz", "/metrics", "/clusters/a/api", "/x")

pytestmark = pytest.mark.anyio


def unreachable() -> Transport:
    """A transport to a port on which nothing listens."""
    return Transport(KubeconfigContext(Path("config"), {"server": f"http://127.0.0.1:{reserve_port()}"}, {}, "u"))


@pytest.mark.parametrize(("elected", "leads"), [(True, 0.0), (False, 1.0)], ids=["elected", "not elected"])
async def test_controllers_without_a_server(*, elected: bool, leads: float) -> None:
    """They are alive and not ready; nothing but the pages is there, and no credentials are needed for them."""
    options = Options(metrics_bind_address="127.0.0.1:0")
    with capture_logs() as logs:
        async with RemoteClient(unreachable()) as client, Supervisor(lambda *_: None) as supervisor:
            tap = RemoteTap(client.transport)
            election = LeaderElection(client) if elected else None
            loops = start_controllers(supervisor, client, tap, election=election)
            health = ControllersHealth(tap, election, loops)
            async with served_pages(options, health, loops), httpx.AsyncClient() as http:
                while not (served := [log["url"] for log in logs if log["event"] == "pages_served"]):
                    await asyncio.sleep(0)
                answers = {
                    path: await http.get(served[0] + path)
                    for path in ("/livez", "/healthz", "/readyz", "/metrics", "/clusters/a/api", "/x")
                }
                health.stopping = True
                stopping = await http.get(f"{served[0]}/readyz/shutdown")
    codes = {path: answer.status_code for path, answer in answers.items()}
    assert codes == {"/livez": 200, "/healthz": 200, "/readyz": 500, "/metrics": 200, "/clusters/a/api": 403, "/x": 403}
    assert "[-]informer-sync failed: reason withheld\n" in answers["/readyz"].text
    assert ("[+]leaderElection ok\n" in answers["/readyz"].text) is elected
    assert f'leader_election_master_status{{name="kcp-py-controllers"}} {leads}\n' in answers["/metrics"].text
    assert 'workqueue_depth{name="namespace-controller"}' in answers["/metrics"].text
    assert "process_resident_memory_bytes" in answers["/metrics"].text
    assert stopping.status_code == 500


async def test_no_address_no_pages() -> None:
    """The default: nothing listens."""
    tap = RemoteTap(unreachable())
    with capture_logs() as logs:
        async with served_pages(Options(), ControllersHealth(tap, None, []), []):
            pass
    assert logs == []


async def test_an_address_in_use_is_named() -> None:
    """In one line."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CommandError, match=f"cannot listen on {address}: the port is in use"):
            async with served_pages(Options(metrics_bind_address=address), ControllersHealth(RemoteTap(unreachable()), None, []), []):
                pass
