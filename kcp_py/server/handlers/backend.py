"""`Backend`: what the handlers work with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kcp_py.aio.alarms import Alarms
from kcp_py.aio.clock import Schedule
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.rest.verbs import Verbs
from kcp_py.server.handlers.listbudget import ListBudget
from kcp_py.telemetry.metrics import RequestMetrics
from kcp_py.telemetry.registry import MetricsRegistry
from kcp_py.tenancy import LogicalClusters


@dataclass(slots=True, kw_only=True)
class RequestLimits:
    """Bounds of single requests."""

    max_body_bytes: int = 3 * 1024 * 1024
    min_watch_seconds: int = 1800
    """Watches without a timeout of their own end after this time up to twice as long, at random."""
    bookmark_seconds: float = 60.0


@dataclass(slots=True, kw_only=True)
class Backend(Registry):
    """The registry and what belongs to it, as the composition root puts it together."""

    clusters: LogicalClusters
    implicit_clusters: bool = True
    """Whether a privileged caller may name clusters that do not exist yet."""
    shutting_down: bool = False
    """Whether the server is about to stop: other requests are still answered, but no watch goes on."""
    limits: RequestLimits = field(default_factory=RequestLimits)
    lists: ListBudget = field(default_factory=ListBudget)
    clock: Callable[[], float] = time.time
    """Unix seconds."""
    monotonic: Callable[[], float] = time.monotonic
    """Seconds that do not go back, by the same clock."""
    call_when_past: Schedule | None = None
    """Of the same clock; None for that of the machine, for which `alarms` are cheaper."""
    metrics: RequestMetrics = field(default_factory=lambda: RequestMetrics(MetricsRegistry()))
    """Where the events of watches are counted."""
    alarms: Alarms = field(default_factory=Alarms)
    """Of watches: for bookmarks and for their ends."""
    verbs: Verbs = field(init=False)
    """What serves requests for resources."""

    def __post_init__(self) -> None:
        Registry.__post_init__(self)  # a class with slots is another one than `super()` means
        self.verbs = Verbs(self)
