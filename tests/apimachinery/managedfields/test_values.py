"""Upstream's own cases for the fields of typed values, where the corpus is present."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.managedfields.types import MergeType
from kcp_py.apimachinery.managedfields.values import fields_of
from tests.apimachinery.managedfields.tables import deduced, document, field_set, parameters, typed
from tests.corpus import CORPUS, needs_corpus

pytestmark = needs_corpus

if CORPUS is None:
    pytest.skip("the corpus is not on this machine", allow_module_level=True)


@pytest.mark.parametrize(
    ("kind", "row"),
    parameters(typed("typed/toset_test.json", "fieldsetCases", "pairs")) + parameters(deduced("TestToSetDeduced", "tests")),
)
def test_fields_of_a_value(kind: MergeType, row: Any):
    """An object has the fields that upstream says."""
    text, expected = row["$pos"]
    assert fields_of(kind, document(text)) == field_set(expected)
