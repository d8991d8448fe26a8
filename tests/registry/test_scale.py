"""A Scale is seen in an object and written back into it."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.registry.scale import ScalePaths, apply_scale, read_paths, replica_problems, scale_of, show_scale, status_problems

PATHS = ScalePaths(("spec", "replicas"), ("status", "replicas"), ("status", "selector"))
UNSET = -(2**31)


def obj(spec: Any = None, status: Any = None) -> dict[str, Any]:
    return {"metadata": {"name": "one", "labels": {"a": "b"}}, "spec": spec, "status": status}


def test_paths() -> None:
    """The first dot is left out, brackets are part of a key, a selector is optional."""
    assert read_paths(None) is None
    required = {"specReplicasPath": ".spec.a[0].b", "statusReplicasPath": ".status.c"}
    assert read_paths(required) == ScalePaths(("spec", "a[0]", "b"), ("status", "c"), ())
    assert read_paths({**required, "labelSelectorPath": ".spec.d"}) == ScalePaths(("spec", "a[0]", "b"), ("status", "c"), ("spec", "d"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("three", "three is of the type string"),
        (3.5, "3.5 is of the type float64"),
        (True, "true is of the type bool"),
        (None, "<nil> is of the type <nil>"),
        ([1, "a"], "[1 a] is of the type []interface {}"),
        ({"b": {}, "a": None}, "map[a:<nil> b:map[]] is of the type map[string]interface {}"),
    ],
)
def test_values_of_other_types(value: Any, text: str) -> None:
    """They are printed as Go prints them: as an internal error where a Scale is read, as a fault where the object is written."""
    text = f".spec.replicas accessor error: {text}, expected int64"
    found = obj({"replicas": value})
    for read in (scale_of, show_scale):
        with pytest.raises(StatusError) as caught:
            read(found, PATHS)
        assert (caught.value.code, caught.value.reason, caught.value.message) == (500, "", text)
    assert [str(problem) for problem in replica_problems(found, PATHS)] == [f".spec.replicas: Invalid value: 0: {text}"]


def test_null_on_the_way_is_nothing() -> None:
    """Only at the end it is a value, of the wrong type."""
    assert replica_problems(obj(), PATHS) == []
    assert status_problems(obj(), PATHS) == []
    (problem,) = status_problems(obj(status={"selector": None}), PATHS)
    assert (
        str(problem) == '.status.selector: Invalid value: "": .status.selector accessor error: <nil> is of the type <nil>, expected string'
    )
    assert scale_of(obj(), PATHS)["spec"] == {"replicas": UNSET}


def test_what_does_not_fit_loses_its_upper_half() -> None:
    """As in Go, for objects from before the definition; a count that becomes the mark of none is still shown."""
    shown = show_scale(obj({"replicas": 2**31}, {"replicas": 2**32 + 1}), PATHS)
    assert (shown["spec"], shown["status"]) == ({"replicas": UNSET}, {"replicas": 1})


@pytest.mark.parametrize(("scale", "wanted"), [({"spec": {"replicas": 2}}, 2), ({"spec": {}}, 0), ({}, 0), ({"spec": None}, 0)])
def test_replicas_are_written(scale: dict[str, Any], wanted: int) -> None:
    """A Scale that does not say how many says zero; nothing else of the object changes."""
    changed = obj({"replicas": 5, "size": 1})
    apply_scale({"metadata": {}, **scale}, changed, PATHS)
    assert changed == obj({"replicas": wanted, "size": 1})


def test_what_stands_in_the_way() -> None:
    """Missing levels are made; null and other values are an internal error."""
    changed: dict[str, Any] = {"metadata": {}}
    apply_scale({"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 2}}, changed, PATHS)
    assert changed == {"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 2}}
    with pytest.raises(StatusError, match=r"value cannot be set because \.spec is not a map\[string\]interface\{\}"):
        apply_scale({"metadata": {}, "spec": {"replicas": 2}}, obj(), PATHS)
    with pytest.raises(StatusError, match=r'the spec replicas field "\.spec\.replicas" cannot be empty'):
        apply_scale({"metadata": {}, "spec": {"replicas": UNSET}}, obj({}), PATHS)
