"""The pytest plugin: a Kubernetes API server for a test session, and a logical cluster for each test.

It is loaded in every test run of an environment that has kcp-py: it imports the server when a fixture is used, and not before.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from kcp_py.testing.blocking import BlockingClock, BlockingCluster, BlockingSnapshots, BridgedObjects, Server
    from kcp_py.testing.clock import FakeClock
    from kcp_py.testing.faults import Faults
    from kcp_py.testing.recording import Recording

_SHORT: Final = {
    "storage": "where objects are stored: memory, sqlite or etcd",
    "controllers": "controllers to run, as for kcp-py start: *, NAME, -NAME; empty runs none",
    "simulate": "what becomes ready although nothing runs it: workloads",
    "batteries": "built-in resources to serve, as for kcp-py start",
}
_EVENTS: Final = 30


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin."""
    group = parser.getgroup("kcp-py", "Kubernetes API servers of kcp-py")
    for name, text in _SHORT.items():
        group.addoption(f"--kcp-{name}", metavar="TEXT", default=None, help=text)
    group.addoption(
        "--kcp-set", metavar="NAME=VALUE", action="append", default=[], help="any other setting of the servers, such as event_ttl=5s"
    )
    group.addoption("--kcp-update", action="store_true", help="write the snapshots of kcp_record instead of comparing with them")
    parser.addini("kcp_settings", "settings of the servers, NAME=VALUE, one in each line", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """The marker of the plugin."""
    config.addinivalue_line("markers", "kcp(**settings): settings of the server of this test, such as simulate='workloads'")


class Servers:
    """The servers of a test session: one for each set of settings that a test asks for."""

    def __init__(self, config: pytest.Config, arguments: Mapping[str, Any]) -> None:
        self._config = config
        self._arguments = arguments
        self._servers: dict[str, Server] = {}
        self._faults: dict[Server, Faults] = {}

    def get(self, settings: Mapping[str, Any], *, faults: bool = False) -> Server:
        """The server with the settings of the command line, of the configuration file and of a marker, which win in this order reversed.

        Args:
            settings: those of a marker.
            faults: a server whose requests can fail, see `faults_of`.

        Raises:
            pytest.UsageError: a setting does not exist, or its value is wrong.
        """
        texts = self._texts(settings)
        # Tests of other settings have other servers; those of equal settings share one.
        key = repr((faults, sorted(texts.items())))
        if key not in self._servers:
            self._servers[key] = self.start(settings, faults=faults)
        return self._servers[key]

    def start(self, settings: Mapping[str, Any], *, faults: bool = False, clock: FakeClock | None = None) -> Server:
        """A new server, which the caller ends.

        Args:
            settings: as for `get`.
            faults: as for `get`.
            clock: the clock of the server; None for the machine's.

        Raises:
            pytest.UsageError: as for `get`.
        """
        from kcp_py.testing.blocking import Server  # noqa: PLC0415 - see above

        arguments = {**self._arguments, **parsed(self._texts(settings))}
        parts = dict(arguments.get("parts") or {})
        if clock is not None:
            parts["clock"] = clock
        rules: Faults | None = None
        if faults:
            from kcp_py.testing.faults import Faults  # noqa: PLC0415

            rules = Faults() if clock is None else Faults(clock)
            parts = rules.added_to(parts, arguments.get("etcd_prefix") or "/registry")
        server = Server(**arguments | ({"parts": parts} if parts else {}))
        server.start()
        if rules is not None:
            self._faults[server] = rules
        return server

    def end(self, server: Server) -> None:
        """Stop a server of `start`, and forget it."""
        self._faults.pop(server, None)
        server.stop()

    def faults_of(self, server: Server) -> Faults | None:
        """The rules by which requests of a server fail; None for a server without."""
        return self._faults.get(server)

    def _texts(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        texts = {**_pairs(self._config.getini("kcp_settings")), **_pairs(self._config.getoption("kcp_set"))}
        texts |= {name: text for name in _SHORT if (text := self._config.getoption(f"kcp_{name}")) is not None}
        return {**texts, **settings}

    def stop(self) -> None:
        """End all servers."""
        for server in self._servers.values():
            server.stop()


def _pairs(lines: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in lines:
        name, separator, value = line.partition("=")
        if not separator:
            raise pytest.UsageError(f"kcp-py: {line!r} is not NAME=VALUE")
        found[name.strip().replace("-", "_")] = value.strip()
    return found


def parsed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings whose texts are read as the command line reads them; other values stay.

    Raises:
        pytest.UsageError: a setting does not exist, or its text is wrong.
    """
    from kcp_py.options import SETTINGS, OptionsError, load_options  # noqa: PLC0415

    known = {setting.name for setting in SETTINGS}
    for name in settings:
        if name not in known:
            raise pytest.UsageError(f"kcp-py: there is no setting {name!r}")
    texts = {name: value for name, value in settings.items() if isinstance(value, str)}
    try:
        options = load_options(flags=texts, environ={})
    except OptionsError as error:
        raise pytest.UsageError("kcp-py: " + "; ".join(map(str, error.problems))) from None
    return {name: getattr(options, name) if name in texts else value for name, value in settings.items()}


@pytest.fixture(scope="session")
def kcp_arguments() -> dict[str, Any]:
    """Arguments of `kcp_py.testing.control_plane` for all servers of the session: override it to extend the control plane."""
    return {}


@pytest.fixture(scope="session")
def kcp_servers(pytestconfig: pytest.Config, kcp_arguments: dict[str, Any]) -> Iterator[Servers]:
    """The servers of the session, by their settings. They end with it."""
    servers = Servers(pytestconfig, kcp_arguments)
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def kcp_server(kcp_servers: Servers) -> Server:
    """The server with the settings of the session, in a thread; one for each worker of pytest-xdist."""
    return kcp_servers.get({})


@pytest.fixture
def kcp_cluster(request: pytest.FixtureRequest, kcp_servers: Servers) -> Iterator[BlockingCluster]:
    """A logical cluster of this test alone, named after it. If the test fails, its requests and events are in the report."""
    settings: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("kcp"))):
        settings |= marker.kwargs
    faults = "kcp_faults" in request.fixturenames
    clocks = request.node.stash.setdefault(_CLOCKS, [])
    if "kcp_clock" in request.fixturenames:
        from kcp_py.testing.clock import FakeClock  # noqa: PLC0415

        clocks.append(FakeClock())
    # The time of a server passes for all of its clusters.
    server = kcp_servers.start(settings, faults=faults, clock=clocks[-1]) if clocks else kcp_servers.get(settings, faults=faults)
    try:
        cluster = server.new_cluster(request.node.name)
        request.node.stash.setdefault(_CLUSTERS, []).append(cluster)
        yield cluster
    finally:
        if clocks:
            kcp_servers.end(server)


@pytest.fixture
def kcp_clock(request: pytest.FixtureRequest, kcp_cluster: BlockingCluster) -> BlockingClock:
    """The clock of the server, which is one of this test alone: `kcp_clock.advance(3600)`. Name it as an argument of the test."""
    from kcp_py.testing.blocking import BlockingClock  # noqa: PLC0415

    clocks = request.node.stash.get(_CLOCKS, [])
    if not clocks:
        raise pytest.UsageError("kcp-py: kcp_clock has to be an argument of the test or of its fixtures")
    return BlockingClock(kcp_cluster.server, clocks[-1])


@pytest.fixture
def kcp_faults(kcp_servers: Servers, kcp_cluster: BlockingCluster) -> Iterator[Faults]:
    """Rules by which requests to the cluster of this test fail: `kcp_faults.conflict(resource="configmaps", times=3)`."""
    from kcp_py.testing.faults import ClusterFaults  # noqa: PLC0415

    rules = kcp_servers.faults_of(kcp_cluster.server)
    if rules is None:
        raise pytest.UsageError("kcp-py: kcp_faults has to be an argument of the test or of its fixtures")
    faults = ClusterFaults(rules, kcp_cluster.name)
    yield faults
    faults.clear()


@pytest.fixture
def kcp_kubeconfig(kcp_cluster: BlockingCluster) -> Path:
    """The path of a kubeconfig of the administrator of the cluster of this test."""
    return kcp_cluster.write_kubeconfig()


@pytest.fixture
def kcp_environment(kcp_kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`kcp_kubeconfig`, to which the variable KUBECONFIG is set during this test."""
    monkeypatch.setenv("KUBECONFIG", str(kcp_kubeconfig))
    return kcp_kubeconfig


@pytest.fixture
def kcp_client(kcp_cluster: BlockingCluster) -> BridgedObjects:
    """The objects of the cluster of this test, for coroutines: `await kcp_client.get("configmaps", "a")`."""
    return kcp_cluster.objects


@pytest.fixture
def kcp_crds(kcp_cluster: BlockingCluster, pytestconfig: pytest.Config) -> Callable[..., list[dict[str, Any]]]:
    """A function that applies files and directories, relative to pytest's root directory, and waits until definitions are established."""

    def install(*paths: str | os.PathLike[str]) -> list[dict[str, Any]]:
        return kcp_cluster.apply(*(pytestconfig.rootpath / path for path in paths))

    return install


@pytest.fixture
def kcp_snapshot(kcp_cluster: BlockingCluster) -> BlockingSnapshots:
    """Saves, restores and clones logical clusters: `saved = kcp_snapshot.save(kcp_cluster)`, `kcp_snapshot.restore(saved)`."""
    return kcp_cluster.server.snapshots


@pytest.fixture
def kcp_record(request: pytest.FixtureRequest, kcp_cluster: BlockingCluster) -> Iterator[Callable[..., Recording]]:
    """A function that records requests to the cluster of this test until its end; it takes the arguments of `kcp_py.testing.record`.

    `check()` of the recording compares with `snapshots/MODULE/TEST.yaml` next to the module of the test.
    """
    import contextlib  # noqa: PLC0415

    from kcp_py.testing.recording import record  # noqa: PLC0415

    test = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    folder = request.node.path.parent / "snapshots" / request.node.path.stem
    made = 0
    with contextlib.ExitStack() as stack:

        def start(**arguments: Any) -> Recording:
            nonlocal made
            made += 1
            recording = stack.enter_context(record(kcp_cluster.server, **{"clusters": (kcp_cluster.name,), **arguments}))
            recording.file = folder / (f"{test}.yaml" if made == 1 else f"{test}.{made}.yaml")
            recording.update = request.config.getoption("kcp_update")
            return recording

        yield start


_CLOCKS: Final = pytest.StashKey["list[FakeClock]"]()
_CLUSTERS: Final = pytest.StashKey["list[BlockingCluster]"]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what happened in the cluster of a test that has failed."""
    report = yield
    if report.failed:
        for cluster in item.stash.get(_CLUSTERS, []):
            text = _describe(cluster)
            if text:
                report.sections.append((f"kcp-py: logical cluster {cluster.name}", text))
    if report.when == "teardown":
        # Items stay until the end of the session.
        item.stash.get(_CLUSTERS, []).clear()
        item.stash.get(_CLOCKS, []).clear()
    return report


def _describe(cluster: BlockingCluster) -> str:
    requests = [f"  {request.line}" for request in cluster.server.requests.recent(cluster.name)]
    try:
        events = [_event(event) for event in cluster.list("events")[-_EVENTS:]]
    except Exception as error:  # noqa: BLE001 - the report of the test matters more
        events = [f"  (events cannot be read: {error})"]
    parts = [("last requests over HTTP:", requests), ("events:", events)]
    return "\n".join(line for title, lines in parts if lines for line in (title, *lines))


def _event(event: Mapping[str, Any]) -> str:
    about = event.get("involvedObject") or {}
    return (
        f"  {event.get('type', '')} {event.get('reason', '')} {about.get('kind', '')}/{about.get('name', '')}: {event.get('message', '')}"
    )
