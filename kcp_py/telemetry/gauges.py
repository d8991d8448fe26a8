"""`Gauges`: numbers that are read when metrics are requested, and histograms of other modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from kcp_py.telemetry.histogram import Histogram

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Value = float | Histogram
Read = Callable[[], Mapping[tuple[str, ...], Value] | Value | None]
"""Returns a value, or values by the values of the labels, or None without a current value. It may be called from any thread."""


class _Family(NamedTuple):
    name: str
    documentation: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: Sequence[str]
    read: Read


class Gauges:
    """A collector of functions, each of which reads one family. Label values must belong to a small fixed set."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}

    def add(
        self,
        name: str,
        documentation: str,
        read: Read,
        *,
        kind: Literal["gauge", "counter", "histogram"] = "gauge",
        labels: Sequence[str] = (),
    ) -> None:
        """Add a family. One of the same name is replaced: a control plane that is entered again describes its new parts.

        Args:
            name: the name of the family; for counters without `_total`.
            documentation: one sentence.
            read: returns the current values.
            kind: the type of the family.
            labels: names of the labels.
        """
        self._families[name] = _Family(name, documentation, kind, labels, read)

    def collect(self) -> Iterator[Metric]:
        """The families with their current values. Families without a value are left out."""
        from prometheus_client.core import (  # noqa: PLC0415 - slow to import, and metrics may never be requested
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        classes = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily, "histogram": HistogramMetricFamily}
        for one in self._families.values():
            found = one.read()
            if found is None:
                continue
            family = classes[one.kind](one.name, one.documentation, labels=one.labels)
            for labels, value in (found if isinstance(found, Mapping) else {(): found}).items():
                if isinstance(value, Histogram):
                    family.add_metric(labels, value.buckets(), value.total)
                else:
                    family.add_metric(labels, value)
            yield family
