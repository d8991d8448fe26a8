"""Upstream's own cases for merging and for the removal of fields, where the corpus is present."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcp_py.apimachinery.managedfields.fieldsets import FieldSet, intersection
from kcp_py.apimachinery.managedfields.merging import merge, remove
from kcp_py.apimachinery.managedfields.types import MergeType
from kcp_py.apimachinery.managedfields.values import fields_of
from tests.apimachinery.managedfields.tables import deduced, document, field_set, parameters, typed
from tests.corpus import CORPUS, needs_corpus

pytestmark = needs_corpus

if CORPUS is None:
    pytest.skip("the corpus is not on this machine", allow_module_level=True)


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
