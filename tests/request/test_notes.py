"""Notes of authenticators about the request that is being authenticated."""

from __future__ import annotations

from dataclasses import dataclass, field

from kcp_py.request.notes import NOTES, note


@dataclass
class Collected:
    """The notes of one request."""

    warnings: list[str] = field(default_factory=list)
    audit_annotations: dict[str, str] = field(default_factory=dict)


def test_notes_go_to_the_request_that_is_authenticated() -> None:
    """An annotation always, a warning where there is a text."""
    notes = Collected()
    before = NOTES.set(notes)
    note("example.com/one", "1")
    note("example.com/two", "2", warning="Do not.")
    NOTES.reset(before)
    note("example.com/three", "3", warning="Not here.")
    assert notes == Collected(["Do not."], {"example.com/one": "1", "example.com/two": "2"})


def test_outside_of_requests_notes_are_dropped() -> None:
    """A check of a running watch has no caller who could be warned."""
    assert NOTES.get() is None
    note("example.com/one", "1", warning="Do not.")
    assert NOTES.get() is None
