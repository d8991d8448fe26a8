"""The shortcut for usual metadata, which has to agree with the rules that it spares."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.meta.decoding import drop_malformed_fields, is_usual, prune_object_meta, type_problem

USUAL: Final[dict[str, Any]] = {
    "name": "one",
    "namespace": "default",
    "uid": "0d54e3e4-7d1f-4a0b-9e2c-12ab34cd56ef",
    "resourceVersion": "7",
    "generation": 3,
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionTimestamp": "2026-01-02T00:00:00Z",
    "labels": {"a": "b"},
    "annotations": {"c": "", "d": "e"},
    "managedFields": [
        {
            "manager": "m",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {}},
            "subresource": "status",
        }
    ],
}
ODD: Final = st.sampled_from(
    ["", "x", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00+02:00", "2026-13-01T00:00:00Z", None, True, 0, 1, -1, 2**63 - 1, 2**63, 1.0, 1.5]
) | st.sampled_from(
    [{}, {"a": "b"}, {"a": None}, {"a": 1}, [], [None], ["a"], [{}], [{"manager": 1}], [{"time": "x"}], [{"foo": "a"}], [{"name": "a"}]]
)
FIELDS: Final = sorted(
    {*USUAL, "generateName", "selfLink", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "clusterName", "foo"}
)


def test_usual_metadata() -> None:
    """Metadata of an object that a client has read are usual, and stay as they are."""
    assert is_usual(USUAL)
    assert not drop_malformed_fields(deepcopy(USUAL))


@given(st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=3), st.sets(st.sampled_from(sorted(USUAL))))
def test_nothing_is_wrong_with_usual_metadata(changed: dict[str, Any], missing: set[str]) -> None:
    """Where metadata are usual, no type is wrong, nothing is unknown, and nothing is written in another way."""
    meta = {field: value for field, value in deepcopy(USUAL).items() if field not in missing} | deepcopy(changed)
    if not is_usual(meta):
        return
    assert type_problem({"metadata": meta}) is None
    pruned = deepcopy(meta)
    assert prune_object_meta(pruned) == []
    assert pruned == meta
    assert list(pruned) == list(meta)


@given(st.dictionaries(st.sampled_from([*USUAL["managedFields"][0], "foo"]), ODD, max_size=2))
def test_nothing_is_wrong_with_usual_entries(changed: dict[str, Any]) -> None:
    """Where the owners of fields are usual, they are kept, and no type in them is wrong."""
    meta = {"managedFields": [USUAL["managedFields"][0] | changed]}
    if not is_usual(meta):
        return
    assert type_problem({"metadata": meta}) is None
    pruned = deepcopy(meta)
    assert prune_object_meta(pruned) == []
    assert pruned == meta


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", None),
        ("generation", 0),
        ("generation", True),
        ("generation", 2**63),
        ("creationTimestamp", "2026-01-01T00:00:00+00:00"),
        ("creationTimestamp", "2026-13-01T00:00:00Z"),
        ("labels", {}),
        ("labels", {"a": None}),
        ("finalizers", []),
        ("foo", "bar"),
        ("managedFields", [None]),
        ("managedFields", [{"foo": "bar"}]),
        ("managedFields", [{"time": "soon"}]),
    ],
)
def test_what_the_rules_may_change_is_not_usual(field: str, value: Any) -> None:
    """Values that are refused, dropped or written in another way are left to the rules."""
    assert not is_usual(USUAL | {field: value})
