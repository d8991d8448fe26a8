"""Where heavy work has its objects."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc

import pytest

from kcp_py.aio.allocation import separate_allocation
from kcp_py.aio.offload import offload

COUNT = 20_000


def texts(length: int = 10) -> list[str]:
    """So many small objects."""
    return [f"{number:0{length}}" for number in range(COUNT)]


@pytest.mark.anyio
async def test_heavy_work_fills_no_arenas() -> None:
    """Small objects that are made in the thread for heavy work do not take blocks of the interpreter's arenas; others do."""
    before = sys.getallocatedblocks()
    made = await offload(texts)
    assert sys.getallocatedblocks() - before < COUNT / 10
    before = sys.getallocatedblocks()
    usual = texts()
    assert sys.getallocatedblocks() - before > COUNT * 9 / 10
    assert made == usual


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux")
def test_what_remains_of_heavy_work_keeps_little_memory() -> None:
    """One small object of each two hundred is kept: most of the memory goes back to the system."""
    program = (
        "from kcp_py.aio.allocation import separate_allocation\n"
        "from kcp_py.cli.memory import release_memory, resident_bytes\n"
        "with separate_allocation():\n"
        "    pass\n"
        "release_memory()\n"
        "before = resident_bytes()\n"
        "with separate_allocation():\n"
        "    made = [{} for _ in range(500_000)]\n"
        "assert resident_bytes() - before > 30_000_000\n"
        "kept = made[::200]\n"
        "del made\n"
        "release_memory()\n"
        "print(resident_bytes() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20_000_000


def test_objects_are_resized_and_freed_by_either_allocator() -> None:
    """Whichever was set when an object was made, and whatever size it has."""
    made: dict[bool, list[bytearray]] = {False: [bytearray(size) for size in range(700)]}
    with separate_allocation():
        made[True] = [bytearray(size) for size in range(700)]
        for at, value in enumerate(made[False]):
            value.extend(b"x" * at)
        del made[False][::2]
        lists = [list(range(size)) for size in range(100)]
    for at, value in enumerate(made[True]):
        value.extend(b"x" * at)
    for numbers in lists:
        numbers.extend(range(100))
    del made[True][::2]
    assert [len(value) for value in made[False]] == [len(value) for value in made[True]] == list(range(2, 1400, 4))
    assert lists[-1] == [*range(99), *range(100)]


def test_a_tracer_misses_nothing() -> None:
    """Where allocations are traced, they are left alone."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        with separate_allocation():
            made = texts(100)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(made) == COUNT
    assert after - before > COUNT * 100


@pytest.mark.parametrize("allocator", ["malloc", "debug", "malloc_debug", "pymalloc", "pymalloc_debug", "default"])
def test_every_allocator_of_the_interpreter_will_do(allocator: str) -> None:
    """Objects are made inside and freed outside, and the other way round, under each value of PYTHONMALLOC."""
    program = (
        "from kcp_py.aio.allocation import separate_allocation\n"
        "outside = [bytearray(size) for size in range(700)]\n"
        "with separate_allocation():\n"
        "    inside = [bytearray(size) for size in range(700)]\n"
        "    del outside\n"
        "del inside\n"
    )
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONMALLOC": allocator}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
