"""The revisions that processes share."""

from __future__ import annotations

from tests.forks import forked

_PROGRAM = """
import os
from kcp_py.storage.shared import SharedRevisions

def main():
    revisions = SharedRevisions()
    assert (revisions.begun, revisions.acknowledged, revisions.full) == (0, 0, False)
    down, up = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.read(down[0], 1)
        os.write(up[1], f"{revisions.begun} {revisions.acknowledged} {revisions.full:d}".encode())
        os._exit(0)
    revisions.reset(1)
    revisions.room_changed(True)
    revisions.committing((1 << 53) + 1)
    revisions.committed(1 << 53)
    os.write(down[1], b"x")
    assert os.read(up[0], 100).decode().split() == [str((1 << 53) + 1), str(1 << 53), "1"]
"""


def test_a_forked_process_sees_what_its_parent_sets() -> None:
    """The memory is one for all processes that are forked, and numbers of 54 bits are kept."""
    with forked(_PROGRAM) as run:
        assert run() == 0
