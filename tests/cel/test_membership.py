"""Looking values up gives what comparing each with each gives."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from kcp_py.cel.equality import contains
from kcp_py.cel.membership import Members
from kcp_py.cel.values import Duration, Timestamp, UInt

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.integers(0, 2).map(UInt),
    st.sampled_from([0.0, -0.0, 1.0, 1.5, math.nan]),
    st.sampled_from(["", "1", "a"]),
    st.sampled_from([b"", b"a"]),
    st.integers(0, 1).map(Duration),
    st.integers(0, 1).map(Timestamp),
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(st.sampled_from(["a", "b"]), SCALARS, max_size=2))


@given(st.lists(VALUES, max_size=8), VALUES)
def test_members(values: list[object], value: object) -> None:
    """A value is a member exactly when it is equal to one."""
    assert (value in Members(values)) == contains(value, values)


@given(st.lists(VALUES, max_size=8))
def test_add(values: list[object]) -> None:
    """A value is new exactly when none before is equal to it."""
    members = Members()
    for place, value in enumerate(values):
        assert members.add(value) == (not contains(value, values[:place]))
