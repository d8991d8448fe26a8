"""A real process that owns a SQLite store and serves it, for the driver of other processes."""

from __future__ import annotations

import mmap
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from kcp_py.storage.shared import SharedRevisions, SharedStorage
from kcp_py.storage.shared.revisions import BYTES

_SOURCE = """
import asyncio, mmap, socket, sys
from kcp_py.storage.contract import Put
from kcp_py.storage.shared import SharedRevisions, StorageServer
from kcp_py.storage.shared.revisions import BYTES
from kcp_py.storage.sqlite import SQLiteStorage

async def main(path, channel, allow):
    loop = asyncio.get_running_loop()
    with open(f"{path}.revisions", "r+b") as file:
        revisions = SharedRevisions(mmap.mmap(file.fileno(), BYTES))
    async with (
        SQLiteStorage(path, progress_interval=0, checkpoint_bytes=100_000, follower=revisions) as storage,
        StorageServer(storage, allow_compaction=allow) as server,
    ):
        print("ready", flush=True)
        ended = loop.create_future()

        def received():
            data, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
            if not data:
                loop.remove_reader(channel)
                ended.set_result(None)
            elif data == b"A":
                attaching.append(loop.create_task(server.attach(socket.socket(fileno=descriptors[0]))))

        attaching = []
        loop.add_reader(channel, received)
        await ended

asyncio.run(main(sys.argv[1], socket.socket(fileno=int(sys.argv[2])), sys.argv[3] == "compacting"))
"""


class OwnerProcess:
    """Starts the process; the context ends it."""

    def __init__(self, path: Path, *, allow_compaction: bool = True) -> None:
        self.path = path
        with Path(f"{path}.revisions").open("w+b") as file:
            file.write(bytes(BYTES))
            file.flush()
            self.revisions = SharedRevisions(mmap.mmap(file.fileno(), BYTES))
        self._channel, other = socket.socketpair()
        with other:
            arguments = [str(path), str(other.fileno()), "compacting" if allow_compaction else ""]
            self.process = subprocess.Popen(
                [sys.executable, "-c", _SOURCE, *arguments], stdout=subprocess.PIPE, pass_fds=[other.fileno()], text=True
            )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def connect(self) -> socket.socket:
        """A socket whose other end the process serves."""
        near, far = socket.socketpair()
        with far:
            socket.send_fds(self._channel, [b"A"], [far.fileno()])
        return near

    def storage(self) -> SharedStorage:
        """An unopened driver."""
        return SharedStorage(self.path, self.connect, self.revisions, progress_interval=0)

    def kill(self) -> None:
        """End the process as `kill -9` does."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End the process in order, and wait for its end."""
        self._channel.close()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait(timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
