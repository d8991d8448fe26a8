"""Talking to a running server as a kubeconfig says: blocking, over the standard library, for commands that must start at once."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import platform
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from kcp_py import __version__
from kcp_py.cli.exits import CommandError
from kcp_py.options.kinds import is_host

DEFAULT_KUBECONFIG: Final = ".kcp/admin.kubeconfig"
TIMEOUT: Final = 30.0
_UNSUPPORTED: Final = {
    "exec": "exec: credential plugins are not supported: run the plugin and give its token",
    "auth-provider": "auth-provider: authentication providers are not supported",
    "username": "username: the server knows no passwords",
}
_SUPPORTED: Final = "use a kubeconfig with token, tokenFile or a client certificate"
_WRONG_FORM: Final = "it does not have the form of a kubeconfig"
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386"}


@dataclass(frozen=True, slots=True)
class Access:
    """One context of a kubeconfig: the cluster and the user it names, as they stand in the file."""

    file: Path
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    user_name: str

    @property
    def base_url(self) -> str:
        """The server's URL without `/clusters/NAME` and without a slash at its end."""
        return str(self.cluster["server"]).partition("/clusters/")[0].rstrip("/")

    @property
    def cluster_name(self) -> str:
        """The logical cluster that the server's URL names; empty where it names none."""
        return str(self.cluster["server"]).partition("/clusters/")[2].strip("/")

    def embedded(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Cluster and user with what they take from files put into them, so that they can be written elsewhere.

        Raises:
            CommandError: a file that they name cannot be read.
        """
        cluster, user = dict(self.cluster), dict(self.user)
        for holder, key in ((cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key")):
            content = _content(self, holder, key)
            if holder.pop(key, None) is not None and content is not None:
                holder[f"{key}-data"] = base64.b64encode(content).decode("ascii")
        if (path := user.pop("tokenFile", None)) and not user.get("token"):
            user["token"] = _read_token(self, path)
        return cluster, user

    def kubeconfig_for(self, name: str) -> dict[str, Any]:
        """A kubeconfig whose only context is a logical cluster of this server, with the same credentials.

        Raises:
            CommandError: a file that holds a credential cannot be read.
        """
        cluster, user = self.embedded()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {**cluster, "server": f"{self.base_url}/clusters/{name}"}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": self.user_name}}],
            "current-context": name,
            "preferences": {},
            "users": [{"name": self.user_name, "user": user}],
        }

    @classmethod
    def load(cls, path: str | None, context: str | None) -> Self:
        """Read a kubeconfig.

        Args:
            path: the file; without it the first that exists of those in `KUBECONFIG`, then `.kcp/admin.kubeconfig`.
            context: the context; without it the file's current one.

        Raises:
            CommandError: there is no such file, or it is no kubeconfig with that context.
        """
        file = _find(path)
        document = _read(file)
        try:
            name = context or document["current-context"]
            chosen = _named(document, "contexts", "context", name)
            cluster = _named(document, "clusters", "cluster", chosen["cluster"])
            user = _named(document, "users", "user", chosen["user"])
            _check_url(cluster["server"])
        except KeyError as error:
            raise CommandError(f"{file}: no usable kubeconfig: {error.args[0]} is missing") from None
        except (LookupError, ValueError) as error:
            raise CommandError(f"{file}: no usable kubeconfig: {error}") from None
        except TypeError:
            raise CommandError(f"{file}: no usable kubeconfig: {_WRONG_FORM}") from None
        if user and not isinstance(user, dict):
            raise CommandError(f"{file}: no usable kubeconfig: {_WRONG_FORM}")
        return cls(file, cluster, user or {}, chosen["user"])


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

    def __init__(self, access: Access, *, timeout: float = TIMEOUT) -> None:
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
        self._headers = {"Accept": "application/json", "User-Agent": user_agent(), **_token_header(access)}
        self._connection: http.client.HTTPConnection
        if parts.scheme == "http":
            self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
        else:
            self._connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=timeout, context=_tls(access))

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


def context_names(path: str | None) -> list[str]:
    """The contexts of the kubeconfig that `Access.load` would read.

    Raises:
        CommandError: there is no such file, or it is no kubeconfig.
    """
    file = _find(path)
    try:
        return [str(entry["name"]) for entry in _read(file)["contexts"]]
    except (LookupError, TypeError):
        raise CommandError(f"{file}: no usable kubeconfig: no contexts") from None


def _find(path: str | None) -> Path:
    if path is not None:
        return Path(path)
    listed = [Path(entry) for entry in os.environ.get("KUBECONFIG", "").split(os.pathsep) if entry]
    for candidate in [*listed, Path(DEFAULT_KUBECONFIG)]:
        if candidate.exists():
            return candidate
    raise CommandError(f"no kubeconfig: give --kubeconfig, set KUBECONFIG, or run where {DEFAULT_KUBECONFIG} is")


def _check_url(url: Any) -> None:
    """Refuse what no request can be sent to.

    Raises:
        ValueError: the text is no URL of a server.
    """
    parts = urlsplit(str(url))
    if parts.scheme not in {"http", "https"} or not is_host(parts.hostname or "") or parts.port == 0:
        raise ValueError(f'server: "{url}" is not a URL such as https://127.0.0.1:6443')


def _read(file: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(file.read_text("utf-8"))
    except UnicodeDecodeError:
        raise CommandError(f"{file}: not UTF-8 text") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise CommandError(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def _named(document: Mapping[str, Any], plural: str, singular: str, name: str) -> dict[str, Any]:
    for entry in document[plural]:
        if entry["name"] == name:
            found: dict[str, Any] = entry[singular]
            return found
    raise LookupError(f"{singular} {name!r} is not in it")


def _content(access: Access, holder: Mapping[str, Any], key: str) -> bytes | None:
    """A credential that is in the kubeconfig (`key-data`) or in a file beside it (`key`)."""
    try:
        if data := holder.get(f"{key}-data"):
            return base64.b64decode(str(data), validate=True)
        if path := holder.get(key):
            return (access.file.parent / str(path)).read_bytes()
    except (OSError, ValueError) as error:
        raise CommandError(f"{access.file}: {key}: {getattr(error, 'strerror', None) or error}") from None
    return None


def _token_header(access: Access) -> dict[str, str]:
    token = access.user.get("token")
    if not token and (path := access.user.get("tokenFile")):
        token = _read_token(access, path)
    if not token:
        _check_authentication(access)
        return {}
    text = str(token)
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise CommandError(f"{access.file}: token: it holds characters that no bearer token has")
    return {"Authorization": f"Bearer {text}"}


def _check_authentication(access: Access) -> None:
    """Refuse a user whose only credential is of a kind that is not supported: its requests would be anonymous without a word.

    Raises:
        CommandError: it is.
    """
    if any(access.user.get(key) for key in ("client-certificate", "client-certificate-data")):
        return
    for key in ("exec", "auth-provider", "username"):
        if access.user.get(key):
            raise CommandError(f"{access.file}: user {access.user_name!r}: {_UNSUPPORTED[key]}; {_SUPPORTED}")


def _read_token(access: Access, path: str) -> str:
    try:
        return (access.file.parent / str(path)).read_text("utf-8").strip()
    except UnicodeDecodeError:
        raise CommandError(f"{access.file}: tokenFile: not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise CommandError(f"{access.file}: tokenFile: {getattr(error, 'strerror', None) or error}") from None


def _tls(access: Access) -> ssl.SSLContext:
    authority = _content(access, access.cluster, "certificate-authority")
    try:
        context = ssl.create_default_context(cadata=None if authority is None else authority.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise CommandError(f"{access.file}: certificate-authority: {error}") from None
    # As Go verifies: a certificate that is itself in the bundle is trusted.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if access.cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _content(access, access.user, "client-certificate"), _content(access, access.user, "client-key")
    if certificate is not None and key is not None:
        # The ssl module takes keys from files only; the file is private and gone at once.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            try:
                context.load_cert_chain(file.name)
            except ssl.SSLError as error:
                raise CommandError(f"{access.file}: client-certificate: {error.reason or error}") from None
    return context


def _message(status: int, content: bytes) -> str:
    text = content.decode("utf-8", errors="replace").strip()
    with contextlib.suppress(ValueError, AttributeError):
        text = json.loads(text).get("message") or text
    return text or f"the server answered with status {status}"
