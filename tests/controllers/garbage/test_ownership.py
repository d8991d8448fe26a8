"""What the garbage collector reads of an object."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.client import ObjectFilter
from kcp_py.controllers.garbage.ownership import CONCERNING, FOREGROUND, ORPHAN, Item, Reference, read_facts

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1"}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def stored(**metadata: Any) -> bytes:
    return orjson.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "uid": "u2", **metadata}})


@pytest.mark.parametrize(
    ("metadata", "concerns", "awaits"),
    [
        pytest.param({}, False, "", id="alone"),
        pytest.param({"ownerReferences": [OWNER]}, True, "", id="owned"),
        pytest.param({"finalizers": [ORPHAN, FOREGROUND]}, False, "", id="finalizers before the deletion"),
        pytest.param({"finalizers": ["a.b/c"], **DELETED}, False, "", id="deleted, waiting for somebody else"),
        pytest.param({"finalizers": ["a.b/c", FOREGROUND], **DELETED}, True, FOREGROUND, id="foreground"),
        pytest.param({"finalizers": [FOREGROUND, ORPHAN], **DELETED}, True, ORPHAN, id="orphans first"),
    ],
)
def test_what_an_object_waits_for(metadata: dict[str, Any], concerns: bool, awaits: str) -> None:  # noqa: FBT001 - a case
    """The look at the bytes misses nothing that the facts hold."""
    value = stored(**metadata)
    facts = read_facts(value)
    concerned = ObjectFilter(contains=CONCERNING)
    assert (concerned.matches(value), facts.awaits, facts.deleting) == (
        concerns,
        awaits,
        "deletionTimestamp" in metadata,
    )


def test_references() -> None:
    """A reference blocks where it says so, and null says nothing."""
    owners = [OWNER, {**OWNER, "uid": "u3", "blockOwnerDeletion": True}, {**OWNER, "uid": "u4", "blockOwnerDeletion": None}]
    assert read_facts(stored(ownerReferences=owners)).owners == (
        Reference("apps/v1", "ReplicaSet", "web", "u1", blocks=False),
        Reference("apps/v1", "ReplicaSet", "web", "u3", blocks=True),
        Reference("apps/v1", "ReplicaSet", "web", "u4", blocks=False),
    )
    assert read_facts(stored(ownerReferences=None)).owners == ()


@pytest.mark.parametrize("item", [Item(GroupResource("", "pods"), "default", "a"), Item(GroupResource("a.b", "widgets"), "", "system:one")])
def test_items_are_written_and_read(item: Item) -> None:
    """In the core group and others, in namespaces and in none."""
    assert Item.parse(item.text) == item
