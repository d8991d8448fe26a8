"""Reading a kubeconfig, and the headers and TLS settings that follow from one of its contexts."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

from kcp_py.options.kinds import is_host

if TYPE_CHECKING:
    import ssl

DEFAULT_KUBECONFIG: Final = ".kcp/admin.kubeconfig"
_UNSUPPORTED: Final = {
    "exec": "exec: credential plugins are not supported: run the plugin and give its token",
    "auth-provider": "auth-provider: authentication providers are not supported",
    "username": "username: the server knows no passwords",
}
_SUPPORTED: Final = "use a kubeconfig with token, tokenFile or a client certificate"
_WRONG_FORM: Final = "it does not have the form of a kubeconfig"


class KubeconfigError(Exception):
    """A kubeconfig, or a credential in it, cannot be used. The text is one line that begins with the file."""


@dataclass(frozen=True, slots=True)
class KubeconfigContext:
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
            KubeconfigError: a file that they name cannot be read.
        """
        cluster, user = dict(self.cluster), dict(self.user)
        for holder, key in ((cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key")):
            content = _content(self, holder, key)
            if holder.pop(key, None) is not None and content is not None:
                holder[f"{key}-data"] = base64.b64encode(content).decode("ascii")
        if (path := user.pop("tokenFile", None)) and not user.get("token"):
            user["token"] = _read_token(self, path)
        return cluster, user

    @classmethod
    def load(cls, path: str | None, context: str | None) -> Self:
        """Read a kubeconfig.

        Args:
            path: the file; without it the first that exists of those in `KUBECONFIG`, then `.kcp/admin.kubeconfig`.
            context: the context; without it the file's current one.

        Raises:
            KubeconfigError: the file does not exist, or is not a kubeconfig with that context.
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
            raise KubeconfigError(f"{file}: no usable kubeconfig: {error.args[0]} is missing") from None
        except (LookupError, ValueError) as error:
            raise KubeconfigError(f"{file}: no usable kubeconfig: {error}") from None
        except TypeError:
            raise KubeconfigError(f"{file}: no usable kubeconfig: {_WRONG_FORM}") from None
        if user and not isinstance(user, dict):
            raise KubeconfigError(f"{file}: no usable kubeconfig: {_WRONG_FORM}")
        return cls(file, cluster, user or {}, chosen["user"])

    @classmethod
    def in_cluster(cls, folder: Path | None = None) -> Self:
        """The server and the service account of the pod in which the program runs.

        Args:
            folder: of the credentials; None for the usual one.

        Raises:
            KubeconfigError: the program does not run in a pod.
        """
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
        token = (folder or SERVICE_ACCOUNT) / "token"
        if not host or not port or not token.exists():
            raise KubeconfigError(f"KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT and the file {token} are needed in a pod")
        address = f"[{host}]" if ":" in host else host
        return cls(token, {"server": f"https://{address}:{port}", "certificate-authority": "ca.crt"}, {"tokenFile": "token"}, "pod")


SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its credentials."""


def kubeconfig_of(
    cluster: Mapping[str, Any],
    user: Mapping[str, Any],
    *,
    cluster_name: str,
    user_name: str,
    context_name: str,
    namespace: str = "",
) -> dict[str, Any]:
    """A kubeconfig with one context.

    Args:
        cluster: the server, as it stands in a kubeconfig.
        user: the credentials, as they stand in a kubeconfig.
        cluster_name: the name of the cluster in the file.
        user_name: the name of the user in the file.
        context_name: the name of the context.
        namespace: of the context; empty for the default one.
    """
    context = {"cluster": cluster_name, "user": user_name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster_name, "cluster": dict(cluster)}],
        "contexts": [{"name": context_name, "context": context}],
        "current-context": context_name,
        "preferences": {},
        "users": [{"name": user_name, "user": dict(user)}],
    }


def context_names(path: str | None) -> list[str]:
    """The contexts of the kubeconfig that `KubeconfigContext.load` would read.

    Raises:
        KubeconfigError: the file does not exist, or is not a kubeconfig.
    """
    file = _find(path)
    try:
        return [str(entry["name"]) for entry in _read(file)["contexts"]]
    except (LookupError, TypeError):
        raise KubeconfigError(f"{file}: no usable kubeconfig: no contexts") from None


def _find(path: str | None) -> Path:
    if path is not None:
        return Path(path)
    listed = [Path(entry) for entry in os.environ.get("KUBECONFIG", "").split(os.pathsep) if entry]
    for candidate in [*listed, Path(DEFAULT_KUBECONFIG)]:
        if candidate.exists():
            return candidate
    raise KubeconfigError(f"no kubeconfig: give --kubeconfig, set KUBECONFIG, or run where {DEFAULT_KUBECONFIG} is")


