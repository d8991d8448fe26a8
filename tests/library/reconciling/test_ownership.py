"""Owner references and finalizers."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.client.models import decode
from kcp_py.library.reconciling.ownership import owned_by, with_finalizer
from tests.client.ships import Ship

OWNER: dict[str, Any] = {
    "apiVersion": "fleet.example.com/v1",
    "kind": "Ship",
    "metadata": {"name": "argo", "namespace": "sea", "uid": "1"},
    "spec": {"homePort": "Iolcus"},
}
REFERENCE = {"apiVersion": "fleet.example.com/v1", "kind": "Ship", "name": "argo", "uid": "1"}


def test_an_owner_is_named_once_and_gives_its_namespace() -> None:
    """A typed owner and one of JSON, with other owners."""
    made = owned_by(OWNER, {"metadata": {"name": "a", "ownerReferences": [{"uid": "2"}, {"uid": "1", "name": "old"}]}})
    reference = {**REFERENCE, "controller": True, "blockOwnerDeletion": True}
    assert made["metadata"] == {"name": "a", "namespace": "sea", "ownerReferences": [{"uid": "2"}, reference]}
    assert owned_by(decode(Ship, OWNER), {}, controller=False, block=False)["metadata"]["ownerReferences"] == [REFERENCE]


def test_an_object_that_cannot_have_the_owner_is_refused() -> None:
    """Of another namespace, of another manager, and an owner that was never stored."""
    with pytest.raises(ValueError, match="in the namespace sea cannot own an object in land"):
        owned_by(OWNER, {"metadata": {"namespace": "land"}})
    managed = {"metadata": {"ownerReferences": [{"uid": "2", "kind": "Fleet", "name": "f", "controller": True}]}}
    with pytest.raises(ValueError, match="managed by Fleet f"):
        owned_by(OWNER, managed)
    assert len(owned_by(OWNER, managed, controller=False)["metadata"]["ownerReferences"]) == 2
    with pytest.raises(ValueError, match="no uid"):
        owned_by({"metadata": {"name": "a"}}, {})


def test_a_finalizer_is_written_over_one_state() -> None:
    """The resourceVersion and the uid are conditions; nothing is written where nothing changes."""
    place = {"resourceVersion": "5", "uid": "1"}
    obj = {"metadata": {**place, "finalizers": ["x/y"]}}
    assert with_finalizer(obj, "a/b", present=True) == {"metadata": {**place, "finalizers": ["x/y", "a/b"]}}
    assert with_finalizer(obj, "x/y", present=False) == {"metadata": {**place, "finalizers": []}}
    assert with_finalizer(obj, "x/y", present=True) is None
    assert with_finalizer(obj, "a/b", present=False) is None
