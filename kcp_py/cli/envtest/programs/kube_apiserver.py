"""The program in the place of kube-apiserver. `kcp-py envtest-assets` writes it with the values of the names below.

With `SHARED` a warm process serves in its place, see `kcp_py.cli.envtest.warm`: this one hands over what it was started with, and waits. It
is all that is between a test and the warm process, so until then it imports modules of C alone.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

IMPORT_PATHS: list[str] = []
CONTROLLERS = ""
SHARED = ""
HELP = ""
VERSION = ""

START_SECONDS = 30.0
"""How long the warm process may take to start; after it the program serves by itself."""
RETRY_SECONDS = 0.01
WARM = "import sys; sys.path += {paths!r}; from kcp_py.cli.envtest.warm import main; sys.exit(main({path!r}))"


def bound(arguments: list[str]) -> Any:
    """A socket that listens on the address of the command line, so that early health checks wait for the server; None where it cannot."""
    host, port = "", ""
    for word in arguments:
        if word.startswith("--bind-address="):
            host = word[15:]
        elif word.startswith("--secure-port="):
            port = word[14:]
    if not host or ":" in host or not port.isdigit():
        return None
    import _socket

    listener = _socket.socket()
    try:
        listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
        listener.listen(2048)
    except OSError:
        # The server says why.
        listener.close()
        return None
    return listener


def run_shared(path: str, arguments: list[str], environment: dict[str, str], listener: Any) -> int | None:
    """Have a server started by the warm process and wait for its end.

    Args:
        path: of the socket of the warm process, which is started where there is none.
        arguments: the command line, without the name of the program.
        environment: of the program.
        listener: listens on the address of the command line already; None where the server has to bind it.

    Returns:
        The exit code of the server; None if the warm process cannot be had.
    """
    import _signal  # type: ignore[import-not-found] # of `signal`, which takes milliseconds more
    import _socket
    import marshal
    import posix

    connection = connected(path)
    if connection is None:
        return None
    body = marshal.dumps((arguments, environment, posix.getcwd()))
    numbers = [0, 1, 2] if listener is None else [0, 1, 2, listener.fileno()]
    rights = b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)
    for number in (_signal.SIGTERM, _signal.SIGINT):
        _signal.signal(number, lambda *_: connection.sendall(b"T"))
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


def connected(path: str) -> Any:
    """A connection to the warm process; None if it cannot be started."""
    import _socket
    import time

    deadline, started = time.monotonic() + START_SECONDS, 0
    while time.monotonic() < deadline:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.connect(path)
        except OSError:
            connection.close()
        else:
            return connection
        if not started:
            started = start_warm(path)
        elif has_failed(started):
            break
        time.sleep(RETRY_SECONDS)
    sys.stderr.write("Warning: the warm process did not start; this environment starts by itself\n")
    return None


def has_failed(process: int) -> bool:
    """Whether the warm process has ended, other than for another one."""
    import os

    try:
        return os.waitpid(process, os.WNOHANG)[1] != 0
    except ChildProcessError:
        return False


def start_warm(path: str) -> int:
    """Start the warm process, which outlives this one, and return its id. Of several that are started at once, one stays."""
    import os

    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120 - importing pathlib takes milliseconds
    process = os.fork()
    if process:
        return process
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os.closerange(3, 256)
        command = [sys.executable, "-IS", "-c", WARM.format(paths=IMPORT_PATHS, path=path)]
        os.execv(sys.executable, command)  # noqa: S606 - no shell is needed
    finally:
        os._exit(1)


def main(arguments: list[str]) -> int:
    asks = [word for word in arguments if word in ("--help", "-h", "--version", "--version=true")]
    if asks:
        sys.stdout.write(VERSION if "version" in asks[0] else HELP)
        return 0
    import posix

    started_by = posix.getppid()

    def text(value: bytes) -> str:
        return value.decode(sys.getfilesystemencoding(), "surrogateescape")

    environment = {text(name): text(value) for name, value in posix.environ.items()}
    environment.setdefault("KCP_PY_ENVTEST_CONTROLLERS", CONTROLLERS)
    listener = bound(arguments)
    if SHARED and environment.get("KCP_PY_ENVTEST_SHARED", "") != "0":
        code = run_shared(SHARED, arguments, environment, listener)
        if code is not None:
            return code
    # The start makes many objects that live as long as the process: the collector would only look at them.
    import gc

    gc.disable()
    sys.path += IMPORT_PATHS
    import socket

    from kcp_py.cli.envtest.apiserver import run

    bound_here = None if listener is None else socket.socket(fileno=listener.detach())
    return run(arguments, environment, bound_here, started_by=started_by)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
