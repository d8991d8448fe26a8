"""The latest events, bounded by number and by bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kcp_py.storage.contract import Event
from kcp_py.storage.keys import Route
from kcp_py.watchcache.event import ObjectEvent
from kcp_py.watchcache.ring import Ring

ROUTE = Route("/registry/core/configmaps/", "a", "default", "one")


def event(revision: int, size: int = 1) -> ObjectEvent:
    """A write of an object of so many bytes."""
    return ObjectEvent(ROUTE, Event(ROUTE.key, b"x" * size, revision, revision, None))


def ring_of(*revisions: int, max_events: int = 100, max_bytes: int = 100_000) -> Ring:
    """A ring that began at revision 10 and saw these events."""
    ring = Ring(floor=10, max_events=max_events, max_bytes=max_bytes)
    for revision in revisions:
        ring.append(event(revision))
    return ring


def revisions_after(ring: Ring, revision: int) -> list[int] | None:
    """The revisions of the events after one."""
    found = ring.after(revision)
    return None if found is None else [one.mod_revision for one in found]


def test_events_after_a_revision_come_in_their_order() -> None:
    """Several events may have one revision; none of them is after it."""
    ring = ring_of(11, 12, 12, 15)
    assert revisions_after(ring, 10) == [11, 12, 12, 15]
    assert revisions_after(ring, 12) == revisions_after(ring, 14) == [15]
    assert revisions_after(ring, 15) == []


def test_what_was_before_the_ring_is_unknown() -> None:
    """None says that the store has to be asked."""
    assert revisions_after(ring_of(11), 9) is None
    assert revisions_after(ring_of(), 10) == []


def test_the_oldest_events_are_dropped_beyond_the_number() -> None:
    """A revision of which a part was dropped is unknown, too."""
    ring = ring_of(11, 12, 12, 13, max_events=2)
    assert (len(ring), ring.floor) == (2, 12)
    assert revisions_after(ring, 11) is None
    assert revisions_after(ring, 12) == [13]


def test_an_event_above_the_bytes_leaves_nothing() -> None:
    """The ring goes on with the next one."""
    ring = Ring(floor=10, max_events=10, max_bytes=1_000)
    ring.append(event(11, size=2_000))
    assert (len(ring), ring.floor) == (0, 11)
    ring.append(event(12))
    assert revisions_after(ring, 11) == [12]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 900)), max_size=30), st.integers(9, 45))
def test_the_answer_is_complete_or_none(steps: list[tuple[int, int]], asked: int) -> None:
    """The answer has every event after the revision; without some of them there is no answer."""
    ring = Ring(floor=10, max_events=5, max_bytes=3_000)
    revision, written = 10, list[int]()
    for step, size in steps:
        revision = max(revision + step, 11)
        written.append(revision)
        ring.append(event(revision, size))
    found = revisions_after(ring, asked)
    assert found is None or found == [one for one in written if one > asked]
    assert found is not None or asked < ring.floor
