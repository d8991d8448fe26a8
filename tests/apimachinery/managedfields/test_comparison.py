"""Upstream's own cases for the comparison of typed values, where the corpus is present."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.managedfields.comparison import compare
from kcp_py.apimachinery.managedfields.types import MergeType
from tests.apimachinery.managedfields.tables import deduced, document, field_set, parameters, typed
from tests.corpus import CORPUS, needs_corpus

pytestmark = needs_corpus

if CORPUS is None:
    pytest.skip("the corpus is not on this machine", allow_module_level=True)


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
