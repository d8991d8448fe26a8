"""Upstream's own cases for walks over typed values, where the corpus is present."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kcp_py.apimachinery.managedfields.fieldsets import FieldSet, intersection
from kcp_py.apimachinery.managedfields.types import DEDUCED, MergeType
from kcp_py.apimachinery.managedfields.walks import compare, fields_of, merge, remove
from tests.apimachinery.managedfields.tables import Schema, constants, document, field_set, rows
from tests.corpus import CORPUS, needs_corpus

pytestmark = needs_corpus

if CORPUS is None:
    pytest.skip("the corpus is not on this machine", allow_module_level=True)


def typed(path: str, name: str, cells: str) -> Iterator[tuple[str, MergeType, Any]]:
    """Each cell of a table, with its case's type."""
    named = constants(path)
    for case in rows(path, None, name):
        schema = case["schema"]
        if isinstance(schema, dict):
            schema = named[schema["args"][0]["$id"]]
        if "__untyped_separable_" in schema:
            continue  # a type that may be a granular list of anything: no schema of Kubernetes becomes one
        kind = Schema(schema).named(case["rootTypeName"])
        for number, row in enumerate(case[cells]):
            yield f"{case['name']}-{number}", kind, row


def deduced(function: str, name: str) -> Iterator[tuple[str, MergeType, Any]]:
    for number, row in enumerate(rows("typed/deduced_test.json", function, name)):
        yield f"deduced-{number}", DEDUCED, row


def parameters(found: Iterator[tuple[str, MergeType, Any]]) -> list[Any]:
    return [pytest.param(kind, row, id=name) for name, kind, row in found]


@pytest.mark.parametrize(
    ("kind", "row"),
    parameters(typed("typed/toset_test.json", "fieldsetCases", "pairs")) + parameters(deduced("TestToSetDeduced", "tests")),
)
def test_fields_of_a_value(kind: MergeType, row: Any):
    """An object has the fields that upstream says."""
    text, expected = row["$pos"]
    assert fields_of(kind, document(text)) == field_set(expected)


@pytest.mark.parametrize(
    ("kind", "row"),
    parameters(typed("typed/symdiff_test.json", "symdiffCases", "quints")) + parameters(deduced("TestSymdiffDeduced", "quints")),
)
def test_comparison(kind: MergeType, row: Any):
    """Additions, modifications and removals equal upstream's."""
    found = compare(kind, document(row["lhs"]), document(row["rhs"]))
    assert found.added == field_set(row["added"])
    assert found.modified == field_set(row["modified"])
    assert found.removed == field_set(row["removed"])


@pytest.mark.parametrize(
    ("kind", "row"),
    parameters(typed("typed/merge_test.json", "mergeCases", "triplets")) + parameters(deduced("TestMergeDeduced", "triplets")),
)
def test_merge(kind: MergeType, row: Any):
    """The merge of two objects is upstream's, and neither is changed."""
    live, applied, expected = map(document, row["$pos"])
    before = json.dumps([live, applied])
    assert merge(kind, live, applied) == expected
    assert json.dumps([live, applied]) == before


@pytest.mark.parametrize(("kind", "row"), parameters(typed("typed/remove_test.json", "removeCases", "quadruplets")))
def test_removal(kind: MergeType, row: Any):
    """The rest after a removal of fields equals upstream's."""
    text, fields, left, _extracted = row["$pos"]
    if left == "unparseable":
        return  # upstream asks of these only that they do not fit their schema any more: a list's item without its key
    obj = document(text)
    before = json.dumps(obj)
    taken: FieldSet = field_set(fields)
    assert remove(kind, obj, taken) == document(left)
    assert json.dumps(obj) == before
    assert intersection(taken, fields_of(kind, remove(kind, obj, taken))) == {} or kind.atomic
