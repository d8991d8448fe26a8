"""Servers of several processes, and clients at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import Informer
from e2e.pair import PATH, Reader, Writer

NewServer = Callable[..., ServerProcess]
Clients = tuple[list[Writer], list[Reader], list[Informer]]


@pytest.fixture
def server(new_server: NewServer) -> ServerProcess:
    """A server of three processes with little memory for events."""
    return new_server("--workers", "3", environment={"KCP_PY_WATCH_HISTORY_BYTES": "64Ki"}).start()


@pytest.fixture
def clients(server: ServerProcess) -> Iterator[Clients]:
    """Clients of all kinds, at work."""
    informers = [Informer(lambda: server, PATH).start() for _ in range(6)]
    writers = [Writer(server, prefix) for prefix in "abc"]
    readers = [Reader(server, writer) for writer in writers for _ in range(2)]
    yield writers, readers, informers
    for writer in writers:
        writer.stop()
    for reader in readers:
        reader.stop()
    for informer in informers:
        informer.stop()
