"""`MetricsRegistry`: the metrics of a server. The metrics library is imported at the first request for them, because that is slow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Collector(Protocol):
    """A source of metrics. `collect` may be called from any thread, and imports the parts of the library that it needs."""

    def collect(self) -> Iterable[Metric]: ...


class Registry(Protocol):
    """A registry of collectors: a `MetricsRegistry`, or the library's `CollectorRegistry`."""

    def register(self, collector: Collector, /) -> None: ...
    def collect(self) -> Iterable[Metric]: ...


class Processes(Protocol):
    """The metrics of all processes of a server: `processes.ProcessMetrics`."""

    async def others(self) -> Sequence[bytes]: ...
    def merged(self, reports: Sequence[bytes], /) -> Iterator[Metric]: ...


class MetricsRegistry:
    """The collectors of one server."""

    def __init__(self) -> None:
        self._collectors: list[Collector] = []
        self.processes: Processes | None = None
        """Combines the metrics with those of other processes of the server; None where it has one process."""

    def register(self, collector: Collector, /) -> None:
        """Add a collector for the lifetime of the server."""
        self._collectors.append(collector)

    def collect(self) -> Iterator[Metric]:
        """Every metric family, in the order of registration."""
        for collector in self._collectors:
            yield from collector.collect()
