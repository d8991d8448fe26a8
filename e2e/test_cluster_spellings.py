"""No spelling of a path and no header reaches another cluster than the one that it names."""

from __future__ import annotations

import secrets
import socket
import ssl

import pytest

from e2e.conftest import Answer, ServerProcess
from e2e.informer import configmap

SECONDS = 20
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRET = b"/api/v1/namespaces/default/configmaps/secret"
A = b"/clusters/iso-a"
HEADER = b"X-Kubernetes-Cluster: "


def send_raw(server: ServerProcess, target: bytes, *headers: bytes, token: str | None = None) -> Answer:
    """A GET whose request target and headers reach the server byte for byte."""
    context = ssl.create_default_context(cafile=str(server.ca_file))
    lines = [
        b"GET " + target + b" HTTP/1.1",
        b"Host: 127.0.0.1",
        b"Connection: close",
        b"Authorization: Bearer " + (token or server.token).encode(),
        *headers,
        b"",
        b"",
    ]
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(b"\r\n".join(lines))
        parts = iter(lambda: connection.recv(65536), b"")
        head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    status, *fields = head.decode("latin-1").split("\r\n")
    named = dict(line.split(": ", 1) for line in fields)
    return Answer(int(status.split()[1]), body, named)


@pytest.fixture(scope="module")
def markers(server: ServerProcess) -> dict[str, bytes]:
    """Two clusters whose config maps of the same name hold a secret each."""
    made = {}
    for cluster in ("iso-a", "iso-b", "root"):
        marker = secrets.token_hex(12)
        answer = server.request("POST", f"/clusters/{cluster}{CONFIG_MAPS}", configmap("secret", {"marker": marker}))
        assert answer.code == 201, answer.body
        made[cluster] = marker.encode()
    return made


CONFUSING = [
    (b"/clusters/iso-a/../iso-b" + SECRET, 400),
    (b"/clusters/iso-a/%2e%2e/iso-b" + SECRET, 400),
    (b"/clusters/iso-a/%2E%2E/iso-b" + SECRET, 400),
    (b"/clusters/iso-a/.%2e/iso-b" + SECRET, 400),
    (b"/clusters/iso-a/." + SECRET, 400),
    (b"/clusters/iso-a/../../clusters/iso-b" + SECRET, 400),
    (b"/clusters/iso-a%2f..%2fiso-b" + SECRET, 400),
    (b"/clusters/iso-a%2fiso-b" + SECRET, 400),
    (b"/clusters/iso-a%252fiso-b" + SECRET, 400),
    (b"/clusters/iso-a%252e%252e/iso-b" + SECRET, 400),
    (b"/clusters%2fiso-b" + SECRET, 400),
    (b"/clusters/iso-a%5ciso-b" + SECRET, 400),
    (b"/clusters/iso-a\\..\\iso-b" + SECRET, 400),
    (b"/clusters/iso-a;x=iso-b" + SECRET, 400),
    (b"/clusters/iso-b;" + SECRET, 400),
    (b"/clusters/iso-a/;/clusters/iso-b" + SECRET, 400),
    (b"/clusters//iso-b" + SECRET, 400),
    (b"//clusters/iso-b" + SECRET, 400),
    (b"/./clusters/iso-b" + SECRET, 400),
    (b"/clusters/iso-a//clusters/iso-b" + SECRET, 400),
    (b"/clusters/iso-a/clusters/iso-b" + SECRET, 404),
    (b"/clusters/iso-a/clusters", 404),
    (b"/clusters/iso-b." + SECRET, 400),
    (b"/clusters/iso-b%2e" + SECRET, 400),
    (b"/clusters/iso-b%20" + SECRET, 400),
    (b"/clusters/iso-b " + SECRET, 400),
    (b"/clusters/iso-b%09" + SECRET, 400),
    (b"/clusters/iso-b%00" + SECRET, 400),
    (b"/clusters/iso-b\x00" + SECRET, 400),
    (b"/clusters/iso-b%0d%0a" + SECRET, 400),
    (b"/clusters/%c1%a9so-b" + SECRET, 400),
    (b"/clusters/iso-a%c0%afiso-b" + SECRET, 400),
    (b"/clusters/iso-a%e0%80%afiso-b" + SECRET, 400),
    (b"/clusters/iso-b%" + SECRET, 400),
    (b"/clusters/iso-b%zz" + SECRET, 400),
    (b"/clusters/iso-%62" + SECRET, 400),
    (b"/clusters/Iso-b" + SECRET, 400),
    (b"/clusters/ISO-B" + SECRET, 400),
    (b"/Clusters/iso-b" + SECRET, 404),
    (b"/CLUSTERS/iso-b" + SECRET, 404),
    (b"/%63lusters/iso-b" + SECRET, 404),
    ("/clusters/іso-b".encode() + SECRET, 400),  # noqa: RUF001 - a Cyrillic letter
    (b"/clusters/%D1%96so-b" + SECRET, 400),
    (b"/clusters/iso%E2%80%90b" + SECRET, 400),
    (b"/clusters/%EF%BD%89so-b" + SECRET, 400),
    (b"/clusters/%C4%B1so-b" + SECRET, 400),
    (b"/clusters", 404),
    (b"/clusters/", 400),
    (b"/clusters/" + b"a" * 63 + SECRET, 404),
    (b"/clusters/" + b"a" * 64 + SECRET, 400),
    (b"/clusters/" + b"a" * 300 + SECRET, 400),
    (b"/clusters/" + b"a" * 9000 + SECRET, 400),
    (b"/clusters/**" + SECRET, 400),
    (b"/clusters/%2a%2a" + SECRET, 400),
    (b"/clusters/*" + SECRET, 409),
    (b"/clusters/%2a" + SECRET, 409),
    (b"/clusters/iso-*" + SECRET, 400),
    (b"/clusters/iso-a,iso-b" + SECRET, 400),
    (b"/clusters/iso-a+iso-b" + SECRET, 400),
    (b"/clusters/-iso-b" + SECRET, 400),
    (b"/clusters/iso-b:" + SECRET, 400),
    (b"/clusters/iso-a:iso-b" + SECRET, 404),
    (b"/clusters/root:iso-b" + SECRET, 404),
    (b"/clusters/system:iso-b" + SECRET, 404),
    (b"https://iso-b.example/clusters/iso-a/../iso-b" + SECRET, 400),
    (b"https://iso-b.example//clusters/iso-b" + SECRET, 400),
    (b"/clusters/iso-a#/../iso-b" + SECRET, 400),
    (A + SECRET + b"#?", 400),
    (b"clusters/iso-b" + SECRET, 400),
    (b"*", 400),
    (A + b"/api/v1/namespaces/../../../iso-b" + SECRET, 400),
    (A + b"/api/v1/namespaces/default/configmaps/..%2fsecret", 400),
    (A + b"/api/v1/namespaces/default%2f..%2fdefault/configmaps/secret", 400),
    (A + b"/api/v1/namespaces/default%00/configmaps/secret", 400),
    (A + b"/api/v1/namespaces/default/configmaps/secret%00", 400),
    (A + b"/api/v1/namespaces/default/configmaps/secret.", 404),
    (A + b"/api/v1/namespaces/default/configmaps/secret%2520", 404),
    (A + b"/api/v1/namespaces/default/configmaps/SECRET", 404),
]


