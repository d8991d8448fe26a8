"""`Sharing`: the memory that all processes of a server use, made by the supervisor before it forks."""

from __future__ import annotations

import mmap

from kcp_py.aio.sharedcounts import SharedCounts
from kcp_py.cli.workers.child import Process
from kcp_py.serving.balance import ConnectionCounts


class Sharing:
    """Tables in memory that processes forked from now on share. Their memory is mapped, and taken when it is written to."""

    def __init__(self, processes: int) -> None:
        """Nothing is counted yet.

        Args:
            processes: how many there are.
        """
        self.connections = ConnectionCounts(processes)
        self.counts = SharedCounts(processes)
        """Requests, watches and connections."""
        self.instants = SharedCounts(processes)
        """When clusters have their burst of requests again."""
        self.revisions = mmap.mmap(-1, mmap.PAGESIZE)
        """For `SharedRevisions`."""

    def ended(self, process: Process) -> None:
        """Remove what a process has counted that has ended."""
        self.connections.leave(process.number)
        self.counts.clear(process.number)
