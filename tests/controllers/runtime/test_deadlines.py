"""Deadlines on a clock that cannot be set."""

from __future__ import annotations

from kcp_py.controllers.runtime.deadlines import Deadlines
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name

KEY = Key(Name("team-a"), "", "shop")


def test_a_deadline_is_fixed_when_it_is_seen_first() -> None:
    """What remains by the time of day counts once; from then on time passes by the other clock alone."""
    now = 100.0
    deadlines = Deadlines(lambda: now)
    assert deadlines.remaining(KEY, "a", 5.0) == 5.0
    now = 103.0
    assert deadlines.remaining(KEY, "a", 86400.0) == 2.0
    now = 106.0
    assert deadlines.remaining(KEY, "a", -86400.0) == -1.0


def test_another_deadline_of_the_object_replaces_the_first() -> None:
    """One deadline is known for each object, which is the last that was asked for."""
    deadlines = Deadlines(lambda: 0.0)
    assert deadlines.remaining(KEY, "a", 5.0) == 5.0
    assert deadlines.remaining(KEY, "b", 2.0) == 2.0
    assert len(deadlines) == 1


def test_objects_of_the_same_name_in_other_clusters_have_their_own() -> None:
    """A deadline belongs to one object of one logical cluster."""
    deadlines = Deadlines(lambda: 0.0)
    assert deadlines.remaining(KEY, "a", 5.0) == 5.0
    assert deadlines.remaining(Key(Name("team-b"), "", "shop"), "a", 7.0) == 7.0


def test_what_is_forgotten_takes_no_memory() -> None:
    """The deadline of an object that is gone is dropped, also twice."""
    deadlines = Deadlines(lambda: 0.0)
    deadlines.remaining(KEY, "a", 5.0)
    deadlines.forget(KEY)
    deadlines.forget(KEY)
    assert len(deadlines) == 0
