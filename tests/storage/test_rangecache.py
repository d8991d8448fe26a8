"""Cached ranges are never older than visible writes, and bounded."""

from __future__ import annotations

import pytest

from kcp_py.storage.rangecache import RangeCache, Span

P = "/r/a/"


def span(names: str, *, lower: str = "", upper: str = "", since: int = 5, size: int = 3) -> Span:
    """A span over keys of one letter each, from the first to just behind the last."""
    keys = [P + name for name in names]
    return Span(P + lower if lower else keys[0], P + upper if upper else keys[-1] + "\x00", since, keys, [b"x" * size for _ in keys])


def keep(spans: RangeCache, *kept: Span, prefix: str = P, maker: object = "m") -> None:
    with spans.reading(prefix) as reading:
        for one in kept:
            spans.keep(reading, maker, one, latest=True)


@pytest.fixture
def spans() -> RangeCache:
    return RangeCache(max_bytes=10_000)


@pytest.mark.parametrize(
    ("first", "end", "expected"),
    [(0, 3, b",a,bb,ccc"), (0, 1, b",a"), (1, 2, b",bb"), (1, 3, b",bb,ccc"), (2, 3, b",ccc"), (1, 1, b""), (2, 1, b"")],
)
def test_any_part_of_a_span_is_had_with_its_commas(first: int, end: int, expected: bytes) -> None:
    """Elements keep their own comma, wherever the part begins and ends."""
    whole = Span("/a", "/d", 1, ["/a", "/b", "/c"], [b"a", b"bb", b"ccc"])
    assert whole.part(first, end) == expected


@pytest.mark.parametrize("separator", [b",", b""])
def test_elements_of_a_span(separator: bytes) -> None:
    """They are had as they were given, one by one and all at once, also empty ones and none."""
    for elements in ([], [b"a"], [b"a", b"", b"ccc", b","]):
        whole = Span("/a", "/z", 1, [f"/{number}" for number in range(len(elements))], elements, separator=separator)
        assert whole.elements() == elements == [whole.element(position) for position in range(len(elements))]
        assert whole.data == b"".join(separator + element for element in elements)


def test_a_span_is_found_by_every_place_within_it(spans: RangeCache) -> None:
    """The bounds of a span are those of the read, not those of its keys; keys outside are not covered."""
    keep(spans, span("cd", lower="b", upper="f"))
    assert [place for place in "abcdefg" if spans.find(P, "m", P + place, 0)] == ["b", "c", "d", "e"]
    assert spans.next_lower(P, "m", P + "a") == P + "b"
    assert spans.next_lower(P, "m", P + "b") == ""


def test_spans_of_another_prefix_or_maker_are_not_found(spans: RangeCache) -> None:
    """One cluster's spans are not another's, and what another renderer made is made again."""
    keep(spans, span("bc"))
    assert spans.find("/r/b/", "m", P + "b", 0) is None
    assert spans.find(P, "other", P + "b", 0) is None
    keep(spans, span("de"), maker="other")
    assert spans.find(P, "m", P + "b", 0) is None
    assert spans.find(P, "other", P + "d", 0) is not None


def test_a_write_drops_the_span_of_its_key_alone(spans: RangeCache) -> None:
    """Also where the key is new: what a span says is that nothing else is there."""
    keep(spans, span("ac"), span("ef"))
    size = spans.size
    spans.writing(P + "b", 6)
    spans.committed()
    assert spans.find(P, "m", P + "a", 0) is None
    assert spans.find(P, "m", P + "e", 0) is not None
    assert spans.size == size // 2
    spans.writing("/r/ab/e", 7)
    spans.writing("/other", 8)
    assert spans.find(P, "m", P + "e", 0) is not None


@pytest.mark.parametrize("prefixes", [("/", "/r/a/b/", P, "/r/"), ("/r/", P, "/r/a/b/", "/"), ("/r/a/b/", "/r/")])
def test_a_write_drops_the_spans_of_all_prefixes_of_its_key(spans: RangeCache, prefixes: tuple[str, ...]) -> None:
    """Whichever prefix was kept first, and after the shortest one is gone; a root alone has no spans."""
    for _ in range(2):
        for prefix in prefixes:
            keep(spans, Span(prefix, prefix + "z", 5, [prefix + "b"], [b"x"]), prefix=prefix)
        spans.writing("/r/c", 6)
        spans.writing("/r/a/b/b", 7)
        spans.committed()
        assert [prefix for prefix in prefixes if prefix != "/" and spans.find(prefix, "m", "/r/a/b/b", 0)] == []
        spans.clear()


