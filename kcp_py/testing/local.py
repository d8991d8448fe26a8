"""`control_plane`: a control plane for tests, in the process and on the event loop of the test."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcp_py.aio.clock import SYSTEM_CLOCK
from kcp_py.client.contract import Client
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name, parse_name
from kcp_py.options import Options
from kcp_py.tenancy.snapshots import Snapshot
from kcp_py.testing.clusters import Access, Cluster
from kcp_py.testing.directory import PrivateDirectory
from kcp_py.testing.requests import RequestLog
from kcp_py.testing.users import Users

if TYPE_CHECKING:
    from kcp_py.testing.edge import Edge


class LocalServer:
    """A control plane that keeps nothing and has one logical cluster for each test.

    Attributes:
        control_plane: the control plane.
        users: its users, in addition to service accounts.
        requests: the requests that reach it over HTTP.
    """

    def __init__(self, control_plane: ControlPlane, users: Users, directory: PrivateDirectory, edge: Edge | None) -> None:
        self.control_plane = control_plane
        self.users = users
        self.requests = RequestLog(users)
        self._directory = directory
        self._edge = edge
        self._names = 0
        self._run = secrets.token_hex(3)
        self._serving = asyncio.Lock()

    @property
    def client(self) -> Client:
        """The client of all clusters, in the process, as a user who may do everything."""
        return self.control_plane.client

    @property
    def access(self) -> Access:
        """How clients reach the server over HTTP.

        Raises:
            RuntimeError: it does not serve HTTP.
        """
        if self._edge is None or self._edge.access is None:
            raise RuntimeError("the control plane is not served over HTTP: use control_plane(serve=True), or await server.serve()")
        return self._edge.access

    @property
    def url(self) -> str:
        """The URL of the server, without `/clusters/NAME`.

        Raises:
            RuntimeError: it does not serve HTTP.
        """
        return self.access.url

    async def serve(self) -> str:
        """Serve HTTPS on a free port, unless it does already; returns the URL.

        Raises:
            ListenError: the address cannot be listened on.
            OSError: the certificates cannot be written.
        """
        from kcp_py.testing.edge import Edge  # noqa: PLC0415 - many tests do without HTTP

        async with self._serving:
            if self._edge is None:
                edge = await Edge.prepare(self.control_plane.options, self._directory)
                await edge.start(self.control_plane, self.users.admin_token, self.requests)
                self._edge = edge
        return self.url

    def add_user(self, name: str, groups: Sequence[str] = ()) -> str:
        """A user without permissions but those that roles give; returns a bearer token."""
        return self.users.add(name, groups)

    async def new_cluster(self, name: str = "", *, content: Snapshot | Cluster | None = None) -> Cluster:
        """A logical cluster that no other test uses.

        Args:
            name: the beginning of its name; any text.
            content: a snapshot or a cluster whose objects it gets, with new uids.

        Raises:
            StatusError: as `Snapshots.clone`.
        """
        self._names += 1
        chosen = cluster_name(name, f"{self._run}-{self._names}")
        snapshots = self.control_plane.snapshots
        if content is None:
            await self.control_plane.backend.clusters.ensure(chosen)
        else:
            # The cluster may be one of another server.
            await snapshots.clone(await content.save() if isinstance(content, Cluster) else content, chosen)
        # The requests of the test itself do not fail, see `Faults`.
        client = self.control_plane.client.unobserved()
        return Cluster(client, chosen, access=lambda: self.access, directory=self._directory.make, snapshots=snapshots)

    @contextlib.asynccontextmanager
    async def cluster(self, name: str = "") -> AsyncIterator[Cluster]:
        """`new_cluster` as a context. The cluster stays until the server ends: nothing is to be cleaned up."""
        yield await self.new_cluster(name)

    async def settle(self) -> None:
        """Wait until the controllers of the server have done the work that is due. Requests over HTTP are not waited for.

        Raises:
            TimeoutError: they were not done after 30 seconds.
        """
        from kcp_py.testing.settling import settle  # noqa: PLC0415 - few tests need it

        await settle(self.control_plane)

    async def aclose(self) -> None:
        """Stop serving HTTP."""
        if self._edge is not None:
            await self._edge.stop()


def attach_clock(plane: ControlPlane) -> Callable[[], None]:
    """Let the clock of a control plane wait for its controllers, if it is one that tests set forward. Returns what detaches it."""
    from kcp_py.testing.clock import FakeClock  # noqa: PLC0415 - of tests with a clock
    from kcp_py.testing.settling import settle  # noqa: PLC0415

    return plane.clock.attach(lambda: settle(plane)) if isinstance(plane.clock, FakeClock) else lambda: None


def cluster_name(text: str, suffix: str) -> Name:
    """A name of a logical cluster that resembles a text, such as the name of a test.

    Args:
        text: any text.
        suffix: what makes the name unique: lower-case letters, digits and hyphens.
    """
    plain = "".join(character if character.isascii() and character.isalnum() else "-" for character in text.lower())
    words = "-".join(filter(None, plain.split("-"))) or "test"
    words = words if words[0].isalpha() else f"t-{words}"
    return parse_name(f"{words[: 62 - len(suffix)].rstrip('-')}-{suffix}")


def settings_for_tests(directory: Path, **settings: Any) -> Options:
    """`Options` of a server for tests: in memory, on a free port, without delays.

    Args:
        directory: of certificates and files; it need not exist.
        settings: other fields of `Options`.

    Raises:
        TypeError: a field does not exist.
    """
    plain = Options(
        storage="memory",
        root_directory=directory,
        secure_port=0,
        shutdown_grace_period=1.0,
        namespace_deletion_grace=0.0,
        simulate_delay=0.0,
        require_cluster_access=False,
        cluster_annotation="wildcard",
        access_log="none",
        log_level="warning",
    )
    return dataclasses.replace(plain, **settings)


@contextlib.asynccontextmanager
async def control_plane(
    create: Callable[..., ControlPlane] = ControlPlane, *, serve: bool = False, parts: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[LocalServer]:
    """A control plane that keeps nothing on disk, for tests.

    ::

        async with control_plane() as server:
            cluster = await server.new_cluster()
            await cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})

    Args:
        create: makes the control plane, as `ControlPlane` does, for programs that add to it. It must hand `authenticators` on.
        serve: serve HTTPS on a free port from the start. `LocalServer.serve` does it later.
        parts: arguments for `create`, such as `apis` and `controllers`.
        settings: fields of `Options` that differ from those of `settings_for_tests`: `simulate=("workloads",)`, `controllers=()`.

    Raises:
        TypeError: a setting does not exist.
        ListenError: the address cannot be listened on.
    """
    directory = PrivateDirectory()
    options = settings_for_tests(directory.path, **settings)
    users = Users()
    arguments = dict(parts or {})
    arguments["authenticators"] = [users, *arguments.get("authenticators", ())]
    edge: Edge | None = None
    try:
        if serve:
            from kcp_py.testing.edge import Edge  # noqa: PLC0415 - many tests do without HTTP

            edge = await Edge.prepare(options, directory)
            options = edge.options
        if options.storage == "sqlite" and options.root_directory == directory.path:
            directory.make()
        async with contextlib.AsyncExitStack() as stack:
            if edge is not None:
                stack.callback(edge.close)
            plane = await stack.enter_async_context(create(options, **arguments))
            # `create` may have given it a clock, too.
            if plane.clock is not SYSTEM_CLOCK:
                stack.callback(attach_clock(plane))
            server = LocalServer(plane, users, directory, edge)
            stack.push_async_callback(server.aclose)
            if edge is not None:
                await edge.start(plane, users.admin_token, server.requests)
            yield server
    finally:
        directory.remove()
