"""Other forms of listed objects, such as protobuf: made from the bytes of their JSON, and kept together with these.

A form follows from the JSON of an object and from nothing else: neither from the time, nor from who asks. What depends on the time is put
in when elements are answered (`Form.shown`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from typing import Protocol

from kcp_py.apimachinery.errors import StatusError
from kcp_py.storage.rangecache import RangeCache, Span


class Form(Protocol):
    """Turns elements of a JSON list into those of another one."""

    @property
    def key(self) -> Hashable:
        """Forms with equal keys make equal elements."""
        ...

    @property
    def separator(self) -> bytes:
        """In front of each element: a comma or nothing."""
        ...

    async def elements(self, documents: Sequence[bytes]) -> list[bytes]:
        """The elements of objects, which are given as compact JSON. The event loop gets its turns meanwhile.

        Raises:
            StatusError: an object has no such form.
        """
        ...

    def shown(self, elements: bytes) -> bytes:
        """Elements with their separators, as `elements` has made them, in the form in which they are answered now."""
        ...


async def in_form(
    range_cache: RangeCache | None,
    prefix: str,
    form: Form,
    span: Span,
    positions: Sequence[int],
    *,
    window: tuple[str, str, int],
    elements: Sequence[bytes] | None = None,
) -> Span:
    """Some elements of a span in a form, as a span of the same range.

    Args:
        range_cache: keeps forms of the spans that it has.
        prefix: whose span it is.
        form: of the result.
        span: of JSON objects.
        positions: the elements that are listed, in order.
        window: the first key that is needed, the one behind the last, and how many elements at the most; 0 for any number. More may be
            in the result. Where there are more elements than needed, one more at least is.
        elements: of the span, where they are at hand.
    """
    kept = range_cache.form(prefix, span, form.key) if range_cache is not None else None
    if kept is None:
        is_most = 2 * len(positions) > len(span.keys)
        if not is_most or range_cache is None or not range_cache.has_room(prefix, span, form.key):
            return await _made(form, span, _needed(span, positions, window), elements)
        try:
            kept = await _made(form, span, range(len(span.keys)), elements)
        except StatusError:
            # An object that is not listed may be the one without the form.
            return await _made(form, span, _needed(span, positions, window), elements)
        range_cache.keep_form(prefix, span, form.key, kept)
    return kept if len(positions) == len(span.keys) else kept.only(positions)


def _needed(span: Span, positions: Sequence[int], window: tuple[str, str, int]) -> Sequence[int]:
    lower, upper, most = window
    first, end = bisect_left(span.keys, lower), bisect_left(span.keys, upper)
    needed = positions[bisect_left(positions, first) : bisect_left(positions, end)]
    return needed[: most + 1] if most else needed


async def _made(form: Form, span: Span, positions: Sequence[int], elements: Sequence[bytes] | None) -> Span:
    if len(positions) == len(span.keys):
        keys, documents = span.keys, elements or span.elements()
    else:
        keys, documents = [span.keys[position] for position in positions], [span.element(position) for position in positions]
    return Span(span.lower, span.upper, span.since, keys, await form.elements(documents), separator=form.separator)
