"""`run`: the side of a test environment's program that lets the warm process start its server.

It is imported by the program itself, without the rest of the package, and imports as little as possible: `warm` has the protocol.
"""

from __future__ import annotations

import _socket
import marshal
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

START_SECONDS = 30.0
"""How long the warm process may take to start; after it the program serves by itself."""
RETRY_SECONDS = 0.01
_LOOK = "import sys; sys.path += {paths!r}; from kcp_py.cli.envtest.warm import main; sys.exit(main({path!r}))"


def run(path: str, arguments: list[str], environment: dict[str, str], listener: Any, paths: list[str]) -> int | None:
    """Have a server started and wait for its end.

    Args:
        path: of the socket of the warm process, which is started where there is none.
        arguments: the command line, without the name of the program.
        environment: of the program.
        listener: listens on the address of the command line already; None where the server has to bind it.
        paths: where the warm process imports from.

    Returns:
        The exit code of the server; None if the warm process cannot be had.
    """
    connection = connect(path, paths)
    if connection is None:
        return None
    body = marshal.dumps((arguments, environment, os.getcwd()))  # noqa: PTH109 - importing pathlib takes milliseconds
    numbers = [0, 1, 2] if listener is None else [0, 1, 2, listener.fileno()]
    rights = b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)
    signal.signal(signal.SIGTERM, lambda *_: connection.sendall(b"T"))
    signal.signal(signal.SIGINT, lambda *_: connection.sendall(b"T"))
    try:
        connection.sendmsg([len(body).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        connection.sendall(body)
        if listener is not None:
            # The server alone may accept: when it ends, the port is free.
            listener.close()
        code = connection.recv(1)
    except OSError:
        code = b""
    return code[0] if code else 1


def connect(path: str, paths: list[str]) -> Any:
    """A connection to the warm process; None if it cannot be started."""
    deadline, started = time.monotonic() + START_SECONDS, False
    while time.monotonic() < deadline:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.connect(path)
        except OSError:
            connection.close()
        else:
            return connection
        if not started:
            start(path, paths)
            started = True
        time.sleep(RETRY_SECONDS)
    return None


def start(path: str, paths: list[str]) -> None:
    """Start the warm process, which outlives this one. Of several that are started at once, one stays."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120 - importing pathlib takes milliseconds
    if os.fork():
        return
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os.closerange(3, 256)
        os.execv(sys.executable, [sys.executable, "-IS", "-c", _LOOK.format(paths=paths, path=path)])  # noqa: S606 - no shell is needed
    finally:
        os._exit(1)
