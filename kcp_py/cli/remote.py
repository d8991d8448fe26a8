"""Talking to a running server as a kubeconfig says: blocking, over the standard library, for commands that must start at once."""

from __future__ import annotations

import contextlib
import http.client
import json
import platform
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self
from urllib.parse import urlsplit

from kcp_py import __version__
from kcp_py.cli.exits import CommandError
from kcp_py.kubeconfig import KubeconfigContext, KubeconfigError, client_ssl_context, token_header

TIMEOUT: Final = 30.0
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386"}


@contextlib.contextmanager
def command_errors() -> Iterator[None]:
    """Within it, an unusable kubeconfig is a `CommandError`."""
    try:
        yield
    except KubeconfigError as error:
        raise CommandError(str(error)) from None


def load_context(path: str | None, context: str | None) -> KubeconfigContext:
    """`KubeconfigContext.load` for commands.

    Raises:
        CommandError: the file is missing, or it is not a kubeconfig with that context.
    """
    with command_errors():
        return KubeconfigContext.load(path, context)


class RemoteError(CommandError):
    """The server answered with a failure.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RemoteServer:
    """One connection to a server; a context manager."""

    def __init__(self, access: KubeconfigContext, *, timeout: float = TIMEOUT) -> None:
        """Prepare; nothing is connected before the first request.

        Args:
            access: the server and the credentials.
            timeout: how long the server may be silent, in seconds.

        Raises:
            CommandError: a credential of the kubeconfig cannot be used.
        """
        self._access = access
        parts = urlsplit(access.base_url)
        self._prefix = parts.path
        with command_errors():
            credentials = token_header(access)
            tls = client_ssl_context(access) if parts.scheme != "http" else None
        self._headers = {"Accept": "application/json", "User-Agent": user_agent(), **credentials}
        self._connection: http.client.HTTPConnection
        if parts.scheme == "http":
            self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
        else:
            self._connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=timeout, context=tls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send one request and return the decoded object. The body of a PATCH is a merge patch.

        Raises:
            RemoteError: the server answered with a status of 400 or more.
            CommandError: the server cannot be reached.
        """
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = self._headers if body is None else {**self._headers, "Content-Type": media}
        try:
            self._connection.request(method, self._prefix + path, None if body is None else json.dumps(body), headers)
            response = self._connection.getresponse()
            content = response.read()
        except ssl.SSLError as error:
            raise CommandError(f"{self._access.base_url}: {error.reason or error}; is {self._access.file} this server's?") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise CommandError(f"{self._access.base_url}: {reason}; is the server running?") from None
        if response.status >= 400:
            message = _message(response.status, content)
            if response.status == 401:
                message = f"{message}: the server does not accept the credentials of {self._access.file}"
            raise RemoteError(response.status, message)
        try:
            decoded = json.loads(content)
        except ValueError:
            raise CommandError(f"{self._access.base_url}: the answer is not JSON") from None
        if not isinstance(decoded, dict):
            raise CommandError(f"{self._access.base_url}: the answer is not an object")
        return decoded


def user_agent() -> str:
    """`kcp-py/0.1.0 (linux/amd64)`, with Go's names of systems and machines. The part before the slash is the field manager of writes."""
    machine = platform.machine().lower()
    return f"kcp-py/{__version__} ({platform.system().lower()}/{_MACHINES.get(machine, machine)})"


def _message(status: int, content: bytes) -> str:
    text = content.decode("utf-8", errors="replace").strip()
    with contextlib.suppress(ValueError, AttributeError):
        text = json.loads(text).get("message") or text
    return text or f"the server answered with status {status}"
