"""Servers of several processes, and clients at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import Informer
from e2e.pair import PATH, Reader, Writer

NewServer = Callable[..., ServerProcess]
Clients = tuple[list[Writer], list[Reader], list[Informer]]


LITTLE_HISTORY = "64Ki"
"""Memory for events, so that clients that are away for long have to list again."""
MUCH_HISTORY = "16Mi"


@pytest.fixture
def server(new_server: NewServer, request: pytest.FixtureRequest) -> ServerProcess:
    """A server of three processes, with little memory for events unless a test says how much."""
    history: str = getattr(request, "param", LITTLE_HISTORY)
    return new_server("--workers", "3", environment={"KCP_PY_WATCH_HISTORY_BYTES": history}).start()


@pytest.fixture
def clients(server: ServerProcess) -> Iterator[Clients]:
    """Clients of all kinds, at work."""
    # A watch that begins before its cluster was created would have to list again.
    assert server.request("POST", "/clusters/pair/api/v1/namespaces", {"metadata": {"name": "another"}}).code == 201
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
