from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.errors import StatusError
from kcp_py.request import parameters
from kcp_py.request.parameters import LONGEST, Parameters, parameters_of
from kcp_py.request.requestinfo import MAX_QUERY_BYTES, parse_query

QUERIES = st.lists(st.sampled_from([b"a", b"b", b"=", b"&", b"%41", b"%", b"+", b";", b"\xff", b"dryRun=All"]), max_size=12).map(b"".join)


@given(QUERIES)
def test_parameters_are_those_of_the_query(query):
    """A query that came before means what it would mean without one before it."""
    for _ in range(2):
        try:
            expected = parse_query(query)
        except StatusError:
            with pytest.raises(StatusError, match="the query is malformed"):
                parameters_of(query)
        else:
            assert {name: list(values) for name, values in parameters_of(query).values.items()} == expected
            assert parameters_of(query).copy() == expected


def test_nothing_of_a_kept_query_can_be_changed():
    """Another request has the same parameters, of another tenant perhaps."""
    first = parameters_of(b"a=1&a=2")
    copy = first.copy()
    copy["a"].append("3")
    copy["b"] = ["4"]
    assert parameters_of(b"a=1&a=2") is first
    assert dict(first.values) == {"a": ("1", "2")}


def test_long_queries_are_not_kept():
    """The memory of kept queries is bounded by their number and their length."""
    query = b"a" * (LONGEST + 1)
    assert parameters_of(query) is not parameters_of(query)
    before = parameters._kept.cache_info().currsize
    for number in range(2 * parameters.KEPT):
        parameters_of(b"n=%d" % number)
    assert before <= parameters._kept.cache_info().currsize == parameters.KEPT


def test_oversized_queries_are_refused():
    """A query beyond the limit is 400."""
    with pytest.raises(StatusError, match="longer than"):
        parameters_of(b"a" * (MAX_QUERY_BYTES + 1))


def test_decoders_are_asked_once():
    """What depends on the parameters alone is decoded once for each decoder, and failures each time."""
    asked = []

    def first(values):
        asked.append("first")
        return values["a"][0]

    def second(values):
        asked.append("second")
        raise ValueError(values["a"][0])

    known = Parameters({"a": ("1",)})
    assert [known.decode(first), known.decode(first)] == ["1", "1"]
    for _ in range(2):
        with pytest.raises(ValueError, match="1"):
            known.decode(second)
    assert asked == ["first", "second", "second"]
