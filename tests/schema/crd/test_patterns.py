"""How much the patterns of a definition may cost together."""

from __future__ import annotations

from typing import Any

from kcp_py.schema.crd.patterns import cost_errors, node_microseconds

HEAVY: list[dict[str, Any]] = [{"pattern": rf"\pL{{999}}a{{{number}}}"} for number in range(20)]


def test_the_patterns_of_all_nodes_are_added() -> None:
    """Some heavy ones are allowed, twenty are not; equal ones count once."""
    assert not cost_errors(HEAVY[:4], [])
    assert not cost_errors(HEAVY[:1] * 100, [])
    (error,) = cost_errors(HEAVY, [])
    assert (error.reason, error.field) == ("FieldValueForbidden", "spec.versions")


def test_stored_patterns_may_stay() -> None:
    """A definition that was stored before can be changed in other places."""
    assert not cost_errors(HEAVY, [*HEAVY, {"pattern": "a"}])
    assert cost_errors([*HEAVY, {"pattern": "a"}], HEAVY)


def test_rules_that_search_are_counted() -> None:
    """By their text, in which the pattern is."""
    rule = "self.matches('.{1,1000}')"
    assert node_microseconds({"x-kubernetes-validations": [{"rule": rule}]}) >= 15_000
    assert node_microseconds({"x-kubernetes-validations": [{"rule": "self.size() < 1000"}]}) == 0
