"""Tables and partial metadata."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.meta import table
from kcp_py.apimachinery.meta.partial import partial_object_metadata

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "a", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {},
}
NOW = 1767225600.0 + 3 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1.9, "0s"),
        (-0.5, "0s"),
        (0, "0s"),
        (1.9, "1s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (9 * 60 + 59, "9m59s"),
        (600, "10m"),
        (659, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 - 1, "7h59m"),
        (8 * 3600, "8h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400 - 1, "7d23h"),
        (8 * 86400, "8d"),
        (2 * 365 * 86400 - 1, "729d"),
        (2 * 365 * 86400, "2y"),
        (2 * 365 * 86400 + 86400, "2y1d"),
        (8 * 365 * 86400 - 1, "7y364d"),
        (8 * 365 * 86400, "8y"),
    ],
)
def test_human_duration(seconds, text):
    """The boundaries of upstream's HumanDuration."""
    assert table.human_duration(seconds) == text


@pytest.mark.parametrize("timestamp", [None, "", "yesterday", 5])
def test_unknown_age(timestamp):
    """An object without a readable creation time has an unknown age."""
    assert table.age_of(timestamp, NOW) == "<unknown>"


def test_table_of_one_object():
    """The Table has the object's resourceVersion, and a row with its metadata alone."""
    made = table.object_table(POD, (table.NAME, table.AGE), now=NOW)
    assert made["metadata"] == {"resourceVersion": "7"}
    assert made["columnDefinitions"][0]["format"] == "name"
    assert made["rows"] == [
        {
            "cells": ["a", "3d"],
            "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": POD["metadata"]},
        }
    ]


def test_later_watch_events_have_no_headers():
    """Column definitions are sent once."""
    assert table.object_table(POD, table.DEFAULT_COLUMNS, now=NOW, headers=False)["columnDefinitions"] is None


def test_rows():
    """A row has the cells of an object and the object in the requested form."""
    assert table.table_rows([POD], table.DEFAULT_COLUMNS, NOW, include_object="Object") == [
        {"cells": ["a", "2026-01-01T00:00:00Z"], "object": POD}
    ]
    assert table.table_rows([POD], (table.NAME,), NOW, include_object="None") == [{"cells": ["a"], "object": None}]


def test_partial_metadata():
    """Partial objects keep nothing but metadata."""
    item = partial_object_metadata(POD)
    assert item == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": POD["metadata"]}


def test_cells_with_an_age_and_other_texts():
    """A cell is a function of the object, or of what several cells have in common, and ages within it are those of the present."""
    cell = table.LastingCell(lambda name: table.Since("2026-01-01T00:00:00Z", f"{name} (", " ago)"), of=lambda obj: obj["metadata"]["name"])
    assert [cell(POD, NOW), cell(POD, NOW + 86400)] == ["a (3d ago)", "a (4d ago)"]


@pytest.mark.parametrize("timestamp", ["2026-01-01T00:00:00Z", None, "", "yesterday", 5, [], "-" * 100])
def test_since(timestamp):
    """Its text is that of the age, unless texts other than times are shown in another way."""
    found = table.since(timestamp)
    assert (found.shown(NOW) if isinstance(found, table.Since) else found) == table.age_of(timestamp, NOW)
    other = table.since(timestamp, "<invalid>")
    assert other == ("<invalid>" if found == "<unknown>" and isinstance(timestamp, str) and timestamp else found)
