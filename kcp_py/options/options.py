"""`Options`: every setting of the server, with its default."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kcp_py.options.kinds import (
    ADDRESS,
    AUTHORIZERS,
    BOOLEAN,
    DURATION,
    ENDPOINT,
    HEADER,
    HOST,
    ISSUERS,
    LIST,
    NETWORKS,
    OPTIONAL_BOOLEAN,
    OPTIONAL_CLUSTER,
    OPTIONAL_PATH,
    PAIRS,
    PATH,
    PATHS,
    PREFIX,
    SIZE,
    TEXT,
    TOKEN_LIFETIME,
    URLS,
    Kind,
    above_zero,
    choice,
    integer,
)

FILES = "Files"
SERVING = "Serving"
STORAGE = "Storage"
CLUSTERS = "Logical clusters"
AUTHENTICATION = "Authentication"
AUTHORIZATION = "Authorization"
WEBHOOKS = "Webhooks"
LIMITS = "Limits"
HISTORY = "History and watches"
OPERATION = "Operation"


def _setting(kind: Kind, default: Any, section: str, text: str, *, hidden: bool = False) -> Any:
    return field(default=default, metadata={"kind": kind, "section": section, "help": text, "hidden": hidden})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of one server. Durations are seconds, sizes bytes, paths relative to the working directory of the process.

    `Options()` has every default. Code that builds one itself (tests, library users) is trusted to give values that `load_options` would
    accept.
    """

    root_directory: Path = _setting(PATH, Path(".kcp"), FILES, "Directory of certificates, tokens, database, kubeconfig.")
    kubeconfig_path: Path | None = _setting(
        OPTIONAL_PATH, None, FILES, "Where the administrator's kubeconfig is written. Default: admin.kubeconfig in the root directory."
    )

    bind_address: str = _setting(ADDRESS, "127.0.0.1", SERVING, "IP address to listen on; 0.0.0.0 or :: for all interfaces.")
    secure_port: int = _setting(integer(0, 65535), 6443, SERVING, "Port of HTTPS; 0 takes a free one.")
    external_hostname: str = _setting(
        HOST,
        "",
        SERVING,
        "Host under which clients reach the server, for the serving certificate and kubeconfigs. Default: the bind address.",
    )
    tls_cert_file: Path | None = _setting(
        OPTIONAL_PATH, None, SERVING, "Serving certificate (PEM, with its chain), instead of one that the server creates and renews."
    )
    tls_private_key_file: Path | None = _setting(OPTIONAL_PATH, None, SERVING, "Private key (PEM) of --tls-cert-file.")
    root_ca_file: Path | None = _setting(
        OPTIONAL_PATH,
        None,
        SERVING,
        "Certificates (PEM) that clients verify the server by, published in the ConfigMap kube-root-ca.crt of each namespace. Default: "
        "the authorities in --tls-cert-file, or the server's own authority.",
    )
    tls_min_version: Literal["VersionTLS12", "VersionTLS13"] = _setting(
        choice("VersionTLS12", "VersionTLS13"), "VersionTLS12", SERVING, "Oldest TLS version that is accepted."
    )
    shutdown_grace_period: float = _setting(
        DURATION, 30.0, SERVING, "How long requests in flight may take to complete after SIGTERM or SIGINT."
    )
    keep_alive_timeout: float = _setting(DURATION, 90.0, SERVING, "How long an idle connection is kept open.")
    listen_backlog: int = _setting(integer(1, 65535), 2048, SERVING, "How many connections may wait for acceptance.")
    plain_http: bool = _setting(BOOLEAN, default=False, section=SERVING, text="Serve without TLS. For benchmarks only.", hidden=True)

    storage: Literal["sqlite", "memory", "etcd"] = _setting(
        choice("sqlite", "memory", "etcd"),
        "sqlite",
        STORAGE,
        "Where objects are stored: sqlite is embedded and durable, etcd is shared by several servers, memory is lost at exit.",
    )
    storage_path: Path | None = _setting(OPTIONAL_PATH, None, STORAGE, "File of the sqlite store. Default: kcp.db in the root directory.")
    storage_reserve: int = _setting(
        SIZE,
        32 * 1024 * 1024,
        STORAGE,
        "Disk space that is reserved for deletions on a full disk (sqlite); 0 reserves none.",
    )
    etcd_servers: tuple[str, ...] = _setting(URLS, (), STORAGE, "Endpoints of etcd: scheme://host:port, comma separated.")
    etcd_prefix: str = _setting(PREFIX, "/registry", STORAGE, "Prefix of every key, with every driver.")
    etcd_cafile: Path | None = _setting(OPTIONAL_PATH, None, STORAGE, "Certificate authority (PEM) for the certificates of etcd.")
    etcd_certfile: Path | None = _setting(OPTIONAL_PATH, None, STORAGE, "Client certificate (PEM) for etcd.")
    etcd_keyfile: Path | None = _setting(OPTIONAL_PATH, None, STORAGE, "Private key (PEM) of --etcd-certfile.")
    etcd_username_file: Path | None = _setting(
        OPTIONAL_PATH, None, STORAGE, "File with the user name for etcd, if etcd authenticates by password."
    )
    etcd_password_file: Path | None = _setting(OPTIONAL_PATH, None, STORAGE, "File with the password for etcd.")
    etcd_compaction_interval: float = _setting(
        DURATION,
        300.0,
        STORAGE,
        "Interval at which one of the servers compacts older history of etcd, so that one to two intervals are kept; 0: never.",
    )

    default_cluster: str = _setting(
        OPTIONAL_CLUSTER,
        "root",
        CLUSTERS,
        "Logical cluster of requests without one. Empty: they are refused, so that a client that drops the path of its URL writes nowhere.",
    )
    logical_clusters: Literal["implicit", "declared"] = _setting(
        choice("implicit", "declared"),
        "implicit",
        CLUSTERS,
        "Whether privileged callers may use a logical cluster that does not exist yet (implicit: the first write creates it).",
    )
    logical_cluster_deletion_grace: float = _setting(
        DURATION,
        0.0,
        CLUSTERS,
        "How long a deleted logical cluster can be undeleted before its content is deleted, unless the deletion has a gracePeriodSeconds.",
    )
    cluster_header: str = _setting(
        HEADER,
        "X-Kubernetes-Cluster",
        CLUSTERS,
        "Request header that names the logical cluster, as an alternative to the path /clusters/NAME; empty disables it.",
    )

    cluster_hostnames: bool = _setting(
        BOOLEAN,
        default=False,
        section=CLUSTERS,
        text="Whether each logical cluster has a host name of its own, NAME.EXTERNAL_HOSTNAME, for clients that drop the path of a URL. "
        "The server's own serving certificate then has the name *.EXTERNAL_HOSTNAME, and the DNS has to resolve it.",
    )

    cluster_annotation: Literal["always", "wildcard"] = _setting(
        choice("always", "wildcard"),
        "always",
        CLUSTERS,
        "Which answers name the logical cluster of each object in the annotation kcp.io/cluster: all of them, as kcp's, or only those to "
        "wildcard requests, for clients that compare annotations.",
    )

    builtin_kinds: tuple[str, ...] = _setting(
        LIST,
        (),
        CLUSTERS,
        "Kinds of Kubernetes that every logical cluster serves without a definition of its own: pods, deployments.apps, '*.batch', all.",
    )

    client_ca_file: Path | None = _setting(
        OPTIONAL_PATH,
        None,
        AUTHENTICATION,
        "Further authorities (PEM) whose client certificates are accepted: the common name is the user, organizations are groups.",
    )
    token_auth_file: Path | None = _setting(
        OPTIONAL_PATH, None, AUTHENTICATION, 'CSV file of further bearer tokens that are accepted: token,user,uid,"group1,group2".'
    )
    dev_users: bool = _setting(
        BOOLEAN,
        default=False,
        section=AUTHENTICATION,
        text="Whether there are users for development, alice (group team-a) and bob (group team-b), whose tokens are printed at the start. "
        "Only on a loopback address.",
    )
    cluster_signing_duration: float = _setting(
        above_zero(DURATION),
        31_536_000.0,
        AUTHENTICATION,
        "Longest life of certificates that the server signs for CertificateSigningRequests, and the one of requests that do not name any.",
    )
    anonymous_auth: bool | None = _setting(
        OPTIONAL_BOOLEAN,
        None,
        AUTHENTICATION,
        "Whether requests without credentials are made as system:anonymous (which can read only health and version) or refused. Default: "
        "true, unless --authentication-config has a field anonymous, which excludes this option.",
    )
    authentication_config: Path | None = _setting(
        OPTIONAL_PATH,
        None,
        AUTHENTICATION,
        "AuthenticationConfiguration (apiserver.config.k8s.io, YAML) with issuers of JSON Web Tokens and rules for anonymous requests. "
        "Changes are taken into use; an invalid file is not. Excludes the options --oidc-….",
    )
    oidc_issuer_url: str = _setting(
        TEXT, "", AUTHENTICATION, "URL (https) of an OpenID Connect provider whose tokens are accepted; needs --oidc-client-id."
    )
    oidc_client_id: str = _setting(TEXT, "", AUTHENTICATION, "The audience that tokens of --oidc-issuer-url must have.")
    oidc_ca_file: Path | None = _setting(
        OPTIONAL_PATH, None, AUTHENTICATION, "Authority (PEM) of the provider's certificate. Default: those of the system."
    )
    oidc_username_claim: str = _setting(TEXT, "sub", AUTHENTICATION, "Claim with the user name. Only sub is unique and never changes.")
    oidc_username_prefix: str = _setting(
        TEXT,
        "",
        AUTHENTICATION,
        "Prefix of user names; '-': none. Default: the issuer URL and '#', except for the claim email, which has none.",
    )
    oidc_groups_claim: str = _setting(TEXT, "", AUTHENTICATION, "Claim with the groups, a string or a list of strings. Default: no groups.")
    oidc_groups_prefix: str = _setting(TEXT, "", AUTHENTICATION, "Prefix of groups.")
    oidc_signing_algs: tuple[str, ...] = _setting(
        LIST,
        ("RS256",),
        AUTHENTICATION,
        "Accepted signature algorithms: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512.",
    )
    oidc_required_claim: tuple[str, ...] = _setting(
        PAIRS, (), AUTHENTICATION, "Claims that tokens must have with these values: claim=value, comma separated."
    )

    authentication_token_webhook_config_file: Path | None = _setting(
        OPTIONAL_PATH,
        None,
        AUTHENTICATION,
        "Kubeconfig of a webhook that is asked about bearer tokens that nothing else knows, with a TokenReview.",
    )
    authentication_token_webhook_version: Literal["v1", "v1beta1"] = _setting(
        choice("v1", "v1beta1"), "v1beta1", AUTHENTICATION, "Version of the TokenReview that is sent to the webhook."
    )
    authentication_token_webhook_cache_ttl: float = _setting(
        DURATION, 120.0, AUTHENTICATION, "How long answers of the webhook about tokens are kept; 0: not at all."
    )

    service_account_issuer: tuple[str, ...] = _setting(
        ISSUERS,
        (),
        AUTHENTICATION,
        "What the issuers of service account tokens begin with; /clusters/NAME follows. The first one issues, tokens of all are accepted. "
        "Default: the URL of the server. Servers of one store need the same.",
    )
    api_audiences: tuple[str, ...] = _setting(
        LIST,
        (),
        AUTHENTICATION,
        "Audiences of the server: tokens must be for one of them, and are for all of them by default. Default: --service-account-issuer.",
    )
    service_account_signing_key_file: Path | None = _setting(
        OPTIONAL_PATH,
        None,
        AUTHENTICATION,
        "Private key (PEM, RSA or elliptic curve) that signs service account tokens, instead of one that the server makes, keeps in the "
        "store and replaces.",
    )
    service_account_key_file: tuple[Path, ...] = _setting(
        PATHS, (), AUTHENTICATION, "Further keys (PEM, public or private) whose service account tokens are accepted."
    )
    service_account_signing_algorithm: Literal["ES256", "RS256"] = _setting(
        choice("ES256", "RS256"), "ES256", AUTHENTICATION, "Algorithm of the keys that the server makes for service account tokens."
    )
    service_account_key_max_age: float = _setting(
        DURATION,
        90 * 86400.0,
        AUTHENTICATION,
        "Age at which the server replaces a key that it has made for service account tokens; 0: never. Issued tokens stay valid.",
    )
    service_account_max_token_expiration: float = _setting(
        TOKEN_LIFETIME,
        0.0,
        AUTHENTICATION,
        "Longest lifetime of requested service account tokens, at least 1h; longer ones are shortened. 0: no limit.",
    )
    service_account_extend_token_expiration: bool = _setting(
        BOOLEAN,
        default=True,
        section=AUTHENTICATION,
        text="Whether tokens that kubelets request for pods that may not read them again (3607 s) are valid for a year.",
    )

    authorization_mode: tuple[str, ...] = _setting(
        AUTHORIZERS,
        ("RBAC",),
        AUTHORIZATION,
        "Authorizers in the order in which they are asked: RBAC, Webhook, AlwaysAllow, AlwaysDeny. "
        "The group system:masters is always allowed.",
    )
    authorization_webhook_config_file: Path | None = _setting(
        OPTIONAL_PATH, None, AUTHORIZATION, "Kubeconfig of the webhook of --authorization-mode=Webhook."
    )
    authorization_webhook_version: Literal["v1", "v1beta1"] = _setting(
        choice("v1", "v1beta1"), "v1beta1", AUTHORIZATION, "Version of the SubjectAccessReview that is sent to the webhook."
    )
    authorization_webhook_cache_authorized_ttl: float = _setting(
        DURATION, 300.0, AUTHORIZATION, "How long answers of the webhook that allow are kept; 0: not at all."
    )
    authorization_webhook_cache_unauthorized_ttl: float = _setting(
        DURATION, 30.0, AUTHORIZATION, "How long other answers of the webhook are kept; 0: not at all."
    )
    authorization_config: Path | None = _setting(
        OPTIONAL_PATH,
        None,
        AUTHORIZATION,
        "File with an AuthorizationConfiguration (apiserver.config.k8s.io), instead of --authorization-mode and --authorization-webhook-*. "
        "Changes take effect without a restart.",
    )
    require_cluster_access: bool = _setting(
        BOOLEAN,
        default=True,
        section=AUTHORIZATION,
        text="Whether callers need the verb access on the path / of a logical cluster for anything in it, whatever else is granted to them "
        "(ClusterRole system:kcp:workspace:access). Service accounts of the cluster do not.",
    )

    webhook_networks: tuple[str, ...] = _setting(
        NETWORKS,
        ("public",),
        WEBHOOKS,
        "Networks in which webhooks of tenants may be called: public (every address of the internet), networks such as 10.0.0.0/8, "
        "single addresses; empty: none at all.",
    )

    max_request_body_bytes: int = _setting(
        above_zero(SIZE), 3 * 1024 * 1024, LIMITS, "Largest request body; a larger one is answered with 413."
    )
    max_body_bytes_in_flight: int = _setting(
        above_zero(SIZE),
        64 * 1024 * 1024,
        LIMITS,
        "Total size of the request bodies above 64Ki that are processed at a time; further ones wait unread for up to 30 s, "
        "then are answered with 429.",
    )
    max_cluster_body_bytes_in_flight: int = _setting(
        above_zero(SIZE), 8 * 1024 * 1024, LIMITS, "As --max-body-bytes-in-flight, for the requests to one logical cluster."
    )
    max_request_header_bytes: int = _setting(above_zero(SIZE), 128 * 1024, LIMITS, "Largest request line and headers; otherwise 431.")
    request_header_timeout: float = _setting(
        above_zero(DURATION), 32.0, LIMITS, "How long a client may take to send the head of a request."
    )
    tls_handshake_timeout: float = _setting(
        above_zero(DURATION), 10.0, LIMITS, "How long a client may take for the TLS handshake of a connection."
    )
    max_connections_per_address: int = _setting(
        integer(-1, 10**6),
        -1,
        LIMITS,
        "Connections that one client address (of IPv6, one network of 64 bits) may have open; further ones are closed at once. -1: half of "
        "what the limit on open files allows. 0: no limit, for servers behind a reverse proxy. Loopback addresses are not limited.",
    )
    request_timeout: float = _setting(
        above_zero(DURATION), 60.0, LIMITS, "How long a request may take, except watches; after this time it is answered with 504."
    )
    min_request_timeout: float = _setting(
        DURATION,
        1800.0,
        LIMITS,
        "A watch without timeoutSeconds ends after a random time between this value and twice this value, which distributes the load.",
    )

    event_history_age: float = _setting(
        DURATION, 300.0, HISTORY, "How long old revisions stay readable and watchable; older ones are compacted (sqlite, memory)."
    )
    event_history_count: int = _setting(
        integer(100, 10**9), 100_000, HISTORY, "How many revisions of history are kept at most, regardless of their age (sqlite, memory)."
    )
    watch_history_bytes: int = _setting(
        SIZE, 8 * 1024 * 1024, HISTORY, "Memory for recent events, from which watches resume without a read of the storage."
    )
    watch_buffer_events: int = _setting(
        integer(10, 1_000_000),
        1000,
        HISTORY,
        "How many events may wait for one slow watch; beyond it the watch ends with 410 Expired and its client lists again.",
    )

    namespace_deletion_grace: float = _setting(
        DURATION,
        5.0,
        OPERATION,
        "How long the content of a deleted namespace remains, so that a client that deletes both finds it. Not used for deleted clusters.",
    )
    legacy_service_account_token_clean_up_period: float = _setting(
        above_zero(DURATION),
        31_536_000.0,
        OPERATION,
        "How long the token of a secret that its service account names must not have been used before it is marked as invalid, and how "
        "long after that the secret is deleted.",
    )
    controllers: tuple[str, ...] = _setting(
        LIST, ("*",), OPERATION, "Controllers to run: '*' runs all that are on by default, 'foo' runs foo too, '-foo' does not run foo."
    )
    leader_elect: Literal["auto", "true", "false"] = _setting(
        choice("auto", "true", "false"),
        "auto",
        OPERATION,
        "Whether the controllers run only in the one process that holds their Lease; auto: where several servers can share the storage.",
    )
    metrics_bind_address: str = _setting(
        ENDPOINT,
        "",
        OPERATION,
        "IP address and port where kcp-py controllers serves /metrics, /livez, /readyz and /healthz as plain HTTP, without credentials; "
        "port 0 takes a free one. Empty: nowhere. kcp-py start serves these pages with the API.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        choice("debug", "info", "warning", "error"), "info", OPERATION, "Lowest severity that is logged."
    )
    log_format: Literal["auto", "json", "console", "text"] = _setting(
        choice("auto", "json", "console", "text"),
        "auto",
        OPERATION,
        "Format of log lines; auto is console on a terminal and json elsewhere, text is an alias of console.",
    )
    access_log: Literal["problems", "all", "none"] = _setting(
        choice("problems", "all", "none"),
        "problems",
        OPERATION,
        "Which requests are logged: those that end with status 500 and above or take a second or longer, all, or none; "
        "--log-level debug logs all.",
    )

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
