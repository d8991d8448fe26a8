"""Updates that repeat themselves with other values: as `track_update`, or left to it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.managedfields.entries import Managed, encode_entries
from kcp_py.apimachinery.managedfields.fieldsets import FieldSet
from kcp_py.apimachinery.managedfields.ownership import Versions
from kcp_py.apimachinery.managedfields.repeatedupdates import track_repeated_update
from kcp_py.apimachinery.managedfields.tracking import KUBECTL, ManagedWrite, track_apply, track_update, well_known
from kcp_py.apimachinery.managedfields.types import DEDUCED, MergeType
from tests.apimachinery.managedfields.repetitions import FULL, KIND, V1, VERSIONS, applied, by, specs, varied, widget


def noted(live: dict[str, Any], new: dict[str, Any], writer: ManagedWrite, known: Managed | None, *, kind: MergeType = KIND) -> bool:
    """Whether an update repeats itself. If so, it is noted as `track_update` notes it; nothing else is changed, and nothing if not."""
    versions = VERSIONS if kind is KIND else Versions(V1, kind, lambda obj, _version: (kind, obj), key=object())
    if known is None or kind is not KIND:
        known = well_known(live, versions)
        assert known is not None
    before, given = repr((live, known)), repr(new)
    expected = copy.deepcopy(new)
    said = track_update(versions, live, expected, writer, known=known)
    found = track_repeated_update(versions, live, new, writer, known=known)
    assert repr((live, known)) == before
    if found is None:
        assert repr(new) == given
        return False
    assert said is not None
    assert json.dumps(new) == json.dumps(expected)
    assert (found.owners, found.times, found.versions) == (said.owners, said.times, said.versions)
    assert list(found.owners) == list(said.owners)
    assert all(found.owners[manager].fields is owned.fields for manager, owned in said.owners.items())
    assert {id(owned.fields) for owned in found.owners.values()} <= found.in_order.keys()
    assert json.dumps(encode_entries(found)) == json.dumps(new["metadata"]["managedFields"])
    return True


def updated(*writes: tuple[ManagedWrite, dict[str, Any]]) -> tuple[dict[str, Any], Managed]:
    """An object that several managers have written one after the other."""
    live: dict[str, Any] | None = None
    known: Managed | None = None
    for writer, new in writes:
        new = copy.deepcopy(new)  # noqa: PLW2901
        if live is not None:
            new["metadata"]["uid"] = "1"
        known = track_update(VERSIONS, live, new, writer, known=known)
        live = new
        live["metadata"]["uid"] = "1"
    assert live is not None
    found = well_known(live, VERSIONS)
    assert found is not None
    return live, found


def again(live: dict[str, Any], *, entries: Any = None, **spec: Any) -> dict[str, Any]:
    """What a client that has read the object sends: with other values, and with the entries that it has read or others."""
    new: dict[str, Any] = copy.deepcopy(live)
    new["spec"] |= spec
    if entries is not None:
        new["metadata"]["managedFields"] = entries
    return new


def time_of(obj: dict[str, Any], name: str) -> str:
    (found,) = (entry["time"] for entry in obj["metadata"]["managedFields"] if entry["manager"] == name)
    return str(found)


ITEMS = [{"k": "a", "v": 1}, {"k": "b", "deep": {"x": "1"}}]
LISTED = FULL | {"spec": FULL["spec"] | {"names": ["a"], "free": {"a": [1], "b": {"c": 1}}, "items": ITEMS}}


@pytest.mark.parametrize(
    "spec",
    [
        {"size": 2},
        {"ratio": 2.5, "on": False},
        {"deep": {"b": {"x": "2"}, "a": 2}},
        {"texts": {"t": "2"}},
        {"parts": {"p": {"n": 2}}},
        {"whole": {"w": "2", "v": "1"}},
        {"whole": {}},
        {"steps": [{"n": 2}, {"n": 3}]},
        {"steps": []},
        {"free": {"a": [2], "b": {"c": 2}}},
        {"items": [{"k": "a", "v": 2}, {"k": "b", "deep": {"x": "2"}}]},
        {"items": [{"k": "a", "v": 1}, {"deep": {"x": "2"}, "k": "b"}]},
    ],
)
def test_an_update_of_values(spec: dict[str, Any]) -> None:
    """The entries are those of `track_update`: the writer's has another time, and with it another place."""
    live, known = updated((by("me"), LISTED))
    new = again(live, **spec)
    assert noted(live, new, by("me", 5), known)
    assert time_of(new, "me") == "2024-01-01T00:00:05Z"
    two, known = updated((by("me"), LISTED), (by("you", 1), LISTED | {"metadata": LISTED["metadata"] | {"labels": {"l": "1", "m": "1"}}}))
    new = again(two, **spec)
    assert noted(two, new, by("me", 5), known)
    assert [entry["manager"] for entry in new["metadata"]["managedFields"]] == ["you", "me"]
    assert (time_of(new, "you"), time_of(new, "me")) == ("2024-01-01T00:00:01Z", "2024-01-01T00:00:05Z")


