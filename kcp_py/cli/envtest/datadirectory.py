"""`journal_of`: the file with the objects of a test environment, in the data directory of the program in the place of etcd."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

PAGE: Final = "/kcp-py/data-dir"
"""Of `programs/etcd.py`."""
_SECONDS: Final = 5.0
_MAX_BYTES: Final = 65536
_FOUND: Final = b"HTTP/1.1 200 "


def journal_of(servers: Sequence[str], prefix: str) -> Path | None:
    """The file for an API server with these flags; None where objects end with it.

    They do where no server is a program of kcp-py with a data directory, as where `etcd` is a real one or does not run.

    Args:
        servers: of --etcd-servers.
        prefix: of --etcd-prefix: API servers with different ones have nothing in common.

    Raises:
        OSError: the directory cannot be used.
    """
    for server in servers:
        directory = _directory_of(server)
        if directory is not None:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if directory.stat().st_uid != os.getuid():
                raise PermissionError(f"the data directory of etcd, {directory}, belongs to another user")
            return directory / f"kcp-py-{hashlib.sha256(prefix.encode()).hexdigest()[:16]}.journal"
    return None


def _directory_of(server: str) -> Path | None:
    try:
        url = urlsplit(server)
        if url.scheme != "http" or not url.hostname:
            return None
        with socket.create_connection((url.hostname, url.port or 80), timeout=_SECONDS) as connection:
            connection.sendall(f"GET {PAGE} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n".encode())
            answer = b""
            while len(answer) < _MAX_BYTES and (part := connection.recv(_MAX_BYTES)):
                answer += part
    except (OSError, ValueError):
        return None
    head, _, body = answer.partition(b"\r\n\r\n")
    return Path(os.fsdecode(body)) if head.startswith(_FOUND) and body.startswith(b"/") and b"\0" not in body else None
