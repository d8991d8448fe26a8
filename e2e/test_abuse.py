"""Requests made to exhaust the server, against a real one: each gets an answer, others are served meanwhile, memory stays within bounds.

The tests are named after the items of the list of attacks that they are for: 28 heads and bodies, 29 documents, 30 definitions, 31 rules,
32 patches, 33 lists.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Answer, ServerProcess

SECONDS = 120
MAPS = "/clusters/abuse-{}/api/v1/namespaces/default/configmaps"
CRDS = "/clusters/abuse-a/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LARGEST_GROWTH = 1024 * 1024 * 1024
"""Bytes that the server may grow by, over all of this: a third of what the lists of the last storm would take."""
CROWD = 100
MEGABYTE = 1024 * 1024
YAML = {"Content-Type": "application/yaml"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}


pytestmark = pytest.mark.xdist_group("abuse")


@pytest.fixture(scope="module")
def abused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of its own, whose memory nothing else fills."""
    server = ServerProcess(tmp_path_factory.mktemp("abused") / "root").start()
    try:
        for cluster in "ab":
            assert server.request("POST", MAPS.format(cluster), config_map("mine")).code == 201
        before = resident(server)
        yield server
        assert resident(server) - before < LARGEST_GROWTH
        assert "request_failed" not in server.log_file.read_text()
    finally:
        server.stop()


