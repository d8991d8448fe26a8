"""A program that is an aggregated API server."""

from __future__ import annotations

from kcp_py import AggregatedServer, ControlPlane, Delegation, Options, serve_aggregated

control_plane = ControlPlane(Options(storage="memory"))
DELEGATION = Delegation(kubeconfig="admin.kubeconfig", inject_ca_bundle=True)


async def serve() -> None:
    """Serve as a part of the API server of a kubeconfig."""
    await serve_aggregated(control_plane, DELEGATION, on_ready=print)


async def without_a_port() -> None:
    """The application, for a server of the program."""
    async with AggregatedServer(control_plane) as server:
        print(server.control_plane.app)


async def main() -> None:
    """What can be tried without an API server."""
    assert DELEGATION.inject_ca_bundle
