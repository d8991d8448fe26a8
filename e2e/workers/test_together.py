"""`kcp-py start --workers N`: several processes are one server, whichever of them answers."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import Session, Watch, configmap, definition, revision_of
from e2e.pair import PATH
from e2e.workers.processes import PROCESSES, one_of_each, pids, until

ROUNDS = 400

NewServer = Callable[..., ServerProcess]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server of three processes with little memory for events, for tests that keep to clusters of their own."""
    environment = {"KCP_PY_WATCH_HISTORY_BYTES": "64Ki"}
    process = ServerProcess(tmp_path_factory.mktemp("together") / "root", "--workers", "3", environment=environment).start()
    try:
        yield process
    finally:
        process.stop()


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
    path = "/clusters/permissions/api/v1/namespaces/default/configmaps"
    bindings = "/clusters/permissions/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    with ExitStack() as stack:
        sessions = list(one_of_each(server, stack).values())
        assert sessions[0].request("POST", path, configmap("one", {}))[0] == 201
        for number in range(40):
            first, second = random.Random(number).sample(sessions, 2)
            user = {"Impersonate-User": f"user-{number}"}
            assert second.request("GET", f"{path}/one", **user)[0] == 403
            binding = {
                "metadata": {"name": f"b{number}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"user-{number}"}],
            }
            code, body = first.request("POST", bindings, binding)
            assert code == 201, body
            assert second.request("GET", f"{path}/one", **user)[0] == 200
            assert first.request("DELETE", f"{bindings}/b{number}")[0] == 200
            assert second.request("GET", f"{path}/one", **user)[0] == 403


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
