"""Laws of field ownership, with generated values."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kcp_py.apimachinery.managedfields.comparison import compare, new_fields
from kcp_py.apimachinery.managedfields.entries import Managed, decode_entries
from kcp_py.apimachinery.managedfields.fieldsets import (
    FieldSet,
    FieldSetError,
    decode,
    difference,
    intersection,
    ordered,
    paths,
    union,
    without,
)
from kcp_py.apimachinery.managedfields.merging import DuplicateKeyError, merge, remove
from kcp_py.apimachinery.managedfields.ownership import Versions
from kcp_py.apimachinery.managedfields.tracking import ManagedWrite, track_apply, track_update
from kcp_py.apimachinery.managedfields.types import DEDUCED, MergeType
from kcp_py.apimachinery.managedfields.values import fields_of
from kcp_py.apimachinery.serializer.json.codec import MAX_DEPTH
from tests.schema.reading import merge_type

KIND = merge_type(
    {
        "type": "object",
        "properties": {
            "s": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "object", "additionalProperties": True}}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
            },
            "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "integer"}},
            "free": {"x-kubernetes-preserve-unknown-fields": True},
        },
    },
    resource=True,
)
names = st.sampled_from(["a", "b", "c"])
numbers = st.integers(0, 3)
free = st.recursive(
    st.none() | st.booleans() | numbers, lambda inner: st.dictionaries(names, inner, max_size=3) | st.lists(inner, max_size=2), max_leaves=6
)
items = st.lists(st.fixed_dictionaries({"k": names}, optional={"v": numbers}), max_size=3, unique_by=lambda item: item["k"])
specs = st.fixed_dictionaries(
    {},
    optional={
        "s": st.none() | st.fixed_dictionaries({}, optional={"a": numbers, "b": st.dictionaries(names, free, max_size=2)}),
        "set": st.lists(names, max_size=3, unique=True),
        "map": items,
        "atomic": st.dictionaries(names, numbers, max_size=2),
        "free": free,
    },
)
element = st.sampled_from(["f:a", "f:b", "f:c", 'k:{"n":1}', 'v:"x"'])
field_sets = st.recursive(st.just({}), lambda inner: st.dictionaries(element | st.just("."), inner, max_size=3), max_leaves=8).map(
    lambda fields: decode(json.loads(json.dumps(fields), object_hook=lambda node: node | {".": {}} if "." in node else node))
)


def members(fields: FieldSet) -> set[tuple[str, ...]]:
    return set(paths(fields))


def versions(kind: MergeType = KIND) -> Versions:
    return Versions("v1", kind, lambda obj, _version: (kind, obj), key=object())


def obj_of(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "T", "metadata": {"name": "x"}, **copy.deepcopy(spec)}


@given(field_sets, field_sets)
def test_a_union_with_nothing_new_is_its_first_set(one: FieldSet, other: FieldSet):
    """The set itself, whose order may be known; a union with something new is another set."""
    assert (union(one, other) is one) is (members(other) <= members(one))


@given(specs)
def test_the_fields_of_a_new_object_are_in_order(spec: Any):
    """They are written as they are."""
    fields = new_fields(KIND, obj_of(spec))
    assert json.dumps(fields) == json.dumps(ordered(fields))


@given(field_sets, field_sets)
def test_sets_are_sets(one: FieldSet, other: FieldSet):
    """Union, intersection and difference are those of the sets of members, and change nothing they are given."""
    before = json.dumps([one, other])
    assert members(union(one, other)) == members(one) | members(other)
    assert members(intersection(one, other)) == members(one) & members(other)
    assert members(difference(one, other)) == members(one) - members(other)
    below = {path for path in members(one) if any(path[: len(taken)] == taken for taken in members(other))}
    assert members(without(one, other)) == members(one) - below
    assert json.dumps([one, other]) == before


@given(specs, specs)
def test_merge_and_compare(live: Any, applied: Any):
    """Merging is idempotent, changes no input, and what differs from the live value is what a comparison names."""
    before = json.dumps([live, applied])
    merged = merge(KIND, live, applied)
    assert merge(KIND, merged, applied) == merged
    assert compare(KIND, merged, copy.deepcopy(merged)).is_same()
    assert compare(KIND, live, merged).is_same() is (json.dumps(live, sort_keys=True) == json.dumps(merged, sort_keys=True)) or (
        "set" in live or "map" in live
    )
    forth, back = compare(KIND, live, applied), compare(KIND, applied, live)
    assert members(forth.added) == members(back.removed)
    assert members(forth.modified) == members(back.modified)
    remove(KIND, merged, fields_of(KIND, applied))
    assert json.dumps([live, applied]) == before


def filled(value: Any) -> Any:
    """Without empty values: removing all elements of a map or list leaves a null, as upstream, over which an empty one is a change."""
    if isinstance(value, dict):
        return {name: below for name, child in value.items() if (below := filled(child)) not in (None, {}, [])}
    return [filled(item) for item in value] if isinstance(value, list) else value


@given(specs, specs, specs.map(filled))
def test_apply_is_idempotent(first: Any, second: Any, third: Any):
    """The second of two equal applies changes nothing, after any other writes; no apply changes its argument."""
    live = track_apply(versions(), None, obj_of(first), ManagedWrite(name="one", time="1"), force=True)[0]
    live = track_apply(versions(), live, obj_of(second), ManagedWrite(name="two", time="2"), force=True)[0]
    before = json.dumps(live)
    once = track_apply(versions(), live, obj_of(third), ManagedWrite(name="one", time="3"), force=True)[0]
    assert json.dumps(live) == before
    # Without any owner, not even of applied fields (an empty list), the next apply finds an object from before the first.
    assume("managedFields" in once["metadata"])
    assert track_apply(versions(), once, obj_of(third), ManagedWrite(name="one", time="4"), force=False)[0] == once


@given(specs, specs)
def test_updates_leave_no_field_behind(first: Any, second: Any):
    """After an update, the fields of the object are owned, and missing fields are not."""
    live = obj_of(first)
    track_update(versions(), None, live, ManagedWrite(name="one", time="1"))
    live["metadata"]["uid"] = "1"
    new = obj_of(second)
    new["metadata"]["uid"] = "1"
    track_update(versions(), live, new, ManagedWrite(name="two", time="2"))
    owned: FieldSet = {}
    for entry in new["metadata"].get("managedFields") or ():
        owned = union(owned, entry["fieldsV1"])
    if "managedFields" in live["metadata"]:
        # Without any owner, an update does not begin to track.
        assert not members(fields_of(KIND, second)) - members(owned)
        assert not members(owned) - members(compare(KIND, {}, second).added)


@given(st.lists(st.tuples(specs, st.sampled_from(["one", "two", "kubectl"]), st.booleans()), min_size=2, max_size=5))
def test_what_entries_say_is_known(writes: list[tuple[Any, str, bool]]):
    """An update and an apply return what their entries say, with which the next write does the same as by reading them."""
    types = versions()
    live: dict[str, Any] | None = None
    known: Managed | None = None
    for number, (spec, name, applies) in enumerate(writes):
        by = ManagedWrite(name=name, time=str(number))
        before = repr((live, known))
        results: list[tuple[dict[str, Any], Managed | None]] = []
        for told in (known, None):
            new = obj_of(spec)
            said: Managed | None
            if applies:
                new, said = track_apply(types, live, new, by, force=True, known=told)
            else:
                said = track_update(types, live, new, by, known=told)
            results.append((new, said))
        assert json.dumps(results[0][0]) == json.dumps(results[1][0])
        assert repr((live, known)) == before
        live, known = results[0]
        if known is not None:
            read = decode_entries(live["metadata"].get("managedFields"), stored=True)
            assert (known.owners, known.times, known.in_order.keys()) == (read.owners, read.times, read.in_order.keys())


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"f:a": value}
    return value


def test_deep_sets():
    """Sets deeper than any object are refused; the deepest that objects can have are not."""
    decode(nested(MAX_DEPTH - 8))
    with pytest.raises(FieldSetError):
        decode(nested(MAX_DEPTH * 8))


def test_deep_values():
    """The deepest object that decodes is walked."""
    deep: Any = {}
    for _ in range(MAX_DEPTH - 2):
        deep = {"a": deep}
    live = obj_of({"free": deep})
    track_update(versions(DEDUCED), None, live, ManagedWrite(name="one", time="1"))
    live["metadata"]["uid"] = "1"
    config = obj_of({"free": {"b": deep["a"]}})
    new = track_apply(versions(DEDUCED), live, config, ManagedWrite(name="two", time="2"), force=True)[0]
    assert new["free"] == {"a": deep["a"], "b": deep["a"]}


def test_duplicates_are_named():
    """Two applied items with the same keys are refused by their keys."""
    with pytest.raises(DuplicateKeyError, match=r'duplicate entries for key \[k="a"\]'):
        merge(KIND, {}, {"map": [{"k": "a"}, {"k": "a"}]})
