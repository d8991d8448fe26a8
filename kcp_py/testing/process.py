"""The process of `kcp-py test-server`: it serves until a signal, or until the process that it runs for ends."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import json
import os
import signal
import time
from pathlib import Path
from typing import IO, Any, Final

import yaml

from kcp_py._version import __version__
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import parse_name
from kcp_py.options import Options
from kcp_py.serving.files import write_private_file
from kcp_py.serving.server import event_loop_factory
from kcp_py.telemetry.logs import configure_logging
from kcp_py.testing import remotecontrol
from kcp_py.testing.clock import FakeClock
from kcp_py.testing.clusters import Cluster
from kcp_py.testing.edge import Edge
from kcp_py.testing.faults import Faults
from kcp_py.testing.parents import Parent
from kcp_py.testing.settling import settle
from kcp_py.testing.users import ADMIN, Users

API_VERSION: Final = "testing.kcp-py.dev/v1"
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What a test server is to do.

    Attributes:
        options: the settings; the root directory exists.
        clusters: how many logical clusters to make, with a kubeconfig each.
        crds: files and directories of manifests for each of these clusters.
        parent: whose end ends the server; None for none.
        durable: whether its files have to outlive a power cut: the root directory is kept.
        began: the monotonic time of the start of the command.
    """

    options: Options
    clusters: int = 0
    crds: tuple[Path, ...] = ()
    parent: Parent | None = None
    durable: bool = False
    began: float = dataclasses.field(default_factory=time.monotonic)


def run(plan: Plan, out: IO[str]) -> None:
    """Serve, and print one line of JSON when clients can begin.

    Raises:
        ListenError: the address cannot be listened on.
        OSError: a file cannot be read or written.
        ValueError: a manifest cannot be used.
        StatusError: a manifest is refused.
    """
    configure_logging(plan.options.log_level, plan.options.log_format)
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        runner.run(_run(plan, out))


async def _run(plan: Plan, out: IO[str]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    watching = None if plan.parent is None else asyncio.create_task(_stop_with(plan.parent, stop))
    try:
        edge = await Edge.prepare(plan.options, None, durable=plan.durable)
        users = Users()
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(edge.close)
            clock = FakeClock()
            faults = Faults(clock)
            control_plane = ControlPlane(edge.options, authenticators=[users], clock=clock, **faults.added_to({}, edge.options.etcd_prefix))
            control_plane.mount(remotecontrol.PATH, remotecontrol.RemoteControl(faults, clock))
            await stack.enter_async_context(control_plane)
            clock.attach(lambda: settle(control_plane))
            stack.push_async_callback(edge.stop)
            await edge.start(control_plane, users.admin_token)
            line = await _describe(plan, edge, control_plane)
            gc.freeze()
            line["startSeconds"] = round(time.monotonic() - plan.began, 3)
            try:
                out.write(json.dumps(line) + "\n")
                out.flush()
            except BrokenPipeError:
                # A parent that has ended reads no line. It may have ended before this process could look at it, and only this tells.
                if plan.parent is not None:
                    return
            await stop.wait()
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])


async def _stop_with(parent: Parent, stop: asyncio.Event) -> None:
    await parent.ended()
    stop.set()


async def _describe(plan: Plan, edge: Edge, control_plane: ControlPlane) -> dict[str, Any]:
    """The fields of the line, see docs/testing/test-server.md."""
    access = edge.access
    if access is None:
        raise RuntimeError("it is not served")
    directory = plan.options.root_directory
    kubeconfig = plan.options.kubeconfig_file
    write_private_file(kubeconfig, yaml.safe_dump(access.kubeconfig("root"), sort_keys=False).encode(), durable=plan.durable)
    clusters: list[dict[str, str]] = []
    for number in range(1, plan.clusters + 1):
        name = parse_name(f"test-{number}")
        await control_plane.backend.clusters.ensure(name)
        cluster = Cluster(control_plane.client, name, access=lambda: access, directory=lambda: directory, snapshots=control_plane.snapshots)
        await cluster.apply(*plan.crds)
        path = cluster.write_kubeconfig(directory / f"{name}.kubeconfig")
        clusters.append({"name": name, "url": cluster.url, "kubeconfig": str(path)})
    pki = plan.options.pki_directory
    files = (
        {}
        if access.authority is None
        else {
            "caFile": str(plan.options.trust_file),
            "caData": access.authority.decode(),
            "clientCertificateFile": str(pki / "admin.crt"),
            "clientKeyFile": str(pki / "admin.key"),
        }
    )
    return {
        "apiVersion": API_VERSION,
        "kind": "TestServer",
        "version": __version__,
        "pid": os.getpid(),
        "url": access.url,
        "testingURL": f"{access.url}{remotecontrol.PATH}",
        "clusterURL": f"{access.url}/clusters/{{name}}",
        "kubeconfig": str(kubeconfig),
        "user": ADMIN,
        "token": access.token,
        **files,
        "rootDirectory": str(directory),
        "clusters": clusters,
    }
