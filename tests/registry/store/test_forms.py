"""Which elements of a span are turned into a form."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcp_py.registry.store.forms import in_form
from kcp_py.storage.rangecache import RangeCache, Span

P = "/r/a/"


class Upper:
    key = "upper"
    separator = b""

    def __init__(self) -> None:
        self.made: list[bytes] = []

    async def elements(self, documents: Sequence[bytes]) -> list[bytes]:
        self.made += documents
        return [document.upper() for document in documents]

    def shown(self, elements: bytes) -> bytes:
        return elements


@pytest.mark.anyio
async def test_elements_at_hand_are_not_cut_out_again() -> None:
    """They are used where all of a span are needed."""
    keys = [P + name for name in "abc"]
    span = Span(P, P + "z", 5, keys, [b"a", b"b", b"c"])
    form = Upper()
    elements = span.elements()
    made = await in_form(None, P, form, span, range(3), window=(P, P + "z", 0), elements=elements)
    assert made.data == b"ABC"
    assert list(map(id, form.made)) == list(map(id, elements))
    part = await in_form(None, P, form, span, [1], window=(P, P + "z", 0), elements=elements)
    assert part.data == b"B"


@pytest.mark.anyio
@pytest.mark.parametrize("cached", [True, False])
async def test_few_elements_are_made_alone_and_most_are_kept(cached: bool) -> None:  # noqa: FBT001
    """The rest of a span is made only where it is cached and most of it is listed."""
    keys = [P + name for name in "abcdef"]
    span = Span(P, P + "z", 5, keys, [name.encode() for name in "abcdef"])
    cache = RangeCache(max_bytes=10_000)
    if cached:
        with cache.reading(P) as reading:
            cache.keep(reading, "m", span, latest=True)
    form = Upper()
    few = await in_form(cache, P, form, span, [1, 4], window=(P, P + "z", 0))
    assert (few.keys, few.data, few.upper, form.made) == ([P + "b", P + "e"], b"BE", P + "z", [b"b", b"e"])
    form.made.clear()
    page = await in_form(cache, P, form, span, range(6), window=(P + "b", P + "f", 2))
    assert page.data == (b"ABCDEF" if cached else b"BCD")
    assert len(form.made) == (6 if cached else 3)
    again = await in_form(cache, P, form, span, [0, 5], window=(P, P + "z", 0))
    assert again.data == b"AF"
    assert len(form.made) == (6 if cached else 5)
