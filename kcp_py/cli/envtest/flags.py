"""The flags of kube-apiserver 1.37: which there are, which have an effect here, and how a command line is read.

Source: `kube-apiserver --help`, and the rules of github.com/spf13/pflag: `--name=value`, `--name value`, and `--name` for booleans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_BOOLEANS: Final = """
    aggregator-reject-forwarding-redirect allow-privileged anonymous-auth audit-log-batch-throttle-enable audit-log-compress
    audit-log-truncate-enabled audit-webhook-batch-throttle-enable audit-webhook-truncate-enabled contention-profiling
    disable-http2-serving emulation-forward-compatible enable-aggregator-routing enable-bootstrap-token-auth enable-garbage-collector
    enable-logs-handler enable-priority-and-fairness encryption-provider-config-automatic-reload help log-json-split-stream
    log-text-split-stream permit-address-sharing permit-port-sharing profiling runtime-config-emulation-forward-compatible
    service-account-extend-token-expiration service-account-lookup shutdown-send-retry-after version watch-cache"""
BOOLEANS: Final = frozenset(_BOOLEANS.split())
"""Flags that need no value."""

_UNDERSTOOD: Final = """
    advertise-address admission-control-config-file anonymous-auth api-audiences authentication-config
    authentication-token-webhook-cache-ttl authentication-token-webhook-config-file authentication-token-webhook-version
    authorization-config authorization-mode authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
    authorization-webhook-config-file authorization-webhook-version bind-address cert-dir client-ca-file
    default-not-ready-toleration-seconds default-unreachable-toleration-seconds disable-admission-plugins enable-admission-plugins
    etcd-prefix etcd-servers event-ttl external-hostname help min-request-timeout oidc-ca-file oidc-client-id oidc-groups-claim
    oidc-groups-prefix oidc-issuer-url oidc-required-claim oidc-signing-algs oidc-username-claim oidc-username-prefix request-timeout
    requestheader-allowed-names requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers
    requestheader-uid-headers requestheader-username-headers runtime-config secure-port service-account-extend-token-expiration
    service-account-issuer service-account-key-file service-account-max-token-expiration service-account-signing-key-file
    service-cluster-ip-range service-node-port-range tls-cert-file tls-min-version tls-private-key-file token-auth-file
    tracing-config-file v
    version"""
UNDERSTOOD: Final = frozenset(_UNDERSTOOD.split())
"""Flags that have the effect that they have in kube-apiserver."""

MISSED: Final[Mapping[str, str]] = {
    "audit-log-path": "there is no audit log",
    "audit-policy-file": "there is no audit log",
    "audit-webhook-config-file": "there is no audit log",
    "authorization-policy-file": "there are no policies of ABAC",
    "egress-selector-config-file": "webhooks are called directly",
    "encryption-provider-config": "objects are kept in memory",
    "service-account-signing-endpoint": "tokens are signed with --service-account-signing-key-file",
}
"""Flags whose missing effect a test may wait for, each with the reason. The program warns where they are given."""

_TOLERATED: Final = """
    admission-control aggregator-reject-forwarding-redirect allow-metric-labels allow-metric-labels-manifest allow-privileged
    audit-log-batch-buffer-size audit-log-batch-max-size audit-log-batch-max-wait audit-log-batch-throttle-burst
    audit-log-batch-throttle-enable audit-log-batch-throttle-qps audit-log-compress audit-log-format audit-log-maxage
    audit-log-maxbackup audit-log-maxsize audit-log-mode audit-log-truncate-enabled audit-log-truncate-max-batch-size
    audit-log-truncate-max-event-size audit-log-version audit-webhook-batch-buffer-size audit-webhook-batch-max-size
    audit-webhook-batch-max-wait audit-webhook-batch-throttle-burst audit-webhook-batch-throttle-enable
    audit-webhook-batch-throttle-qps audit-webhook-initial-backoff audit-webhook-mode audit-webhook-truncate-enabled
    audit-webhook-truncate-max-batch-size audit-webhook-truncate-max-event-size audit-webhook-version contention-profiling
    coordinated-leadership-lease-duration coordinated-leadership-renew-deadline coordinated-leadership-retry-period
    cors-allowed-origins debug-socket-path delete-collection-workers disable-http2-serving disabled-metrics emulated-version
    emulation-forward-compatible enable-aggregator-routing enable-bootstrap-token-auth enable-garbage-collector enable-logs-handler
    enable-priority-and-fairness encryption-provider-config-automatic-reload endpoint-reconciler-type etcd-cafile etcd-certfile
    etcd-compaction-interval etcd-count-metric-poll-period etcd-db-metric-poll-interval etcd-healthcheck-timeout etcd-keyfile
    etcd-readycheck-timeout etcd-servers-overrides feature-gates goaway-chance http2-max-streams-per-connection
    kubelet-certificate-authority kubelet-client-certificate kubelet-client-key kubelet-preferred-address-types kubelet-timeout
    kubernetes-service-node-port lease-reuse-duration-seconds livez-grace-period log-flush-frequency log-json-info-buffer-size
    log-json-split-stream log-text-info-buffer-size log-text-split-stream logging-format max-connection-bytes-per-sec
    max-mutating-requests-inflight max-requests-inflight min-compatibility-version peer-advertise-ip peer-advertise-port peer-ca-file
    permit-address-sharing permit-port-sharing profiling proxy-client-cert-file proxy-client-key-file
    runtime-config-emulation-forward-compatible service-account-jwks-uri service-account-lookup show-hidden-metrics-for-version
    shutdown-delay-duration shutdown-send-retry-after shutdown-watch-termination-grace-period storage-backend
    storage-initialization-timeout storage-media-type strict-transport-security-directives tls-cipher-suites tls-curve-preferences
    tls-sni-cert-key vmodule watch-cache watch-cache-sizes"""
TOLERATED: Final = frozenset(_TOLERATED.split())
"""Flags that change nothing: what they regulate does not exist here, or is regulated by the server itself."""

KNOWN: Final = UNDERSTOOD | TOLERATED | frozenset(MISSED)
_SHORT: Final = {"-v": "v", "-h": "help"}


@dataclass(slots=True)
class CommandLine:
    """A command line that was read."""

    values: dict[str, list[str]] = field(default_factory=dict)
    """By flag, without hyphens: every value, in their order; `true` for a boolean without one."""
    warnings: list[str] = field(default_factory=list)
    """About words without effect, one line each."""

    def last(self, name: str, default: str = "") -> str:
        """The value that counts where only one can."""
        return self.values[name][-1] if name in self.values else default

    def is_true(self, name: str) -> bool:
        """Whether a boolean flag is given and not false."""
        return name in self.values and self.last(name).lower() not in {"false", "f", "0"}


def read(arguments: Sequence[str]) -> CommandLine:
    """Read a command line. Nothing is refused: what has no effect is a warning, so that flags of other versions do no harm.

    Args:
        arguments: without the name of the program.
    """
    found = CommandLine()
    words = iter(arguments)
    waiting: str | None = None
    for word in words:
        if waiting is not None and (word == "-" or not word.startswith("-")):
            found.values.setdefault(waiting, []).append(word)
            waiting = None
            continue
        if waiting is not None:
            found.warnings.append(f"--{waiting} has no value")
            waiting = None
        name, separator, value = _split(word)
        if name is None:
            if word != "--":
                found.warnings.append(f"unknown argument {word}")
            continue
        if name not in KNOWN:
            found.warnings.append(f"unknown flag --{name}")
        if separator:
            found.values.setdefault(name, []).append(value)
        elif name in BOOLEANS:
            found.values.setdefault(name, []).append("true")
        else:
            waiting = name
    if waiting is not None and waiting in KNOWN:
        found.warnings.append(f"--{waiting} has no value")
    found.warnings += [f"--{name} has no effect: {MISSED[name]}" for name in found.values if name in MISSED]
    return found


def _split(word: str) -> tuple[str | None, str, str]:
    name, separator, value = word.partition("=")
    if name in _SHORT:
        return _SHORT[name], separator, value
    if word.startswith("-v") and word[2:].isdigit():
        return "v", "=", word[2:]
    if not name.startswith("--") or name == "--":
        return None, "", ""
    # As pflag of Kubernetes normalizes names.
    return name[2:].replace("_", "-"), separator, value


def help_text() -> str:
    """What `--help` prints. Test environments look for a flag at the beginning of a line to find out whether there is it."""
    lines = ["kcp-py in the place of kube-apiserver: an API server for tests, whose objects are in memory.", ""]
    for title, names in (
        ("Flags with effect:", UNDERSTOOD),
        ("Flags without effect:", TOLERATED),
        ("Flags without effect, with a warning:", frozenset(MISSED)),
    ):
        lines.append(title)
        lines += [f"      --{name}{'' if name in BOOLEANS else ' value'}" for name in sorted(names)]
        lines.append("")
    lines.append("Unknown flags are tolerated, with a warning.")
    return "\n".join(lines) + "\n"


def version_text() -> str:
    """What `--version` prints, as kube-apiserver does."""
    from kcp_py.server.pages.version import GIT_VERSION

    return f"Kubernetes {GIT_VERSION}\n"
