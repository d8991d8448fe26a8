"""`AuthenticationOptions`: the settings of the ways in which callers are identified."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kcp_py.options.fields import AUTHENTICATION, setting
from kcp_py.options.kinds import (
    BOOLEAN,
    DURATION,
    HEADERS,
    ISSUERS,
    LIST,
    OPTIONAL_BOOLEAN,
    OPTIONAL_PATH,
    PAIRS,
    PATHS,
    TEXT,
    TOKEN_LIFETIME,
    above_zero,
    choice,
)


@dataclass(frozen=True, kw_only=True)
class AuthenticationOptions:
    """The settings of the ways in which callers are identified."""

    client_ca_file: Path | None = setting(
        OPTIONAL_PATH,
        None,
        AUTHENTICATION,
        "Further authorities (PEM) whose client certificates are accepted: the common name is the user, organizations are groups.",
    )
    requestheader_client_ca_file: Path | None = setting(
        OPTIONAL_PATH,
        None,
        AUTHENTICATION,
        "Authorities (PEM) of front proxies, which name the users of their requests in headers.",
    )
    requestheader_allowed_names: tuple[str, ...] = setting(
        LIST,
        (),
        AUTHENTICATION,
        "Common names of the certificates of front proxies. Default: any certificate of --requestheader-client-ca-file.",
    )
    requestheader_username_headers: tuple[str, ...] = setting(
        HEADERS, ("X-Remote-User",), AUTHENTICATION, "Headers of front proxies with the user name; the first one with a value counts."
    )
    requestheader_uid_headers: tuple[str, ...] = setting(
        HEADERS, ("X-Remote-Uid",), AUTHENTICATION, "Headers of front proxies with the uid; the first one with a value counts."
    )
    requestheader_group_headers: tuple[str, ...] = setting(
        HEADERS, ("X-Remote-Group",), AUTHENTICATION, "Headers of front proxies with groups, one in each value."
    )
    requestheader_extra_headers_prefix: tuple[str, ...] = setting(
        HEADERS, ("X-Remote-Extra-",), AUTHENTICATION, "What headers of front proxies with extra fields begin with; the key follows."
    )
    token_auth_file: Path | None = setting(
        OPTIONAL_PATH, None, AUTHENTICATION, 'CSV file of further bearer tokens that are accepted: token,user,uid,"group1,group2".'
    )
    dev_users: bool = setting(
        BOOLEAN,
        default=False,
        section=AUTHENTICATION,
        text="Whether there are users for development, alice (group team-a) and bob (group team-b), whose tokens are printed at the start. "
        "Only on a loopback address.",
    )
    cluster_signing_duration: float = setting(
        above_zero(DURATION),
        31_536_000.0,
        AUTHENTICATION,
        "Longest life of certificates that the server signs for CertificateSigningRequests, and the one of requests that do not name any.",
    )
    anonymous_auth: bool | None = setting(
        OPTIONAL_BOOLEAN,
        None,
        AUTHENTICATION,
        "Whether requests without credentials are made as system:anonymous (which can read only health and version) or refused. Default: "
        "true, unless --authentication-config has a field anonymous, which excludes this option.",
    )
    authentication_config: Path | None = setting(
        OPTIONAL_PATH,
        None,
        AUTHENTICATION,
        "AuthenticationConfiguration (apiserver.config.k8s.io, YAML) with issuers of JSON Web Tokens and rules for anonymous requests. "
        "Changes are taken into use; an invalid file is not. Excludes the options --oidc-….",
    )
    oidc_issuer_url: str = setting(
        TEXT, "", AUTHENTICATION, "URL (https) of an OpenID Connect provider whose tokens are accepted; needs --oidc-client-id."
    )
    oidc_client_id: str = setting(TEXT, "", AUTHENTICATION, "The audience that tokens of --oidc-issuer-url must have.")
    oidc_ca_file: Path | None = setting(
        OPTIONAL_PATH, None, AUTHENTICATION, "Authority (PEM) of the provider's certificate. Default: those of the system."
    )
    oidc_username_claim: str = setting(TEXT, "sub", AUTHENTICATION, "Claim with the user name. Only sub is unique and never changes.")
    oidc_username_prefix: str = setting(
        TEXT,
        "",
        AUTHENTICATION,
        "Prefix of user names; '-': none. Default: the issuer URL and '#', except for the claim email, which has none.",
    )
    oidc_groups_claim: str = setting(TEXT, "", AUTHENTICATION, "Claim with the groups, a string or a list of strings. Default: no groups.")
    oidc_groups_prefix: str = setting(TEXT, "", AUTHENTICATION, "Prefix of groups.")
    oidc_signing_algs: tuple[str, ...] = setting(
        LIST,
        ("RS256",),
        AUTHENTICATION,
        "Accepted signature algorithms: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512.",
    )
    oidc_required_claim: tuple[str, ...] = setting(
        PAIRS, (), AUTHENTICATION, "Claims that tokens must have with these values: claim=value, comma separated."
    )
    authentication_token_webhook_config_file: Path | None = setting(
        OPTIONAL_PATH,
        None,
        AUTHENTICATION,
        "Kubeconfig of a webhook that is asked about bearer tokens that nothing else knows, with a TokenReview.",
    )
    authentication_token_webhook_version: Literal["v1", "v1beta1"] = setting(
        choice("v1", "v1beta1"), "v1beta1", AUTHENTICATION, "Version of the TokenReview that is sent to the webhook."
    )
    authentication_token_webhook_cache_ttl: float = setting(
        DURATION, 120.0, AUTHENTICATION, "How long answers of the webhook about tokens are kept; 0: not at all."
    )
    service_account_issuer: tuple[str, ...] = setting(
        ISSUERS,
        (),
        AUTHENTICATION,
        "What the issuers of service account tokens begin with; /clusters/NAME follows. The first one issues, tokens of all are accepted. "
        "Default: the URL of the server. Servers of one store need the same.",
    )
    api_audiences: tuple[str, ...] = setting(
        LIST,
        (),
        AUTHENTICATION,
        "Audiences of the server: tokens must be for one of them, and are for all of them by default. Default: --service-account-issuer.",
    )
    service_account_signing_key_file: Path | None = setting(
        OPTIONAL_PATH,
        None,
        AUTHENTICATION,
        "Private key (PEM, RSA or elliptic curve) that signs service account tokens, instead of one that the server makes, keeps in the "
        "store and replaces.",
    )
    service_account_key_file: tuple[Path, ...] = setting(
        PATHS, (), AUTHENTICATION, "Further keys (PEM, public or private) whose service account tokens are accepted."
    )
    service_account_signing_algorithm: Literal["ES256", "RS256"] = setting(
        choice("ES256", "RS256"), "ES256", AUTHENTICATION, "Algorithm of the keys that the server makes for service account tokens."
    )
    service_account_key_max_age: float = setting(
        DURATION,
        90 * 86400.0,
        AUTHENTICATION,
        "Age at which the server replaces a key that it has made for service account tokens; 0: never. Issued tokens stay valid.",
    )
    service_account_max_token_expiration: float = setting(
        TOKEN_LIFETIME,
        0.0,
        AUTHENTICATION,
        "Longest lifetime of requested service account tokens, at least 1h; longer ones are shortened. 0: no limit.",
    )
    service_account_extend_token_expiration: bool = setting(
        BOOLEAN,
        default=True,
        section=AUTHENTICATION,
        text="Whether tokens that kubelets request for pods that may not read them again (3607 s) are valid for a year.",
    )
