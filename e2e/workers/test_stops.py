"""Signals end several processes in order."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack

from e2e.conftest import ServerProcess
from e2e.informer import TIMEOUT, Session, Watch, configmap
from e2e.pair import PATH
from e2e.workers.processes import events, is_running, one_of_each, pids, served_by, until

NewServer = Callable[..., ServerProcess]


def test_a_signal_ends_all_in_order(server: ServerProcess) -> None:
    """SIGTERM ends watches, idle connections and all processes; the store is closed, and nothing was killed."""
    with ExitStack() as stack:
        one_of_each(server, stack)
        watches = [stack.enter_context(Watch(server, f"{PATH}?watch=1")) for _ in range(9)]
        before = pids(server)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 20
        assert not any(is_running(pid) for pid in before.values())
        for watch in watches:
            assert [event["type"] for event in watch if event["type"] == "ERROR"] == []
    assert events(server, "process_killed") == events(server, "process_ended") == []
    assert [path.name for path in server.root.glob("kcp.db-*")] == []
    assert len(events(server, "server_stopped")) == 1


def test_one_worker_ends_in_order(server: ServerProcess) -> None:
    """SIGTERM to a worker ends its watches in order, and another worker takes its place."""
    with ExitStack() as stack:
        one_of_each(server, stack)
        watches = [stack.enter_context(Watch(server, f"{PATH}?watch=1")) for _ in range(9)]
        before = pids(server)
        os.kill(before["worker-1"], signal.SIGTERM)
        until(lambda: pids(server)["worker-1"] != before["worker-1"])
        assert {**pids(server), "worker-1": 0} == {**before, "worker-1": 0}
        assert server.request("POST", PATH, configmap("late", {})).code == 201
        ended = 0
        for watch in watches:
            names = []
            for event in watch:
                assert event["type"] != "ERROR", event
                names.append(event["object"]["metadata"]["name"])
                if "late" in names:
                    break
            ended += "late" not in names
        assert 0 < ended < 9
        assert len(one_of_each(server, stack)) == 3


def test_ctrl_c_reaches_all_processes_once(server: ServerProcess) -> None:
    """SIGINT of a terminal, which all processes get at once, ends the server in order."""
    before = pids(server)
    for pid in before.values():
        os.kill(pid, signal.SIGINT)
    assert server.stop(signal.SIGINT) == 0
    assert events(server, "process_ended") == []
    assert not any(is_running(pid) for pid in before.values())


def test_a_second_signal_ends_all_at_once(new_server: NewServer) -> None:
    """While a request keeps the processes, a second signal kills them."""
    server = new_server("--workers", "2").start()
    before = pids(server)
    os.kill(before["worker-1"], signal.SIGSTOP)
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    until(lambda: bool(events(server, "server_stopping")))
    assert server.stop(signal.SIGTERM) == 1
    assert not any(is_running(pid) for pid in before.values())


def test_writes_in_flight_of_workers_finish(new_server: NewServer) -> None:
    """The owner outlives the requests of the others: a write that a worker has begun to receive is stored during the stop."""
    server = new_server("--workers", "2").start()
    with Session(server) as session:
        while served_by(server, session) != "worker-1":
            session.close()
        connection = session._connection
        assert connection is not None
        body = json.dumps(configmap("late", {"n": "1"})).encode()
        connection.putrequest("POST", PATH)
        for name, value in (
            ("Authorization", f"Bearer {server.token}"),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
        ):
            connection.putheader(name, value)
        connection.endheaders(body[:10])
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        until(lambda: bool(events(server, "server_stopping")))
        connection.send(body[10:])
        assert connection.getresponse().status == 201
    assert server.process.wait(TIMEOUT) == 0
    again = new_server(root=server.root).start()
    assert again.request("GET", f"{PATH}/late").code == 200
