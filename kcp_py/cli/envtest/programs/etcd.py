"""The program in the place of etcd: it answers health checks, and says where the program in the place of kube-apiserver keeps its objects.

It is started for every test environment, so it imports as little as possible, and nothing of this package.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELP = """kcp-py in the place of etcd: it answers health checks. The objects of tests are in the memory of kube-apiserver, and in a file of
the data directory, for its next start. Without --data-dir they end with kube-apiserver.

      --listen-client-urls value
      --data-dir value

All other flags are tolerated.
"""
VERSION = "3.6.0"
PAGES = {
    b"/health": (b"application/json", b'{"health":"true","reason":""}'),
    b"/livez": (b"text/plain", b"ok\n"),
    b"/readyz": (b"text/plain", b"ok\n"),
    b"/version": (b"application/json", b'{"etcdserver":"%b","etcdcluster":"%b","storage":"%b"}' % ((VERSION.encode(),) * 3)),
}
DIRECTORY_PAGE = b"/kcp-py/data-dir"
"""Its content is the absolute path of --data-dir; not found without it. `kcp_py.cli.envtest.datadirectory` reads it."""
IDLE_SECONDS = 600


def value(arguments: list[str], flag: str, default: str) -> str:
    """The value of a flag; the last one counts."""
    found = default
    words = iter(arguments)
    for word in words:
        name, separator, rest = word.partition("=")
        if name in ("--" + flag, "-" + flag):
            found = rest if separator else next(words, found)
    return found


def data_directory(arguments: list[str]) -> bytes:
    """The absolute path of --data-dir; empty without it."""
    import posix

    path = value(arguments, "data-dir", "").encode(sys.getfilesystemencoding(), "surrogateescape")
    return path if not path or path.startswith(b"/") else posix.getcwdb() + b"/" + path


def addresses(arguments: list[str]) -> list[tuple[str, int]]:
    """The (host, port) pairs of --listen-client-urls."""
    found = []
    for url in value(arguments, "listen-client-urls", "http://localhost:2379").split(","):
        scheme, _, rest = url.strip().partition("://")
        if scheme != "http":
            raise ValueError(f"--listen-client-urls: only http is served, not {url}")
        host, _, port = rest.split("/")[0].rpartition(":")
        found.append((host.strip("[]") or "127.0.0.1", int(port)))
    return found


def listen(host: str, port: int) -> Any:
    """A listening socket. The modules `socket` and `selectors` would take as long to import as everything else."""
    import _socket

    family, kind, protocol, _, address = _socket.getaddrinfo(host, port, 0, _socket.SOCK_STREAM)[0]
    listener = _socket.socket(family, kind, protocol)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(128)
    listener.setblocking(False)
    return listener


def answer(head: bytes) -> bytes:
    """The response to the head of a request."""
    line = head.split(b"\r\n", 1)[0].split(b" ")
    method, path = (line[0], line[1].split(b"?", 1)[0]) if len(line) == 3 else (b"", b"")
    kind, body = PAGES.get(path, (b"text/plain", b"404 page not found\n"))
    status = b"200 OK" if path in PAGES else b"404 Not Found"
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, kind, len(body))
    return head if method == b"HEAD" else head + body


def serve(listeners: list[Any]) -> None:
    """Serve until the process is told to stop, or nothing has come for some time after the process that started it has ended."""
    import _socket
    import os
    import select
    import time

    started_by, used_at = os.getppid(), time.monotonic()
    poller = select.poll()
    waiting = {listener.fileno(): listener for listener in listeners}
    heads: dict[int, tuple[Any, bytes]] = {}
    for descriptor in waiting:
        poller.register(descriptor, select.POLLIN)
    # The first process of the system starts no tests: it has taken over what a killed test had started.
    while os.getppid() == started_by != 1 or time.monotonic() - used_at < IDLE_SECONDS:
        for descriptor, _ in poller.poll(60_000):
            used_at = time.monotonic()
            if descriptor in waiting:
                try:
                    accepted = waiting[descriptor]._accept()[0]  # noqa: SLF001 - what socket.accept() calls
                except OSError:
                    continue
                connection = _socket.socket(fileno=accepted)
                connection.settimeout(5)
                heads[accepted] = (connection, b"")
                poller.register(accepted, select.POLLIN)
                continue
            connection, head = heads.pop(descriptor)
            try:
                received = connection.recv(65536)
                head += received
                if received and b"\r\n\r\n" not in head and len(head) < 65536:
                    heads[descriptor] = (connection, head)
                    continue
                if b"\r\n\r\n" in head:
                    connection.sendall(answer(head))
            except OSError:
                pass
            poller.unregister(descriptor)
            connection.close()


def main(arguments: list[str]) -> int:
    """Run the program and return its exit code."""
    if any(word in ("--help", "-h", "-help") for word in arguments):
        sys.stdout.write(HELP)
        return 0
    if any(word in ("--version", "-version", "--version=true") for word in arguments):
        sys.stdout.write(f"etcd Version: {VERSION}\n")
        return 0
    import signal

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        listeners = [listen(host, port) for host, port in addresses(arguments)]
    except (OSError, ValueError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    if directory := data_directory(arguments):
        PAGES[DIRECTORY_PAGE] = (b"application/octet-stream", directory)
    serve(listeners)
    return 0


def stop(_number: int, _frame: object) -> None:
    """End at once: there is nothing to save."""
    import os

    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