def test_what_was_read_during_a_write_is_not_kept(spans: RangeCache) -> None:
    """Neither where the write began before the reading nor where it began and ended within it; what it did not touch is kept."""
    spans.writing(P + "b", 6)
    with spans.reading(P) as reading:
        spans.committed()
        spans.writing(P + "n", 7)
        spans.committed()
        for one in (span("ac"), span("mo"), span("xz")):
            spans.keep(reading, "m", one, latest=True)
    assert [place for place in "amx" if spans.find(P, "m", P + place, 0)] == ["x"]


def test_a_prefix_is_settled_when_nothing_below_it_is_being_written(spans: RangeCache) -> None:
    """Between the begin of a write and its acknowledgement others may see it, so that the past must not be answered any more."""
    assert spans.settled(P)
    spans.writing(P + "b", 6)
    assert not spans.settled(P)
    assert spans.settled("/r/b/")
    spans.committed()
    assert spans.settled(P)


def test_too_many_writes_at_once_are_not_looked_through(spans: RangeCache) -> None:
    """Then every prefix counts as being written, and nothing that is read is kept."""
    for number in range(1_001):
        spans.writing(f"/r/b/{number}", 6)
    assert not spans.settled(P)
    keep(spans, span("ac"))
    assert spans.find(P, "m", P + "a", 0) is None


def test_a_span_answers_from_its_revision_on(spans: RangeCache) -> None:
    """A span is not valid for earlier and for compacted revisions."""
    keep(spans, span("ac", since=5))
    assert [revision for revision in range(1, 9) if spans.find(P, "m", P + "a", revision)] == [5, 6, 7, 8]
    spans.compacted(7)
    assert [revision for revision in range(1, 9) if spans.find(P, "m", P + "a", revision)] == [7, 8]


def test_what_was_read_at_an_asked_revision_is_kept_only_where_nothing_was_written_since(spans: RangeCache) -> None:
    """Writes are recorded for prefixes with spans, from their first span on."""

    def keep_old(one: Span) -> bool:
        with spans.reading(P) as reading:
            spans.keep(reading, "m", one, latest=False)
        return spans.find(P, "m", one.lower, 0) is one

    assert not keep_old(span("ac", since=5))
    keep(spans, span("ac", since=5))
    assert not keep_old(span("ef", since=4))
    assert keep_old(span("ef", since=5))
    spans.writing(P + "z", 8)
    spans.committed()
    assert not keep_old(span("gh", since=7))
    assert keep_old(span("gh", since=8))


def test_a_write_within_the_first_reading_is_known_of_the_prefix(spans: RangeCache) -> None:
    """A prefix of which nothing was kept when it was written remembers that all the same."""
    with spans.reading(P) as reading:
        spans.writing(P + "z", 6)
        spans.committed()
        spans.keep(reading, "m", span("ac", since=5), latest=True)
    with spans.reading(P) as reading:
        spans.keep(reading, "m", span("yz", since=5), latest=False)
    assert spans.find(P, "m", P + "y", 0) is None


def test_a_span_takes_the_place_of_those_that_it_covers(spans: RangeCache) -> None:
    """Spans never overlap, whatever was read in which order."""
    keep(spans, span("ac"), span("ef"), span("hk"))
    keep(spans, span("bcdef", lower="b", upper="g"))
    assert spans.find(P, "m", P + "a", 0) is None
    found = spans.find(P, "m", P + "b", 0)
    assert found is not None
    assert found is spans.find(P, "m", P + "f", 0)
    assert spans.next_lower(P, "m", P + "b") == P + "h"


def test_they_are_bounded_by_bytes() -> None:
    """One prefix takes three quarters at the most and keeps what it has; of several the longest unused gives way."""
    spans = RangeCache(max_bytes=1_000)
    keep(spans, span("a", size=500), span("b", size=300))
    assert spans.find(P, "m", P + "a", 0) is not None
    assert spans.find(P, "m", P + "b", 0) is None
    for cluster in "bc":
        key = f"/r/{cluster}/a"
        keep(spans, Span(key, key + "\x00", 5, [key], [b"x" * 300]), prefix=f"/r/{cluster}/")
        spans.find(P, "m", P + "a", 0)
    assert spans.size <= 1_000
    assert spans.find(P, "m", P + "a", 0) is not None
    assert spans.find("/r/b/", "m", "/r/b/a", 0) is None
    assert spans.find("/r/c/", "m", "/r/c/a", 0) is not None


def test_a_prefix_of_which_nothing_is_left_takes_no_memory(spans: RangeCache) -> None:
    """A prefix without spans is dropped, so that deleted clusters leave no entries; later spans need new knowledge of its writes."""
    keep(spans, span("ac"))
    spans.writing(P + "b", 6)
    spans.committed()
    assert spans.size == 0
    with spans.reading(P) as reading:
        spans.keep(reading, "m", span("ac", since=6), latest=False)
    assert spans.size == 0


