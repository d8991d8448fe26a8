"""A list-and-watch client such as controllers have, without caches or conveniences of a library: what it holds is what it was told."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from e2e.conftest import ServerProcess

TIMEOUT = 60
CONNECTION_ERRORS = (OSError, http.client.HTTPException)

Key = tuple[str, str, str]


class _Connection(http.client.HTTPSConnection):
    """Wraps the socket before it is connected.

    `ssl` loses a connected socket whose peer resets it before the handshake, so that Python warns about it later.
    """

    def __init__(self, server: ServerProcess) -> None:
        super().__init__("127.0.0.1", server.port, timeout=TIMEOUT)
        self._tls = ssl.create_default_context(cafile=str(server.ca_file))

    def connect(self) -> None:
        self.sock = self._tls.wrap_socket(socket.socket(), server_hostname=self.host)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect((self.host, self.port))


def connect(server: ServerProcess) -> http.client.HTTPSConnection:
    """A connection of one's own, as every thread needs."""
    return _Connection(server)


class Session:
    """Requests over one kept connection; a lost one is opened again by the next request."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self._connection: http.client.HTTPSConnection | None = None

    def request(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Status code and decoded body; raises what `http.client` raises, and then nothing is known about the request's outcome."""
        if self._connection is None:
            self._connection = connect(self.server)
        sent = {"Authorization": f"Bearer {self.server.token}", "Content-Type": "application/json", **headers}
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), sent)
            response = self._connection.getresponse()
            text = response.read()
        except BaseException:
            self.close()
            raise
        return response.status, json.loads(text) if text.startswith(b"{") else text.decode()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Watch:
    """One watch: iterating gives decoded events until the server ends it; `close` ends it from another thread."""

    def __init__(self, server: ServerProcess, path: str, **headers: str) -> None:
        self._connection = connect(server)
        try:
            self._connection.request("GET", path, headers={"Authorization": f"Bearer {server.token}", **headers})
            self._socket = self._connection.sock
            self.response = self._connection.getresponse()
        except BaseException:
            self._connection.close()
            raise

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while line := self.response.readline():
            yield json.loads(line)

    def __next__(self) -> dict[str, Any]:
        line = self.response.readline()
        assert line, "the watch ended"
        found: dict[str, Any] = json.loads(line)
        return found

    def interrupt(self) -> None:
        """Lose the connection under a thread that reads, which sees its end; nothing that the thread uses is taken from it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        # Only a shutdown wakes a thread that reads.
        self.interrupt()
        self.response.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def key_of(item: dict[str, Any]) -> Key:
    metadata = item["metadata"]
    return metadata["annotations"]["kcp.io/cluster"], metadata.get("namespace", ""), metadata["name"]


def revision_of(item: dict[str, Any]) -> int:
    return int(item["metadata"]["resourceVersion"])


class Change(NamedTuple):
    """The events of a watch about an object."""

    kind: str
    key: Key
    revision: int
    data: Any


@dataclass
class Informer:
    """Lists, watches from the list's revision, goes on from the last event after a lost connection, and lists again on 410.

    Attributes:
        server: asked for at each connection, so that it may be another one each time.
        path: of the collection, beginning with `/clusters/`.
        state: the objects known now.
        lists: how many times it listed.
        failures: what broke the protocol; has to stay empty.
        history: every event but bookmarks, in the order in which they came.
    """

    server: Callable[[], ServerProcess]
    path: str
    state: dict[Key, dict[str, Any]] = field(default_factory=dict)
    lists: int = 0
    connections: int = 0
    failures: list[str] = field(default_factory=list)
    history: list[Change] = field(default_factory=list)
    revision: int = 0

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._watch: Watch | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Informer:
        self._thread.start()
        self.wait(lambda: self.lists > 0)
        return self

    def stop(self) -> None:
        self._stopped.set()
        if self._watch is not None:
            self._watch.close()
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive()

    def disconnect(self) -> None:
        """Lose the connection of the running watch."""
        assert self._watch is not None
        self._watch.interrupt()

    def wait(self, condition: Callable[[], bool]) -> None:
        """Until the condition holds; it is asked after each change."""
        with self._changed:
            reached = self._changed.wait_for(lambda: bool(self.failures) or condition(), TIMEOUT)
        assert not self.failures, self.failures
        assert reached, f"not reached at revision {self.revision} with {len(self.state)} objects after {self.lists} lists"

    def _run(self) -> None:
        need_list = True
        while not self._stopped.is_set():
            try:
                if need_list:
                    self._list()
                need_list = self._follow()
            except CONNECTION_ERRORS:
                self._stopped.wait(0.05)
            except Exception as error:  # noqa: BLE001 -- told to the thread that waits
                self._fail(f"{type(error).__name__}: {error}")
                return

    def _list(self) -> None:
        with Session(self.server()) as session:
            code, body = session.request("GET", self.path)
        if code in (429, 500, 503, 504):
            raise ConnectionError(body)
        assert code == 200, (code, body)
        with self._changed:
            revision = revision_of(body)
            if revision < self.revision:
                self.failures.append(f"a list went back from {self.revision} to {revision}")
            self.revision = revision
            self.state = {key_of(item): item for item in body["items"]}
            self.lists += 1
            self._changed.notify_all()

    def _follow(self) -> bool:
        """Whether a new list is needed."""
        self._watch = Watch(self.server(), f"{self.path}?watch=1&allowWatchBookmarks=true&resourceVersion={self.revision}")
        if self._stopped.is_set():
            self._watch.close()
        with self._changed:
            self.connections += 1
            self._changed.notify_all()
        try:
            if self._watch.response.status == 410:
                return True
            if self._watch.response.status != 200:
                raise ConnectionError(self._watch.response.read())
            for event in self._watch:
                item = event["object"]
                if event["type"] == "ERROR":
                    assert item["code"] in (410, 500, 503, 504), event
                    return bool(item["code"] == 410)
                self._apply(event["type"], item)
        finally:
            self._watch.close()
        return False

    def _apply(self, kind: str, item: dict[str, Any]) -> None:
        with self._changed:
            revision = revision_of(item)
            if revision < self.revision or (revision == self.revision and kind != "BOOKMARK"):
                self.failures.append(f"{kind} at {revision} after {self.revision}")
            self.revision = max(revision, self.revision)
            if kind != "BOOKMARK":
                key = key_of(item)
                self.history.append(Change(kind, key, revision, item.get("data")))
                known = key in self.state
                if known != (kind in ("MODIFIED", "DELETED")):
                    self.failures.append(f"{kind} of {key}, which was {'' if known else 'not '}known")
                if kind == "DELETED":
                    self.state.pop(key, None)
                else:
                    self.state[key] = item
            self._changed.notify_all()

    def _fail(self, text: str) -> None:
        with self._changed:
            self.failures.append(text)
            self._changed.notify_all()


def configmap(name: str, data: dict[str, str], **metadata: object) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data}


def definition(group: str, plural: str, kind: str, properties: dict[str, Any], **version: Any) -> dict[str, Any]:
    """A namespaced CRD with version v1, a `spec` of these properties and a status subresource."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": properties},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


def create_definition(server: ServerProcess, cluster: str, manifest: dict[str, Any]) -> None:
    """Create a CRD and return when it is Established and served."""
    path = f"/clusters/{cluster}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    watch = Watch(server, f"{path}?watch=1&fieldSelector=metadata.name%3D{manifest['metadata']['name']}&timeoutSeconds={TIMEOUT}")
    answer = server.request("POST", path, manifest)
    assert answer.code == 201, answer.body
    for event in watch:
        conditions = {one["type"]: one["status"] for one in event["object"].get("status", {}).get("conditions") or []}
        if conditions.get("Established") == "True":
            break
    else:
        raise AssertionError(f"{manifest['metadata']['name']} is not established")
    watch.close()
