"""Writes that are accepted while the disk is full."""

from __future__ import annotations

from pathlib import Path

from kcp_py.storage.sqlite.room import Room


def test_what_fits_on_a_full_disk(tmp_path: Path) -> None:
    """Deletions always, small updates while half of the reserve is there, creates where the database has room inside."""
    room = Room(str(tmp_path / "store.db"), 1 << 20)
    assert room.leaves(1 << 30, deletes=True, updates=False, reusable=0)
    assert room.leaves(1000, deletes=False, updates=True, reusable=0)
    assert not room.leaves(200_000, deletes=False, updates=True, reusable=0)
    assert not room.leaves(1000, deletes=False, updates=False, reusable=0)
    assert room.leaves(1000, deletes=False, updates=False, reusable=1 << 20)
    larger = Room(str(tmp_path / "store.db"), 1 << 60)
    assert larger.leaves(1000, deletes=True, updates=False, reusable=0)
    assert not larger.leaves(1000, deletes=False, updates=True, reusable=1 << 50)
    assert not larger.make()


def test_a_follower_is_told_of_a_full_disk(tmp_path: Path) -> None:
    """It is told the present state at once, and each state that is set."""
    told: list[bool] = []
    room = Room(str(tmp_path / "kcp.db"), 0)
    room.follow(told.append)
    room.full = True
    room.full = False
    assert told == [False, True, False]
