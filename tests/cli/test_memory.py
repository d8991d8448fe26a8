"""Memory goes back to the system."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from kcp_py.cli.memory import ATTEMPTS, GROWTH_BYTES, IDLE_GROWTH_BYTES, INTERVAL, Trimmer, release_memory, resident_bytes


class Process:
    """So many bytes are resident, of which so many are free. It is busy, unless it is told to be idle."""

    def __init__(self, used: int, free: int) -> None:
        self.used = used
        self.free = free
        self.released = 0
        self.seconds = 0.0
        self.is_idle = False

    def trimmer(self) -> Trimmer:
        return Trimmer(resident=self.resident, release=self.release, used=self.processor)

    def processor(self) -> float:
        self.seconds += 0 if self.is_idle else INTERVAL / 2
        return self.seconds

    def resident(self) -> int:
        return self.used + self.free

    def release(self) -> None:
        self.free = 0
        self.released += 1


def test_memory_is_released_after_growth() -> None:
    """A process that has not grown since the last time is left alone; one that has grown for good is, too, after some attempts."""
    process = Process(20 * GROWTH_BYTES, 0)
    trimmer = process.trimmer()
    assert not trimmer.look()
    process.free = 5 * GROWTH_BYTES
    assert trimmer.look()
    assert process.resident() == 20 * GROWTH_BYTES
    process.used += 4 * GROWTH_BYTES
    assert [trimmer.look() for _ in range(30)].count(True) == ATTEMPTS
    assert not any(trimmer.look() for _ in range(30))
    assert process.released == 1 + ATTEMPTS


def test_memory_is_released_after_a_burst_that_the_first_attempt_fell_into() -> None:
    """Memory in use at that time does not count as the need of the process."""
    process = Process(20 * GROWTH_BYTES, 0)
    trimmer = process.trimmer()
    process.used += 20 * GROWTH_BYTES
    assert trimmer.look()
    process.used -= 20 * GROWTH_BYTES
    process.free += 20 * GROWTH_BYTES
    assert [trimmer.look(), trimmer.look()] == [False, True]
    assert process.resident() == 20 * GROWTH_BYTES


def test_growth_is_measured_from_the_least_size() -> None:
    """Where memory became less by itself, less growth is enough."""
    process = Process(20 * GROWTH_BYTES, 0)
    trimmer = process.trimmer()
    process.used = 2 * GROWTH_BYTES
    assert not trimmer.look()
    process.free = 2 * GROWTH_BYTES
    assert trimmer.look()


def test_an_idle_process_keeps_nothing_of_a_long_burst() -> None:
    """What counted as needed while it was busy is released when it is idle; so is a growth that would be too small otherwise."""
    process = Process(20 * GROWTH_BYTES, 0)
    trimmer = process.trimmer()
    process.used += 10 * GROWTH_BYTES
    assert [trimmer.look() for _ in range(30)].count(True) == ATTEMPTS
    process.used, process.free = 22 * GROWTH_BYTES, 8 * GROWTH_BYTES
    assert not any(trimmer.look() for _ in range(30))
    process.is_idle = True
    assert [trimmer.look() for _ in range(30)] == [True, True] + [False] * 28
    assert process.resident() == 22 * GROWTH_BYTES
    process.free = IDLE_GROWTH_BYTES
    assert not trimmer.look()
    process.free += 1
    assert trimmer.look()
    assert process.resident() == 22 * GROWTH_BYTES


def test_a_burst_of_an_idle_process_does_not_count_as_needed() -> None:
    """A release may fall into it, though it takes little processor time: the next one returns what it has left."""
    process = Process(20 * GROWTH_BYTES, 0)
    process.is_idle = True
    trimmer = process.trimmer()
    process.used += 4 * GROWTH_BYTES
    process.is_idle = False
    assert trimmer.look()
    process.is_idle = True
    assert trimmer.look()
    process.used, process.free = 20 * GROWTH_BYTES, 4 * GROWTH_BYTES
    assert trimmer.look()
    assert process.resident() == 20 * GROWTH_BYTES


def test_old_objects_are_not_looked_at() -> None:
    """Where there are many, this would hold the event loop. The release itself leaves no cycles behind."""
    release_memory()
    gc.collect()
    seen: list[int] = []

    def look(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            seen.append(info["generation"])

    gc.callbacks.append(look)
    gc.disable()
    try:
        release_memory()
        release_memory()
        gc.callbacks.remove(look)
        assert seen == [1, 1]
        # Other threads of the process may leave cycles, though not each time.
        assert any(_cycles_of_a_release() == 0 for _ in range(10))
    finally:
        gc.enable()


def _cycles_of_a_release() -> int:
    """Objects in cycles after a release."""
    gc.collect()
    release_memory()
    return gc.collect()


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux")
def test_freed_memory_is_returned() -> None:
    """What many small and middling buffers took is not resident any more after they are gone, though a few remain."""
    before = resident_bytes()
    buffers = [bytes(60_000) for _ in range(2_000)]
    assert resident_bytes() - before > 50_000_000
    del buffers[:-1]
    release_memory()
    assert resident_bytes() - before < 30_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux")
def test_the_heap_of_heavy_work_is_returned_up_to_its_end() -> None:
    """Also after a large buffer was freed, which lets the C library keep 64 MB at the end of each heap."""
    program = (
        "import asyncio\n"
        "from kcp_py.aio.offload import offload\n"
        "from kcp_py.cli.memory import release_memory, resident_bytes\n"
        "asyncio.run(offload(lambda: None))\n"
        "before = resident_bytes()\n"
        "bytes(31 * 2**20)\n"
        "asyncio.run(offload(lambda: [bytes(2_000) for _ in range(15_000)] and None))\n"
        "kept = resident_bytes() - before\n"
        "done = release_memory()\n"
        "done and done.result()\n"
        "print(kept, resident_bytes() - before)\n"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    kept, left = map(int, output.split())
    assert kept > 20_000_000
    assert left < 10_000_000
