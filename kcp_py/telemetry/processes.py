"""`ProcessMetrics`: the metrics of a server that has several processes, as one page.

Each sample has the label `process`, so that counters of one series never go back while the process runs. A sum over this label is the
figure of the whole server.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from kcp_py.telemetry.registry import Registry

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LABEL: Final = "process"


class ProcessMetrics:
    """The metrics of one process and of the others."""

    def __init__(self, name: str, registry: Registry, reports: Callable[[], Awaitable[Sequence[bytes]]]) -> None:
        """Combine.

        Args:
            name: of this process.
            registry: of this process.
            reports: `report` of each of the other processes.
        """
        self._name = name
        self._registry = registry
        self._reports = reports
        self._process: Any = None

    def report(self) -> bytes:
        """The metrics of this process. May be called from any thread."""
        families = []
        for family in self._families():
            samples = [(one.name, {LABEL: self._name, **one.labels}, one.value) for one in family.samples]
            families.append((family.name, family.documentation, family.type, samples))
        return json.dumps(families).encode()

    async def others(self) -> Sequence[bytes]:
        """The metrics of the other processes. Those of one that does not answer are missing."""
        return await self._reports()

    def merged(self, reports: Sequence[bytes]) -> Iterator[Metric]:
        """The families of this process and of reports, each once. May be called from any thread."""
        from prometheus_client.core import Metric  # noqa: PLC0415 - slow to import, and metrics may never be requested

        found: dict[str, Metric] = {}
        for report in (self.report(), *reports):
            for name, documentation, kind, samples in json.loads(report):
                family = found.get(name)
                if family is None:
                    family = found[name] = Metric(name, documentation, kind)
                for sample, labels, value in samples:
                    family.add_sample(sample, labels, value)
        yield from found.values()

    def _families(self) -> Iterator[Metric]:
        from prometheus_client import ProcessCollector  # noqa: PLC0415 - see `merged`

        if self._process is None:
            self._process = ProcessCollector(registry=None)
        yield from self._registry.collect()
        yield from self._process.collect()
