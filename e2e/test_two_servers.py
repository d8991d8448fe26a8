"""Two servers on one real etcd are one control plane: writes of either are visible through the other, in order."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from e2e.conftest import Answer, ServerProcess
from e2e.informer import TIMEOUT, Change, Informer, Key, Session, Watch, configmap, create_definition, definition, key_of, revision_of
from e2e.pair import PATH, RETRIABLE, Etcd, Link, Reader, Writer, linked, listed, require_writes, told

ROUNDS = 200
MOST_ATTEMPTS = 50_000


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


def test_policies_are_shared(pair: tuple[ServerProcess, ServerProcess]) -> None:
    """A change of a policy holds at once on the server that answered it; the other one follows, and does not forget it again."""
    api = "/clusters/pair/apis/admissionregistration.k8s.io/v1"
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "false"}]}
    bound = {"policyName": "p", "validationActions": ["Deny"]}
    with Session(pair[0]) as a, Session(pair[1]) as b:
        for session in (a, b):
            assert session.request("POST", f"{PATH}?dryRun=All", configmap("x", {}))[0] == 201
        assert a.request("POST", f"{api}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})[0] == 201
        assert a.request("POST", f"{api}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound})[0] == 201
        writer, other = a, b
        for turn in range(10):
            expected = 201 if turn % 2 else 422
            assert writer.request("POST", f"{PATH}?dryRun=All", configmap("x", {}))[0] == expected
            deadline = time.monotonic() + TIMEOUT
            while other.request("POST", f"{PATH}?dryRun=All", configmap("x", {}))[0] != expected:
                assert time.monotonic() < deadline
            assert {other.request("POST", PATH, configmap(f"o{turn}-{number}", {}))[0] for number in range(10)} == {expected}
            writer, other = other, writer
            change = {"spec": {"validations": [{"expression": "false" if turn % 2 else "true"}]}}
            path = f"{api}/validatingadmissionpolicies/p"
            assert writer.request("PATCH", path, change, **{"Content-Type": "application/merge-patch+json"})[0] == 200


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


@pytest.mark.slow
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
    state = listed(pair[0])
    assert state == listed(pair[1])
    require_writes(writers, state)
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
    """Servers with a compaction interval compact older history of etcd, and a watch that is up to date continues."""
    arguments = ("--storage", "etcd", "--etcd-servers", etcd.url, "--etcd-compaction-interval", "100ms")
    first, second = (new_server(*arguments).start() for _ in range(2))
    follower = Informer(lambda: second, PATH).start()
    # Between its list and its watch a client needs the history of later writes, so no write is made before it watches.
    follower.wait(lambda: follower.connections == 1)
    with Session(first) as a, Session(second) as b:
        old = revision_of(a.request("POST", PATH, configmap("one", {}))[1])
        for number in itertools.count():
            assert number < MOST_ATTEMPTS, "nothing is compacted"
            code, body = a.request("PUT", f"{PATH}/one", configmap("one", {"n": str(number)}))
            assert code == 200, body
            # On a busy machine a server can be behind by more than the history that is kept. Then its watches end, and clients list again.
            written = revision_of(body)
            follower.wait(lambda written=written: follower.revision >= written)  # type: ignore[misc]
            code, body = b.request("GET", f"{PATH}?resourceVersion={old}&resourceVersionMatch=Exact")
            if code == 410:
                break
            assert code == 200, body
    assert body["reason"] == "Expired"
    state = listed(first)
    follower.wait(lambda: told(follower.state) == told(state))
    follower.stop()
    assert (follower.lists, follower.connections) == (1, 1)


@pytest.fixture
def links(etcd: Etcd) -> Iterator[list[Link]]:
    with linked(etcd.port, 2) as made:
        yield made


@pytest.mark.slow
def test_connections_to_etcd_are_lost_below_watches_writers_and_readers(
    links: list[Link], new_server: Callable[..., ServerProcess]
) -> None:
    """Whichever way the connections of both servers or of one fail, nothing is lost, doubled or read stale, and both go on afterwards."""
    pair = [new_server("--storage", "etcd", "--etcd-servers", link.url).start() for link in links]
    informers = [Informer(lambda one=one: one, PATH).start() for one in pair]  # type: ignore[misc]
    with Session(pair[0]) as session:
        start = revision_of(session.request("POST", PATH, configmap("start", {}))[1])
    writers = [Writer(one, prefix) for one, prefix in zip(pair, "ab", strict=True)]
    readers = [Reader(one, writer) for one in pair for writer in writers]

    def flow() -> None:
        for writer in writers:
            writer.wait_for_more(40)

    flow()
    for _ in range(5):
        for link in links:
            link.cut()
        flow()
    # One server's connections are reset, and new ones too.
    links[0].refuse()
    writers[0].wait_for_failure()
    writers[1].wait_for_more(40)
    assert [one.request("GET", "/readyz").code for one in pair] == [500, 200]
    links[0].resume()
    flow()
    # Both servers' connections are silent until writes are given up; these arrive late.
    for link in links:
        link.hold()
    for writer in writers:
        writer.wait_for_failure()
    for link in links:
        link.resume()
    flow()
    # One server's connections are silent until they are given up.
    links[1].stall()
    writers[1].wait_for_failure()
    writers[0].wait_for_more(40)
    links[1].wait_for_connection()
    links[1].resume()
    flow()
    for writer in writers:
        writer.stop()
    for reader in readers:
        reader.stop()

    state = listed(pair[0])
    assert state == listed(pair[1])
    require_writes(writers, state)
    assert [reader.complaints for reader in readers] == [[]] * 4
    assert {code for writer in writers for code in writer.codes} <= {200, 201, 409} | RETRIABLE
    for informer in informers:
        informer.wait(lambda informer=informer: told(informer.state) == told(state))  # type: ignore[misc]
        informer.stop()
    # A watch from before the first write, through either server, delivers every write once and in order.
    last = max(revision for writer in writers for revision in writer.revisions.values())
    replays = [replayed(one, start, last) for one in pair]
    assert replays[0] == replays[1]
    require_history(replays[0], writers)
    # So has every watch that went on. One of a server whose own watch was away for so long that it had to begin again has ended, and its
    # client has listed again and has the same state; on an idle machine there is none.
    for informer in informers:
        if (informer.lists, informer.connections) == (1, 1):
            assert [change for change in informer.history if start < change.revision <= last] == replays[0]


def replayed(server: ServerProcess, start: int, last: int) -> list[Change]:
    """The events of a watch after one revision, up to another."""
    changes: list[Change] = []
    with Watch(server, f"{PATH}?watch=1&resourceVersion={start}") as watch:
        while not changes or changes[-1].revision < last:
            event = next(watch)
            item = event["object"]
            assert event["type"] != "ERROR", f"{item}"
            changes.append(Change(event["type"], key_of(item), revision_of(item), item.get("data")))
    return changes


def test_a_write_whose_answer_is_lost_is_not_repeated(links: list[Link], new_server: Callable[..., ServerProcess]) -> None:
    """A create that was carried out unheard is done once, and answered with 504 without a time to retry after, which clients would obey."""
    first, second = [new_server("--storage", "etcd", "--etcd-servers", link.url).start() for link in links]
    with Session(first) as a, Session(second) as b:
        assert a.request("POST", PATH, configmap("before", {}))[0] == 201
        marker = "carried-out-unheard"
        links[0].lose_reply(marker)
        answers: list[Answer] = []
        nameless = configmap("", {"n": marker}, generateName="made-")
        asking = threading.Thread(target=lambda: answers.append(first.request("POST", PATH, nameless)))
        asking.start()
        links[0].wait_for_lost_reply()
        while not any(item.get("data") == {"n": marker} for item in b.request("GET", PATH)[1]["items"]):
            assert asking.is_alive(), answers
        links[0].cut()
        asking.join(TIMEOUT)
        (answer,) = answers
        assert (answer.code, answer.json["reason"]) == (504, "Timeout"), answer.body
        assert not {"retry-after"} & {name.lower() for name in answer.headers}
        for session in (a, b):
            items = session.request("GET", PATH)[1]["items"]
            assert len([item for item in items if item.get("data") == {"n": marker}]) == 1


def require_history(history: list[Change], writers: list[Writer]) -> None:
    """Each acknowledged write was seen at its revision, and no object ever went back to an earlier write."""
    for writer in writers:
        own = [change for change in history if change.key[2].startswith(writer.prefix)]
        seen = {change.data["n"]: change.revision for change in own}
        assert len(seen) == len(own), "a write was carried out twice"
        assert {text: seen.get(text) for text in writer.revisions} == writer.revisions
        newest: dict[Key, int] = {}
        for change in own:
            assert int(change.data["n"]) > newest.get(change.key, -1), change
            newest[change.key] = int(change.data["n"])
