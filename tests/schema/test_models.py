"""Models of built-in kinds as decoders apply them."""

from __future__ import annotations

import pytest

from kcp_py.bootstrap.kinds import REFERENCE_PREFIX, builtin_kinds
from kcp_py.schema.models import validation_schema
from tests.bootstrap.references import references


@pytest.mark.parametrize("kind", builtin_kinds(), ids=lambda kind: kind.model)
def test_only_recursive_references_are_left_for_validation(kind):
    """What a decoder works with is one document, but for schemas that contain themselves."""
    document, left = validation_schema(kind.model)
    assert set(references([document, *left.values()])) == {REFERENCE_PREFIX + name for name in left}
    assert bool(left) is (kind.plural == "customresourcedefinitions")


def test_required_is_left_to_strategies_except_where_the_schema_is_all_there_is():
    """Typed kinds take zero values for missing fields; a LogicalCluster is judged by its schema."""
    assert "required" not in validation_schema("io.k8s.api.rbac.v1.RoleBinding").document
    owner = validation_schema("io.kcp.core.v1alpha1.LogicalCluster").document["properties"]["spec"]["properties"]["owner"]
    assert "uid" in owner["required"]
