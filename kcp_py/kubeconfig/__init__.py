"""Kubeconfigs: which server a context names, and with which credentials.

Belongs here: reading the file, and what follows from it for headers, TLS and the webhook that it names. Does not belong here: requests.
"""

from kcp_py.kubeconfig.kubeconfig import (
    DEFAULT_KUBECONFIG,
    KubeconfigContext,
    KubeconfigError,
    TlsFiles,
    bearer_header,
    client_ssl_context,
    context_names,
    kubeconfig_of,
    read_tls_files,
    read_token_file,
    token_header,
)

__all__ = [
    "DEFAULT_KUBECONFIG",
    "KubeconfigContext",
    "KubeconfigError",
    "TlsFiles",
    "bearer_header",
    "client_ssl_context",
    "context_names",
    "kubeconfig_of",
    "read_tls_files",
    "read_token_file",
    "token_header",
]