def resident(server: ServerProcess) -> int:
    """Bytes of memory that the server has."""
    assert server.process is not None
    (line,) = (line for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def neighbours_are_served(server: ServerProcess) -> None:
    """Another cluster's client reads and writes."""
    for _ in range(3):
        assert server.request("GET", f"{MAPS.format('b')}/mine").code == 200
    written = server.request("PUT", f"{MAPS.format('b')}/mine", config_map("mine", a="b"))
    assert written.code == 200


def attacked(server: ServerProcess, attack: Callable[[], Answer]) -> Answer:
    """The answer to an attack after other requests were served during it."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(attack()))
    thread.start()
    neighbours_are_served(server)
    thread.join(SECONDS)
    (answer,) = answers
    assert answer.code < 500 or answer.code == 504, answer.body[:1000]
    return answer


@contextlib.contextmanager
def connected(server: ServerProcess) -> Iterator[ssl.SSLSocket]:
    context = ssl.create_default_context(cafile=str(server.ca_file))
    with (
        socket.create_connection(("127.0.0.1", server.port), SECONDS) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        yield tls


def head(server: ServerProcess, method: str, path: str, *lines: str) -> bytes:
    token = f"Authorization: Bearer {server.token}"
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", token, "Content-Type: application/json", *lines, "", ""]).encode()


def answer_of(connection: ssl.SSLSocket) -> bytes:
    """The first of what the server says; empty where the end of the connection overtook it."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        return connection.recv(65536)
    return b""


def pour(connection: ssl.SSLSocket, piece: bytes, times: int) -> int:
    """Send until the server takes no more; how many pieces it took."""
    for sent in range(times):
        try:
            connection.sendall(piece)
        except (ConnectionError, ssl.SSLError, TimeoutError):
            return sent
    return times


def test_28_trailers_are_no_headers(abused: ServerProcess) -> None:
    """Credentials and the name of a cluster behind a body do nothing: the head says who asks, and where."""
    anonymous = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    trailers = f"Authorization: Bearer {abused.token}\r\nX-Kubernetes-Cluster: abuse-b\r\n\r\n".encode()
    body = json.dumps(config_map("trailed")).encode()
    chunks = b"%x\r\n%b\r\n0\r\n" % (len(body), body) + trailers
    with connected(abused) as connection:
        connection.sendall(anonymous + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        assert connection.recv(65536).startswith(b"HTTP/1.1 403 ")
    with connected(abused) as connection:
        connection.sendall(head(abused, "POST", MAPS.format("a"), "Transfer-Encoding: chunked", "X-Kubernetes-Cluster: abuse-a") + chunks)
        assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")
    assert abused.request("GET", f"{MAPS.format('a')}/trailed").code == 200
    assert abused.request("GET", f"{MAPS.format('b')}/trailed").code == 404


def test_28_trailers_and_extensions_have_limits(abused: ServerProcess) -> None:
    """On a request that was refused, and on one in progress, a stream of them ends soon, and memory does not grow with it."""
    anonymous = b"POST /clusters/abuse-a/api/v1/namespaces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    mine = head(abused, "POST", MAPS.format("a"), "Transfer-Encoding: chunked")
    before = resident(abused)
    for begin in (anonymous, mine):
        for first, piece in ((b"0\r\n", b"a: " + b"x" * 65000 + b"\r\n"), (b"0\r\n", b"x" * 65536), (b"5;a=", b"x" * 65536)):
            with connected(abused) as connection:
                connection.sendall(begin + first)
                assert pour(connection, piece, 1000) < 1000
    assert resident(abused) - before < 64 * MEGABYTE
    neighbours_are_served(abused)


def test_28_silent_connections_do_not_stop_a_small_server(tmp_path: Path) -> None:
    """A server with 64 descriptors serves again as soon as the handshakes of silent clients have timed out, and the log reports it."""
    small = ServerProcess(tmp_path / "root", "--tls-handshake-timeout", "1s", "--request-header-timeout", "1h", descriptors=64).start()
    try:
        with contextlib.ExitStack() as crowd:
            for _ in range(CROWD):
                crowd.enter_context(socket.create_connection(("127.0.0.1", small.port), SECONDS))
            assert small.request("POST", MAPS.format("a"), config_map("mine")).code == 201
            assert small.request("GET", f"{MAPS.format('a')}/mine").code == 200
        assert "connections_exhausted" in small.log_file.read_text()
    finally:
        small.stop()


def test_28_bodies_above_the_limit_are_refused(abused: ServerProcess) -> None:
    """Declared or not, nothing more than the limit is taken: 413."""
    large = json.dumps(config_map("large", a="x" * 4 * MEGABYTE)).encode()
    assert attacked(abused, lambda: abused.request("POST", MAPS.format("a"), large)).code == 413
    with connected(abused) as connection:
        connection.sendall(head(abused, "POST", MAPS.format("a"), "Transfer-Encoding: chunked"))
        if pour(connection, b"10000\r\n" + b"x" * 65536 + b"\r\n", 200) == 200:
            assert b" 413 " in (answer_of(connection)[:20] or b" 413 ")
    neighbours_are_served(abused)


def test_28_compressed_bodies_are_not_unpacked(abused: ServerProcess) -> None:
    """A compressed body is not unpacked, and refused because it is not JSON."""
    bomb = gzip.compress(json.dumps(config_map("bomb", a="x" * 50 * MEGABYTE)).encode())
    assert len(bomb) < MEGABYTE
    answer = attacked(abused, lambda: abused.request("POST", MAPS.format("a"), bomb, headers={"Content-Encoding": "gzip"}))
    assert answer.code in {400, 415}


def test_28_a_crowd_with_large_bodies_takes_turns(abused: ServerProcess) -> None:
    """Twenty clients that send megabytes which are refused: all are answered, others are served, and little of it is in memory at once."""
    before = resident(abused)
    body = json.dumps(config_map("crowd", **{f"k {number}": "value" for number in range(100_000)})).encode()
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(abused.request("POST", MAPS.format("a"), body))) for _ in range(20)]
    for thread in threads:
        thread.start()
    neighbours_are_served(abused)
    assert resident(abused) - before < 400 * MEGABYTE
    for thread in threads:
        thread.join(SECONDS)
    assert {answer.code for answer in answers} <= {422, 429}
    assert len(answers) == len(threads)
    assert all(len(answer.body) < MEGABYTE for answer in answers)


def test_28_slow_heads_and_bodies_keep_nobody_waiting(abused: ServerProcess) -> None:
    """A crowd that stops in the middle of heads, of bodies and of chunks; others are served, and so is who goes on after all."""
    body = json.dumps(config_map("slow")).encode()
    with contextlib.ExitStack() as crowd:
        connections = [crowd.enter_context(connected(abused)) for _ in range(CROWD)]
        for number, connection in enumerate(connections):
            match number % 3:
                case 0:
                    connection.sendall(f"GET {MAPS.format('a')} HTTP/1.1\r\nHost: x\r\nX-Slow: ".encode())
                case 1:
                    connection.sendall(head(abused, "POST", MAPS.format("a"), f"Content-Length: {len(body)}") + body[:10])
                case _:
                    connection.sendall(head(abused, "POST", MAPS.format("a"), "Transfer-Encoding: chunked") + b"1\r\n{\r\n")
        neighbours_are_served(abused)
        connections[1].sendall(body[10:])
        assert b" 201 " in answer_of(connections[1])[:20]
        for byte in body[1:]:
            connections[2].sendall(b"1\r\n%c\r\n" % byte)
        connections[2].sendall(b"0\r\n\r\n")
        assert b" 409 " in answer_of(connections[2])[:20]
    neighbours_are_served(abused)


