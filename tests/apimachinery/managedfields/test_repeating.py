"""Applies that repeat themselves with other values: as `track_apply`, or left to it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.managedfields.entries import Managed, encode_entries
from kcp_py.apimachinery.managedfields.ownership import ConflictsError
from kcp_py.apimachinery.managedfields.repeating import track_repeated
from kcp_py.apimachinery.managedfields.tracking import KUBECTL, track_apply, track_update
from tests.apimachinery.managedfields.repetitions import FULL, VERSIONS, applied, by, specs, varied, widget


@pytest.mark.parametrize(
    "spec",
    [
        FULL["spec"],
        FULL["spec"] | {"size": 2},
        FULL["spec"] | {"ratio": 2.5, "on": False},
        FULL["spec"] | {"deep": {"b": {"x": "2"}, "a": 2}},
        FULL["spec"] | {"texts": {"t": "2"}},
        FULL["spec"] | {"parts": {"p": {"n": 2}}},
    ],
)
@pytest.mark.parametrize("told", [True, False])
def test_values_change_alone(spec: dict[str, Any], *, told: bool) -> None:
    """The object, its entries and what they say are those of `track_apply`; nothing that was given is changed."""
    live, known = applied(("other", widget(names=["a"])), ("me", FULL))
    config = widget({"l": "1"}, **spec)
    before = repr((live, known, config))
    found = track_repeated(VERSIONS, live, config, by("me", 5), known=known if told else None)
    expected = track_apply(VERSIONS, live, copy.deepcopy(config), by("me", 5), force=False, known=known)
    assert found is not None
    assert json.dumps(found[0]) == json.dumps(expected[0])
    assert (found[1].owners, found[1].times) == (expected[1].owners, expected[1].times)
    assert list(found[1].owners) == list(expected[1].owners)
    assert found[1].versions is expected[1].versions
    assert json.dumps(encode_entries(found[1])) == json.dumps(found[0]["metadata"]["managedFields"])
    assert repr((live, known, config)) == before
    times = [entry["time"] for entry in found[0]["metadata"]["managedFields"] if entry["manager"] == "me"]
    assert times == ["2024-01-01T00:00:05Z" if spec != FULL["spec"] else "2024-01-01T00:00:00Z"]


@pytest.mark.parametrize(
    "config",
    [
        widget({"l": "1"}, **(FULL["spec"] | {"names": ["b"]})),
        widget({"l": "1"}, **{name: value for name, value in FULL["spec"].items() if name != "size"}),
        widget({"l": "2"}, **FULL["spec"]),
        widget({"l": "1", "m": "1"}, **FULL["spec"]),
        widget(**FULL["spec"]),
        widget({"l": "1"}, **(FULL["spec"] | {"size": None})),
        widget({"l": "1"}, **(FULL["spec"] | {"size": "1"})),
        widget({"l": "1"}, **(FULL["spec"] | {"ratio": 1})),
        widget({"l": "1"}, **(FULL["spec"] | {"unknown": 1})),
        widget({"l": "1"}, **(FULL["spec"] | {"whole": {"w": "2"}})),
        widget({"l": "1"}, **(FULL["spec"] | {"steps": [{"n": 2}]})),
        widget({"l": "1"}, **(FULL["spec"] | {"deep": {}})),
        widget({"l": "1"}, **(FULL["spec"] | {"deep": {"a": 1}})),
        widget({"l": "1"}, **(FULL["spec"] | {"parts": {"q": {"n": 1}}})),
        widget({"l": "1"}, **FULL["spec"]) | {"status": {"ready": True}},
        widget({"l": "1"}, **FULL["spec"]) | {"kind": "Gadget"},
        FULL | {"metadata": FULL["metadata"] | {"name": "b"}},
        FULL | {"metadata": FULL["metadata"] | {"uid": "1"}},
        FULL | {"metadata": FULL["metadata"] | {"finalizers": ["a.io/b"]}},
    ],
)
def test_all_else_is_left_to_the_merge(config: dict[str, Any]) -> None:
    """Other fields, other shapes, and values that do not fit their type, are merged."""
    live, known = applied(("me", FULL))
    assert track_repeated(VERSIONS, live, config, by("me", 5), known=known) is None
    assert track_repeated(VERSIONS, live, FULL, by("me", 5), known=known) is not None


def test_others_keep_what_they_own() -> None:
    """A field that another manager owns, too, is left to the merge, which finds the conflict; an equal value does not conflict."""
    live, known = applied(("other", widget(size=1)), ("me", widget(size=1, on=True)))
    assert track_repeated(VERSIONS, live, widget(size=2, on=True), by("me", 5), known=known) is None
    with pytest.raises(ConflictsError):
        track_apply(VERSIONS, live, widget(size=2, on=True), by("me", 5), force=False, known=known)
    assert track_repeated(VERSIONS, live, widget(size=1, on=False), by("me", 5), known=known) is not None


def test_managers_without_a_repetition() -> None:
    """One that has applied nothing yet, one that has updated, and kubectl, which keeps an annotation up to date."""
    live, known = applied(("me", widget(size=1)), (KUBECTL, widget(on=True)))
    assert track_repeated(VERSIONS, live, widget(size=1), by("you", 5), known=known) is None
    assert track_repeated(VERSIONS, live, widget(on=True), by(KUBECTL, 5), known=known) is None
    updated = json.loads(json.dumps(live)) | {"spec": {"size": 1, "on": True, "ratio": 2.5}}
    noted = track_update(VERSIONS, live, updated, by("me", 3), known=known)
    assert track_repeated(VERSIONS, updated, widget(ratio=1.5), by("me", 5), known=noted) is None


def test_owners_of_other_types_are_left_to_the_merge() -> None:
    """Entries of another version, sets of fields in a place that became atomic, and entries that cannot be read."""
    live, known = applied(("other", widget(on=True)), ("me", widget(size=1)))
    assert track_repeated(VERSIONS, live, widget(size=2), by("me", 5)) is not None
    changes: list[dict[str, Any]] = [
        {"apiVersion": "example.com/v2"},
        {"fieldsV1": {"f:spec": {"f:whole": {"f:w": {}}}}},
        {"fieldsV1": {"f:metadata": {"f:name": {}}}},
        {"operation": "Else"},
    ]
    for change in changes:
        entries = [entry | change if entry["manager"] == "other" else entry for entry in live["metadata"]["managedFields"]]
        other = live | {"metadata": live["metadata"] | {"managedFields": entries}}
        assert track_repeated(VERSIONS, other, widget(size=2), by("me", 5)) is None
    assert track_repeated(VERSIONS._replace(key=None), live, widget(size=2), by("me", 5), known=known) is None


def test_fields_that_the_endpoint_resets_are_left_to_the_merge() -> None:
    """Its manager does not own them."""
    live, known = applied(("me", widget({"l": "1"}, size=1)))
    assert track_repeated(VERSIONS, live, widget({"l": "1"}, size=2), by("me", 5, {"f:spec": {}}), known=known) is None
    assert track_repeated(VERSIONS, live, widget({"l": "1"}, size=2), by("me", 5, {"f:metadata": {}}), known=known) is None


@given(first=specs, second=specs, created=specs, chance=st.randoms(use_true_random=False), told=st.booleans())
def test_a_repetition_is_an_apply(first: Any, second: Any, created: Any, chance: Any, *, told: bool) -> None:
    """Wherever it does anything, it does what `track_apply` does with and without force."""
    live = widget(**created)
    known: Managed | None = track_update(VERSIONS, None, live, by("creator"))
    live["metadata"]["uid"] = "1"
    for name, spec in (("other", first), ("me", second)):
        live, known = track_apply(VERSIONS, live, widget(**copy.deepcopy(spec)), by(name, 1), force=True, known=known)
    config = widget(**varied(second, chance))
    found = track_repeated(VERSIONS, live, config, by("me", 5), known=known if told else None)
    if found is not None:
        expected = track_apply(VERSIONS, live, copy.deepcopy(config), by("me", 5), force=chance.getrandbits(1) == 1, known=known)
        assert json.dumps(found[0]) == json.dumps(expected[0])
        assert (found[1].owners, found[1].times) == (expected[1].owners, expected[1].times)


def test_other_members_on_the_way_are_left_to_the_merge() -> None:
    """A manager that owns a map itself, as no apply of its fields leaves it, gets the set of its configuration."""
    live, _ = applied(("me", widget(size=1)))
    (entry,) = live["metadata"]["managedFields"]
    entries = [entry | {"fieldsV1": {"f:spec": {".": {}, "f:size": {}}}}]
    other = live | {"metadata": live["metadata"] | {"managedFields": entries}}
    assert track_repeated(VERSIONS, other, widget(size=2), by("me", 5)) is None
    assert track_repeated(VERSIONS, live, widget(size=2), by("me", 5)) is not None