def test_an_update_that_changes_nothing() -> None:
    """No entry changes, not even in its time, by an update of any manager. Numbers are compared by value."""
    live, known = updated((by("me"), LISTED))
    for name in ("me", "you"):
        new = again(live)
        assert noted(live, new, by(name, 5), known)
        assert new == live
    new = again(live, whole={"w": "1"}, free={"b": {"c": 1.0}, "a": [1.0]}, steps=[{"n": 1.0}])
    assert noted(live, new, by("me", 5), known)
    assert time_of(new, "me") == "2024-01-01T00:00:00Z"
    assert not noted(live, again(live, size=1.0, on=False), by("me", 5), known)


def test_true_is_not_one() -> None:
    """A list or an atomic map with the one in place of the other has changed, although Python takes them for equal."""
    live, known = updated((by("me"), widget(steps=[1], whole={"a": 1})))
    for spec in ({"steps": [True]}, {"whole": {"a": True}}):
        new = again(live, **spec)
        assert noted(live, new, by("me", 5), known)
        assert time_of(new, "me") == "2024-01-01T00:00:05Z"


@pytest.mark.parametrize(
    "change",
    [
        {"spec": FULL["spec"] | {"names": ["b"]}},
        {"spec": FULL["spec"] | {"items": ITEMS[:1]}},
        {"spec": FULL["spec"] | {"items": [*ITEMS, {"k": "c"}]}},
        {"spec": FULL["spec"] | {"items": [ITEMS[1], ITEMS[0]]}},
        {"spec": FULL["spec"] | {"items": [ITEMS[0], {"k": "c", "deep": {"x": "1"}}]}},
        {"spec": FULL["spec"] | {"items": [ITEMS[0], {"k": "b", "deep": {"y": "1"}}]}},
        {"spec": FULL["spec"] | {"items": [ITEMS[0], {"k": "b", "v": 1}]}},
        {"spec": FULL["spec"] | {"items": [ITEMS[0], ITEMS[0]]}},
        {"spec": FULL["spec"] | {"items": [1, "b"]}},
        {"spec": {name: value for name, value in FULL["spec"].items() if name != "size"}},
        {"spec": FULL["spec"] | {"free": {}}},
        {"spec": FULL["spec"] | {"size": None}},
        {"spec": FULL["spec"] | {"size": "1"}},
        {"spec": FULL["spec"] | {"deep": {}}},
        {"spec": FULL["spec"] | {"deep": {"a": 1}}},
        {"spec": FULL["spec"] | {"deep": {"a": 1, "b": {}}}},
        {"spec": FULL["spec"] | {"parts": {"q": {"n": 1}}}},
        {"spec": None},
        {"spec": []},
        {"status": {"ready": True}},
        {"metadata": FULL["metadata"] | {"labels": {"l": "2"}}},
        {"metadata": FULL["metadata"] | {"labels": {"l": "1", "m": "1"}}},
        {"metadata": FULL["metadata"] | {"labels": None}},
        {"metadata": FULL["metadata"] | {"finalizers": ["a.io/b"]}},
        {"metadata": {"name": "a", "namespace": "default"}},
    ],
)
def test_all_other_updates_are_compared(change: dict[str, Any]) -> None:
    """Fields that come or go, parts of granular lists, and metadata."""
    live, known = updated((by("me"), FULL | {"spec": FULL["spec"] | {"names": ["a"], "items": ITEMS}}))
    new = copy.deepcopy(live) | copy.deepcopy(change)
    new["spec"] = new["spec"] and {"names": ["a"], "items": ITEMS} | new["spec"]
    assert not noted(live, new, by("me", 5), known)


