"""The administrator's bearer token and kubeconfig, as kcp writes them below its root directory."""

from __future__ import annotations

import base64
import csv
import io
import secrets
from collections.abc import Mapping
from typing import Any, Final

from kcp_py.options import Options
from kcp_py.registry.uid import new_uid
from kcp_py.serving.certificates import ADMIN_GROUP, ADMIN_USER, KeyPair, admin_key_pair, certificate_pem, key_pem
from kcp_py.serving.files import write_private_file

SHARD_ADMIN_USER: Final = "shard-admin"
TOKEN_BYTES: Final = 32

CONTEXTS: Final[Mapping[str, tuple[str, str]]] = {
    "root": ("/clusters/root", ADMIN_USER),
    "base": ("", ADMIN_USER),
    "system:admin": ("/clusters/system:admin", SHARD_ADMIN_USER),
    "shard-base": ("", SHARD_ADMIN_USER),
}
"""By context (its cluster has the same name): what follows the server's URL, and the user. As in kcp's admin.kubeconfig."""


def ensure_token_file(options: Options) -> str:
    """The administrator's token, made when there is none.

    Raises:
        ValueError: the file is there and has no line for the administrator; the text names the file.
        OSError: the file cannot be read or written.
    """
    path = options.admin_token_file
    if not path.exists():
        line = io.StringIO()
        token = secrets.token_urlsafe(TOKEN_BYTES)
        csv.writer(line, lineterminator="\n").writerow([token, SHARD_ADMIN_USER, new_uid(), ADMIN_GROUP])
        write_private_file(path, line.getvalue().encode())
        return token
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8 text") from None
    for row in csv.reader(io.StringIO(text)):
        if len(row) >= 3 and row[1] == SHARD_ADMIN_USER and row[0]:
            return row[0]
    raise ValueError(f"{path}: no token of {SHARD_ADMIN_USER}")


def write_kubeconfig(options: Options, *, port: int) -> bool:
    """Write the administrator's kubeconfig unless the file already says the same.

    Args:
        options: says where the file and the credentials are and under which host clients reach the server.
        port: the port that is really listened on.

    Returns:
        Whether the file was written.
    """
    content = render_kubeconfig(admin_kubeconfig(options, token=ensure_token_file(options), port=port))
    path = options.kubeconfig_file
    if path.exists() and path.read_bytes() == content:
        return False
    write_private_file(path, content)
    return True


def admin_kubeconfig(options: Options, *, token: str, port: int) -> dict[str, Any]:
    """The kubeconfig with contexts `root` (current), `base`, `system:admin` and `shard-base`."""
    # An operator's own certificate comes with the chain that clients need; Go's verifier also takes the leaf itself as a root.
    authority = options.ca_file if options.tls_cert_file is None else options.tls_cert_file
    trust = {} if options.plain_http else {"certificate-authority-data": _encode(authority.read_bytes())}
    url = options.external_url(port)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url + path, **trust}} for name, (path, _) in CONTEXTS.items()],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}} for name, (_, user) in CONTEXTS.items()],
        "current-context": "root",
        "preferences": {},
        "users": [
            {"name": ADMIN_USER, "user": _certificate_credentials(admin_key_pair(options))},
            {"name": SHARD_ADMIN_USER, "user": {"token": token}},
        ],
    }


def render_kubeconfig(kubeconfig: Mapping[str, Any]) -> bytes:
    """The kubeconfig as YAML."""
    import yaml

    return yaml.safe_dump(dict(kubeconfig), sort_keys=False).encode()


def _certificate_credentials(pair: KeyPair) -> dict[str, str]:
    return {
        "client-certificate-data": _encode(certificate_pem(pair.certificate)),
        "client-key-data": _encode(key_pem(pair.key)),
    }


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