def test_no_spelling_of_a_path_reaches_another_cluster(server: ServerProcess, markers: dict[str, bytes]) -> None:
    """A path that is not canonical is refused unchanged, and no such answer contains a secret."""
    for target, code in CONFUSING:
        answer = send_raw(server, target)
        assert answer.code == code, (target, answer)
        for marker in markers.values():
            assert marker not in answer.body, target


SELECTING = [
    (SECRET, [], "root"),
    (A + SECRET, [], "iso-a"),
    (SECRET, [HEADER + b"iso-a"], "iso-a"),
    (SECRET, [b"x-kubernetes-cluster:iso-b"], "iso-b"),
    (A + SECRET, [HEADER + b"iso-a"], "iso-a"),
    (A + SECRET + b"?cluster=iso-b", [], "iso-a"),
    (b"https://iso-b.example/clusters/iso-a" + SECRET, [], "iso-a"),
    (A + SECRET, [b"X-Forwarded-Prefix: /clusters/iso-b", b"X-Original-URL: /clusters/iso-b" + SECRET], "iso-a"),
    (SECRET, [b"X-Forwarded-Host: iso-b", b"X-Forwarded-Prefix: /clusters/iso-b"], "root"),
    (SECRET, [b"X_Kubernetes_Cluster: iso-b"], "root"),
]

REFUSED_HEADERS = [
    (SECRET, [HEADER + b"iso-a", HEADER + b"iso-b"], 400),
    (SECRET, [HEADER + b"iso-a", HEADER + b"iso-a"], 400),
    (A + SECRET, [HEADER + b"iso-b"], 400),
    (A + SECRET, [HEADER + b"*"], 400),
    (b"/clusters/*" + SECRET, [HEADER + b"iso-b"], 400),
    (A + SECRET, [HEADER + b"iso-a", b"x-kubernetes-cluster: iso-b"], 400),
    (SECRET, [HEADER + b"*"], 409),
    (SECRET, [HEADER + b"%2a"], 400),
    (SECRET, [HEADER + b"**"], 400),
    (SECRET, [HEADER + b"Iso-b"], 400),
    (SECRET, [HEADER + b"iso-a,iso-b"], 400),
    (SECRET, [HEADER], 400),
    (SECRET, [HEADER + b"../iso-b"], 400),
    (SECRET, [HEADER + b"iso-b\xa0"], 400),
    (SECRET, [HEADER + b"a" * 64], 400),
    (SECRET, [b"X-Kubernetes-Cluster : iso-b"], 400),
    (SECRET, [HEADER.rstrip(), b"\tiso-b"], 400),
    (A + SECRET, [b"Connection: X-Kubernetes-Cluster", HEADER + b"iso-a"], 400),
]


def test_the_header_selects_a_cluster_only_where_it_is_unambiguous(server: ServerProcess, markers: dict[str, bytes]) -> None:
    """Alone or in agreement with the path it works; anything else is refused, and look-alikes of it are not read."""
    for target, headers, cluster in SELECTING:
        answer = send_raw(server, target, *headers)
        assert answer.code == 200, (target, headers, answer)
        assert [name for name, marker in markers.items() if marker in answer.body] == [cluster], (target, headers)
    for target, headers, code in REFUSED_HEADERS:
        answer = send_raw(server, target, *headers)
        assert answer.code == code, (target, headers, answer)
        assert not [name for name, marker in markers.items() if marker in answer.body], (target, headers)


def test_pages_of_the_server_under_a_cluster(server: ServerProcess) -> None:
    """Health is answered under a cluster too, metrics are not, and nothing of it depends on whether the cluster exists."""
    for cluster in ("iso-a", "iso-nowhere"):
        for page in ("healthz", "livez", "readyz", "readyz/ping", "version"):
            assert server.request("GET", f"/clusters/{cluster}/{page}", token="").code == 200, page
        metrics = server.request("GET", f"/clusters/{cluster}/metrics")
        assert (metrics.code, metrics.body) == (501, b"shard-level endpoint not available at workspace scope\n")
    assert server.request("GET", "/metrics").code == 200
