"""`ExecPlugin`: credentials from a program that a kubeconfig names (`exec`).

Source: k8s.io/client-go `plugin/pkg/client/auth/exec` and `pkg/apis/clientauthentication` (`v1`, `v1beta1`). The program gets no
standard input. It is run again when its credential has expired, and after a 401.
"""

from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from kcp_py.kubeconfig.kubeconfig import KubeconfigContext, KubeconfigError

_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_SECONDS: Final = 60.0
"""How long a program may take."""


class ExecCredential(NamedTuple):
    """What a program has answered."""

    token: str
    certificate: bytes | None
    """PEM."""
    key: bytes | None
    expires: float | None
    """Unix seconds; None for a credential that does not expire."""


def has_plugin(context: KubeconfigContext) -> bool:
    """Whether the credentials of a context come from a program: it has one, and no token or certificate that goes before."""
    user = context.user
    others = ("token", "tokenFile", "client-certificate", "client-certificate-data")
    return bool(user.get("exec")) and not any(user.get(key) for key in others)


def run_plugin(context: KubeconfigContext) -> ExecCredential:
    """Run the program of a context, in this thread.

    Raises:
        KubeconfigError: it cannot be run, fails, or answers with something else than a credential.
    """
    spec = context.user["exec"]
    place = f"{context.file}: user {context.user_name!r}: exec"
    version, command = spec.get("apiVersion"), spec.get("command")
    if version not in _VERSIONS or not isinstance(command, str) or not command:
        raise KubeconfigError(f"{place}: it needs a command, and the apiVersion {' or '.join(_VERSIONS)}")
    if spec.get("interactiveMode") == "Always":
        raise KubeconfigError(f"{place}: the program wants a terminal (interactiveMode: Always)")
    if "/" in command and not Path(command).is_absolute():
        # As client-go: such a path is relative to the kubeconfig.
        command = str(context.file.resolve().parent / command)
    info: dict[str, Any] = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    if spec.get("provideClusterInfo"):
        info["spec"]["cluster"] = {key: value for key, value in context.embedded()[0].items() if key in _CLUSTER}
    environment = {**os.environ, **{one["name"]: one["value"] for one in spec.get("env") or ()}, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        done = subprocess.run(  # noqa: S603 - the kubeconfig is the operator's own
            [command, *map(str, spec.get("args") or ())],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, ValueError) as error:
        hint = f"; {spec['installHint']}" if spec.get("installHint") else ""
        raise KubeconfigError(f"{place}: {command}: {getattr(error, 'strerror', None) or error}{hint}") from None
    except subprocess.TimeoutExpired:
        raise KubeconfigError(f"{place}: {command}: no answer in {_SECONDS:g} s") from None
    if done.returncode:
        reason = " ".join(done.stderr.decode("utf-8", "replace").split())[-500:]
        raise KubeconfigError(f"{place}: {command} failed with exit code {done.returncode}: {reason}")
    return _credential(done.stdout, version, place)


_CLUSTER: Final = frozenset({"server", "certificate-authority-data", "tls-server-name", "insecure-skip-tls-verify", "proxy-url"})


def _credential(output: bytes, version: str, place: str) -> ExecCredential:
    """Read an answer.

    Raises:
        KubeconfigError: it is not a credential of the version that was asked for.
    """
    try:
        answer = json.loads(output)
        status = answer["status"]
        token, certificate, key = (str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData"))
        expires = datetime.fromisoformat(status["expirationTimestamp"]).timestamp() if status.get("expirationTimestamp") else None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise KubeconfigError(f"{place}: the answer of the program is not a credential: {error!r}") from None
    problem = ""
    if (answer.get("apiVersion"), answer.get("kind")) != (version, "ExecCredential"):
        problem = f"expected an ExecCredential of {version}"
    elif not token and not certificate:
        problem = "neither a token nor a certificate"
    elif bool(certificate) != bool(key):
        problem = "a certificate and its key belong together"
    if problem:
        raise KubeconfigError(f"{place}: the answer of the program is not a credential: {problem}")
    return ExecCredential(token, certificate.encode() or None, key.encode() or None, expires)