@pytest.mark.parametrize("piece", [b"X-Many: y\r\n" * 1000, b"X-Long: " + b"y" * 65536], ids=["a million headers", "one endless header"])
def test_28_endless_heads_are_cut(abused: ServerProcess, piece: bytes) -> None:
    """The head has a limit, whatever it is made of: 431, or the connection is closed."""
    with connected(abused) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        if pour(connection, piece, 200) == 200:
            assert b" 431 " in (answer_of(connection)[:20] or b" 431 ")
        neighbours_are_served(abused)


def test_28_a_url_of_a_megabyte_is_refused(abused: ServerProcess) -> None:
    """Requests with long paths and long queries are refused."""
    for target in ("/clusters/abuse-a/" + "a" * 900_000, f"{MAPS.format('a')}?labelSelector={'a' * 900_000}"):
        with connected(abused) as connection:
            connection.sendall(head(abused, "GET", target))
            assert answer_of(connection)[:13] in {b"HTTP/1.1 400 ", b"HTTP/1.1 414 ", b"HTTP/1.1 431 "}
    neighbours_are_served(abused)


def of_data(text: str) -> bytes:
    return b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"document"},"data":' + text.encode() + b"}"


LEVELS = 300_000
DOCUMENTS: dict[str, tuple[bytes, dict[str, str]]] = {
    "deep lists": (b"[" * LEVELS, {}),
    "deep objects": (of_data('{"a":' * LEVELS + "1" + "}" * LEVELS), {}),
    "deep YAML": (b"[" * LEVELS, YAML),
    "indented YAML": (b"\n".join(b" " * level + b"a:" for level in range(1500)), YAML),
    "anchors": (b"a0: &a0 [x, x]\n" + b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (at, at, at - 1, at - 1) for at in range(1, 60)), YAML),
    "merge keys": (
        b"a0: &a0 {x: 1}\n" + b"".join(b"a%d: &a%d {<<: [*a%d, *a%d]}\n" % (at, at, at - 1, at - 1) for at in range(1, 60)),
        YAML,
    ),
    "anchor of itself": (b"&a [*a, *a]", YAML),
    "huge number": (of_data('{"a":' + "9" * 2_000_000 + "}"), {}),
    "huge number in YAML": (b"a: " + b"9" * 2_000_000, YAML),
    "huge exponent": (of_data('{"a":1e999999}'), {}),
    "not a number": (of_data('{"a":NaN}'), {}),
    "lone surrogate": (of_data('{"a":"\\ud800"}'), {}),
    "not UTF-8": (of_data('{"a":"') + b"\xff\xfe", {}),
    "ten megabytes of text": (of_data('{"a":"' + "x" * 10 * MEGABYTE + '"}'), {}),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_29_hostile_documents_are_refused(abused: ServerProcess, name: str) -> None:
    """Depth, aliases, numbers and characters that no object has are 4xx, and nothing is stored."""
    body, headers = DOCUMENTS[name]
    answer = attacked(abused, lambda: abused.request("POST", MAPS.format("a"), body, headers=headers))
    assert 400 <= answer.code < 500, answer.body[:300]
    assert abused.request("GET", f"{MAPS.format('a')}/document").code == 404


def test_29_repeated_keys_are_told_in_part(abused: ServerProcess) -> None:
    """A hundred thousand of them are read in bounded time, and no more than a hundred are told."""
    body = of_data("{" + ",".join(['"a":"b"'] * 100_000) + "}")
    answer = attacked(abused, lambda: abused.request("POST", f"{MAPS.format('a')}?fieldValidation=Strict&dryRun=All", body))
    assert answer.code == 400
    assert len(answer.body) < 20_000


def crd(root: dict[str, Any], **version: Any) -> dict[str, Any]:
    made = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}, **version}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "bombs.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "bombs", "singular": "bomb", "kind": "Bomb", "listKind": "BombList"},
            "versions": [made],
        },
    }


