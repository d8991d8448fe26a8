"""The settings of the connection to etcd."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from kcp_py.storage.contract import StorageError

_DEFAULT_PORT = 2379


class Endpoint(NamedTuple):
    """The client address of one member."""

    target: str
    """In gRPC's form: `dns:///host:port`, `dns:///[::1]:port`, `unix:path`."""
    secure: bool


@dataclass(frozen=True, slots=True)
class EtcdOptions:
    """The members of an etcd and the credentials of this server."""

    endpoints: tuple[str, ...] = ("http://127.0.0.1:2379",)
    """`http(s)://host[:port]`, host a name, an IPv4 or a bracketed IPv6 address; `unix(s)://path`. Without a scheme: TLS exactly if a file
    below is given."""
    ca_file: str = ""
    """PEM; empty: the certificates that gRPC trusts by default."""
    cert_file: str = ""
    """PEM; the client certificate, with `key_file`."""
    key_file: str = ""
    server_name: str = ""
    """The name that members' certificates are checked against; empty: each endpoint's host."""
    username: str = ""
    """A user of etcd's own authentication; empty: none."""
    password: str = field(default="", repr=False)
    prefix: str = "/registry"
    """The prefix of the server's keys. Requests that do not concern a certain key use it, so that permissions for this prefix are
    sufficient."""
    request_timeout: float = 10.0
    """The maximum duration of one call in seconds."""
    connect_timeout: float = 3.0
    """Seconds to wait for a connection before a call fails without having been sent."""
    keepalive_time: float = 10.0
    """Seconds without traffic after which a member in use is pinged; etcd's default refuses less than 5."""
    keepalive_timeout: float = 5.0
    """Seconds after which an unanswered ping closes the connection."""
    progress_interval: float = 5.0
    """Seconds after which an idle watch requests progress; earlier when this server has seen a newer revision."""
    max_txn_ops: int = 128
    """The members' `--max-txn-ops`."""

    def parsed_endpoints(self) -> list[Endpoint]:
        """The endpoints, checked.

        Raises:
            StorageError: the list is empty, or an endpoint is malformed.
        """
        if not self.endpoints:
            raise StorageError("no etcd endpoint is given")
        return [parse_endpoint(text, secure=bool(self.ca_file or self.cert_file)) for text in self.endpoints]


def parse_endpoint(text: str, *, secure: bool) -> Endpoint:
    """Parse an endpoint.

    Args:
        text: see `EtcdOptions.endpoints`.
        secure: whether an endpoint without a scheme uses TLS.

    Raises:
        StorageError: it is malformed.
    """
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        scheme, rest = ("https" if secure else "http"), text.strip()
    if scheme in {"unix", "unixs"} and rest:
        return Endpoint(f"unix:{rest}", scheme == "unixs")
    if scheme not in {"http", "https"}:
        raise StorageError(f"etcd endpoint {text!r}: the scheme must be http, https, unix or unixs")
    try:
        parts = urlsplit(f"//{rest}")
        host, port = parts.hostname, parts.port or _DEFAULT_PORT
    except ValueError as error:
        raise StorageError(f"etcd endpoint {text!r}: {error}") from error
    if not host or parts.username or parts.query or parts.fragment or parts.path not in {"", "/"}:
        raise StorageError(f"etcd endpoint {text!r} is not of the form scheme://host:port")
    return Endpoint(f"dns:///[{host}]:{port}" if ":" in host else f"dns:///{host}:{port}", scheme == "https")
