"""Tests of `watch`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress

import pytest

from kcp_py.storage.contract import CompactedError, Delete, Event, KeyValue, Put, Storage, UnavailableError
from kcp_py.testing.storage_calls import TIMEOUT, create, delete, events_between, events_until, put


class WatchTests:
    """Tests of `watch`."""

    async def test_history(self, storage: Storage) -> None:
        """A watch from an old revision delivers creation, update and deletion with previous values."""
        first = await create(storage, "/a", b"1")
        second = await put(storage, "/a", b"2")
        third = await delete(storage, "/a")
        assert await events_between(storage, "/", first, third) == [
            Event("/a", b"1", first, first, None),
            Event("/a", b"2", second, first, KeyValue("/a", b"1", first, first)),
            Event("/a", None, third, first, KeyValue("/a", b"2", second, first)),
        ]
        assert [event.mod_revision for event in await events_between(storage, "/", third, third)] == [third]

    async def test_live(self, storage: Storage) -> None:
        """A watch delivers later events in the same form."""
        revision = await storage.revision()
        async with aclosing(storage.watch("/", start_revision=revision + 1)) as batches:
            assert await events_until(batches, revision) == []
            first = await create(storage, "/a", b"1")
            second = await put(storage, "/a", b"2")
            third = await delete(storage, "/a")
            assert await events_until(batches, third) == [
                Event("/a", b"1", first, first, None),
                Event("/a", b"2", second, first, KeyValue("/a", b"1", first, first)),
                Event("/a", None, third, first, KeyValue("/a", b"2", second, first)),
            ]

    async def test_prefix(self, storage: Storage) -> None:
        """A watch delivers the keys of its prefix, and no others."""
        revision = await storage.revision()
        async with aclosing(storage.watch("/a/", start_revision=revision + 1)) as batches:
            await events_until(batches, revision)
            for key in ["/a", "/a/1", "/a0", "/b/a/1", "/a/2"]:
                last = await create(storage, key)
            assert [event.key for event in await events_until(batches, last)] == ["/a/1", "/a/2"]
        assert [event.key for event in await events_between(storage, "/a/", revision + 1, last)] == ["/a/1", "/a/2"]
        assert len(await events_between(storage, "", revision + 1, last)) == 5

    async def test_several_prefixes(self, storage: Storage) -> None:
        """Watches of different prefixes do not disturb each other, also where a key is shorter than another's prefix."""
        before = await storage.revision()
        async with (
            aclosing(storage.watch("/a", start_revision=before + 1)) as short,
            aclosing(storage.watch("/a/longer", start_revision=before + 1)) as long,
            aclosing(storage.watch("/a", start_revision=before + 1)) as same,
        ):
            for batches in (short, long, same):
                await events_until(batches, before)
            last = await create(storage, "/a")
            for batches, expected in ((short, 1), (long, 0), (same, 1)):
                assert len(await events_until(batches, last)) == expected

    async def test_progress(self, storage: Storage) -> None:
        """A watch without events receives the progress of the store."""
        revision = await storage.revision()
        async with aclosing(storage.watch("/quiet/", start_revision=revision + 1)) as batches:
            async with asyncio.timeout(TIMEOUT):
                first = await anext(batches)
            assert (list(first.events), first.revision) == ([], revision)
            last = await create(storage, "/loud/1")
            assert await events_until(batches, last) == []

    async def test_revisions_are_not_split(self, storage: Storage) -> None:
        """The events of one transaction arrive in one batch, in the order of its operations."""
        before = await storage.revision()
        async with aclosing(storage.watch("/", start_revision=before + 1)) as batches:
            await events_until(batches, before)
            await storage.transact([], [Put("/b", b"1"), Put("/a", b"1"), Put("/c", b"1")])
            revision = await storage.transact([], [Delete("/c"), Put("/a", b"2"), Delete("/absent")])
            live = await events_until(batches, revision)
        assert [event.key for event in live] == ["/b", "/a", "/c", "/c", "/a"]
        assert await events_between(storage, "/", before + 1, revision) == live

    async def test_future_start(self, storage: Storage) -> None:
        """A watch may start at a future revision; earlier events are skipped."""
        revision = await storage.revision()
        async with aclosing(storage.watch("/", start_revision=revision + 3)) as batches:
            async with asyncio.timeout(TIMEOUT):
                await anext(batches)
            for number in range(4):
                last = await create(storage, f"/{number}")
            assert [event.key for event in await events_until(batches, last)] == ["/2", "/3"]

    async def test_long_history(self, storage: Storage) -> None:
        """A watch catches up with much history without loss, repetition or disorder."""
        before = await storage.revision()
        for group in range(12):
            last = await storage.transact([], [Put(f"/n/{number}", b"%d" % group) for number in range(400)])
        events = await events_between(storage, "/n/1", before + 1, last)
        expected = [number for number in range(400) if str(number).startswith("1")]
        assert [(event.mod_revision, event.key) for event in events] == [
            (before + 1 + group, f"/n/{number}") for group in range(12) for number in expected
        ]
        assert all(event.previous is not None for event in events[len(expected) :])

    async def test_catching_up_while_others_write(self, storage: Storage) -> None:
        """The transition from history to live events loses and repeats no event."""
        before = await storage.revision()
        for number in range(50):
            await create(storage, f"/h/{number}")

        async def write() -> int:
            revision = 0
            for number in range(200):
                revision = await create(storage, f"/l/{number}")
            return revision

        writer = asyncio.create_task(write())
        watches = [asyncio.create_task(events_between(storage, "/", before + 1, before + 250)) for _ in range(5)]
        last = await writer
        assert last == before + 250
        for events in await asyncio.gather(*watches):
            assert [event.mod_revision for event in events] == list(range(before + 1, last + 1))

    async def test_slow_reader(self, storage: Storage) -> None:
        """A reader that pauses during many writes still receives all of them, and other readers do not wait for it."""
        before = await storage.revision()
        async with (
            aclosing(storage.watch("/", start_revision=before + 1)) as slow,
            aclosing(storage.watch("/", start_revision=before + 1)) as fast,
        ):
            await events_until(slow, before)
            for number in range(15):
                last = await storage.transact([], [Put(f"/{number}/{item}", b"x") for item in range(450)])
                assert len(await events_until(fast, last)) == 450
            events = await events_until(slow, last)
        assert [event.key for event in events] == [f"/{number}/{item}" for number in range(15) for item in range(450)]

    async def test_slow_reader_and_compaction(self, storage: Storage) -> None:
        """A reader that compaction overtakes either receives all events or an error."""
        before = await storage.revision()
        async with aclosing(storage.watch("/", start_revision=before + 1)) as batches:
            await events_until(batches, before)
            for number in range(15):
                last = await storage.transact([], [Put(f"/{number}/{item}", b"x") for item in range(450)])
            await storage.compact(last)
            with suppress(CompactedError):
                assert len(await events_until(batches, last)) == 15 * 450

    async def test_closed_watch(self, storage: Storage) -> None:
        """A watch that is closed or cancelled ends, and the store continues."""
        waiting = asyncio.create_task(events_between(storage, "/", 1, 1 << 40))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        batches = storage.watch("/", start_revision=await storage.revision() + 1)
        await anext(batches)
        await batches.aclose()
        await create(storage, "/a")

    async def test_watch_of_a_closing_store(self, storage: Storage) -> None:
        """A store that closes ends its watches with an error, and refuses further calls."""
        batches = storage.watch("/", start_revision=await storage.revision() + 1)
        async with asyncio.timeout(TIMEOUT):
            await anext(batches)
            await storage.__aexit__(None, None, None)
            with pytest.raises(UnavailableError):
                await events_until(batches, 1 << 40)
            with pytest.raises(UnavailableError):
                await create(storage, "/a")
            with pytest.raises(UnavailableError):
                await storage.check()
