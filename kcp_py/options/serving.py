"""`ServingOptions`: the settings of files, sockets, certificates and connections."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kcp_py.options.fields import FILES, SERVING, setting
from kcp_py.options.kinds import ADDRESS, BOOLEAN, DURATION, HOST, OPTIONAL_PATH, PATH, choice, integer


@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """The settings of files, sockets, certificates and connections."""

    root_directory: Path = setting(PATH, Path(".kcp"), FILES, "Directory of certificates, tokens, database, kubeconfig.")
    kubeconfig_path: Path | None = setting(
        OPTIONAL_PATH, None, FILES, "Where the administrator's kubeconfig is written. Default: admin.kubeconfig in the root directory."
    )

    bind_address: str = setting(ADDRESS, "127.0.0.1", SERVING, "IP address to listen on; 0.0.0.0 or :: for all interfaces.")
    secure_port: int = setting(integer(0, 65535), 6443, SERVING, "Port of HTTPS; 0 takes a free one.")
    external_hostname: str = setting(
        HOST,
        "",
        SERVING,
        "Host under which clients reach the server, for the serving certificate and kubeconfigs. Default: the bind address.",
    )
    tls_cert_file: Path | None = setting(
        OPTIONAL_PATH, None, SERVING, "Serving certificate (PEM, with its chain), instead of one that the server creates and renews."
    )
    tls_private_key_file: Path | None = setting(OPTIONAL_PATH, None, SERVING, "Private key (PEM) of --tls-cert-file.")
    root_ca_file: Path | None = setting(
        OPTIONAL_PATH,
        None,
        SERVING,
        "Certificates (PEM) that clients verify the server by, published in the ConfigMap kube-root-ca.crt of each namespace. Default: "
        "the authorities in --tls-cert-file, or the server's own authority.",
    )
    tls_min_version: Literal["VersionTLS12", "VersionTLS13"] = setting(
        choice("VersionTLS12", "VersionTLS13"), "VersionTLS12", SERVING, "Oldest TLS version that is accepted."
    )
    shutdown_grace_period: float = setting(
        DURATION, 30.0, SERVING, "How long requests in flight may take to complete after SIGTERM or SIGINT."
    )
    keep_alive_timeout: float = setting(DURATION, 90.0, SERVING, "How long an idle connection is kept open.")
    listen_backlog: int = setting(integer(1, 65535), 2048, SERVING, "How many connections may wait for acceptance.")
    workers: int = setting(
        integer(1, 64),
        1,
        SERVING,
        "How many processes serve requests, one for each core that they may use. They share the port and the sqlite store, which one of "
        "them writes.",
    )
    process_timeout: float = setting(
        DURATION,
        60.0,
        SERVING,
        "With --workers, how long a process may not answer its supervisor before it is killed and started again, 0 for ever. Time in which "
        "the machine was paused or had no core for it does not count.",
    )
    plain_http: bool = setting(BOOLEAN, default=False, section=SERVING, text="Serve without TLS. For benchmarks only.", hidden=True)
