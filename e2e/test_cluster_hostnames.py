"""Logical clusters by host name, with clients that drop the path of a server URL."""

from __future__ import annotations

import re
import socketserver
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import SHUT_WR, create_connection, socket

from e2e.conftest import Kubectl, ServerProcess


class ProxyHandler(socketserver.StreamRequestHandler):
    """Answers CONNECT with a connection to the server, whatever the host is. It stands for a DNS with a wildcard record."""

    server: Proxy

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        with create_connection(("127.0.0.1", self.server.port)) as upstream:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            answers = threading.Thread(target=copy, args=(upstream, self.connection))
            answers.start()
            copy(self.connection, upstream)
            answers.join()


class Proxy(socketserver.ThreadingTCPServer):
    """A proxy on a free port."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), ProxyHandler)
        self.port = port


def copy(source: socket, target: socket) -> None:
    """Send what comes until it ends, or until one of the ends is gone."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(SHUT_WR)


@contextmanager
def proxied(port: int) -> Iterator[str]:
    """The URL of a proxy to a port."""
    with Proxy(port) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
        proxy.shutdown()


def test_kubectl_at_the_host_of_a_cluster(new_server: Callable[..., ServerProcess], kubectl_binary: str, tmp_path: Path) -> None:
    """The certificate fits, and `kubectl proxy`, which drops paths, serves the cluster of the host."""
    server = new_server("--external-hostname", "kcp.example", "--cluster-hostnames").start()
    with proxied(server.port) as proxy:
        through = {"HTTPS_PROXY": proxy}
        team = Kubectl(kubectl_binary, server.kubeconfig, tmp_path / "cache", f"https://team-a.kcp.example:{server.port}")
        team.run("create", "configmap", "one", "--from-literal=a=1", environment=through)
        by_path = Kubectl(kubectl_binary, server.kubeconfig, tmp_path / "cache", f"https://kcp.example:{server.port}/clusters/team-a")
        assert by_path.run("get", "configmap", "one", "-o", "jsonpath={.data.a}", environment=through) == "1"
        other = Kubectl(kubectl_binary, server.kubeconfig, tmp_path / "cache", f"https://team-b.kcp.example:{server.port}")
        assert "not found" in other.run("get", "configmap", "one", environment=through, fails=True)
        process = team.start("proxy", "--port", "0", environment=through)
        try:
            assert process.stdout is not None
            (address,) = re.findall(r"127\.0\.0\.1:\d+", process.stdout.readline())
            with urllib.request.urlopen(f"http://{address}/api/v1/namespaces/default/configmaps/one", timeout=60) as answer:
                assert b'"a":"1"' in answer.read()
        finally:
            process.kill()
            process.communicate()
