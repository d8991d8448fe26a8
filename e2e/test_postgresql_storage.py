"""The sample driver for PostgreSQL passes the suite of storage drivers, on a real server."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kcp_py import ControlPlane, GroupVersionResource, Options, parse_name
from kcp_py.storage.contract import Compare, Put
from kcp_py.testing.storage_suite import StorageSuite

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")

SAMPLE = Path(__file__).resolve().parent.parent / "config/samples/library/postgresql_storage.py"
MAPS = GroupVersionResource("", "v1", "configmaps")

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgresql")]


def load() -> Any:
    """The sample as a module."""
    spec = importlib.util.spec_from_file_location("postgresql_storage", SAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def programs() -> Path | None:
    """The folder of the programs of PostgreSQL."""
    found = [Path(path).resolve().parent for path in [shutil.which("postgres")] if path]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists()), None)


class Server:
    """A server of PostgreSQL on a Unix socket. It refuses to run as root, so it runs as another user then."""

    def __init__(self, commands: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kcp-pg-"))
        self._commands = commands
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            account = next(pwd.getpwnam(name) for name in ("postgres", "nobody") if _is_user(name))
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._as = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        data = str(self.folder / "data")
        command = [commands / "initdb", "-D", data, "-U", "kcp", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **self._as)
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=100"]
        command = [self._commands / "postgres", "-D", self.folder / "data", "-k", self.folder, *options]
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self._as)
        return self.process

    def stop(self, number: int = signal.SIGINT) -> None:
        self.process.send_signal(number)
        self.process.wait(30)

    def url(self, schema: str = "public") -> str:
        return f"postgresql://kcp@/postgres?host={self.folder}&search_path={schema}"

    async def connect(self) -> Any:
        async with asyncio.timeout(30):
            while True:
                try:
                    return await asyncpg.connect(self.url())
                except (OSError, asyncpg.PostgresError):
                    await asyncio.sleep(0.05)


def _is_user(name: str) -> bool:
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Server]:
    """One server for all tests."""
    commands = programs()
    if commands is None:
        pytest.skip("PostgreSQL (initdb, postgres) is not installed")
    server = Server(commands)
    yield server
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
async def url(postgresql: Server, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """An empty store."""
    schema = f"test_{abs(hash(request.node.nodeid))}"
    connection = await postgresql.connect()
    await connection.execute(f"CREATE SCHEMA {schema}")
    await connection.close()
    yield postgresql.url(schema)
    connection = await postgresql.connect()
    await connection.execute(f"DROP SCHEMA {schema} CASCADE")
    await connection.close()


class TestPostgreSQLStorage(StorageSuite):
    """Every rule of the contract."""

    @pytest.fixture
    async def storage(self, url: str) -> AsyncIterator[Any]:
        """A store of its own for each test."""
        async with load().PostgreSQLStorage(url) as storage:
            yield storage


async def test_the_sample_is_short() -> None:
    """A driver has less than 300 lines."""
    assert len(SAMPLE.read_text("utf-8").splitlines()) < 300


async def test_two_servers_share_a_database(url: str) -> None:
    """Each sees the writes of the other, and creates of one name exclude each other."""
    module = load()
    cluster = parse_name("team-a")
    async with (
        ControlPlane(Options(), storage=module.PostgreSQLStorage(url)) as one,
        ControlPlane(Options(), storage=module.PostgreSQLStorage(url)) as other,
    ):
        await one.client.create(cluster, MAPS, {"metadata": {"name": "first", "namespace": "default"}})
        watch = other.client.watch(cluster, MAPS, resource_version=(await other.client.list(cluster, MAPS)).resource_version)
        body = {"metadata": {"name": "shared", "namespace": "default"}}
        made = await asyncio.gather(*(plane.client.create(cluster, MAPS, body) for plane in (one, other)), return_exceptions=True)
        assert sorted(isinstance(answer, Exception) for answer in made) == [False, True]
        async with asyncio.timeout(30):
            async for event in watch:
                if event.obj["metadata"]["name"] == "shared":
                    break
        await watch.aclose()


async def test_acknowledged_writes_survive_a_killed_server(postgresql: Server, url: str) -> None:
    """A driver goes on after a restart of the database: its watch misses nothing."""
    async with load().PostgreSQLStorage(url) as storage:
        first = await storage.transact([], [Put("/a", b"1")])
        watch = storage.watch("/", start_revision=first + 1)
        assert (await anext(watch)).events == []
        postgresql.stop(signal.SIGKILL)
        postgresql.start()
        await (await postgresql.connect()).close()
        assert (await storage.get("/a")).value == b"1"
        await storage.transact([Compare("/a", mod_revision=first)], [Put("/a", b"2")])
        async with asyncio.timeout(60):
            async for batch in watch:
                if batch.events:
                    break
        assert [event.value for event in batch.events] == [b"2"]
        await watch.aclose()
