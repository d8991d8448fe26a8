"""A process of its own with clients that do harm: `python -m tests.benchmarks.attackers ATTACK --port N ...`.

Each client sends the same request again and again, as fast as it is answered, for a time. In the end the process prints how many answers of
each status there were, as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import random
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from tests.benchmarks.processes import LOAD_CORE

BODY_BYTES: Final = 5 * 512 * 1024
HEAD_BYTES: Final = 1_000_000
_PIECE: Final = 64 * 1024


class Attack(NamedTuple):
    """What the clients send.

    Attributes:
        clients: how many there are.
        request: of one client, by the cluster that it attacks and the line of its credentials.
    """

    clients: int
    request: Callable[[str, str], bytes]


def _post(cluster: str, credentials: str, body: bytes, *lines: str, resource: str = "api/v1/namespaces/default/configmaps") -> bytes:
    head = (
        f"POST /clusters/{cluster}/{resource} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        *([credentials] if credentials else []),
        *(lines or [f"Content-Length: {len(body)}"]),
    )
    return "\r\n".join([*head, "", ""]).encode() + body


def _config_map(data: str) -> bytes:
    return f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"heavy"}},"data":{{{data}}}}}'.encode()


def _members(text: Callable[[int], str]) -> str:
    """Members of a JSON object, as many as make a body."""
    length = len(text(10**6)) + 1
    return ",".join(map(text, range(10**6, 10**6 + BODY_BYTES // length)))


def refused(cluster: str, credentials: str) -> bytes:
    """Valid JSON of many small values that is refused with 422: a config map has 1 MiB at most."""
    return _post(cluster, credentials, _config_map(_members(lambda number: f'"k{number}":"value {number}"')))


def refused_text(cluster: str, credentials: str) -> bytes:
    """Valid JSON of one large value that is refused with 422."""
    return _post(cluster, credentials, _config_map(f'"k":"{"x" * BODY_BYTES}"'))


def refused_everywhere(cluster: str, credentials: str) -> bytes:
    """Each of many values is wrong."""
    return _post(cluster, credentials, _config_map(_members(lambda number: f'"k {number}":"v"')))


def repeated(cluster: str, credentials: str) -> bytes:
    """Many keys, each twice."""
    return _post(cluster, credentials, _config_map(_members(lambda number: f'"k{number // 2}":"v"')))


def lists(cluster: str, credentials: str) -> bytes:
    """As many values as a body can have: empty objects in a field that is not known."""
    spec = f'"spec":[{_members(lambda _: "{}")}]'
    return _post(cluster, credentials, f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"heavy"}},{spec}}}'.encode())


def gzipped(cluster: str, credentials: str) -> bytes:
    """Compressed bodies, which are not unpacked."""
    body = gzip.compress(random.Random(1).randbytes(BODY_BYTES), 1)
    return _post(cluster, credentials, body, f"Content-Length: {len(body)}", "Content-Encoding: gzip")


def heads(cluster: str, credentials: str) -> bytes:
    """Heads of a megabyte with one large field."""
    return f"GET /clusters/{cluster}/api HTTP/1.1\r\nHost: localhost\r\n{credentials}\r\nX-Large: {'x' * HEAD_BYTES}\r\n\r\n".encode()


def fields(cluster: str, credentials: str) -> bytes:
    """Heads of a megabyte with as many fields as fit."""
    field = "a: b\r\n"
    return f"GET /clusters/{cluster}/api HTTP/1.1\r\nHost: localhost\r\n{credentials}\r\n{field * (HEAD_BYTES // len(field))}\r\n".encode()


def anonymous(cluster: str, _credentials: str) -> bytes:
    """Large bodies without credentials."""
    return _post(cluster, "", _config_map(f'"k":"{"x" * BODY_BYTES}"'))


def trailers(cluster: str, _credentials: str) -> bytes:
    """Large trailers without credentials."""
    return _post(cluster, "", b"2\r\n{}\r\n0\r\n" + b"X-Trailer: yyyyyyyyyyyyyyyy\r\n" * 100_000 + b"\r\n", "Transfer-Encoding: chunked")


ATTACKS: Final[dict[str, Attack]] = {
    "refused": Attack(50, refused),
    "refused-text": Attack(50, refused_text),
    "refused-everywhere": Attack(50, refused_everywhere),
    "repeated": Attack(50, repeated),
    "lists": Attack(50, lists),
    "gzipped": Attack(50, gzipped),
    "heads": Attack(150, heads),
    "fields": Attack(150, fields),
    "anonymous": Attack(50, anonymous),
    "trailers": Attack(50, trailers),
}


class _Client:
    def __init__(self, port: int, tls: ssl.SSLContext | None, request: bytes, statuses: Counter[str]) -> None:
        self._port = port
        self._tls = tls
        self._request = request
        self._statuses = statuses

    def run(self, until: float) -> None:
        connection: socket.socket | None = None
        while time.monotonic() < until:
            try:
                if connection is None:
                    connection = self._connect()
                status, last = self._exchange(connection)
            except OSError as error:
                status, last = type(error).__name__, True
            self._statuses[status] += 1
            if last and connection is not None:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._port), 60)
        return connection if self._tls is None else self._tls.wrap_socket(connection)

    def _exchange(self, connection: socket.socket) -> tuple[str, bool]:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            # A request that is refused early is answered, and its connection ended, while the client sends.
            view = memoryview(self._request)
            for start in range(0, len(view), _PIECE):
                connection.sendall(view[start : start + _PIECE])
        answer = b""
        while b"\r\n\r\n" not in answer:
            part = connection.recv(_PIECE)
            if not part:
                return (answer[9:12].decode() or "closed"), True
            answer += part
        head, _, body = answer.partition(b"\r\n\r\n")
        left = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0) - len(body)
        while left > 0 and (part := connection.recv(_PIECE)):
            left -= len(part)
        return head[9:12].decode(), left > 0 or b"connection: close" in head.lower()


def main() -> None:
    """Attack."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attack", choices=ATTACKS)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--token", default="")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--clusters", nargs="+", default=["attacker"])
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    # Real attackers have machines of their own: neither the server nor the neighbour, who is measured, may wait for this process.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    os.sched_setaffinity(0, {LOAD_CORE})
    tls = None
    if not given.plain:
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    attack = ATTACKS[given.attack]
    statuses: Counter[str] = Counter()
    credentials = f"Authorization: Bearer {given.token}" if given.token else ""
    requests = [attack.request(cluster, credentials) for cluster in given.clusters]
    until = time.monotonic() + given.seconds
    clients = [_Client(given.port, tls, requests[number % len(requests)], statuses) for number in range(attack.clients)]
    threads = [threading.Thread(target=client.run, args=(until,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until + 2 - time.monotonic()))
    print(json.dumps(statuses), flush=True)


if __name__ == "__main__":
    main()
