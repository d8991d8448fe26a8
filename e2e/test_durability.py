"""A server that is killed, told to stop, or started twice: nothing acknowledged is lost, and nothing that runs is cut off rudely."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import CONNECTION_ERRORS, Informer, Session, Watch, configmap, connect, revision_of

KILLS = 6
WRITERS = 4
# Acknowledged writes of a round after which the server is killed: it is busy then, whatever the machine's speed.
WRITES_PER_ROUND = 150

NewServer = Callable[..., ServerProcess]


@dataclass
class Writer:
    """Creates, updates and deletes its own objects until the server is gone, and records the acknowledged writes.

    Attributes:
        acknowledged: for each name the resourceVersion and the text, or no text once it is deleted.
        unsure: names of requests that got no answer: both outcomes are right.
    """

    server: ServerProcess
    cluster: str
    count: threading.Semaphore
    acknowledged: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    unsure: dict[str, str | None] = field(default_factory=dict)
    highest: int = 0
    complaints: list[str] = field(default_factory=list)
    number: int = 0

    @property
    def path(self) -> str:
        return f"/clusters/{self.cluster}/api/v1/namespaces/default/configmaps"

    def run(self) -> None:
        with Session(self.server) as session:
            self._write(session)

    def _write(self, session: Session) -> None:
        while True:
            self.number += 1
            name = f"o{self.number % 40}"
            text = f"{self.number}"
            known = self.acknowledged.get(name, (0, None))[1] is not None
            gone = known and self.number % 7 == 0
            self.unsure = {name: None if gone else text}
            try:
                if gone:
                    code, body = session.request("DELETE", f"{self.path}/{name}")
                elif known:
                    code, body = session.request("PUT", f"{self.path}/{name}", configmap(name, {"n": text}))
                else:
                    code, body = session.request("POST", self.path, configmap(name, {"n": text}))
            except CONNECTION_ERRORS:
                return
            if code not in (200, 201):
                self.complaints.append(f"{name}: {code} {body}")
                return
            self.unsure = {}
            # The answer to a deletion has the version of the object that was there, or tells only its uid.
            revision = self.highest if gone else revision_of(body)
            if not gone and revision <= self.highest:
                self.complaints.append(f"{name}: {revision} was acknowledged after {self.highest}")
            self.highest = revision
            self.acknowledged[name] = (revision, None if gone else text)
            self.count.release()

    def check(self) -> None:
        """Everything acknowledged is there, and nothing else but what may have been written by the last request."""
        assert not self.complaints, self.complaints
        answer = self.server.request("GET", self.path)
        assert answer.code == 200, answer.body
        listed = answer.json
        assert revision_of(listed) >= self.highest
        found = {item["metadata"]["name"]: (revision_of(item), item["data"]["n"]) for item in listed["items"]}
        for name in found.keys() | self.acknowledged.keys() | self.unsure.keys():
            revision, text = self.acknowledged.get(name, (0, None))
            if name in self.unsure:
                outcomes = {text, self.unsure[name]}
                seen = found.get(name)
                assert (seen[1] if seen else None) in outcomes, (name, found.get(name), outcomes)
                if seen and seen[1] != text:
                    assert seen[0] > self.highest
                self.acknowledged[name] = (seen[0], seen[1]) if seen else (revision, None)
                self.highest = max(self.highest, seen[0] if seen else 0)
            elif text is None:
                assert name not in found, (name, found[name])
            else:
                assert found[name] == (revision, text), (name, found.get(name))
        self.unsure = {}


@pytest.mark.slow
def test_kill_loses_no_acknowledged_write(new_server: NewServer) -> None:
    """After each of several kill -9 under load all acknowledged writes are there, unaltered, and a watch goes on where it was."""
    server = new_server().start()
    count = threading.Semaphore(0)
    writers = [Writer(server, f"kill-{number}", count) for number in range(WRITERS)]
    # A client in the middle: it only resumes, because all history is too recent for compaction.
    informer = Informer(lambda: server, "/clusters/*/api/v1/configmaps").start()
    for _ in range(KILLS):
        threads = [threading.Thread(target=writer.run, daemon=True) for writer in writers]
        for thread in threads:
            thread.start()
        for _ in range(WRITES_PER_ROUND):
            assert count.acquire(timeout=60), [writer.complaints for writer in writers]
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        server.start()
        for writer in writers:
            writer.check()
        final = server.request("GET", "/clusters/*/api/v1/configmaps").json
        expected = {
            (item["metadata"]["annotations"]["kcp.io/cluster"], item["metadata"]["name"]): revision_of(item) for item in final["items"]
        }
        informer.wait(lambda expected=expected: {(k[0], k[2]): revision_of(v) for k, v in informer.state.items()} == expected)  # type: ignore[misc]
    assert informer.lists == 1, "a restart made a watch lose its place"
    assert informer.connections > KILLS
    informer.stop()
    assert "ERROR" not in server.log_file.read_text().upper().replace("ERROR_", "")
    examined = subprocess.run(
        [sys.executable, "-m", "kcp_py", "doctor", "--root-directory", str(server.root)], capture_output=True, text=True, check=False
    )
    assert "corrupt" not in examined.stdout + examined.stderr


def test_a_remembered_revision_replays_every_change_after_a_kill(new_server: NewServer) -> None:
    """A watch from a revision before the kill gives each later change once and in order, as if nothing had happened."""
    server = new_server().start()
    path = "/clusters/replay/api/v1/namespaces/default/configmaps"
    session = Session(server)
    start = revision_of(session.request("POST", path, configmap("one", {"n": "0"}))[1])
    written = [revision_of(session.request("PUT", f"{path}/one", configmap("one", {"n": str(n)}))[1]) for n in range(1, 40)]
    server.stop(signal.SIGKILL)
    session.close()
    server.start()
    written += [revision_of(session.request("PUT", f"{path}/one", configmap("one", {"n": str(n)}))[1]) for n in range(40, 50)]
    session.close()
    with Watch(server, f"{path}?watch=1&resourceVersion={start}") as watch:
        events = [next(watch) for _ in written]
    assert [revision_of(event["object"]) for event in events] == written
    assert [event["object"]["data"]["n"] for event in events] == [str(n) for n in range(1, 50)]
    assert {event["type"] for event in events} == {"MODIFIED"}
    assert written == sorted(set(written))


def test_interrupted_deletions_continue_after_a_kill(new_server: NewServer) -> None:
    """A namespace and a cluster that are killed in the middle of their deletion go after the start, with all that they hold."""
    server = new_server().start()
    core, doomed = "/clusters/interrupted/api/v1", "/clusters/doomed/api/v1"
    assert server.request("POST", f"{core}/namespaces", {"metadata": {"name": "shop"}}).code == 201
    with Session(server) as session:
        for number in range(100):
            for path in (f"{core}/namespaces/shop/configmaps", f"{doomed}/namespaces/default/configmaps"):
                assert session.request("POST", path, configmap(f"m{number}", {}))[0] == 201
    cluster = "/clusters/doomed/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    for path in (f"{core}/namespaces/shop", cluster):
        assert server.request("DELETE", path).code == 200
    server.stop(signal.SIGKILL)
    server.start()
    end = time.monotonic() + 60
    while [server.request("GET", path).code for path in (f"{core}/namespaces/shop", cluster)] != [404, 404]:
        assert time.monotonic() < end
        time.sleep(0.05)
    left = server.request("GET", "/clusters/*/api/v1/configmaps").json["items"]
    assert [item["metadata"]["name"] for item in left] == []


def test_a_term_signal_ends_watches_cleanly_and_finishes_requests(new_server: NewServer) -> None:
    """A request whose body is still coming is answered, watches end without an ERROR, new connections are refused, the exit code is 0."""
    server = new_server().start()
    path = "/clusters/term/api/v1/namespaces/default/configmaps"
    watches = [Watch(server, f"{path}?watch=1"), Watch(server, "/clusters/*/api/v1/configmaps?watch=1&allowWatchBookmarks=true")]
    body = json.dumps(configmap("late", {"n": "1"})).encode()
    slow = connect(server)
    slow.putrequest("POST", path)
    for name, value in {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json", "Content-Length": len(body)}.items():
        slow.putheader(name, str(value))
    slow.endheaders(body[:10])
    # The server has the head once it has answered what came after it on another connection.
    assert server.request("GET", "/clusters/term/readyz").code == 200
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    for watch in watches:
        with watch:
            assert "ERROR" not in [event["type"] for event in watch]
    slow.send(body[10:])
    response = slow.getresponse()
    assert response.status == 201, response.read()
    acknowledged = json.loads(response.read())
    slow.close()
    # A second signal would end it at once.
    assert server.process.wait(60) == 0
    server.stop()
    server.start()
    assert server.request("GET", f"{path}/late").json == acknowledged


def test_a_stop_waits_for_a_request_and_for_nothing_else(new_server: NewServer) -> None:
    """While a request holds the server up, watches have ended and idle connections are closed; behind it the process ends by itself."""
    server = new_server().start()
    held = connect(server)
    held.putrequest("POST", "/clusters/term/api/v1/namespaces/default/configmaps")
    for name, value in {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json", "Content-Length": "1000"}.items():
        held.putheader(name, value)
    held.endheaders(b"{")
    watch = Watch(server, "/clusters/term/api/v1/configmaps?watch=1")
    idle = connect(server)
    idle.request("GET", "/readyz")
    first = idle.getresponse()
    assert (first.status, first.read()) == (200, b"ok")
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    with watch:
        assert list(watch) == []
    assert idle.sock is not None
    assert idle.sock.recv(1) == b""
    assert server.process.poll() is None
    idle.close()
    held.close()
    # A second signal would end it at once.
    assert server.process.wait(60) == 0
    server.stop()


@pytest.mark.parametrize("shared", ["root", "database"])
def test_a_second_server_refuses_and_leaves_the_first_alone(new_server: NewServer, shared: str) -> None:
    """On the same root directory or database there is one line, exit code 1, and the first server goes on."""
    first = new_server().start()
    assert first.request("POST", "/clusters/a/api/v1/namespaces/default/configmaps", configmap("kept", {})).code == 201
    root = first.root if shared == "root" else first.root.parent / "other"
    command = [sys.executable, "-m", "kcp_py", "start", "--secure-port", "0", "--root-directory", str(root)]
    if shared == "database":
        command += ["--storage-path", str(first.root / "kcp.db")]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 1
    assert second.stdout == ""
    assert second.stderr.startswith("error: ")
    assert second.stderr.count("\n") == 1
    assert first.request("GET", "/clusters/a/api/v1/namespaces/default/configmaps/kept").code == 200
    assert first.request("PUT", "/clusters/a/api/v1/namespaces/default/configmaps/kept", configmap("kept", {"a": "b"})).code == 200
