"""The recorder of the writes of a program: its record agrees with the disk."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from tests.power_failure import Disk, load

_ROOT = Path(__file__).parents[1]

_WRITERS = """
import itertools, os, sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from tests.power_failure import Recorder
folder, log = Path(sys.argv[1]), Path(sys.argv[2])
recorder = Recorder(folder)
begun = threading.Barrier(5)

def write(name):
    file = os.open(folder / name, os.O_CREAT | os.O_RDWR)
    for number in itertools.count():
        os.pwrite(file, str(number).zfill(12).encode(), 0)
        if number % 10 == 0:
            os.fsync(file)
        if number == 100:
            begun.wait()

for name in "abcd":
    threading.Thread(target=write, args=(name,), daemon=True).start()
begun.wait()
recorder.kill(log)
"""

_TWO_DESCRIPTORS = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.power_failure import Recorder
path = Path(sys.argv[1]) / "file"
recorder = Recorder(path.parent)
left = iter([True] + [False] * 10)
recorder.sync_fails = lambda name: next(left)

def open_():
    return os.open(path, os.O_CREAT | os.O_RDWR)

def syncs(descriptor):
    try:
        os.fsync(descriptor)
    except OSError:
        return False
    return True

first, second = open_(), open_()
print([syncs(first), syncs(first), syncs(second), syncs(second), syncs(open_())])
"""


def test_every_descriptor_reports_a_failed_sync_once(tmp_path: Path) -> None:
    """A sync that fails is reported once by each descriptor that was open, and by none that is opened later, as Linux does."""
    command = [sys.executable, "-c", _TWO_DESCRIPTORS, str(tmp_path), str(_ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[False, True, False, True, True]\n"


def test_a_kill_leaves_the_disk_as_recorded(tmp_path: Path) -> None:
    """Threads that write while the process is killed write nothing that is not in the record, and the record has nothing unwritten."""
    folder, log = tmp_path / "live", tmp_path / "log"
    folder.mkdir()
    done = subprocess.run([sys.executable, "-c", _WRITERS, str(folder), str(log), str(_ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    disk = Disk(random.Random(0))
    steps = load(log)
    for step in steps:
        disk.run(step)
    last = {step.file: step.data for step in steps if step.kind == "write"}
    assert last == {name: (folder / name).read_bytes() for name in "abcd"}
