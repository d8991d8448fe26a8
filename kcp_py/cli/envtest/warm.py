"""The warm process of `kcp-py envtest-assets --shared`: it has imported the server once, and forks for each test environment.

Each environment is a process of its own: it has its own flags, authorities, keys and processor, and nothing of another one. The program
that envtest has started stays, as envtest's child: over its connection it hands over its command line, its streams and its listening
socket, passes SIGTERM on, and gets the exit code. A client of the socket starts programs as this user, so the socket is in a directory of
this user alone.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import gc
import marshal
import os
import select
import signal
import socket
import ssl
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

IDLE_SECONDS: Final = 300.0
"""The process ends so long after the last environment has asked for a start."""
STOP: Final = b"T"
"""What the program sends to stop its server."""
LENGTH: Final = struct.Struct("!I")
MAX_BYTES: Final = 16 * 1024 * 1024
"""Of a command line with its environment."""
_DESCRIPTORS: Final = 4
_BACKLOG: Final = 512


def main(path: str) -> int:
    """Serve the socket until nothing has asked for a start for a time.

    Args:
        path: of the socket, in a directory for this user alone.
    """
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(open(f"{path}.lock", "a"))  # noqa: PTH123 - it has the name of the socket
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        prepare()
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(path)
        Path(path).chmod(0o600)
        listener.listen(_BACKLOG)
        # No child is waited for: programs get the exit codes over their connections.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        used_at = time.monotonic()
        while (remaining := IDLE_SECONDS - (time.monotonic() - used_at)) > 0:
            if not select.select([listener], [], [], remaining)[0]:
                continue
            used_at = time.monotonic()
            connection, _ = listener.accept()
            if os.fork() == 0:
                lock.close()
                listener.close()
                _be_server(connection)
            connection.close()
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()
    return 0


def prepare() -> None:
    """Import the server and open a control plane once, so that what all have in common is made before the first fork."""
    import kcp_py.authn.serviceaccount.keys  # each server reads a key of its test
    import kcp_py.cli.envtest.apiserver  # noqa: F401 - for the processes that follow
    from kcp_py.cli.envtest.flags import CommandLine
    from kcp_py.cli.envtest.translation import options_of
    from kcp_py.controlplane import ControlPlane
    from kcp_py.serving.server import event_loop_factory, serve
    from kcp_py.telemetry.logs import configure_logging

    async def serve_once() -> None:
        options = options_of(CommandLine(), {}, certificate=(Path("none"), Path("none")))
        stop = asyncio.Event()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            async with ControlPlane(options) as control_plane:
                await serve(control_plane.app, listener, options, tls=None, on_shutdown=_nothing, on_ready=stop.set, stop=stop)

    configure_logging("error", "json")
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        runner.run(serve_once())
    # The first context of TLS is slow: OpenSSL reads its configuration.
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_alpn_protocols(["http/1.1"])
    gc.collect()
    gc.freeze()


def _nothing() -> None:
    """Nothing depends on this server."""


def _be_server(connection: socket.socket) -> None:
    """Be the server of the program at the other end, and end with it. Does not return."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        arguments, environment, directory, descriptors = receive(connection)
        for number, descriptor in enumerate(descriptors[:3]):
            os.dup2(descriptor, number)
            os.close(descriptor)
        listener = socket.socket(fileno=descriptors[3]) if len(descriptors) > 3 else None
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(environment)
        from kcp_py.cli.envtest.apiserver import run

        code = run(arguments, environment, listener, control=connection.fileno())
        connection.sendall(bytes((code,)))
    except BaseException as error:  # noqa: BLE001 - the process is a copy, which must not go on as the warm one
        sys.stderr.write(f"Error: {type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


def receive(connection: socket.socket) -> tuple[Sequence[str], Mapping[str, str], str, Sequence[int]]:
    """The command line, the environment, the directory and the descriptors of a program.

    Raises:
        ValueError: the program has sent something else, or has gone.
    """
    numbers = array.array("i")
    head, ancillary, _, _ = connection.recvmsg(LENGTH.size, socket.CMSG_SPACE(_DESCRIPTORS * numbers.itemsize))
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    size = LENGTH.unpack(head)[0] if len(head) == LENGTH.size else MAX_BYTES + 1
    if size > MAX_BYTES:
        raise ValueError("no command line")
    body = b""
    while len(body) < size:
        part = connection.recv(size - len(body))
        if not part:
            raise ValueError("the program has gone")
        body += part
    arguments, environment, directory = marshal.loads(body)  # noqa: S302 - from a process of this user
    return arguments, environment, directory, list(numbers)