def of_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def of_versions(count: int) -> dict[str, Any]:
    made = crd(of_object())
    (version,) = made["spec"]["versions"]
    made["spec"]["versions"] = [{**version, "name": f"v{at + 1}", "storage": at == 0} for at in range(count)]
    return made


TEXT = {"type": "string"}
DEFINITIONS: dict[str, tuple[dict[str, Any], set[int]]] = {
    "ten thousand properties": (crd(of_object(**{f"p{at}": TEXT for at in range(10_000)})), {201}),
    "reference to itself": (crd(of_object(a={"$ref": "#"})), {422}),
    "every extension at once": (
        crd(
            of_object(
                a={
                    "type": "string",
                    "x-kubernetes-int-or-string": True,
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-list-type": "x",
                }
            )
        ),
        {422},
    ),
    "a thousand versions": (of_versions(1000), {201, 422}),
    "patterns that others would take ages for": (crd(of_object(a={**TEXT, "pattern": "(a*)*" * 5000})), {201, 422}),
    "patterns that take ages to compile": (crd(of_object(a={**TEXT, "pattern": "(?i)" + "x{1,1000}" * 200})), {422}),
    "an enum of a megabyte": (crd(of_object(a={**TEXT, "enum": [f"value-{at:06}" for at in range(60_000)]})), {201}),
    "an endless column": (
        crd(of_object(), additionalPrinterColumns=[{"name": "a", "type": "string", "jsonPath": ".a" * 32_768}]),
        {201, 422},
    ),
    "rules that cost too much": (
        crd(
            of_object(
                a={
                    "type": "array",
                    "items": {"type": "array", "items": TEXT},
                    "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, self.all(z, x.all(s, s.matches('a*b')))))"}],
                }
            )
        ),
        {422},
    ),
    "an endless rule": (
        crd(of_object(a={**TEXT, "x-kubernetes-validations": [{"rule": " && ".join(["self == 'a'"] * 7000)}]})),
        {201, 422},
    ),
    "a deep rule": (crd(of_object(a={**TEXT, "x-kubernetes-validations": [{"rule": "(" * 30_000 + "true" + ")" * 30_000}]})), {422}),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_30_31_definitions_that_are_bombs(abused: ServerProcess, name: str) -> None:
    """They are refused or they work; their neighbours are served while that is found out."""
    definition, codes = DEFINITIONS[name]
    answer = attacked(abused, lambda: abused.request("POST", f"{CRDS}?dryRun=All", definition))
    assert answer.code in codes, answer.body[:1000]


def test_30_31_objects_of_hostile_definitions(abused: ServerProcess) -> None:
    """Defaults that multiply, patterns that search for long, and rules that concatenate without end are bounded for each object."""
    nested: dict[str, Any] = of_object(leaf={**TEXT, "default": "x"})
    for _ in range(6):
        nested = of_object(list={"type": "array", "items": nested, "default": [{}] * 500})
    grown = {
        "type": "array",
        "items": TEXT,
        "x-kubernetes-validations": [{"rule": "self.size() < 9", "messageExpression": "'x'"}],
    }
    rule = {**TEXT, "maxLength": 1000, "x-kubernetes-validations": [{"rule": "(self + self + self + self + self).matches('^(a|b)*c$')"}]}
    schema = of_object(nested=nested, grown={**grown, "maxItems": 50}, rule=rule, slow={**TEXT, "pattern": "(x?){1,900}y"})
    made = abused.request("POST", CRDS, crd(schema))
    assert made.code == 201, made.body
    bombs = "/clusters/abuse-a/apis/example.com/v1/namespaces/default/bombs"
    while abused.request("GET", bombs).code != 200:
        neighbours_are_served(abused)
    for at, content in enumerate(({"nested": {}}, {"slow": "x" * 60_000}, {"rule": "a" * 1000}, {"grown": ["a" * 10_000] * 50})):
        bomb = {"apiVersion": "example.com/v1", "kind": "Bomb", "metadata": {"name": f"b{at}"}, **content}
        answer = attacked(abused, partial(abused.request, "POST", bombs, bomb))
        assert answer.code in {413, 422}, (content, answer.body[:300])


