"""`options_of`: what the flags of kube-apiserver mean for the options of this server.

Source: envtest of sigs.k8s.io/controller-runtime (`pkg/internal/testing/controlplane/apiserver.go`), `kube-apiserver --help`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kcp_py.admission.names import ABSENT, PLUGINS
from kcp_py.cli.envtest.flags import CommandLine
from kcp_py.options import Options
from kcp_py.options.settings import SETTINGS

CONTROLLERS: Final = ("customresourcedefinition-controller", "event-ttl-controller")
"""Those that are a part of kube-apiserver."""
_ALL_CONTROLLERS: Final = "*"
_EVERYWHERE: Final = ("0.0.0.0/0", "::/0")
_DEFAULT_RANGE: Final = "10.0.0.0/24"
"""Of kube-apiserver where --service-cluster-ip-range is not given."""

_VERBATIM: Final = (
    *("admission-control-config-file", "anonymous-auth", "api-audiences", "authentication-config"),
    *("authentication-token-webhook-cache-ttl", "authentication-token-webhook-config-file", "authentication-token-webhook-version"),
    *("authorization-config", "authorization-webhook-cache-authorized-ttl", "authorization-webhook-cache-unauthorized-ttl"),
    *("authorization-webhook-config-file", "authorization-webhook-version", "bind-address", "client-ca-file"),
    *("default-not-ready-toleration-seconds", "default-unreachable-toleration-seconds", "etcd-prefix", "event-ttl"),
    *("oidc-ca-file", "oidc-client-id", "oidc-groups-claim", "oidc-groups-prefix", "oidc-issuer-url", "oidc-required-claim"),
    *("oidc-signing-algs", "oidc-username-claim", "oidc-username-prefix", "request-timeout", "requestheader-allowed-names"),
    *("requestheader-client-ca-file", "requestheader-extra-headers-prefix", "requestheader-group-headers", "requestheader-uid-headers"),
    *("requestheader-username-headers", "runtime-config", "secure-port", "service-account-extend-token-expiration"),
    *("service-account-key-file", "service-account-max-token-expiration", "service-account-signing-key-file", "service-cluster-ip-range"),
    *("service-node-port-range", "tls-cert-file", "tls-min-version", "tls-private-key-file", "token-auth-file", "tracing-config-file"),
)
"""Flags that are settings of this server with the same values."""


class FlagError(Exception):
    """A flag has a value that it cannot have. `str()` is one line that begins with the flag."""


@dataclass(frozen=True, kw_only=True)
class TestServerOptions(Options):
    """The options of a server that keeps nothing on disk, and so has no credentials of its own: those in files of the test are all."""

    __test__ = False

    @property
    def client_ca_files(self) -> tuple[Path, ...]:
        return () if self.client_ca_file is None else (self.client_ca_file,)

    @property
    def token_auth_files(self) -> tuple[Path, ...]:
        return () if self.token_auth_file is None else (self.token_auth_file,)


def options_of(line: CommandLine, environment: Mapping[str, str], *, certificate: tuple[Path, Path]) -> TestServerOptions:
    """The options for a command line. Warnings about values without effect are added to those of the line.

    Args:
        line: of kube-apiserver.
        environment: `KCP_PY_ENVTEST_CONTROLLERS` names controllers to run besides those of kube-apiserver.
        certificate: the files of the serving certificate and its key, where the line names none.

    Raises:
        FlagError: a value cannot be used.
    """
    kinds = {setting.flag[2:]: setting for setting in SETTINGS}
    # Where kube-apiserver has another default than this server, or a test another need than an operator.
    given: dict[str, Any] = {
        "storage": "memory",
        "single_cluster": True,
        "require_cluster_access": False,
        "builtin_kinds": ("all",),
        "service_cluster_ip_range": (_DEFAULT_RANGE,),
        "webhook_networks": _EVERYWHERE,
        "authorization_mode": ("AlwaysAllow",),
        "bind_address": "0.0.0.0",  # noqa: S104 - the default of kube-apiserver
        "log_level": "warning",
        "cluster_header": "",
        "shutdown_grace_period": 10.0,
        "tls_cert_file": certificate[0],
        "tls_private_key_file": certificate[1],
        "keep_alive_timeout": 180.0,
    }
    for name in _VERBATIM:
        if name in line.values:
            setting = kinds[name]
            try:
                given[setting.name] = setting.kind.parse(_joined(line, name))
            except ValueError as error:
                raise FlagError(f"--{name}: {error}") from None
    if "v" in line.values:
        given |= _verbosity(line.last("v"))
    if "min-request-timeout" in line.values:
        given["min_request_timeout"] = _seconds(line, "min-request-timeout")
    if "authorization-mode" in line.values:
        given["authorization_mode"] = _authorizers(line)
    if issuers := line.values.get("service-account-issuer"):
        given["service_account_issuer"] = tuple(issuers)
    if host := line.last("external-hostname") or line.last("advertise-address"):
        given["external_hostname"] = host
    for name in ("enable-admission-plugins", "disable-admission-plugins"):
        given[kinds[name].name] = _plugins(line, name)
    # The last word counts where both name a plugin; kube-apiserver refuses that.
    given["disable_admission_plugins"] = tuple(
        name for name in given["disable_admission_plugins"] if name not in given["enable_admission_plugins"]
    )
    given |= _controllers(environment.get("KCP_PY_ENVTEST_CONTROLLERS", ""))
    return TestServerOptions(**given)


def _joined(line: CommandLine, name: str) -> str:
    """The value of a flag. Those of lists add up, of others the last one counts."""
    repeated = line.values[name]
    is_list = name.endswith(("-names", "-headers", "-prefix", "-algs", "-claim", "-audiences", "-range", "key-file", "runtime-config"))
    return ",".join(one for one in repeated if one) if is_list and len(repeated) > 1 else repeated[-1]


def _seconds(line: CommandLine, name: str) -> float:
    try:
        return float(int(line.last(name)))
    except ValueError:
        raise FlagError(f'--{name}: "{line.last(name)}" is not a whole number') from None


def _words(line: CommandLine, name: str) -> list[str]:
    return [word.strip() for value in line.values.get(name, ()) for word in value.split(",") if word.strip()]


def _authorizers(line: CommandLine) -> tuple[str, ...]:
    wanted = list(dict.fromkeys(_words(line, "authorization-mode")))
    known = [mode for mode in wanted if mode in {"RBAC", "Webhook", "AlwaysAllow", "AlwaysDeny"}]
    # Requests of kubelets are authorized by RBAC, too; nothing here is a kubelet.
    line.warnings += [f"--authorization-mode={mode} has no effect" for mode in wanted if mode not in known]
    if not known:
        raise FlagError(f"--authorization-mode: none of {', '.join(wanted) or 'the modes'} is available")
    return tuple(known)


def _plugins(line: CommandLine, name: str) -> tuple[str, ...]:
    wanted = list(dict.fromkeys(_words(line, name)))
    found = [plugin for plugin in wanted if plugin in PLUGINS]
    for plugin in wanted:
        if plugin not in found and not (plugin in ABSENT and name.startswith("disable")):
            line.warnings.append(f"--{name}: {plugin} is not available{f': {ABSENT[plugin]}' if plugin in ABSENT else ''}")
    return tuple(found)


def _verbosity(level: str) -> dict[str, str]:
    number = int(level) if level.isdigit() else 0
    if number >= 4:
        return {"log_level": "debug", "access_log": "all"}
    return {"log_level": "info"} if number else {}


def _controllers(wanted: str) -> dict[str, Any]:
    names: Sequence[str] = [name.strip() for name in wanted.split(",") if name.strip()]
    # The controllers that create these objects run in no process of envtest, so its users create them.
    return {"controllers": (*CONTROLLERS, *names), "namespace_objects": _ALL_CONTROLLERS in names}
