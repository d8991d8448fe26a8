"""Which objects a tap shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.client import EVERYTHING, ObjectFilter

MAPS, EVENTS, CRDS = GroupResource("", "configmaps"), GroupResource("", "events"), GroupResource("apiextensions.k8s.io", "crds")
FILTER = ObjectFilter(contains=((b"a", b"b"), (b"c",)), lacks=(b"!",), ignored=frozenset((EVENTS,)), always=frozenset((CRDS,)))


@pytest.mark.parametrize(("value", "expected"), [(b"a!", False), (b"ab!", True), (b"c!", True), (b"x", True), (b"!", False)])
def test_texts(value: bytes, expected: bool) -> None:  # noqa: FBT001 - a case's expectation
    """All texts of one group, or none of a text that has to be there."""
    assert FILTER.matches(value) is expected
    assert EVERYTHING.matches(value)


_TEXTS = st.lists(st.sampled_from([b"a", b"b", b"ab", b"c"]), max_size=3).map(tuple)


@given(st.lists(_TEXTS, min_size=1, max_size=4).map(tuple), st.text("abcd", max_size=4).map(str.encode))
def test_groups_that_share_texts_are_decided_alike(groups: tuple[tuple[bytes, ...], ...], value: bytes) -> None:
    """A text that one group lacks is not searched again for the next one."""
    expected = any(all(text in value for text in texts) for texts in groups)
    assert ObjectFilter(contains=groups).matches(value) is expected


def test_changes() -> None:
    """A change is shown if the old or the new value matches; a removal always, except of ignored resources."""
    assert FILTER.shows(MAPS, b"c!", None)
    assert FILTER.shows(MAPS, b"!", b"c!")
    assert not FILTER.shows(MAPS, b"!", b"!")
    assert FILTER.shows(MAPS, None, b"!")
    assert not FILTER.shows(MAPS, None, None)
    assert not FILTER.shows(EVENTS, b"c!", None)
    assert FILTER.shows(CRDS, b"!", None)
