"""How the objects of a kind are merged, version by version."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.registry.merge_types import MergeTypes
from kcp_py.schema.structural.nodes import NodesByName

DOCUMENTS: dict[str, dict[str, Any]] = {
    "example.com/v1": {"type": "object"},
    "example.com/v2": {"type": "object", "properties": {"spec": {"type": "string"}}},
}


def test_versions():
    """Each served version has its type, worked out once; others have none."""
    types = MergeTypes(NodesByName(DOCUMENTS))
    first = types.get("example.com/v1")
    assert first is not None
    assert types.get("example.com/v1") is first
    second = types.get("example.com/v2")
    assert second is not None
    assert second.fields["spec"].kind == "scalar"
    assert types.get("example.com/v3") is None


@pytest.mark.anyio
@pytest.mark.parametrize("large", [False, True])
async def test_large_documents(large: bool):  # noqa: FBT001  # a case
    """Reading in a thread gives an equal result."""
    types = MergeTypes(NodesByName(DOCUMENTS), large=large)
    found = await types.load("example.com/v1")
    assert found is not None
    assert types.get("example.com/v1") is found
