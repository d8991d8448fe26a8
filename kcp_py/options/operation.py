"""`OperationOptions`: the settings of controllers, logs and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kcp_py.options.fields import OPERATION, setting
from kcp_py.options.kinds import DURATION, ENDPOINT, LIST, OPTIONAL_PATH, SIMULATIONS, above_zero, choice, integer


@dataclass(frozen=True, kw_only=True)
class OperationOptions:
    """The settings of controllers, logs and metrics."""

    namespace_deletion_grace: float = setting(
        DURATION,
        5.0,
        OPERATION,
        "How long the content of a deleted namespace remains, so that a client that deletes both finds it. Not used for deleted clusters.",
    )
    legacy_service_account_token_clean_up_period: float = setting(
        above_zero(DURATION),
        31_536_000.0,
        OPERATION,
        "How long the token of a secret that its service account names must not have been used before it is marked as invalid, and how "
        "long after that the secret is deleted.",
    )
    event_ttl: float = setting(DURATION, 3600.0, OPERATION, "How long events are kept after their last write; 0 keeps them.")
    terminated_pod_gc_threshold: int = setting(
        integer(0, 1_000_000_000),
        12_500,
        OPERATION,
        "How many pods that have ended are kept in each logical cluster. Beyond it the oldest are deleted; 0 keeps all.",
    )
    resource_quota_sync_period: float = setting(
        DURATION,
        3600.0,
        OPERATION,
        "How long after a count of a ResourceQuota it is counted again, in case the store itself was changed; 0 never counts again.",
    )
    simulate: tuple[str, ...] = setting(
        SIMULATIONS,
        (),
        OPERATION,
        "What becomes ready although nothing runs it; workloads: deployments, stateful sets, daemon sets, jobs, pods, volume claims and "
        "services of type LoadBalancer.",
    )
    simulate_delay: float = setting(DURATION, 1.0, OPERATION, "How long a simulated workload takes to become ready.")
    controllers: tuple[str, ...] = setting(
        LIST, ("*",), OPERATION, "Controllers to run: '*' runs all that are on by default, 'foo' runs foo too, '-foo' does not run foo."
    )
    leader_elect: Literal["auto", "true", "false"] = setting(
        choice("auto", "true", "false"),
        "auto",
        OPERATION,
        "Whether the controllers run only in the one process that holds their Lease; auto: where several servers can share the storage.",
    )
    metrics_bind_address: str = setting(
        ENDPOINT,
        "",
        OPERATION,
        "IP address and port where kcp-py controllers serves /metrics, /livez, /readyz and /healthz as plain HTTP, without credentials; "
        "port 0 takes a free one. Empty: nowhere. kcp-py start serves these pages with the API.",
    )
    tracing_config_file: Path | None = setting(
        OPTIONAL_PATH,
        None,
        OPERATION,
        "File of kind TracingConfiguration: a collector (OTLP over gRPC) that gets traces of requests, and how many are sampled. Needs "
        "the extra otel.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        choice("debug", "info", "warning", "error"), "info", OPERATION, "Lowest severity that is logged."
    )
    log_format: Literal["auto", "json", "console", "text"] = setting(
        choice("auto", "json", "console", "text"),
        "auto",
        OPERATION,
        "Format of log lines; auto is console on a terminal and json elsewhere, text is an alias of console.",
    )
    access_log: Literal["problems", "all", "none"] = setting(
        choice("problems", "all", "none"),
        "problems",
        OPERATION,
        "Which requests are logged: those that end with status 500 and above or take a second or longer, all, or none; "
        "--log-level debug logs all.",
    )
