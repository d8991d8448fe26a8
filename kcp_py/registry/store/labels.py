"""Label selectors over bytes: which stored or answered objects they select, without decoding the objects.

Stored and answered objects have their annotations and labels at the beginning of their metadata (see `kcp_py.registry.rendering`), so one
regular expression finds the labels. Objects that were stored in another order, by an earlier version or by another program, are decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import orjson

from kcp_py.apimachinery.meta.selectors import LabelSelector
from kcp_py.storage.rangecache import Span

_TEXT: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BEGINNING: Final = re.compile(
    rb'\{(?:"apiVersion":"[^"\\]*+","kind":"[^"\\]*+",)?"metadata":\{(?:"resourceVersion":"\d++",)?'
    rb'(?:"annotations":\{(?:' + _TEXT + rb":" + _TEXT + rb',?)*+\},)?(?:"labels":(\{[^{}\\]*+\})[,}])?',
    re.DOTALL,
)
_MOST_VERDICTS: Final = 1_000
"""Different sets of labels that one list remembers the verdict about."""


def labels_of(document: bytes, start: int = 0, end: int | None = None) -> bytes:
    """The labels of an object as a compact JSON object.

    Args:
        document: contains the object as compact JSON.
        start: where the object begins.
        end: where it ends; None for the end of the document.
    """
    end = len(document) if end is None else end
    found = _BEGINNING.match(document, start, end)
    if found is not None:
        if (labels := found[1]) is not None:
            return labels
        if document.find(b'"labels"', start, end) < 0:
            return b"{}"
    return orjson.dumps(orjson.loads(document[start:end])["metadata"].get("labels") or {})


class LabelChoice:
    """A label selector for many objects. Objects with the same labels are examined once."""

    __slots__ = ("_needles", "_selector", "_verdicts")

    def __init__(self, selector: LabelSelector) -> None:
        self._selector = selector
        self._needles = [orjson.dumps({key: value})[1:-1] for key, value in selector.single_values]
        self._verdicts: dict[bytes, bool] = {}

    def selects(self, labels: bytes) -> bool:
        """Whether objects with these labels (of `labels_of`) are selected."""
        verdict = self._verdicts.get(labels)
        if verdict is None:
            for needle in self._needles:
                if needle not in labels:
                    return False
            if len(self._verdicts) >= _MOST_VERDICTS:
                self._verdicts.clear()
            verdict = self._verdicts[labels] = self._selector.matches(_decoded(labels))
        return verdict

    def part_of(self, span: Span) -> Span:
        """The selected elements of a span, as a span of the same range."""
        positions = self.positions(span)
        return span if len(positions) == len(span.keys) else span.only(positions)

    def positions(self, span: Span) -> list[int]:
        """Where a span has selected elements."""
        if span.labels is None:
            span.labels = _labels_of_elements(span)
        candidates: Iterable[tuple[int, bytes]] = enumerate(span.labels)
        for needle in self._needles:
            # Most objects are excluded here, at a twentieth of the time.
            candidates = [(position, labels) for position, labels in candidates if needle in labels]
        return [position for position, labels in candidates if self.selects(labels)]


def _labels_of_elements(span: Span) -> tuple[bytes, ...]:
    """The labels of all elements; equal ones are one object in memory."""
    shared: dict[bytes, bytes] = {}
    found: list[bytes] = []
    for start, end in span.bounds():
        labels = labels_of(span.data, start, end)
        found.append(shared.setdefault(labels, labels))
    return tuple(found)


def _decoded(labels: bytes) -> dict[str, Any]:
    """The labels. As for a decoded object, labels of wrong types count as none."""
    decoded = orjson.loads(labels)
    if not isinstance(decoded, dict) or not all(isinstance(value, str) or value is None for value in decoded.values()):
        return {}
    return decoded
