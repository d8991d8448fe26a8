"""Processes that do not answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import Informer, Session, configmap
from e2e.pair import PATH
from e2e.workers.processes import PROCESSES, events, is_running, pids, served_by, until

NewServer = Callable[..., ServerProcess]


@pytest.mark.slow
def test_the_owner_hangs(new_server: NewServer) -> None:
    """While the owner does not answer, workers read, writes end at their timeout, and readiness fails; then all goes on."""
    server = new_server("--workers", "2", "--request-timeout", "3s").start()
    with ExitStack() as stack:
        session = next(one for _ in range(100) if served_by(server, one := stack.enter_context(Session(server))) == "worker-1")
        code, body = session.request("POST", PATH, configmap("one", {"n": "1"}))
        assert code == 201
        before = pids(server)
        os.kill(before["owner"], signal.SIGSTOP)
        try:
            assert session.request("GET", f"{PATH}/one") == (200, body)
            assert len(session.request("GET", PATH)[1]["items"]) >= 1
            code, refused = session.request("PUT", f"{PATH}/one", configmap("one", {"n": "2"}))
            assert (code, refused["reason"]) == (504, "Timeout")
            assert session.request("GET", "/readyz/etcd")[0] == 500
            assert session.request("GET", f"{PATH}/one") == (200, body)
        finally:
            os.kill(before["owner"], signal.SIGCONT)
        until(lambda: session.request("GET", "/readyz")[0] == 200)
        code, body = session.request("PUT", f"{PATH}/one", configmap("one", {"n": "3"}))
        assert code == 200, body
        assert session.request("GET", f"{PATH}/one") == (200, body)
        assert pids(server) == before


@pytest.mark.slow
def test_a_worker_hangs(new_server: NewServer) -> None:
    """While a worker does not run, the others take all new connections, and what it has not read is not lost when it goes on."""
    server = new_server("--workers", "2").start()
    with ExitStack() as stack:
        sessions: dict[str, Session] = {}
        while len(sessions) < 2:
            one = stack.enter_context(Session(server))
            sessions.setdefault(served_by(server, one), one)
        informer = Informer(lambda: server, PATH).start()
        stack.callback(informer.stop)
        before = pids(server)
        os.kill(before["worker-1"], signal.SIGSTOP)
        try:
            # Beyond the buffer of the feed for this process.
            for number in range(300):
                assert sessions["owner"].request("POST", PATH, configmap(f"o{number}", {"text": "x" * 100_000}))[0] == 201
            for _ in range(20):
                assert server.request("GET", f"{PATH}/o1").code == 200
        finally:
            os.kill(before["worker-1"], signal.SIGCONT)
        for number in range(0, 300, 50):
            assert sessions["worker-1"].request("GET", f"{PATH}/o{number}")[0] == 200
        assert len(sessions["worker-1"].request("GET", PATH)[1]["items"]) >= 300
        informer.wait(lambda: len([key for key in informer.state if key[-1].startswith("o")]) == 300)
        assert pids(server) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", PROCESSES[:2])
def test_a_process_that_hangs_is_replaced(new_server: NewServer, name: str) -> None:
    """A process that does not answer for `--process-timeout` is killed: a worker alone begins again, with the owner all do."""
    server = new_server("--workers", "2", "--process-timeout", "2s").start()
    assert server.request("POST", PATH, configmap("one", {"n": "1"})).code == 201
    before = pids(server)
    os.kill(before[name], signal.SIGSTOP)
    until(lambda: pids(server)[name] != before[name])
    until(lambda: server.request("GET", "/readyz").code == 200)
    if name == "owner":
        until(lambda: pids(server)["worker-1"] != before["worker-1"])
    else:
        assert pids(server)["owner"] == before["owner"]
    assert not is_running(before[name])
    assert server.request("GET", f"{PATH}/one").code == 200
    (event,) = events(server, "process_unresponsive")
    assert (event["process"], event["child_pid"]) == (name, before[name])
    assert [line["signal"] for line in events(server, "process_ended")] == ["SIGKILL"]
