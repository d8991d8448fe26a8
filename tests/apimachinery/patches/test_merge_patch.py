"""JSON merge patch."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.patches import merge_patch

OBJECTS = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=2) | st.lists(st.integers(-3, 3), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)


def test_public_table(corpus_tables):
    """The examples of RFC 7386 between objects hold."""
    cases = json.loads((corpus_tables / "rfc7386" / "cases.json").read_text())
    objects = [case for case in cases if isinstance(case["target"], dict) and isinstance(case["patch"], dict)]
    assert objects
    for case in objects:
        assert merge_patch.apply(case["target"], case["patch"]) == case["expected"]


@pytest.mark.parametrize(
    ("original", "patch", "merged"),
    [
        ({"a": 1}, {}, {"a": 1}),
        ({}, {"a": {"b": None, "c": {"d": None}}}, {"a": {"c": {}}}),
        ({}, {"a": [{"b": None}]}, {"a": [{}]}),
        ({"a": [1]}, {"a": [None]}, {"a": [None]}),
        ({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}),
    ],
)
def test_merging(original, patch, merged):
    """Nulls delete, and never arrive in new objects; lists replace."""
    assert merge_patch.apply(original, patch) == merged


@pytest.mark.parametrize(("patch", "kind"), [([], "array"), (True, "bool"), ("x", "string"), (1, "number")])
def test_only_objects_are_patches(patch, kind):
    """Anything else is 400."""
    with pytest.raises(StatusError) as caught:
        merge_patch.apply({}, patch)
    assert caught.value.code == 400
    assert caught.value.message == f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


def test_null_is_no_patch():
    """As upstream, which says no more about it."""
    with pytest.raises(StatusError) as caught:
        merge_patch.apply({}, None)
    assert (caught.value.code, caught.value.message) == (400, "Invalid JSON Patch")


@given(st.dictionaries(st.sampled_from("abc"), OBJECTS), st.dictionaries(st.sampled_from("abc"), OBJECTS))
def test_inputs_are_never_changed_and_merging_is_idempotent(original, patch):
    """Applying a patch twice is applying it once."""
    before = copy.deepcopy((original, patch))
    merged = merge_patch.apply(original, patch)
    assert merge_patch.apply(merged, patch) == merged
    assert (original, patch) == before