def test_32_patches_that_are_bombs(abused: ServerProcess) -> None:
    """Too many operations, copies of copies, moves to and fro and directives in each other are refused or done; the object is as it was."""
    path = f"{MAPS.format('a')}/mine"
    before = abused.request("GET", path).json
    copies: list[dict[str, Any]] = [{"op": "add", "path": "/data", "value": {"a": "x" * 10_000}}]
    copies += [{"op": "copy", "from": "/data", "path": f"/data/{at}"} for at in range(40)]
    to_and_fro = [{"op": op, "path": "/data/loop", "value": "x" * 100} for _ in range(4_990) for op in ("add", "remove")]
    directives: dict[str, Any] = {"$patch": "replace"}
    for _ in range(100):
        directives = {"$retainKeys": ["a"], "$deleteFromPrimitiveList/a": ["b"], "$setElementOrder/a": [1], "a": directives}
    cases: list[tuple[Any, dict[str, str], set[int]]] = [
        ([{"op": "add", "path": "/data/a", "value": "b"}] * 10_001, JSON_PATCH, {413}),
        (copies, JSON_PATCH, {413, 422}),
        ([{"op": "add", "path": "/data", "value": {}}, *to_and_fro], JSON_PATCH, {200}),
        (directives, {"Content-Type": "application/strategic-merge-patch+json"}, {200, 400, 422}),
    ]
    for body, headers, codes in cases:
        answer = attacked(abused, partial(abused.request, "PATCH", f"{path}?dryRun=All", body, headers=headers))
        assert answer.code in codes, answer.body[:500]
    assert abused.request("GET", path).json == before


def test_32_owners_of_a_hundred_thousand_fields(abused: ServerProcess) -> None:
    """Managed fields of two megabytes are read or refused while other requests are served."""
    fields = {"f:data": {f"f:{at:06}": {} for at in range(100_000)}}
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    obj = config_map("owned")
    obj["metadata"]["managedFields"] = [entry]
    answer = attacked(abused, lambda: abused.request("POST", f"{MAPS.format('a')}?dryRun=All", obj))
    assert answer.code in {201, 413, 422}
    applied = {"Content-Type": "application/apply-patch+yaml"}
    config = config_map("applied", **{f"{at:06}": "" for at in range(100_000)})
    path = f"{MAPS.format('a')}/applied?fieldManager=m&dryRun=All"
    assert attacked(abused, lambda: abused.request("PATCH", path, config, headers=applied)).code in {201, 413, 422}


def test_33_selectors_that_are_bombs(abused: ServerProcess) -> None:
    """Ten thousand requirements are checked, a field without an index is 400, and a query that is longer than any selector too."""
    many = ",".join(["!a"] * 10_000)
    assert attacked(abused, lambda: abused.request("GET", f"{MAPS.format('a')}?labelSelector={many}")).code == 200
    distinct = ",".join(f"!a{at}" for at in range(9_000))
    assert attacked(abused, lambda: abused.request("GET", f"{MAPS.format('a')}?labelSelector={distinct}")).code == 200
    among = ",".join(f"v{at}" for at in range(9_000))
    assert attacked(abused, lambda: abused.request("GET", f"{MAPS.format('a')}?labelSelector=a+in+({among})")).code == 200
    assert abused.request("GET", f"{MAPS.format('a')}?fieldSelector=data.a%3Db").code == 400
    assert abused.request("GET", f"{MAPS.format('a')}?labelSelector={'a,' * 40_000}").code == 400


def test_33_storms_of_whole_lists(abused: ServerProcess) -> None:
    """A crowd that asks for everything again and again, and does not read: others are served, and memory holds a part of it."""
    for at in range(30):
        assert abused.request("POST", MAPS.format("a"), config_map(f"large-{at}", a="x" * 500_000)).code == 201
    with contextlib.ExitStack() as crowd:
        connections = [crowd.enter_context(connected(abused)) for _ in range(CROWD)]
        for connection in connections:
            connection.sendall(head(abused, "GET", f"{MAPS.format('a')}?resourceVersion="))
        neighbours_are_served(abused)
        codes = {answer_of(connection)[9:12] for connection in connections}
        assert codes <= {b"200", b"429"}
        assert b"200" in codes
        neighbours_are_served(abused)
    assert attacked(abused, lambda: abused.request("GET", MAPS.format("a"))).code in {200, 429}
