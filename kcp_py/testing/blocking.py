"""`serving`: a control plane in a thread of its own, for tests and programs without an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kcp_py.tenancy.snapshots import Restored, Snapshot
from kcp_py.testing.clusters import Cluster, ClusterObjects, Source
from kcp_py.testing.local import LocalServer, control_plane
from kcp_py.testing.requests import RequestLog

if TYPE_CHECKING:
    from kcp_py.testing.clock import FakeClock

T = TypeVar("T")


class Server:
    """A server in a thread. Its methods may be called from every thread, and from code that runs on any event loop.

    A process that was forked from this one can use its URLs and kubeconfigs, but not its methods.
    """

    def __init__(self, **arguments: Any) -> None:
        """Prepare a server.

        Args:
            arguments: those of `control_plane`.
        """
        self._arguments = {"serve": True, **arguments}
        self._started: Future[LocalServer] = Future()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._main, name="kcp-py-server", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def start(self) -> None:
        """Start it and wait until it serves.

        Raises:
            Exception: why it could not start.
        """
        self._thread.start()
        try:
            self._started.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it in order and wait for that. It may have ended already."""
        if os.getpid() != self._pid or not self._thread.is_alive():
            return
        # An interrupt during the start: the loop may be about to exist.
        with contextlib.suppress(Exception):
            self._started.result()
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # it ends by itself
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def local(self) -> LocalServer:
        """The server as its own thread sees it. Its coroutines run by `run`."""
        return self._started.result()

    @property
    def url(self) -> str:
        """The URL of the server, without `/clusters/NAME`."""
        return self.local.url

    @property
    def requests(self) -> RequestLog:
        """The requests that reach it over HTTP."""
        return self.local.requests

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of the server and wait for its result. An interrupt cancels it.

        Raises:
            RuntimeError: in a forked process, on the event loop of the server itself, or after its end.
        """
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the event loop of the server.

        Raises:
            RuntimeError: as in `run`.
        """
        reason = self._unusable()
        if reason or self._loop is None:
            coroutine.close()
            raise RuntimeError(reason)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _unusable(self) -> str:
        """Why a call could never end; empty if it can."""
        if os.getpid() != self._pid:
            return "the server runs in the process that this one was forked from: use its URLs"
        if threading.current_thread() is self._thread:
            return "this code runs on the event loop of the server: await the coroutine"
        if self._loop is None or self._loop.is_closed():
            return "the server does not run"
        return ""

    def add_user(self, name: str, groups: Sequence[str] = ()) -> str:
        """`LocalServer.add_user`."""
        return self.local.add_user(name, groups)

    def new_cluster(self, name: str = "", *, content: Snapshot | BlockingCluster | None = None) -> BlockingCluster:
        """A logical cluster that no other test uses.

        Args:
            name: the beginning of its name; any text.
            content: a snapshot or a cluster, of this server or of another one, whose objects it gets, with new uids.

        Raises:
            StatusError: as `Snapshots.clone`.
        """
        saved = content.save() if isinstance(content, BlockingCluster) else content
        return BlockingCluster(self, self.run(self.local.new_cluster(name, content=saved)))

    @property
    def snapshots(self) -> BlockingSnapshots:
        """Saves, restores and clones the logical clusters of the server."""
        return BlockingSnapshots(self)

    @contextlib.contextmanager
    def cluster(self, name: str = "") -> Iterator[BlockingCluster]:
        """`new_cluster` as a context. The cluster stays until the server ends: nothing is to be cleaned up."""
        yield self.new_cluster(name)

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
            if not self._started.done():
                self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with control_plane(**self._arguments) as server:
            self._started.set_result(server)
            await self._stop.wait()


class BlockingCluster:
    """A logical cluster of a `Server`. Each method waits for its result; see `Cluster`."""

    def __init__(self, server: Server, cluster: Cluster) -> None:
        self._server = server
        self._cluster = cluster
        self.name = cluster.name

    @property
    def server(self) -> Server:
        """The server of the cluster."""
        return self._server

    @property
    def url(self) -> str:
        """`https://127.0.0.1:PORT/clusters/NAME`."""
        return self._cluster.url

    @property
    def objects(self) -> BridgedObjects:
        """The objects, for code on another event loop: the methods are coroutines."""
        return BridgedObjects(self._server, self._cluster)

    def kubeconfig(self, *, token: str | None = None, user: str = "kcp-admin", namespace: str = "") -> dict[str, Any]:
        """`Cluster.kubeconfig`."""
        return self._cluster.kubeconfig(token=token, user=user, namespace=namespace)

    def kubeconfig_text(self, *, token: str | None = None, user: str = "kcp-admin", namespace: str = "") -> str:
        """`Cluster.kubeconfig_text`."""
        return self._cluster.kubeconfig_text(token=token, user=user, namespace=namespace)

    def write_kubeconfig(self, path: Path | None = None, *, token: str | None = None, user: str = "kcp-admin", namespace: str = "") -> Path:
        """`Cluster.write_kubeconfig`."""
        return self._cluster.write_kubeconfig(path, token=token, user=user, namespace=namespace)

    def save(self) -> Snapshot:
        """`Cluster.save`."""
        return self._server.run(self._cluster.save())

    def restore(self, snapshot: Snapshot) -> Restored:
        """`Cluster.restore`."""
        return self._server.run(self._cluster.restore(snapshot))

    def apply(self, *sources: Source) -> list[dict[str, Any]]:
        """`ClusterObjects.apply`."""
        return self._server.run(self._cluster.apply(*sources))

    def get(self, resource: str, name: str, namespace: str = "default") -> dict[str, Any]:
        """`ClusterObjects.get`."""
        return self._server.run(self._cluster.get(resource, name, namespace))

    def list(self, resource: str, namespace: str = "", *, label_selector: str = "") -> list[dict[str, Any]]:
        """`ClusterObjects.list`."""
        return self._server.run(self._cluster.list(resource, namespace, label_selector=label_selector))

    def delete(self, resource: str, name: str, namespace: str = "default") -> None:
        """`ClusterObjects.delete`."""
        self._server.run(self._cluster.delete(resource, name, namespace))

    def wait_for(
        self, resource: str, name: str, condition: Callable[[dict[str, Any]], object], namespace: str = "default", *, timeout: float = 30.0
    ) -> dict[str, Any]:
        """`ClusterObjects.wait_for`. The condition runs on the thread of the server."""
        return self._server.run(self._cluster.wait_for(resource, name, condition, namespace, timeout=timeout))

    def wait_gone(self, resource: str, name: str, namespace: str = "default", *, timeout: float = 30.0) -> None:
        """`ClusterObjects.wait_gone`."""
        self._server.run(self._cluster.wait_gone(resource, name, namespace, timeout=timeout))


