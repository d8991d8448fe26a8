"""Who depends on whom."""

from __future__ import annotations

from kcp_py.controllers.garbage.graph import Graph
from kcp_py.controllers.garbage.ownership import FOREGROUND, ORPHAN, Facts, Reference


def facts(uid: str, *owners: str, blocks: bool = True, awaits: str = "") -> Facts:
    return Facts(
        uid, "v1", "ConfigMap", tuple(Reference("v1", "ConfigMap", owner, owner, blocks) for owner in owners), awaits, bool(awaits)
    )


def test_dependents_follow_changes() -> None:
    """An object is a dependent of the owners that it had last, and of none once it is gone; telling it twice changes nothing."""
    graph = Graph()
    for _ in range(2):
        graph.put("child", None, facts("child", "a", "b"))
    assert graph.edges == 2
    graph.put("child", facts("child", "a", "b"), facts("child", "b", "c"))
    assert [list(graph.dependents(owner)) for owner in "abc"] == [[], ["child"], ["child"]]
    for _ in range(2):
        graph.remove("child", facts("child", "b", "c"))
    assert graph.edges == 0
    assert graph.empty


def test_an_owner_is_unblocked_by_the_last_dependent() -> None:
    """Whether that goes, loses the owner or does not block it any more; told for owners only that wait."""
    graph = Graph()
    for child in ("one", "two", "three"):
        graph.put(child, None, facts(child, "owner"))
    assert graph.put("owner", None, facts("owner", awaits=FOREGROUND)) == []
    assert graph.remove("one", facts("one", "owner")) == []
    assert graph.put("two", facts("two", "owner"), facts("two")) == []
    assert graph.put("three", facts("three", "owner"), facts("three", "owner", blocks=False)) == ["owner"]
    assert not graph.blocking("owner")
    assert graph.dependents("owner") == {"three": False}
    other = Graph()
    other.put("child", None, facts("child", "orphaning"))
    other.put("orphaning", None, facts("orphaning", awaits=ORPHAN))
    assert other.remove("child", facts("child", "orphaning")) == []


def test_a_changed_reference_may_go_on_blocking() -> None:
    """The owner is not unblocked by a change that keeps the reference."""
    graph = Graph()
    graph.put("owner", None, facts("owner", awaits=FOREGROUND))
    graph.put("child", None, facts("child", "owner"))
    assert graph.put("child", facts("child", "owner"), facts("child", "owner", "other")) == []


def test_what_awaits_is_known_until_it_does_not() -> None:
    """By its finalizers, and by its uid where an object of the same name comes after it."""
    graph = Graph()
    graph.put("one", None, facts("old", awaits=FOREGROUND))
    assert graph.awaiting("one") == facts("old", awaits=FOREGROUND)
    graph.put("one", None, facts("new", awaits=ORPHAN))
    graph.remove("one", facts("old"))
    assert graph.awaiting("one") == facts("new", awaits=ORPHAN)
    graph.put("one", None, facts("new"))
    assert graph.awaiting("one") is None
    assert graph.empty


def test_cycles_are_found_among_what_waits() -> None:
    """A cycle through an object that does not wait, or that does not block, does not count."""
    graph = Graph()
    for name, owner in (("a", "c"), ("b", "a"), ("c", "b")):
        graph.put(name, None, facts(name, owner, awaits=FOREGROUND))
    graph.put("beside", None, facts("beside", "a", awaits=FOREGROUND))
    assert graph.is_in_cycle("a")
    assert not graph.is_in_cycle("beside")
    graph.put("c", facts("c", "b", awaits=FOREGROUND), facts("c", "b"))
    assert not graph.is_in_cycle("a")
    graph.put("c", facts("c", "b"), facts("c", "b", blocks=False, awaits=FOREGROUND))
    assert not graph.is_in_cycle("a")
