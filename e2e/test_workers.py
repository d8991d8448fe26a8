"""`kcp-py start --workers N`: several processes are one server, whichever of them answers, and whichever of them ends."""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import CONNECTION_ERRORS, TIMEOUT, Informer, Session, Watch, configmap, definition, revision_of
from e2e.pair import PATH, Reader, Writer, listed, require_writes, told

PROCESSES = ("owner", "worker-1", "worker-2")
ROUNDS = 400
MOST_CONNECTIONS = 200
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
# In Python 3.11 `ssl` does not close its socket when the connection is reset before the handshake begins.
UNCLOSED = pytest.mark.filterwarnings("ignore:.*ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning")

NewServer = Callable[..., ServerProcess]


@pytest.fixture
def server(new_server: NewServer) -> ServerProcess:
    """A server of three processes with little memory for events."""
    return new_server("--workers", "3", environment={"KCP_PY_WATCH_HISTORY_BYTES": "64Ki"}).start()


def events(server: ServerProcess, name: str) -> list[dict[str, object]]:
    """The lines of the log about an event."""
    lines = [json.loads(line) for line in server.log_file.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == name]


def pids(server: ServerProcess) -> dict[str, int]:
    """The latest process of each name."""
    return {str(line["process"]): int(str(line["child_pid"])) for line in events(server, "process_started")}


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition of other processes."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def served_by(server: ServerProcess, session: Session) -> str:
    """The name of the process at the other end of the connection of a session."""
    assert session.request("GET", "/version")[0] == 200
    assert session._connection is not None
    port = session._connection.sock.getsockname()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].partition(":")[2], 16) == server.port and int(fields[2].partition(":")[2], 16) == port:
            for name, pid in pids(server).items():
                if f"socket:[{fields[9]}]" in _open_files(pid):
                    return name
    raise AssertionError("no process has the connection")


def _open_files(pid: int) -> set[str]:
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.add(str(descriptor.readlink()))
        except FileNotFoundError:
            continue
    return found


def one_of_each(server: ServerProcess, stack: ExitStack) -> dict[str, Session]:
    """A session with each process."""
    found: dict[str, Session] = {}
    for _ in range(MOST_CONNECTIONS):
        session = stack.enter_context(Session(server))
        found.setdefault(served_by(server, session), session)
        if len(found) == len(PROCESSES):
            return found
    raise AssertionError(f"{MOST_CONNECTIONS} connections have reached {sorted(found)} alone")


@pytest.mark.slow
def test_no_read_is_stale(new_server: NewServer) -> None:
    """Each process reads and lists at once what any other one has acknowledged, also while history is compacted."""
    server = new_server("--workers", "3", "--event-history-count", "100", "--event-history-age", "1s").start()
    chance = random.Random(4)
    with ExitStack() as stack:
        sessions = list(one_of_each(server, stack).values())
        written: dict[str, dict[str, str]] = {}
        for number in range(ROUNDS):
            writer, reader = chance.sample(sessions, 2)
            name = f"o{chance.randint(0, 30)}"
            if name in written and chance.random() < 0.3:
                assert writer.request("DELETE", f"{PATH}/{name}")[0] == 200
                del written[name]
                assert reader.request("GET", f"{PATH}/{name}")[0] == 404
                revision = 0
            else:
                method, path = ("PUT", f"{PATH}/{name}") if name in written else ("POST", PATH)
                code, body = writer.request(method, path, configmap(name, {"n": str(number)}))
                assert code in (200, 201), body
                written[name], revision = {"n": str(number)}, revision_of(body)
                assert reader.request("GET", f"{PATH}/{name}") == (200, body)
            code, body = reader.request("GET", PATH)
            assert {item["metadata"]["name"]: item["data"] for item in body["items"] if item["metadata"]["name"] in written} == written
            assert len(body["items"]) <= len(written) + 1
            assert revision_of(body) >= revision
            code, page = writer.request("GET", f"{PATH}?limit=500")
            assert (code, page["items"]) == (200, body["items"])


def test_pages_of_a_list_come_from_any_process(server: ServerProcess) -> None:
    """A list that one process began is continued by the others, and has the objects of its first page's moment."""
    with ExitStack() as stack:
        sessions = list(one_of_each(server, stack).values())
        for number in range(30):
            assert sessions[number % 3].request("POST", PATH, configmap(f"o{number:02}", {}))[0] == 201
        for session in sessions:
            assert len(session.request("GET", PATH)[1]["items"]) >= 30
        code, page = sessions[0].request("GET", f"{PATH}?limit=10")
        assert code == 200, page
        revision, names = revision_of(page), [item["metadata"]["name"] for item in page["items"]]
        for number, session in enumerate(sessions):
            assert session.request("DELETE", f"{PATH}/o2{number}")[0] == 200
        while token := page["metadata"].get("continue"):
            session = sessions[len(names) % 3]
            code, page = session.request("GET", f"{PATH}?limit=7&continue={token}")
            assert (code, revision_of(page)) == (200, revision), page
            names += [item["metadata"]["name"] for item in page["items"]]
        assert [name for name in names if name.startswith("o")] == [f"o{number:02}" for number in range(30)]