def _check_url(url: Any) -> None:
    """Refuse an address to which requests cannot be sent.

    Raises:
        ValueError: the text is not the URL of a server.
    """
    parts = urlsplit(str(url))
    if parts.scheme not in {"http", "https"} or not is_host(parts.hostname or "") or parts.port == 0:
        raise ValueError(f'server: "{url}" is not a URL such as https://127.0.0.1:6443')


def _read(file: Path) -> Any:
    import yaml  # noqa: PLC0415 - commands show help without it

    try:
        return yaml.safe_load(file.read_text("utf-8"))
    except UnicodeDecodeError:
        raise KubeconfigError(f"{file}: not UTF-8 text") from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise KubeconfigError(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def _named(document: Mapping[str, Any], plural: str, singular: str, name: str) -> dict[str, Any]:
    for entry in document[plural]:
        if entry["name"] == name:
            found: dict[str, Any] = entry[singular]
            return found
    raise LookupError(f"{singular} {name!r} is not in it")


def _content(context: KubeconfigContext, holder: Mapping[str, Any], key: str) -> bytes | None:
    """A credential that is in the kubeconfig (`key-data`) or in a file that it names (`key`)."""
    try:
        if data := holder.get(f"{key}-data"):
            return base64.b64decode(str(data), validate=True)
        if path := holder.get(key):
            return (context.file.parent / str(path)).read_bytes()
    except (OSError, ValueError) as error:
        raise KubeconfigError(f"{context.file}: {key}: {getattr(error, 'strerror', None) or error}") from None
    return None


def token_header(context: KubeconfigContext) -> dict[str, str]:
    """The header with the bearer token of a context; none where it has a certificate.

    Raises:
        KubeconfigError: the token cannot be read or sent, or the only credential is of a kind that is not supported.
    """
    token = context.user.get("token") or read_token_file(context)
    if not token:
        _check_authentication(context)
        return {}
    return bearer_header(context, str(token))


def bearer_header(context: KubeconfigContext, text: str) -> dict[str, str]:
    """The header with a bearer token.

    Raises:
        KubeconfigError: the token cannot be sent.
    """
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise KubeconfigError(f"{context.file}: token: it holds characters that no bearer token has")
    return {"Authorization": f"Bearer {text}"}


def _check_authentication(context: KubeconfigContext) -> None:
    """Refuse a user whose only credential is of a kind that is not supported: its requests would be anonymous without a word.

    Raises:
        KubeconfigError: it is.
    """
    if any(context.user.get(key) for key in ("client-certificate", "client-certificate-data")):
        return
    for key in ("exec", "auth-provider", "username"):
        if context.user.get(key):
            raise KubeconfigError(f"{context.file}: user {context.user_name!r}: {_UNSUPPORTED[key]}; {_SUPPORTED}")


def _read_token(context: KubeconfigContext, path: str) -> str:
    try:
        return (context.file.parent / str(path)).read_text("utf-8").strip()
    except UnicodeDecodeError:
        raise KubeconfigError(f"{context.file}: tokenFile: not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise KubeconfigError(f"{context.file}: tokenFile: {getattr(error, 'strerror', None) or error}") from None


def read_token_file(context: KubeconfigContext) -> str:
    """The bearer token in the `tokenFile` of a context; empty where it has none.

    Raises:
        KubeconfigError: the file cannot be read.
    """
    path = context.user.get("tokenFile")
    return _read_token(context, path) if path else ""


class TlsFiles(NamedTuple):
    """What the TLS settings of a context are made from, in PEM; None for what it does not have."""

    authority: bytes | None
    certificate: bytes | None
    key: bytes | None


def read_tls_files(context: KubeconfigContext) -> TlsFiles:
    """Read the certificates and the key of a context, from the kubeconfig or from the files that it names.

    Raises:
        KubeconfigError: one of them cannot be read.
    """
    return TlsFiles(
        _content(context, context.cluster, "certificate-authority"),
        _content(context, context.user, "client-certificate"),
        _content(context, context.user, "client-key"),
    )


def client_ssl_context(context: KubeconfigContext, files: TlsFiles | None = None) -> ssl.SSLContext:
    """TLS with the authorities and the client certificate of a context.

    Args:
        context: names the server and the user.
        files: of the context; None to read them.

    Raises:
        KubeconfigError: a certificate or a key cannot be used.
    """
    import ssl  # noqa: PLC0415 - it takes long to load, and commands show help without it

    authority, certificate, key = read_tls_files(context) if files is None else files
    try:
        made = ssl.create_default_context(cadata=None if authority is None else authority.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigError(f"{context.file}: certificate-authority: {error}") from None
    # As Go verifies: a certificate that is itself in the bundle is trusted. So are certificates with old forms of extensions, which Python
    # refuses since 3.13.
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if context.cluster.get("insecure-skip-tls-verify"):
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if certificate is not None and key is not None:
        # The ssl module takes keys from files only; the file is private and gone at once.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            try:
                made.load_cert_chain(file.name)
            except ssl.SSLError as error:
                raise KubeconfigError(f"{context.file}: client-certificate: {error.reason or error}") from None
    return made
