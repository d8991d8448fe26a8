"""The keys in memory."""

from __future__ import annotations

from kcp_py.storage.contract import Event, KeyValue
from kcp_py.storage.watched.keys import KnownKeys


def test_events_replace_what_is_known() -> None:
    """A put and a delete are known afterwards, and an older event does not undo them."""
    known = KnownKeys(max_bytes=1 << 20)
    known.remember(KeyValue("/a", b"1", 5, 5))
    known.apply(Event("/a", b"2", 7, 5, None))
    known.apply(Event("/a", b"old", 6, 5, None))
    assert known.get("/a") == KeyValue("/a", b"2", 7, 5)
    known.apply(Event("/a", None, 8, 5, None))
    assert known.get("/a") == KeyValue("/a", b"", 8, 0)


def test_an_absent_key_is_known_until_it_is_put() -> None:
    """The revision at which a key was absent decides which events come after it."""
    known = KnownKeys(max_bytes=1 << 20)
    known.remember(KeyValue("/a", b"", 9, 0))
    known.apply(Event("/a", b"earlier", 8, 8, None))
    assert known.get("/a") == KeyValue("/a", b"", 9, 0)
    known.apply(Event("/a", b"later", 10, 10, None))
    assert known.get("/a") == KeyValue("/a", b"later", 10, 10)


def test_the_least_recently_used_keys_go() -> None:
    """The bytes stay below the bound, and a key that is read stays longer than one that is not."""
    known = KnownKeys(max_bytes=20_000)
    for number in range(10):
        known.remember(KeyValue(f"/{number}", b"x" * 600, number + 1, number + 1))
    assert known.get("/0") is not None
    for number in range(10, 20):
        known.remember(KeyValue(f"/{number}", b"x" * 600, number + 1, number + 1))
        assert known.size <= 20_000
    assert "/0" in known
    assert "/1" not in known


def test_a_large_value_is_not_kept_and_drops_what_was_known() -> None:
    """A value beyond a sixteenth of the bytes is not kept, and no earlier value in its place either."""
    known = KnownKeys(max_bytes=160_000)
    known.remember(KeyValue("/a", b"small", 1, 1))
    known.apply(Event("/a", b"x" * 20_000, 2, 1, None))
    assert known.get("/a") is None
    assert (len(known), known.size) == (0, 0)


def test_clear_drops_everything() -> None:
    """Nothing is known after it."""
    known = KnownKeys(max_bytes=1 << 20)
    known.remember(KeyValue("/a", b"1", 1, 1))
    known.clear()
    assert (known.get("/a"), known.size) == (None, 0)
