"""`Backend`: what the handlers work with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kcp_py.aio import Alarms
from kcp_py.apimachinery.continue_token import ContinueTokens
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.catalog.wildcard import WildcardTables
from kcp_py.registry.resource import Served
from kcp_py.registry.rest.conversions import WildcardConversions
from kcp_py.registry.store import Access
from kcp_py.registry.store.scan import ServedScan
from kcp_py.server.handlers.listbudget import ListBudget
from kcp_py.telemetry.metrics import RequestMetrics
from kcp_py.telemetry.registry import MetricsRegistry
from kcp_py.tenancy import LogicalClusters
from kcp_py.watchcache import Fanout


@dataclass(slots=True, kw_only=True)
class Limits:
    """Bounds of single requests."""

    max_body_bytes: int = 3 * 1024 * 1024
    min_watch_seconds: int = 1800
    """Watches without a timeout of their own end after this time up to twice as long, at random."""
    bookmark_seconds: float = 60.0


@dataclass(slots=True, kw_only=True)
class Backend:
    """The registry and what belongs to it, as the composition root puts it together."""

    access: Access
    tables: ResourceTables
    wildcard: WildcardTables
    clusters: LogicalClusters
    fanout: Fanout
    tokens: ContinueTokens
    implicit_clusters: bool = True
    """Whether a privileged caller may name clusters that do not exist yet."""
    shutting_down: bool = False
    """Whether the server is about to stop: other requests are still answered, but no watch goes on."""
    limits: Limits = field(default_factory=Limits)
    lists: ListBudget = field(default_factory=ListBudget)
    conversions: WildcardConversions = field(default_factory=WildcardConversions)
    clock: Callable[[], float] = time.time
    metrics: RequestMetrics = field(default_factory=lambda: RequestMetrics(MetricsRegistry()))
    """Where the events of watches are counted."""
    alarms: Alarms = field(default_factory=Alarms)
    """Of watches: for bookmarks and for their ends."""

    def serving(self, served: Served) -> ServedScan | None:
        """Which clusters serve a resource, for a scan over all of them; None where the scan needs not know."""
        return self.wildcard.serving(served, scope_of=self.clusters.scope, scopes=self.clusters.scopes)