def test_definitions_are_known_at_once(server: ServerProcess) -> None:
    """A kind is served, and is served no more, in every process as soon as one says so."""
    definitions = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    with ExitStack() as stack:
        sessions = one_of_each(server, stack)
        for number in range(12):
            first, second = random.Random(number).sample(list(sessions.values()), 2)
            group = f"g{number}.example.com"
            crd = definition(group, "things", "Thing", {"n": {"type": "integer"}})
            assert first.request("POST", f"/clusters/c{number}/{definitions}", crd)[0] == 201
            until(lambda first=first, number=number, group=group: _is_established(first, number, group))  # type: ignore[misc]
            thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "one"}, "spec": {"n": 1}}
            things = f"/clusters/c{number}/apis/{group}/v1/namespaces/default/things"
            code, body = second.request("POST", things, thing)
            assert code == 201, body
            assert first.request("GET", f"{things}/one") == (200, body)
            assert first.request("DELETE", f"/clusters/c{number}/{definitions}/things.{group}")[0] == 200
            until(lambda first=first, things=things: first.request("GET", things)[0] == 404)  # type: ignore[misc]
            assert second.request("GET", things)[0] == 404


def _is_established(session: Session, number: int, group: str) -> bool:
    code, body = session.request("GET", f"/clusters/c{number}/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{group}")
    return code == 200 and any(one["type"] == "Established" and one["status"] == "True" for one in body["status"].get("conditions") or ())


