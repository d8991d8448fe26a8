"""Processes that are killed are replaced, and nothing that was acknowledged is lost."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import CONNECTION_ERRORS, Informer
from e2e.pair import PATH, Reader, Writer, listed, require_writes, told
from e2e.workers.conftest import MUCH_HISTORY
from e2e.workers.processes import events, is_running, one_of_each, pids, until

Clients = tuple[list[Writer], list[Reader], list[Informer]]


def settle(server: ServerProcess, clients: Clients) -> None:
    """Stop writing; all clients have seen the same, and nothing that was acknowledged is missing."""
    writers, readers, informers = clients
    for writer in writers:
        writer.stop()
        assert writer.complaints == []
    for reader in readers:
        reader.stop()
        assert reader.complaints == []
    state = listed(server)
    require_writes(writers, state)
    for informer in informers:
        informer.wait(lambda informer=informer: told(informer.state) == told(state))  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize("server", [MUCH_HISTORY], indirect=True, ids=["much history"])
def test_workers_are_killed_under_load(server: ServerProcess, clients: Clients) -> None:
    """Clients of a killed worker connect again; clients of other processes notice nothing, and no process but the killed one is new."""
    writers, _, informers = clients
    with ExitStack() as stack:
        staying = one_of_each(server, stack)["owner"]
        connection = staying._connection
        owner = pids(server)["owner"]
        for name in ("worker-1", "worker-2", "worker-1"):
            before = pids(server)
            for writer in writers:
                writer.wait_for_more(20)
            os.kill(before[name], signal.SIGKILL)
            until(lambda before=before, name=name: pids(server)[name] != before[name])  # type: ignore[misc]
            assert {**pids(server), name: 0} == {**before, name: 0}
            assert staying.request("GET", PATH)[0] == 200
            assert staying._connection is connection
        for writer in writers:
            writer.wait_for_more(20)
        settle(server, clients)
        assert pids(server)["owner"] == owner
        assert all(informer.lists == 1 for informer in informers)
        ended = [(line["process"], line["signal"]) for line in events(server, "process_ended")]
        assert ended == [("worker-1", "SIGKILL"), ("worker-2", "SIGKILL"), ("worker-1", "SIGKILL")]
        assert len(one_of_each(server, stack)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_the_owner_ends_under_load(server: ServerProcess, clients: Clients, number: signal.Signals) -> None:
    """All processes are started anew on the same port, every acknowledged write is there, and no watch has missed an event."""
    writers, _, _ = clients
    for _ in range(2):
        before = pids(server)
        for writer in writers:
            writer.wait_for_more(30)
        os.kill(before["owner"], number)
        until(lambda before=before: all(pid != before[name] for name, pid in pids(server).items()))  # type: ignore[misc]
        assert not any(is_running(pid) for pid in before.values())
        for writer in writers:
            writer.wait_for_more(30)
    settle(server, clients)


@pytest.mark.slow
def test_nothing_survives_the_supervisor(server: ServerProcess, clients: Clients) -> None:
    """When the process that was started is killed all others end, and a new server on the same files has all acknowledged writes."""
    writers, _, _ = clients
    for writer in writers:
        writer.wait_for_more(50)
    before = pids(server)
    server.stop(signal.SIGKILL)
    until(lambda: not any(is_running(pid) for pid in before.values()))
    server.start()
    for writer in writers:
        writer.wait_for_more(20)
    settle(server, clients)


@pytest.mark.slow
def test_a_worker_that_ends_early_comes_from_another_template(server: ServerProcess) -> None:
    """The processes are children of the one that was started, and no other process of the server is left."""
    assert server.process is not None
    for _ in range(2):
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        until(lambda: {int(pid) for pid in children.read_text().split()} == set(pids(server).values()))  # noqa: B023
        before = pids(server)
        os.kill(before["worker-2"], signal.SIGKILL)
        until(lambda before=before: pids(server)["worker-2"] != before["worker-2"])  # type: ignore[misc]
        assert {**pids(server), "worker-2": 0} == {**before, "worker-2": 0}
    with ExitStack() as stack:
        assert len(one_of_each(server, stack)) == 3


def test_a_connection_that_waits_survives_the_end_of_a_process(server: ServerProcess) -> None:
    """While all processes but one are stopped and one is killed, new connections wait and are served."""
    current = pids(server)
    os.kill(current["worker-1"], signal.SIGKILL)
    for _ in range(20):
        try:
            assert server.request("GET", "/version").code == 200
        except CONNECTION_ERRORS as error:
            raise AssertionError("a connection was refused") from error