def test_counts_are_remembered_by_range_and_revision(spans: RangeCache) -> None:
    """A bounded number of them, none beyond the life of the store."""
    spans.counted("/a", "/b", 5, 12)
    assert [spans.count("/a", "/b", revision) for revision in (4, 5, 6)] == [-1, 12, -1]
    for number in range(256):
        spans.counted(f"/{number}", "/b", 5, number)
    assert spans.count("/a", "/b", 5) == -1
    assert spans.count("/255", "/b", 5) == 255
    spans.clear()
    assert spans.count("/255", "/b", 5) == -1


def test_nothing_outlives_the_store(spans: RangeCache) -> None:
    """Once it is closed others may write, and who reads meanwhile keeps nothing."""
    keep(spans, span("ac"))
    with spans.reading(P) as reading:
        spans.clear()
        spans.keep(reading, "m", span("ef"), latest=True)
    assert spans.size == 0
    assert spans.find(P, "m", P + "a", 0) is None
    assert spans.find(P, "m", P + "e", 0) is None


def test_forms_go_with_their_span(spans: RangeCache) -> None:
    """They count as bytes in use, and a write of a key drops them with the span."""
    one, other = span("ac"), span("ef")
    keep(spans, one, other)
    size = spans.size
    form = Span(one.lower, one.upper, 5, one.keys, [b"form", b"of"], separator=b"")
    spans.keep_form(P, one, "form", form)
    assert one.forms["form"].part(0, 2) == b"formof"
    assert [form.element(0), form.element(1), form.part(1, 2), form.only([1]).data] == [b"form", b"of", b"of", b"of"]
    assert spans.size > size
    spans.keep_form(P, one, "form", form)
    spans.writing(P + "b", 6)
    spans.committed()
    assert spans.size == size // 2
    spans.keep_form(P, one, "late", form)
    assert (spans.size, "late" in one.forms) == (size // 2, False)
    spans.writing(P + "e", 7)
    assert spans.size == 0


def test_forms_are_bounded_with_spans() -> None:
    """A form that exceeds the share of a prefix is not kept, and one that fits evicts the least recently used prefix."""
    spans = RangeCache(max_bytes=1_000)
    keep(spans, Span("/r/old/k", "/r/old/l", 5, ["/r/old/k"], [b"x" * 200]), prefix="/r/old/")
    one = span("a", size=200)
    keep(spans, one)
    spans.keep_form(P, one, "large", Span(one.lower, one.upper, 5, one.keys, [b"x" * 600]))
    assert not one.forms
    assert spans.find("/r/old/", "m", "/r/old/k", 0) is not None
    assert spans.find(P, "m", P + "a", 0) is one
    spans.keep_form(P, one, "small", Span(one.lower, one.upper, 5, one.keys, [b"x" * 460]))
    assert list(one.forms) == ["small"]
    assert spans.find("/r/old/", "m", "/r/old/k", 0) is None
    assert spans.size <= 1_000


def test_the_forms_used_last_are_kept() -> None:
    """A form takes the room of forms that were used before it, and a span that of forms. Other spans of the prefix stay."""
    spans = RangeCache(max_bytes=2_000)
    one, other = (Span(P + name, f"{P}{name}~", 5, [P + name], [b"x" * 200]) for name in "ac")
    keep(spans, one, other)
    bare = spans.size

    def form(of: Span, size: int) -> Span:
        return Span(of.lower, of.upper, 5, of.keys, [b"x" * size])

    for key in ("first", "second"):
        for of in (one, other):
            spans.keep_form(P, of, key, form(of, 200))
    assert spans.form(P, one, "first") is not None
    spans.keep_form(P, one, "third", form(one, 300))
    assert [list(of.forms) for of in (one, other)] == [["first", "third"], ["first", "second"]]
    assert spans.size == bare + 3 * (201 + 8) + 301 + 8
    spans.keep_form(P, other, "too large", form(other, 1_000))
    assert [list(of.forms) for of in (one, other)] == [["first", "third"], ["first", "second"]]
    assert [spans.has_room(P, of, "fourth") for of in (one, other, span("xy"))] == [True, True, False]
    spans.keep_form(P, other, "third", form(other, 500))
    assert [list(of.forms) for of in (one, other)] == [["third"], ["third"]]
    keep(spans, Span(P + "e", P + "f", 5, [P + "e"], [b"x" * 1_200]))
    assert [list(of.forms) for of in (one, other)] == [["third"], ["third"]]
    keep(spans, Span(P + "e", P + "f", 5, [P + "e"], [b"x" * 700]))
    assert [list(of.forms) for of in (one, other)] == [[], []]
    assert [spans.find(P, "m", P + name, 0) is not None for name in "ace"] == [True, True, True]
    spans.writing(P + "a", 6)
    spans.writing(P + "c", 6)
    spans.writing(P + "e", 6)
    assert spans.size == 0