def test_items_that_share_their_keys() -> None:
    """They are owned together, so a change of one of them is one of all; items without keys are known by their places."""
    twice = [{"k": "a", "v": 1}, {"k": "a", "v": 2}]
    live, known = updated((by("me"), widget(items=twice)))
    assert not noted(live, again(live, items=[twice[0], {"k": "a", "v": 3}]), by("me", 5), known)
    live, known = updated((by("me"), widget(items=[{"v": 1}, {"v": 2}])))
    assert noted(live, again(live, items=[{"v": 1}, {"v": 3}]), by("me", 5), known)
    live, known = updated((by("me"), widget(items=[{"k": "a", "v": 1}])), (by("you", 1), widget(items=[{"k": "a", "v": 2}])))
    assert not noted(live, again(live, items=[{"k": "a", "v": 3}]), by("me", 5), known)
    assert noted(live, again(live, items=[{"k": "a", "v": 3}]), by("you", 5), known)


def owned_by(live: dict[str, Any], **fields: FieldSet) -> dict[str, Any]:
    """An object whose updaters own these fields."""
    (entry, *_) = live["metadata"]["managedFields"]
    return again(live, entries=[entry | {"manager": name, "fieldsV1": one} for name, one in fields.items()])


def test_items_that_others_own_whole() -> None:
    """A change of one of several items with the same keys is taken from an owner of the item, not of its fields."""
    twice = [{"k": "a", "v": 1}, {"k": "a", "v": 2}]
    live, _ = updated((by("me"), widget(items=twice)))
    item: FieldSet = {".": {}, "f:k": {}, "f:v": {}}
    live = owned_by(live, me={"f:spec": {"f:items": {'k:{"k":"a"}': item}}}, other={"f:spec": {"f:items": {'k:{"k":"a"}': {}}}})
    assert not noted(live, again(live, items=[twice[0], {"k": "a", "v": 3}]), by("me", 5), None)


def test_items_in_another_order() -> None:
    """No field changes, so the time stays."""
    items = [{"k": "a", "v": 1}, {"k": "b", "v": 2}]
    live, known = updated((by("me"), widget(items=items)))
    assert not noted(live, again(live, items=items[::-1]), by("me", 5), known)


def test_fields_below_a_scalar_are_not_the_scalar() -> None:
    """A manager that owns what a value had below it does not own the value."""
    live, _ = updated((by("me"), widget(size=1)))
    live = owned_by(live, me={"f:spec": {"f:size": {"f:x": {}}}})
    assert not noted(live, again(live, size=2), by("me", 5), None)
    live = owned_by(live, me={"f:spec": {"f:size": {".": {}, "f:x": {}}}})
    assert noted(live, again(live, size=2), by("me", 5), None)


def test_owners_in_other_versions_are_compared_there() -> None:
    """A field may have another name there."""

    def convert(obj: Any, version: str) -> tuple[MergeType, Any]:
        spec = {"width" if name == "size" else name: value for name, value in obj["spec"].items()} if obj else {}
        return DEDUCED, obj | {"apiVersion": version, "spec": spec}

    versions = Versions(V1, KIND, convert, key=object())
    live, _ = updated((by("me"), widget(size=1)))
    (entry,) = live["metadata"]["managedFields"]
    other = entry | {"manager": "other", "apiVersion": "example.com/v2", "fieldsV1": {"f:spec": {"f:width": {}}}}
    live = again(live, entries=[entry, other])
    known = well_known(live, versions)
    assert known is not None
    assert track_repeated_update(versions, live, again(live, size=2), by("me", 5), known=known) is None
    new = again(live, size=2)
    track_update(versions, live, new, by("me", 5), known=known)
    assert [entry["manager"] for entry in new["metadata"]["managedFields"]] == ["me"]


