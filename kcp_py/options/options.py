"""`Options`: every setting of the server, with its default."""

from __future__ import annotations

import ipaddress
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from kcp_py.options.admission import AdmissionOptions
from kcp_py.options.authentication import AuthenticationOptions
from kcp_py.options.authorization import AuthorizationOptions
from kcp_py.options.clusters import ClusterOptions
from kcp_py.options.limits import LimitOptions
from kcp_py.options.operation import OperationOptions
from kcp_py.options.serving import ServingOptions
from kcp_py.options.storage import StorageOptions
from kcp_py.options.values import check_value


@dataclass(frozen=True, kw_only=True)
class Options(
    # A dataclass has the fields of its last base first: this is the order of the sections, from the last to the first.
    OperationOptions,
    LimitOptions,
    AdmissionOptions,
    AuthorizationOptions,
    AuthenticationOptions,
    ClusterOptions,
    StorageOptions,
    ServingOptions,
):
    """The settings of one server. Durations are seconds, sizes bytes, paths relative to the working directory of the process.

    `Options()` has every default. Numbers may be outside of the ranges of `load_options`, for tests, but not below zero where nothing below
    zero has a meaning.

    Raises:
        TypeError: a value of another type than that of its setting.
        ValueError: a value that the setting does not have.
    """

    def __post_init__(self) -> None:
        """Check each value that is not the default."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not field.default:
                check_value(field.name, value, _types()[field.name], field.default)

    @property
    def pki_directory(self) -> Path:
        """The directory of the server's own certificates and keys."""
        return self.root_directory / "pki"

    @property
    def ca_file(self) -> Path:
        """The server's own certificate authority: issues the serving and the administrator's client certificate."""
        return self.pki_directory / "ca.crt"

    @property
    def serving_cert_file(self) -> Path:
        """The serving certificate: the operator's or the server's own."""
        return self.tls_cert_file or self.pki_directory / "apiserver.crt"

    @property
    def trust_file(self) -> Path:
        """The certificates that clients verify the serving certificate by."""
        return self.root_ca_file or self.tls_cert_file or self.ca_file

    @property
    def serving_key_file(self) -> Path:
        """The private key of `serving_cert_file`."""
        return self.tls_private_key_file or self.pki_directory / "apiserver.key"

    @property
    def client_ca_files(self) -> tuple[Path, ...]:
        """Every bundle of authorities whose client certificates are accepted."""
        return (self.ca_file,) if self.client_ca_file is None else (self.ca_file, self.client_ca_file)

    @property
    def proxy_ca_files(self) -> tuple[Path, ...]:
        """Every bundle of authorities whose front proxies are accepted."""
        return () if self.requestheader_client_ca_file is None else (self.requestheader_client_ca_file,)

    @property
    def admin_token_file(self) -> Path:
        """The token file that the server creates for its administrator, in the form of `token_auth_file`."""
        return self.root_directory / "admin-tokens.csv"

    @property
    def dev_token_file(self) -> Path:
        """The token file of the users for development."""
        return self.root_directory / "dev-tokens.csv"

    @property
    def token_auth_files(self) -> tuple[Path, ...]:
        """Every file of accepted bearer tokens, the server's own first."""
        own = (self.admin_token_file, self.dev_token_file) if self.dev_users else (self.admin_token_file,)
        return own if self.token_auth_file is None else (*own, self.token_auth_file)

    @property
    def database_file(self) -> Path:
        """The file of the sqlite store."""
        return self.storage_path or self.root_directory / "kcp.db"

    @property
    def kubeconfig_file(self) -> Path:
        """The administrator's kubeconfig."""
        return self.kubeconfig_path or self.root_directory / "admin.kubeconfig"

    @property
    def external_address(self) -> str:
        """The host that kubeconfigs name, without brackets: never the unspecified address."""
        if self.external_hostname:
            return self.external_hostname
        address = ipaddress.ip_address(self.bind_address)
        if not address.is_unspecified:
            return self.bind_address
        return "127.0.0.1" if address.version == 4 else "::1"

    def external_url(self, port: int) -> str:
        """The server's URL for clients: `https://127.0.0.1:6443`, without a slash at its end."""
        host = self.external_address
        scheme = "http" if self.plain_http else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


@cache
def _types() -> Mapping[str, Any]:
    """The type of each setting."""
    return typing.get_type_hints(Options)
