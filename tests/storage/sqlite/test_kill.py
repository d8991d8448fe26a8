"""kill -9 at any moment loses no acknowledged write, breaks no order, and needs no repair."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from kcp_py.storage.contract import Event
from kcp_py.storage.sqlite import SQLiteStorage, integrity_check

_ROUNDS = 15

_WRITER = """
import asyncio, hashlib, os, sys
from kcp_py.storage.contract import Delete, Put
from kcp_py.storage.sqlite import SQLiteStorage

async def main(path, round_, compact):
    async with SQLiteStorage(path, checkpoint_bytes=200_000) as storage:
        async def write(writer):
            number = 0
            while True:
                number += 1
                key = f"/k/{writer}/{number % 7}"
                value = hashlib.sha256(f"{round_} {writer} {number}".encode()).digest() * (1 + number % 90)
                if number % 10 == 0:
                    revision = await storage.transact([], [Delete(f"/k/{writer}/1")])
                    line = f"/k/{writer}/1 {revision} deleted"
                else:
                    revision = await storage.transact([], [Put(key, value)])
                    line = f"{key} {revision} {hashlib.sha256(value).hexdigest()}"
                os.write(1, (line + "\\n").encode())

        if compact:
            await storage.compact(compact)
        await asyncio.gather(*(write(writer) for writer in range(12)))

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def _write_and_die(path: Path, round_: int, compact: int, acknowledged: int) -> list[tuple[str, int, str]]:
    """What a writer acknowledged before it was killed (the line on which it died is not counted)."""
    command = [sys.executable, "-c", _WRITER, str(path), str(round_), str(compact)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(acknowledged)]
        writer.kill()
        lines += writer.stdout.readlines()
    assert lines[0], "the writer must start on what the last one left"
    fields = [line.decode().split() for line in lines if line.endswith(b"\n")]
    return [(key, int(revision), digest) for key, revision, digest in fields]


def _digest(value: bytes | None) -> str:
    return "deleted" if value is None else hashlib.sha256(value).hexdigest()


@pytest.mark.anyio
@pytest.mark.slow
async def test_kill(tmp_path: Path) -> None:
    """Over many kills of a busy writer on one file, every acknowledged write is there, in order, for reads and for a resumed watch."""
    path = tmp_path / "store.db"
    chance = random.Random(20)  # the same moments, by number of acknowledgements, in every run
    state: dict[str, str] = {}
    saved = 0
    for round_ in range(_ROUNDS):
        acknowledged = _write_and_die(path, round_, saved if round_ % 3 == 2 else 0, chance.randint(1, 1500))
        async with SQLiteStorage(path) as storage:
            revision = await storage.revision()
            assert revision >= max(revision for _, revision, _ in acknowledged)
            events: list[Event] = []
            async with aclosing(storage.watch("/k/", start_revision=saved + 1)) as batches:
                async for batch in batches:
                    events += batch.events
                    if batch.revision == revision:
                        break
            assert [event.mod_revision for event in events] == list(range(saved + 1, revision + 1))
            by_revision = {event.mod_revision: (event.key, _digest(event.value)) for event in events}
            for key, at, digest in acknowledged:
                # A delete of an absent key is answered with the revision of some other write.
                assert by_revision[at] == (key, digest) or (digest == "deleted" and by_revision[at][0] != key)
            for event in events:
                assert _digest(event.previous.value if event.previous else None) == state.get(event.key, "deleted")
                state[event.key] = _digest(event.value)
            present = {item.key: _digest(item.value) for item in (await storage.range("/k/")).items}
            assert present == {key: digest for key, digest in state.items() if digest != "deleted"}
            saved = revision
    assert integrity_check(path) == []
