"""`ClientAuthentication`: how the other API server says that its requests, and those of its clients, can be known.

It publishes that in the ConfigMap `extension-apiserver-authentication` of `kube-system`, which is followed while this server runs.

Source: k8s.io/apiserver `pkg/server/options/authentication.go`, `authentication_dynamic_request_header.go` and
`pkg/authentication/request/headerrequest/requestheader_controller.go`.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kcp_py.apimachinery.errors import StatusError, unauthorized
from kcp_py.authn.authenticator import Credentials
from kcp_py.authn.requestheader import ProxyHeaders, RequestHeaders
from kcp_py.authn.vouched import user_of_the_only
from kcp_py.options import Options
from kcp_py.request.user import UserInfo
from kcp_py.serving.files import make_private_directory, write_private_file

NAME: Final = "extension-apiserver-authentication"
PATH: Final = "/api/v1/namespaces/kube-system/configmaps"
_CLIENT_CA: Final = "client-ca-file"
_PROXY_CA: Final = "requestheader-client-ca-file"
_UID_HEADERS: Final = ("X-Remote-Uid",)
"""Where the ConfigMap has none: servers before 1.32 do not publish them."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.aggregated")


class PublishedError(ValueError):
    """The ConfigMap has a value of another form. `str()` is one line."""


class Published(NamedTuple):
    """The content of the ConfigMap."""

    client_ca: bytes
    """PEM; empty where the server accepts no client certificates."""
    proxy_ca: bytes
    """PEM; empty where the server has no front proxies."""
    allowed_names: tuple[str, ...]
    """Common names of front proxies; empty for any."""
    headers: ProxyHeaders


def parse_published(configmap: Mapping[str, Any]) -> Published:
    """Read the ConfigMap.

    Raises:
        PublishedError: a value does not have the form that a server gives it.
    """
    data = configmap.get("data") or {}
    client_ca, proxy_ca = (_authorities(data, key) for key in (_CLIENT_CA, _PROXY_CA))
    users, groups, prefixes = (
        _texts(data, f"requestheader-{name}") for name in ("username-headers", "group-headers", "extra-headers-prefix")
    )
    uids = _texts(data, "requestheader-uid-headers") or _UID_HEADERS
    names = _texts(data, "requestheader-allowed-names")
    return Published(client_ca, proxy_ca, names, ProxyHeaders.of(users, uids, groups, prefixes))


class ClientAuthentication:
    """An `Authenticator` of requests of the other server, and the keeper of the authorities that it publishes."""

    knows_front_proxies: Final = True

    def __init__(self, options: Options, *, client_ca: Path | None, proxy_ca: Path | None) -> None:
        """Begin with the settings of the program.

        Args:
            options: has the names and headers that count until something is published.
            client_ca: file for the published authority of clients; None where the program has given one.
            proxy_ca: file for the published authority of front proxies; None where the program has given one, whose names and headers are
                then those of the options.
        """
        self._client_ca = client_ca
        self._proxy_ca = proxy_ca
        given = (
            options.requestheader_username_headers,
            options.requestheader_uid_headers,
            options.requestheader_group_headers,
            options.requestheader_extra_headers_prefix,
        )
        self._names, self._headers = options.requestheader_allowed_names, ProxyHeaders.of(*given)
        self._users = self._reader()
        self._accepts_proxies = True

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        """See `Authenticator`: the user that a front proxy names."""
        if not self._accepts_proxies and credentials.proxy_certificate_der is not None:
            # TLS goes by the authority of before for a few seconds.
            raise unauthorized()
        return await self._users.authenticate(credentials)

    def prepare_files(self) -> None:
        """Write authorities without a key, where none has been published yet.

        Raises:
            OSError: a file cannot be written.
        """
        for path in (self._client_ca, self._proxy_ca):
            if path is not None and not path.exists():
                make_private_directory(path.parent)
                write_private_file(path, keyless_authority())

    def publish(self, configmap: Mapping[str, Any] | None) -> None:
        """Take a ConfigMap into use; None where it was deleted, after which no front proxy is accepted.

        A ConfigMap that cannot be read leaves the last one in use.
        """
        try:
            published = parse_published(configmap or {})
        except PublishedError as error:
            _log.warning("client_authentication_not_read", error=str(error))
            return
        if self._client_ca is not None:
            self._write(self._client_ca, published.client_ca)
        if self._proxy_ca is not None:
            self._write(self._proxy_ca, published.proxy_ca)
            self._accepts_proxies = bool(published.proxy_ca)
            if (published.allowed_names, published.headers) != (self._names, self._headers):
                self._names, self._headers = published.allowed_names, published.headers
                self._users = self._reader()

    def _reader(self) -> RequestHeaders:
        return RequestHeaders(self._headers, self._names, place=user_of_the_only)

    def _write(self, path: Path, pem: bytes) -> None:
        """Put authorities where TLS finds them. It looks at its files every few seconds."""
        with contextlib.suppress(OSError):
            present = path.read_bytes()
            if present == pem or (not pem and _is_keyless(present)):
                return
        try:
            write_private_file(path, pem or keyless_authority())
        except OSError as error:
            _log.warning("client_authentication_not_written", file=str(path), error=error.strerror or str(error))
            return
        _log.info("client_authentication_changed", file=path.name)


async def first_published(get: Any, authentication: ClientAuthentication) -> None:
    """Read the ConfigMap once.

    Args:
        get: `Delegate.get`.
        authentication: takes it into use.

    Raises:
        StatusError: it cannot be read. A missing one is like an empty one: the server has no front proxies.
    """
    try:
        authentication.publish(await get(f"{PATH}/{NAME}"))
    except StatusError as error:
        if error.code != 404:
            raise
        _log.warning("client_authentication_missing", configmap=f"kube-system/{NAME}")


def keyless_authority() -> bytes:
    """The certificate, in PEM, of an authority whose key is gone: it verifies no certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _KEYLESS)]), dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + dt.timedelta(days=36500))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


_KEYLESS: Final = "authority without a key"


def _is_keyless(pem: bytes) -> bool:
    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError:
        return False
    return [one.subject.rfc4514_string() for one in found] == [f"CN={_KEYLESS}"]


def _authorities(data: Mapping[str, Any], key: str) -> bytes:
    text = data.get(key) or ""
    if not isinstance(text, str):
        raise PublishedError(f"{key}: not a text")
    pem = text.encode()
    if pem:
        try:
            x509.load_pem_x509_certificates(pem)
        except ValueError as error:
            raise PublishedError(f"{key}: no PEM certificates ({error})") from None
    return pem


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A JSON list of texts; an absent one is empty."""
    given = data.get(key) or "[]"
    try:
        found = orjson.loads(given)
    except (ValueError, TypeError):
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise PublishedError(f"{key}: not a JSON list of texts")
    return tuple(found)
