"""Which objects a tap shows."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.client import EVERYTHING, ObjectFilter

MAPS, EVENTS, CRDS = GroupResource("", "configmaps"), GroupResource("", "events"), GroupResource("apiextensions.k8s.io", "crds")
FILTER = ObjectFilter(contains=((b"a", b"b"), (b"c",)), lacks=(b"!",), ignored=frozenset((EVENTS,)), always=frozenset((CRDS,)))


@pytest.mark.parametrize(("value", "expected"), [(b"a!", False), (b"ab!", True), (b"c!", True), (b"x", True), (b"!", False)])
def test_texts(value: bytes, expected: bool) -> None:  # noqa: FBT001 - a case's expectation
    """All texts of one group, or none of a text that has to be there."""
    assert FILTER.matches(value) is expected
    assert EVERYTHING.matches(value)


def test_changes() -> None:
    """A change is shown if the old or the new value matches; a removal always, except of ignored resources."""
    assert FILTER.shows(MAPS, b"c!", None)
    assert FILTER.shows(MAPS, b"!", b"c!")
    assert not FILTER.shows(MAPS, b"!", b"!")
    assert FILTER.shows(MAPS, None, b"!")
    assert not FILTER.shows(MAPS, None, None)
    assert not FILTER.shows(EVENTS, b"c!", None)
    assert FILTER.shows(CRDS, b"!", None)
