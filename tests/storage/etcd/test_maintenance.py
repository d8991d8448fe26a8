"""What members say about themselves."""

from __future__ import annotations

import subprocess
from contextlib import aclosing

import pytest

from kcp_py.storage.contract import CompactedError, Event, Put
from kcp_py.storage.etcd import EtcdOptions, EtcdStorage
from kcp_py.storage.etcd.maintenance import Status
from tests.storage.etcd.binaries import BUILDS, WHEEL, folder_of
from tests.storage.etcd.conftest import EtcdServer


@pytest.mark.anyio
async def test_status(storage):
    """A real member has a version, a leader and a size."""
    status = await storage.status()
    assert status.version >= (3, 4, 0)
    assert status.leader == status.member
    assert 0 < status.size_in_use <= status.size
    assert status.errors == ()


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.anyio
async def test_which_way_watches_go(build, tmp_path):
    """The versions that Go builds report progress in order, so that a watch of one prefix receives the progress of the store."""
    server = EtcdServer(tmp_path, programs=folder_of(build))
    server.start()
    try:
        await server.wait()
        async with EtcdStorage(EtcdOptions((server.url,))) as storage:
            revision = await storage.transact([], [Put("/a", b"1")])
            elsewhere = await storage.transact([], [Put("/b", b"1")])
            events: list[Event] = []
            async with aclosing(storage.watch("/a", start_revision=1)) as batches:
                async for batch in batches:
                    events += batch.events
                    if batch.revision >= elsewhere:
                        break
            ordered = (await storage.status()).ordered_progress
    finally:
        server.stop()
    assert [(event.key, event.mod_revision) for event in events] == [("/a", revision)]
    if build != WHEEL:
        assert ordered


@pytest.mark.parametrize("build", [build for build in BUILDS if build != WHEEL])
@pytest.mark.anyio
async def test_a_restored_snapshot(build, tmp_path):
    """etcd's own procedure raises the revision and compacts what lies before: the driver refuses revisions that the restore lost."""
    (tmp_path / "one").mkdir()
    server = EtcdServer(tmp_path / "one", programs=folder_of(build))
    server.start()
    try:
        await server.wait()
        async with EtcdStorage(EtcdOptions((server.url,))) as storage:
            kept = await storage.transact([], [Put("/kept", b"1")])
            server.control("snapshot", "save", str(tmp_path / "snapshot"))
            lost = await storage.transact([], [Put("/lost", b"1")])
    finally:
        server.stop()
    (tmp_path / "two").mkdir()
    restored = EtcdServer(tmp_path / "two", programs=server.programs)
    arguments = ["--bump-revision", "1000000000", "--mark-compacted", "--name", "two", "--data-dir", str(tmp_path / "two" / "data")]
    arguments += ["--initial-cluster", f"two={restored.peer_url}", "--initial-advertise-peer-urls", restored.peer_url]
    subprocess.run([server.programs / "etcdutl", "snapshot", "restore", tmp_path / "snapshot", *arguments], check=True, capture_output=True)
    restored.start()
    try:
        await restored.wait()
        async with EtcdStorage(EtcdOptions((restored.url,))) as storage:
            assert await storage.revision() >= kept + 1_000_000_000
            assert [item.key for item in (await storage.range("/")).items] == ["/kept"]
            with pytest.raises(CompactedError):
                await storage.range("/", revision=lost)
            async with aclosing(storage.watch("/", start_revision=lost + 1)) as batches:
                with pytest.raises(CompactedError):
                    await anext(batches)
    finally:
        restored.stop()


@pytest.mark.parametrize(
    ("version", "ordered"),
    [
        ((3, 3, 99), False),
        ((3, 4, 30), False),
        ((3, 4, 31), True),
        ((3, 5, 1), False),
        ((3, 5, 12), False),
        ((3, 5, 13), True),
        ((3, 6, 0), True),
        ((4, 0, 0), True),
        ((0, 0, 0), False),
    ],
)
def test_versions_with_ordered_progress(version, ordered):
    """Progress on request is relied on exactly where it is right."""
    assert Status(version, 1, 1, 1, 1, 1, ()).ordered_progress is ordered
