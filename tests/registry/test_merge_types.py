"""How the objects of a kind are merged, version by version."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.managedfields.ownership import MissingVersionError
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


def test_forms_that_differ_in_their_version_alone():
    """The forms of a version are made once, give an object its `apiVersion`, and do not exist in versions that are not served."""
    types = MergeTypes(NodesByName(DOCUMENTS))
    kind = types.get("example.com/v1")
    assert kind is not None
    forms = types.versions("example.com/v1", kind)
    assert types.versions("example.com/v1", kind) is forms
    obj = {"apiVersion": "example.com/v1", "spec": "a"}
    assert forms.at(obj, "example.com/v1") == (kind, obj)
    assert forms.at(obj, "example.com/v2") == (types.get("example.com/v2"), {"apiVersion": "example.com/v2", "spec": "a"})
    assert forms.at({}, "example.com/v2") == (types.get("example.com/v2"), {})
    with pytest.raises(MissingVersionError):
        forms.at(obj, "example.com/v3")


def test_forms_that_were_made_before():
    """They are found without the type, and are those that the type leads to."""
    types = MergeTypes(NodesByName(DOCUMENTS))
    kind = types.get("example.com/v1")
    assert kind is not None
    assert types.cached_versions("example.com/v1") is None
    made = types.versions("example.com/v1", kind)
    assert types.cached_versions("example.com/v1") is made
    assert types.cached_versions("example.com/v2") is None