def test_equal_lists_deep_in_an_object() -> None:
    """They are compared wherever they are: only what has changed must be the writer's."""
    live, known = updated((by("you"), widget(free={"a": {"b": {"c": [1], "d": 1}}})))
    new = again(live, free={"a": {"b": {"c": [1], "d": 2}}})
    known = track_update(VERSIONS, live, new, by("me", 1), known=known) or known
    assert noted(new, again(new, free={"a": {"b": {"c": [1], "d": 3}}}), by("me", 5), known)
    assert not noted(new, again(new, free={"a": {"b": {"c": [2], "d": 2}}}), by("me", 5), known)


def test_what_others_own_is_compared() -> None:
    """A field that another manager owns, too, whether by an apply or an update, goes over to the writer, and so does one without owner."""
    live, known = applied(("other", widget(size=1, on=True)), ("both", widget(size=1, ratio=1.5)))
    mine = again(live, size=2)
    known_before = known
    known = track_update(VERSIONS, live, mine, by("me", 2), known=known) or known
    assert noted(mine, again(mine, size=3), by("me", 5), known)
    assert not noted(mine, again(mine, ratio=2.5), by("me", 5), known)
    assert not noted(mine, again(mine, size=3), by("you", 5), known)
    assert not noted(mine, again(mine, size=3), ManagedWrite("me", "2024-01-01T00:00:05Z", "scale"), known)
    assert not noted(live, again(live, size=3), by("other", 5), known_before)
    # An apply of the same value shares the ownership.
    shared, both = track_apply(VERSIONS, mine, widget(size=2), by("third", 3), force=False, known=known)
    assert not noted(shared, again(shared, size=3), by("me", 5), both)


def test_entries_of_the_request() -> None:
    """The stored ones, and none, change nothing; others are read. Through a subresource they are never looked at."""
    live, known = updated((by("me"), widget(size=1)))
    none = again(live, size=2)
    del none["metadata"]["managedFields"]
    assert noted(live, none, by("me", 5), known)
    given = live["metadata"]["managedFields"]
    entries: Any
    for entries in ([], [{}], [given[0] | {"manager": "you"}], [given[0] | {"time": "2024-01-01T00:00:03Z"}], "broken"):
        assert not noted(live, again(live, size=2, entries=entries), by("me", 5), known)
    part = by("me", 1)._replace(subresource="scale")
    scaled = again(live, size=2)
    known = track_update(VERSIONS, live, scaled, part, known=known) or known
    for others in ([], [given[0] | {"manager": "you"}]):
        assert noted(scaled, again(scaled, size=3, entries=others), part, known)


def test_ignored_fields_are_compared() -> None:
    """A manager that owns a field which this endpoint resets loses it."""
    live, known = updated((by("me", ignored={"f:none": {}}), FULL | {"status": {"ready": True}}))
    assert noted(live, again(live, size=2), by("me", 5, {"f:none": {}}), known)
    assert not noted(live, again(live, size=2), by("me", 5), known)
    assert not noted(live, again(live, size=2), by("me", 5, {"f:spec": {"f:size": {}}}), known)


def test_too_many_updaters_are_joined() -> None:
    """An object with more of them than entries may be is left to `track_update`, and so are entries of other versions and no entries."""
    live, _ = updated((by("me"), widget(size=1)))
    (entry,) = live["metadata"]["managedFields"]
    for entries, repeats in (
        ([entry, *(entry | {"manager": f"m{i}", "fieldsV1": {"f:spec": {f"f:x{i}": {}}}} for i in range(9))], True),
        ([entry, *(entry | {"manager": f"m{i}", "fieldsV1": {"f:spec": {f"f:x{i}": {}}}} for i in range(10))], False),
        ([entry, entry | {"apiVersion": "example.com/v2"}], False),
        ([], False),
    ):
        one = again(live, entries=entries)
        assert noted(one, again(one, size=2), by("me", 5), None) is repeats


