"""`ControllerSettings`: the settings of the controllers themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from kcp_py.controllers.legacytokens import YEAR_SECONDS
from kcp_py.options import Options


@dataclass(frozen=True, kw_only=True, slots=True)
class ControllerSettings:
    """What an operator can set. Times are in seconds."""

    namespace_grace: float = 0.0
    """Between the deletion of a namespace and that of its content."""
    token_period: float = YEAR_SECONDS
    """See `LegacyTokenCleaner`."""
    event_ttl: float = 3600.0
    """How long events are kept after their last write; 0 for ever."""
    terminated_pods: int = 12_500
    """Pods that have ended and are kept in a cluster; 0 for all."""
    quota_period: float = 3600.0
    """Between two counts of a ResourceQuota; 0 for no counts."""

    simulate: tuple[str, ...] = ()
    """What becomes ready by itself: `workloads`, or nothing."""
    simulate_delay: float = 1.0
    """Until a workload is ready."""

    @classmethod
    def of(cls, options: Options) -> Self:
        """Those of a server or of a process of controllers."""
        return cls(
            namespace_grace=options.namespace_deletion_grace,
            token_period=options.legacy_service_account_token_clean_up_period,
            event_ttl=options.event_ttl,
            terminated_pods=options.terminated_pod_gc_threshold,
            quota_period=options.resource_quota_sync_period,
            simulate=options.simulate,
            simulate_delay=options.simulate_delay,
        )