def test_permissions_are_known_at_once(server: ServerProcess) -> None:
    """A permission that one process has given or taken away has effect in the next request to another one."""
    bindings = "/clusters/pair/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    with ExitStack() as stack:
        sessions = list(one_of_each(server, stack).values())
        assert sessions[0].request("POST", PATH, configmap("one", {}))[0] == 201
        for number in range(40):
            first, second = random.Random(number).sample(sessions, 2)
            user = {"Impersonate-User": f"user-{number}"}
            assert second.request("GET", f"{PATH}/one", **user)[0] == 403
            binding = {
                "metadata": {"name": f"b{number}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"user-{number}"}],
            }
            code, body = first.request("POST", bindings, binding)
            assert code == 201, body
            assert second.request("GET", f"{PATH}/one", **user)[0] == 200
            assert first.request("DELETE", f"{bindings}/b{number}")[0] == 200
            assert second.request("GET", f"{PATH}/one", **user)[0] == 403


def test_metrics_are_those_of_all_processes(server: ServerProcess) -> None:
    """`/metrics` of any process has the samples of each of them."""
    with ExitStack() as stack:
        for session in one_of_each(server, stack).values():
            code, text = session.request("GET", "/metrics")
            assert code == 200
            for name in PROCESSES:
                assert f'process_resident_memory_bytes{{process="{name}"}} ' in text
            assert text.count("# HELP apiserver_request_total ") == 1


def test_limits_are_those_of_the_whole_server(new_server: NewServer) -> None:
    """Watches and requests of a cluster are counted over all processes, and a killed process has none."""
    limits = ("--logical-cluster-watch-limit", "6", "--logical-cluster-request-limit", "50")
    server = new_server("--workers", "3", *limits).start()
    user = {"Impersonate-User": "alice"}
    with ExitStack() as stack:
        sessions = one_of_each(server, stack)
        binding = {
            "metadata": {"name": "alice"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
        }
        path = "/clusters/pair/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        assert sessions["owner"].request("POST", path, binding)[0] == 201
        watches = [stack.enter_context(Watch(server, f"{PATH}?watch=1", **user)) for _ in range(6)]
        for _ in range(2):
            for session in sessions.values():
                code, body = session.request("GET", f"{PATH}?watch=1", **user)
                assert (code, "reached its limit of 6 watches" in body["message"]) == (429, True)
        before = pids(server)
        os.kill(before["worker-1"], signal.SIGKILL)
        until(lambda: pids(server)["worker-1"] != before["worker-1"])
        assert watches
        # More than the burst of one process, and no more than that of one server together with its rate.
        began = time.monotonic()
        codes = [sessions[name].request("GET", f"{PATH}/none", **user)[0] for _ in range(300) for name in ("owner", "worker-2")]
        seconds = time.monotonic() - began
        assert codes.count(404) <= 50 * seconds + 102
        assert codes.count(429) > 0


def test_clusters_are_apart_in_all_processes(server: ServerProcess) -> None:
    """Objects of one name in two clusters are two objects, in the caches of every process."""
    with ExitStack() as stack:
        sessions = list(one_of_each(server, stack).values())
        for number in range(60):
            writer, reader = random.Random(number).sample(sessions, 2)
            for cluster in ("left", "right"):
                path = f"/clusters/{cluster}/api/v1/namespaces/default/configmaps"
                assert writer.request("POST", path, configmap(f"o{number}", {"in": cluster}))[0] == 201
            for cluster in ("right", "left"):
                path = f"/clusters/{cluster}/api/v1/namespaces/default/configmaps"
                assert reader.request("GET", f"{path}/o{number}")[1]["data"] == {"in": cluster}
                items = reader.request("GET", path)[1]["items"]
                assert {item["data"]["in"] for item in items if "in" in item.get("data", {})} == {cluster}
                assert len([item for item in items if item["metadata"]["name"].startswith("o")]) == number + 1


@pytest.fixture
def clients(server: ServerProcess) -> Iterator[tuple[list[Writer], list[Reader], list[Informer]]]:
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


def settle(server: ServerProcess, clients: tuple[list[Writer], list[Reader], list[Informer]]) -> None:
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
@UNCLOSED
def test_workers_are_killed_under_load(server: ServerProcess, clients: tuple[list[Writer], list[Reader], list[Informer]]) -> None:
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
@UNCLOSED
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_the_owner_ends_under_load(
    server: ServerProcess, clients: tuple[list[Writer], list[Reader], list[Informer]], number: signal.Signals
) -> None:
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
@UNCLOSED
def test_nothing_survives_the_supervisor(server: ServerProcess, clients: tuple[list[Writer], list[Reader], list[Informer]]) -> None:
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


def test_one_process_keeps_its_data_for_several(new_server: NewServer) -> None:
    """The number of processes may change from start to start."""
    server = new_server().start()
    assert server.request("POST", PATH, configmap("one", {})).code == 201
    server.stop()
    several = new_server("--workers", "2", root=server.root).start()
    with ExitStack() as stack:
        for _ in range(4):
            assert stack.enter_context(Session(several)).request("GET", f"{PATH}/one")[0] == 200
    assert several.stop() == 0
    assert new_server(root=server.root).start().request("GET", f"{PATH}/one").code == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--storage", "memory"), "error: --workers: more than one needs --storage sqlite, which is memory\n"),
        (
            ("--storage", "etcd", "--etcd-servers", "http://127.0.0.1:1"),
            "error: --workers: more than one needs --storage sqlite, which is etcd; start several servers on one etcd instead\n",
        ),
        (("--app", "module:object"), None),
    ],
    ids=["memory", "etcd", "a program"],
)
def test_what_cannot_be_shared_is_refused(tmp_path: Path, arguments: tuple[str, ...], message: str | None) -> None:
    """A store in memory and the control plane of a program have one process; nothing is started."""
    (tmp_path / "module.py").write_text("from kcp_py import ControlPlane, Options\nobject = ControlPlane(Options())\n")
    command = [sys.executable, "-m", "kcp_py", "start", "--root-directory", str(tmp_path / "root"), "--workers", "2", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (message or "error: --workers: more than one process cannot serve the control plane of a program (--app)\n")
    assert not (tmp_path / "root").exists()


def test_a_store_that_cannot_be_opened_ends_the_start(tmp_path: Path) -> None:
    """The owner's error is the one line of the start, and no process is left."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "kcp.db").write_bytes(b"no database" * 1000)
    command = [sys.executable, "-m", "kcp_py", "start", "--root-directory", str(root), "--secure-port", "0", "--workers", "3"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    (error,) = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert error.startswith("error: ")
    assert "kcp.db" in error


def _without_rights_of_root() -> None:
    """Let the permissions of files hold for root, too."""
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="root has rights that can be given up on Linux alone")
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("mode", [0o400, 0o000], ids=["read only", "unreadable"])
def test_a_store_that_cannot_be_written_ends_the_start(new_server: NewServer, workers: str, mode: int) -> None:
    """The start ends with one line that names the file, whatever the number of processes, and the file is as before."""
    server = new_server().start()
    server.stop()
    database = server.root / "kcp.db"
    content = database.read_bytes()
    database.chmod(mode)
    command = [sys.executable, "-m", "kcp_py", "start", "--root-directory", str(server.root), "--secure-port", "0", "--workers", workers]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, preexec_fn=_without_rights_of_root)
    assert (ended.returncode, ended.stdout) == (1, "")
    errors = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert errors == [f"error: cannot open {database}: Permission denied"]
    database.chmod(0o600)
    assert database.read_bytes() == content


def test_a_connection_that_waits_survives_the_end_of_a_process(server: ServerProcess) -> None:
    """While all processes but one are stopped and one is killed, new connections wait and are served."""
    current = pids(server)
    os.kill(current["worker-1"], signal.SIGKILL)
    for _ in range(20):
        try:
            assert server.request("GET", "/version").code == 200
        except CONNECTION_ERRORS as error:
            raise AssertionError("a connection was refused") from error
