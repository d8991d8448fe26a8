"""The program in the place of kube-apiserver. `kcp-py envtest-assets` writes it with the values of the names below."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

IMPORT_PATHS: list[str] = []
CONTROLLERS = ""
SHARED = ""


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


def main(arguments: list[str]) -> int:
    asks = [word for word in arguments if word in ("--help", "-h", "--version", "--version=true")]
    if asks:
        sys.path += IMPORT_PATHS
        from kcp_py.cli.envtest import flags

        sys.stdout.write(flags.version_text() if "version" in asks[0] else flags.help_text())
        return 0
    import os

    environment = dict(os.environ)
    environment.setdefault("KCP_PY_ENVTEST_CONTROLLERS", CONTROLLERS)
    listener = bound(arguments)
    if SHARED and environment.get("KCP_PY_ENVTEST_SHARED", "") != "0":
        sys.path += IMPORT_PATHS
        from kcp_py.cli.envtest import warmclient

        code = warmclient.run(SHARED, arguments, environment, listener, IMPORT_PATHS)
        if code is not None:
            return code
        del sys.path[-len(IMPORT_PATHS) :]
    # The start makes many objects that live as long as the process: the collector would only look at them.
    import gc

    gc.disable()
    sys.path += IMPORT_PATHS
    import socket

    from kcp_py.cli.envtest.apiserver import run

    return run(arguments, environment, None if listener is None else socket.socket(fileno=listener.detach()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
