"""The keys of writes that are under way."""

from __future__ import annotations

from kcp_py.registry.store.pending import PendingWrites


def test_a_key_is_pending_until_its_last_write_ends() -> None:
    """Two writes of one key may be under way; keys of other writes do not matter."""
    pending = PendingWrites()
    pending.begin(["a", "b"])
    pending.begin(["a"])
    assert pending.keys() == ["a", "b"]
    pending.end(["a", "b"])
    assert ("a" in pending, "b" in pending) == (True, False)
    pending.end(["a"])
    assert "a" not in pending
    assert pending.keys() == []
