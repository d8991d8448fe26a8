"""`Delegation`: how an aggregated API server asks the one that it is a part of, and `aggregated_options`: the settings of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from kcp_py.options import Options

ALWAYS_ALLOWED_PATHS: Final = ("/healthz", "/livez", "/readyz")
"""As upstream's `--authorization-always-allow-paths`."""
_PLUGIN: Final = "NamespaceLifecycle"
_COLLECTOR: Final = "garbage-collector-controller"


@dataclass(frozen=True, kw_only=True)
class Delegation:
    """The questions to the other API server, and for how long its answers count. Names and defaults are those of k8s.io/apiserver.

    Attributes:
        kubeconfig: of the other server, for everything that the next two do not name; None for the service account of the pod.
        authentication_kubeconfig: for reviews of tokens, and for the ConfigMap `extension-apiserver-authentication`.
        authorization_kubeconfig: for reviews of access.
        authentication_skip_lookup: whether the ConfigMap is not read. Front proxies are then those of
            `Options.requestheader_client_ca_file` alone.
        authentication_tolerate_lookup_failure: whether the server starts without the ConfigMap; it is used as soon as it can be read.
        token_cache_seconds: how long answers about tokens are kept.
        allowed_cache_seconds: how long permissions are kept.
        denied_cache_seconds: how long refusals are kept.
        always_allow_paths: paths that all callers may read; an entry that ends with `/*` stands for all below.
        inject_ca_bundle: whether the server writes the authority of its certificate into its APIServices.
    """

    kubeconfig: str | None = None
    authentication_kubeconfig: str | None = None
    authorization_kubeconfig: str | None = None
    authentication_skip_lookup: bool = False
    authentication_tolerate_lookup_failure: bool = False
    token_cache_seconds: float = 10.0
    allowed_cache_seconds: float = 10.0
    denied_cache_seconds: float = 10.0
    always_allow_paths: tuple[str, ...] = ALWAYS_ALLOWED_PATHS
    inject_ca_bundle: bool = False


def aggregated_options(options: Options, *, lookup: bool = True) -> Options:
    """Settings for an aggregated API server, from those of any server.

    There is one logical cluster, that of requests that name none. Namespaces belong to the other server: its admission knows which exist,
    and its controllers empty them. So does garbage collection, because owners may be objects of the other server.

    Args:
        options: of the program.
        lookup: whether the authorities of clients come from the ConfigMap of the other server, where the options name none.
    """
    controllers = options.controllers if f"-{_COLLECTOR}" in options.controllers else (*options.controllers, f"-{_COLLECTOR}")
    changes: dict[str, Any] = {
        "default_cluster": "root",
        "cluster_header": "",
        "cluster_hostnames": False,
        "cluster_annotation": "wildcard",
        "disable_admission_plugins": tuple(dict.fromkeys((*options.disable_admission_plugins, _PLUGIN))),
        "controllers": controllers,
    }
    if lookup:
        changes["requestheader_client_ca_file"] = options.requestheader_client_ca_file or looked_up_proxy_ca(options)
        changes["client_ca_file"] = options.client_ca_file or looked_up_client_ca(options)
    return replace(options, **changes)


def looked_up_proxy_ca(options: Options) -> Path:
    """The file that the authority of front proxies is kept in, as the ConfigMap has it."""
    return options.pki_directory / "delegate-requestheader-client-ca.crt"


def looked_up_client_ca(options: Options) -> Path:
    """The file that the authority of clients is kept in, as the ConfigMap has it."""
    return options.pki_directory / "delegate-client-ca.crt"
