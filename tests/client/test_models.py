"""Typed objects and their JSON."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from pydantic import ValidationError

from kcp_py.client.models import decode, described, encode, merge, source_of
from tests.client.ships import SHIPS, Meta, Raft, RaftSpec, Ship, ShipSpec

STORED: dict[str, Any] = {
    "apiVersion": "fleet.example.com/v1",
    "kind": "Ship",
    "metadata": {"name": "argo", "uid": "1", "resourceVersion": "5", "annotations": {"a": "b"}},
    "spec": {"homePort": "Iolcus", "oars": 50, "cargo": [{"name": "gold", "kg": 1}]},
    "status": {"phase": None},
}


@pytest.mark.parametrize("model", [Ship, Raft])
def test_an_unchanged_object_is_what_it_was(model: type[Ship | Raft]) -> None:
    """With fields that the class does not know, without defaults that were not there."""
    assert encode(decode(model, STORED)) == STORED


@pytest.mark.parametrize("model", [Ship, Raft])
def test_a_change_touches_only_its_field(model: type[Ship | Raft]) -> None:
    """Unknown neighbours stay."""
    ship = decode(model, STORED)
    ship.spec.home_port = "Corinth"
    ship.status = {"phase": "AtSea"}
    spec = {**STORED["spec"], "homePort": "Corinth"}
    assert encode(ship) == {**STORED, "spec": spec, "status": {"phase": "AtSea"}}


def test_a_field_without_a_value_goes() -> None:
    """None removes the field."""
    ship = decode(Ship, STORED)
    ship.spec.cargo = None
    ship.status = None
    assert encode(ship) == {**{k: v for k, v in STORED.items() if k != "status"}, "spec": {"homePort": "Iolcus", "oars": 50}}


def test_a_new_object_has_its_defaults_and_an_apply_has_not() -> None:
    """Fields that were not set belong to others."""
    ship = Ship(metadata=Meta(name="argo"), spec=ShipSpec(homePort="Iolcus"))
    head = {"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": "argo"}}
    assert encode(ship) == {**head, "spec": {"homePort": "Iolcus", "crew": 10}}
    assert encode(ship, set_only=True) == {**head, "spec": {"homePort": "Iolcus"}}
    raft = Raft(metadata={"name": "argo"}, spec=RaftSpec(home_port="Iolcus"))
    assert encode(raft)["spec"] == {"homePort": "Iolcus", "crew": 10}


def test_the_source_goes_with_its_object() -> None:
    """A copy has none, and nothing is kept when the object is gone."""
    ship = decode(Ship, STORED)
    assert source_of(ship) is STORED
    assert source_of(ship.model_copy(deep=True)) is None
    del ship
    gc.collect()
    assert source_of(decode(Ship, STORED)) is STORED


def test_what_does_not_fit_the_class_is_refused() -> None:
    """With the errors of Pydantic; a class without a description is a mistake of the program."""
    with pytest.raises(ValidationError, match="homePort"):
        decode(Ship, {**STORED, "spec": {}})
    with pytest.raises(TypeError, match="Meta describes no resource"):
        described(Meta)
    with pytest.raises(TypeError, match="'ships' is neither a GroupVersionResource nor a class that describes a resource"):
        described("ships")  # type: ignore[arg-type]
    assert described(Ship).resource == SHIPS


@pytest.mark.parametrize(
    ("source", "before", "after", "merged"),
    [
        ({"a": 1, "x": 2}, {"a": 1}, {"a": 3}, {"a": 3, "x": 2}),
        ({"a": 1, "x": 2}, {"a": 1}, {}, {"x": 2}),
        ({"x": 2}, {}, {"a": 1}, {"x": 2, "a": 1}),
        ([{"n": 1, "x": 1}], [{"n": 1}], [{"n": 2}], [{"n": 2, "x": 1}]),
        (
            [{"name": "a", "x": 1}, {"name": "b", "x": 2}],
            [{"name": "a"}, {"name": "b"}],
            [{"name": "b", "y": 3}],
            [{"name": "b", "x": 2, "y": 3}],
        ),
        (
            [{"name": "a", "x": 1}, {"name": "b", "x": 2}],
            [{"name": "a"}, {"name": "b"}],
            [{"name": "b"}, {"name": "a"}],
            [{"name": "b", "x": 2}, {"name": "a", "x": 1}],
        ),
        ([1, 2], [1, 2], [2], [2]),
        ({"a": {"x": 1}}, {"a": {}}, {"a": 5}, {"a": 5}),
    ],
    ids=["change", "removal", "addition", "element", "removed neighbour", "other order", "scalars", "other type"],
)
def test_changes_are_put_into_what_is_there(source: Any, before: Any, after: Any, merged: Any) -> None:
    """Elements of lists keep what the class does not know."""
    assert merge(source, before, after) == merged