class BlockingSnapshots:
    """Saves, restores and clones logical clusters. Each method waits for its result."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def save(self, cluster: BlockingCluster | str) -> Snapshot:
        """The content of a cluster, at one revision.

        Args:
            cluster: a cluster, or the name of one of this server.

        Raises:
            StatusError: 404, there is no such cluster.
        """
        if isinstance(cluster, str):
            return self._server.run(self._server.local.control_plane.snapshots.save(cluster))
        return cluster.save()

    def restore(self, snapshot: Snapshot, cluster: BlockingCluster | None = None) -> Restored:
        """Make the content of a cluster that of a snapshot; what came later is deleted.

        Args:
            snapshot: of any server.
            cluster: by default that of the snapshot, in this server. In another one, objects get new uids.

        Raises:
            StatusError: as `Snapshots.restore`.
        """
        if cluster is None:
            return self._server.run(self._server.local.control_plane.snapshots.restore(snapshot))
        return cluster.restore(snapshot)

    def clone(self, source: Snapshot | BlockingCluster, name: str = "") -> BlockingCluster:
        """A new logical cluster of this server with the objects of another one, which get new uids.

        Args:
            source: a snapshot or a cluster, of any server.
            name: the beginning of the name of the new cluster; any text.

        Raises:
            StatusError: as `Snapshots.clone`.
        """
        return self._server.new_cluster(name, content=source)


class BlockingClock:
    """The clock of a server that a test sets forward. See `FakeClock`."""

    def __init__(self, server: Server, clock: FakeClock) -> None:
        self._server = server
        self._clock = clock

    @property
    def now(self) -> datetime:
        """The time of day of the server, in UTC."""
        return self._clock.now

    def advance(self, seconds: float | timedelta, *, settle: bool = False) -> None:
        """`FakeClock.advance`."""
        self._server.run(self._clock.advance(seconds, settle=settle))

    def advance_to(self, when: datetime | float, *, settle: bool = False) -> None:
        """`FakeClock.advance_to`."""
        self._server.run(self._clock.advance_to(when, settle=settle))

    def settle(self) -> None:
        """`FakeClock.settle`."""
        self._server.run(self._clock.settle())


class BridgedObjects:
    """The objects of a cluster for coroutines of another event loop, of asyncio or of trio. See `ClusterObjects`."""

    def __init__(self, server: Server, objects: ClusterObjects) -> None:
        self._server = server
        self._objects = objects

    async def apply(self, *sources: str | Path | Mapping[str, Any]) -> list[dict[str, Any]]:
        """`ClusterObjects.apply`."""
        return await self._call(self._objects.apply(*sources))

    async def get(self, resource: str, name: str, namespace: str = "default") -> dict[str, Any]:
        """`ClusterObjects.get`."""
        return await self._call(self._objects.get(resource, name, namespace))

    async def list(self, resource: str, namespace: str = "", *, label_selector: str = "") -> list[dict[str, Any]]:
        """`ClusterObjects.list`."""
        return await self._call(self._objects.list(resource, namespace, label_selector=label_selector))

    async def delete(self, resource: str, name: str, namespace: str = "default") -> None:
        """`ClusterObjects.delete`."""
        await self._call(self._objects.delete(resource, name, namespace))

    async def wait_for(
        self,
        resource: str,
        name: str,
        condition: Callable[[dict[str, Any]], object],
        namespace: str = "default",
        *,
        timeout: float = 30.0,
    ) -> dict[str, Any]:
        """`ClusterObjects.wait_for`. The condition runs on the thread of the server."""
        return await self._call(self._objects.wait_for(resource, name, condition, namespace, timeout=timeout))

    async def wait_gone(
        self,
        resource: str,
        name: str,
        namespace: str = "default",
        *,
        timeout: float = 30.0,
    ) -> None:
        """`ClusterObjects.wait_gone`."""
        await self._call(self._objects.wait_gone(resource, name, namespace, timeout=timeout))

    async def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        future = self._server.submit(coroutine)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            import anyio.to_thread  # noqa: PLC0415 - of another event loop than asyncio's

            return await anyio.to_thread.run_sync(future.result, abandon_on_cancel=True)
        return await asyncio.wrap_future(future)


@contextlib.contextmanager
def serving(**arguments: Any) -> Iterator[Server]:
    """A server in a thread, on a free port.

    ::

        with serving() as server:
            cluster = server.new_cluster()
            cluster.apply("config/crd")

    Args:
        arguments: those of `control_plane`.
    """
    server = Server(**arguments)
    server.start()
    try:
        yield server
    finally:
        server.stop()