def test_what_is_known_of_other_types_is_not_used() -> None:
    """The types of a CRD that was changed are others; those of one write alone are never known."""
    live, known = updated((by("me"), widget(size=1)))
    assert track_repeated_update(VERSIONS._replace(key=object()), live, again(live, size=2), by("me", 5), known=known) is None
    known.versions = None
    assert track_repeated_update(VERSIONS, live, again(live, size=2), by("me", 5), known=known) is None
    assert track_repeated_update(VERSIONS._replace(key=None), live, again(live, size=2), by("me", 5), known=known) is None


def test_objects_without_a_type() -> None:
    """Their maps are granular and their lists are not."""
    live = widget(size=1, deep={"a": [1], "b": {"x": "1"}})
    track_update(VERSIONS._replace(kind=DEDUCED), None, live, by("me"))
    live["metadata"]["uid"] = "1"
    assert noted(live, again(live, deep={"a": [2, 3], "b": {"x": "2"}}), by("me", 5), None, kind=DEDUCED)
    assert not noted(live, again(live, deep={"a": [2, 3], "b": {"y": "2"}}), by("me", 5), None, kind=DEDUCED)
    atomic = MergeType(kind="map", atomic=True)
    assert not noted(live | {"metadata": {"uid": "1"}}, {"metadata": {"uid": "1"}}, by("me", 5), Managed(versions=VERSIONS.key), kind=KIND)
    versions = Versions(V1, atomic, lambda obj, _version: (atomic, obj), key=object())
    found = well_known(live, VERSIONS)
    assert found is not None
    found.versions = versions.key
    assert track_repeated_update(versions, live, again(live, size=2), by("me", 5), known=found) is None


managers = st.sampled_from(["me", "you", KUBECTL])


@given(
    writes=st.lists(st.tuples(specs, managers, st.sampled_from(["apply", "update", "status"])), min_size=1, max_size=4),
    name=managers,
    chance=st.randoms(use_true_random=False),
    sends=st.sampled_from(["read", "none", "other"]),
)
def test_a_repeated_update_is_an_update(writes: Any, name: str, chance: Any, sends: str) -> None:
    """Wherever it does anything, it does what `track_update` does, after any writes of several managers, through a subresource, too."""
    live: dict[str, Any] | None = None
    known: Managed | None = None
    for second, (spec, writer, kind) in enumerate(writes):
        new = widget(**copy.deepcopy(spec))
        if live is None or kind == "update":
            known = track_update(VERSIONS, live, new, by(writer, second), known=known)
            live = new
        elif kind == "apply":
            live, known = track_apply(VERSIONS, live, new, by(writer, second), force=True, known=known)
        else:
            new = copy.deepcopy(live) | {"status": {"ready": bool(chance.getrandbits(1))}}
            part = ManagedWrite(writer, f"2024-01-01T00:00:0{second}Z", "status", {"f:spec": {}, "f:metadata": {}})
            known = track_update(VERSIONS, live, new, part, known=known)
            live = new
        live["metadata"]["uid"] = "1"
    assert live is not None
    if not live["metadata"].get("managedFields"):
        return
    last: dict[str, Any] = varied(
        copy.deepcopy({name: part for name, part in live.items() if name not in {"metadata", "kind", "apiVersion"}}), chance
    )
    new = copy.deepcopy(live) | last
    if sends == "none":
        del new["metadata"]["managedFields"]
    elif sends == "other":
        new["metadata"]["managedFields"] = chance.choice([[], [{}], new["metadata"]["managedFields"][:1]])
    writers = [
        by(name, 5),
        by(name, 5, {"f:none": {}}),
        ManagedWrite(name, "2024-01-01T00:00:05Z", "status", {"f:spec": {}, "f:metadata": {}}),
    ]
    noted(live, new, chance.choice(writers), known)
