"""What an updated object has in common with the old one."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.schema.structural.correlated import Correlated
from kcp_py.schema.structural.nodes import read_schema

ITEM = {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}


def pair(schema: dict[str, Any], value: Any, old: Any) -> Correlated:
    return Correlated(read_schema(schema), value, old)


@pytest.mark.parametrize(
    ("kind", "same"),
    [
        pytest.param({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}, True, id="a map has no order"),
        pytest.param({"x-kubernetes-list-type": "set"}, False, id="a set is compared as it is"),
        pytest.param({}, False, id="a list is one value"),
    ],
)
def test_lists_are_compared_by_their_type(kind: dict[str, Any], *, same: bool):
    """Elements of maps correlate wherever they moved."""
    one, two = {"k": "a", "v": 1}, {"k": "b", "v": 2}
    assert pair({"type": "array", "items": ITEM, **kind}, [one, two], [two, one]).unchanged is same
    assert pair({"type": "array", "items": ITEM, **kind}, [one, two], [one, two]).unchanged


def test_elements_correlate_by_their_keys():
    """Those of other lists, and those without a counterpart, do not."""
    schema = {"type": "array", "items": ITEM, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    both = pair(schema, [{"k": "b", "v": 1}, {"k": "c"}], [{"k": "a"}, {"k": "b", "v": 2}])
    found = both.index(0)
    assert found is not None
    assert found.old == {"k": "b", "v": 2}
    assert both.index(1) is None
    assert pair({"type": "array", "items": ITEM}, [1], [1]).index(0) is None


def test_fields_correlate_by_name_where_the_schema_knows_them():
    """So an object with an unknown field is never unchanged."""
    both = pair(ITEM, {"k": "a", "x": 1}, {"k": "a", "x": 1})
    found = both.key("k")
    assert found is not None
    assert found.unchanged
    assert both.key("x") is None
    assert not both.unchanged
    assert pair({"type": "object", "additionalProperties": {"type": "integer"}}, {"x": 1}, {"x": 1}).unchanged


def test_nulls_and_kinds_are_compared():
    """Null equals null; a list is not an object."""
    assert pair(ITEM, {"k": None}, {"k": None}).unchanged
    assert not pair(ITEM, {"k": None}, {"k": "a"}).unchanged
    assert not pair(ITEM, {}, []).unchanged
