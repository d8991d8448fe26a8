"""A store around another one: the suite of the contract, what `around` sees, and a control plane with one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings

from kcp_py import ControlPlane, GroupVersionResource, Options, Storage, StorageCall, WrappedStorage, errors, parse_name
from kcp_py.controlplane.datastore import storage_of
from kcp_py.storage.contract import Compare, NoSpaceError, Put, TellsRoom, UnavailableError, UnknownOutcomeError
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.oldkeys import read_at
from kcp_py.storage.rangecache import range_cache_of
from kcp_py.storage.sqlite import SQLiteStorage
from kcp_py.storage.wrapping import driver_of, room_of
from kcp_py.testing.storage_machine import storage_machine
from kcp_py.testing.storage_suite import StorageSuite

T = TypeVar("T")
MAPS = GroupVersionResource("", "v1", "configmaps")
SECRETS = GroupVersionResource("", "v1", "secrets")
TEAM_A, TEAM_B = parse_name("team-a"), parse_name("team-b")


class TestWrappedMemoryStorage(StorageSuite):
    """The suite, where nothing is changed."""

    @pytest.fixture
    async def storage(self) -> AsyncIterator[Storage]:
        """A store inside of two wrappers."""
        async with WrappedStorage(WrappedStorage(MemoryStorage())) as storage:
            yield storage


class TestWrappedSQLiteStorage(StorageSuite):
    """The suite on a driver with a cache and a fast way to old keys."""

    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[Storage]:
        """A store inside of a wrapper."""
        async with WrappedStorage(SQLiteStorage(tmp_path / "kcp.db")) as storage:
            yield storage


TestMachine = storage_machine(lambda: WrappedStorage(MemoryStorage())).TestCase
TestMachine.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)


class Seen(WrappedStorage):
    """Keeps the calls; fails where it is told to."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.calls: list[StorageCall] = []
        self.failures: dict[str, Exception] = {}

    async def around(self, call: StorageCall, proceed: Callable[[], Awaitable[T]]) -> T:
        self.calls.append(call)
        if (error := self.failures.get(call.method)) is not None:
            raise error
        return await proceed()


@pytest.mark.anyio
async def test_around_sees_each_call() -> None:
    """The method, and the keys that it is about; each step of a watch is one call."""
    async with Seen(MemoryStorage()) as storage:
        revision = await storage.transact([Compare("/a", mod_revision=0)], [Put("/a", b"1"), Put("/b", b"2")])
        await storage.get("/a")
        await read_at(storage, "/a", revision)
        await storage.range("/")
        watch = storage.watch("/", start_revision=1)
        assert len((await anext(watch)).events) == 2
        await watch.aclose()
        await storage.revision()
        await storage.check()
        await storage.compact(revision)
    assert storage.calls == [
        StorageCall("transact", ("/a", "/b")),
        StorageCall("get", ("/a",)),
        StorageCall("get", ("/a",)),
        StorageCall("range", ("/",)),
        StorageCall("watch", ("/",)),
        StorageCall("revision"),
        StorageCall("check"),
        StorageCall("compact"),
    ]


@pytest.mark.anyio
async def test_a_step_that_fails_ends_the_watch() -> None:
    """The watch of the driver is closed with it."""
    async with Seen(MemoryStorage()) as storage:
        await storage.transact([], [Put("/a", b"1")])
        watch = storage.watch("/", start_revision=1)
        await anext(watch)
        storage.failures["watch"] = UnavailableError("the connection was lost")
        with pytest.raises(UnavailableError, match="lost"):
            await anext(watch)
        with pytest.raises(StopAsyncIteration):
            await anext(watch)


@pytest.mark.anyio
async def test_what_concerns_the_driver_alone_is_asked_of_the_driver(tmp_path: Path) -> None:
    """Its disk is found through wrappers. Its cache is not, so that no read bypasses `around`."""
    driver = SQLiteStorage(tmp_path / "kcp.db")
    async with WrappedStorage(WrappedStorage(driver)) as storage:
        assert driver_of(storage) is driver
        assert room_of(storage) is driver
        assert room_of(WrappedStorage(MemoryStorage())) is None
        assert not isinstance(storage, TellsRoom)
        assert range_cache_of(storage) is None
        assert range_cache_of(driver) is not None


def test_a_class_wraps_the_store_of_the_options() -> None:
    """So does a function; a store replaces it."""
    options = Options(storage="memory")
    own = MemoryStorage()
    assert storage_of(own, options) is own
    assert isinstance(storage_of(None, options), MemoryStorage)
    for given in (Seen, lambda storage: Seen(WrappedStorage(storage))):
        made: Any = storage_of(given, options)
        assert isinstance(made, Seen)
        assert isinstance(driver_of(made), MemoryStorage)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(UnavailableError("away"), 503, id="unavailable"),
        pytest.param(UnknownOutcomeError("lost"), 504, id="unknown outcome"),
        pytest.param(NoSpaceError("full"), 507, id="full"),
    ],
)
async def test_errors_of_a_wrapper_are_those_of_a_driver(error: Exception, code: int) -> None:
    """Clients get the Status of the class, and the control plane goes on when the store does."""
    made: list[Seen] = []

    def wrap(storage: Storage) -> Storage:
        made.append(Seen(storage))
        return made[0]

    async with ControlPlane(Options(storage="memory", controllers=()), storage=wrap) as plane:
        await plane.client.create(TEAM_A, MAPS, {"metadata": {"name": "a", "namespace": "default"}})
        made[0].failures["transact"] = error
        with pytest.raises(errors.StatusError) as raised:
            await plane.client.create(TEAM_A, MAPS, {"metadata": {"name": "b", "namespace": "default"}})
        assert raised.value.code == code
        made[0].failures.clear()
        await plane.client.create(TEAM_B, MAPS, {"metadata": {"name": "b", "namespace": "default"}})
