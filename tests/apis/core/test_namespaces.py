"""Namespaces are created, live and end as upstream's."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apis.core.namespaces import NamespaceStrategy
from kcp_py.request.user import LOOPBACK

STRATEGY = NamespaceStrategy()


def namespace(name: str = "team", **members: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, **members}


def test_creation():
    """A new namespace is active, has the server's finalizer and carries its name as a label."""
    obj = namespace(status={"phase": "Terminating"})
    STRATEGY.prepare_for_create(obj)
    STRATEGY.fill_new(obj, LOOPBACK)
    assert obj["status"] == {"phase": "Active"}
    assert obj["spec"] == {"finalizers": ["kubernetes"]}
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}


def test_generated_name_gets_its_label_at_validation():
    """A name that is generated after the preparation is labelled as well."""
    obj = namespace()
    del obj["metadata"]["name"]
    STRATEGY.prepare_for_create(obj)
    obj["metadata"]["name"] = "team-x"
    assert STRATEGY.validate(obj) == []
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team-x"}


def test_update_keeps_finalizers_and_status():
    """Neither spec.finalizers nor status change by an update, and the label comes back."""
    old = namespace(spec={"finalizers": ["kubernetes"]}, status={"phase": "Active"})
    new = namespace(spec={"finalizers": []}, status={"phase": "Terminating"})
    STRATEGY.prepare_for_update(new, old)
    assert new["spec"] == old["spec"]
    assert new["status"] == old["status"]
    assert new["metadata"]["labels"]["kubernetes.io/metadata.name"] == "team"
    assert STRATEGY.validate_update(new, old) == []


@pytest.mark.parametrize(("deleted", "phase", "wanted"), [
    (False, "Active", []),
    (False, "Terminating", ["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"]),
    (True, "Terminating", []),
    (True, "Active", ["status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"]),
])  # fmt: skip
def test_phase_follows_deletion(deleted, phase, wanted):
    """The phase says whether the namespace is being deleted."""
    obj = namespace(status={"phase": phase})
    if deleted:
        obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert [str(problem) for problem in STRATEGY.validate_update(obj, obj)] == wanted


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_immortal(name):
    """The namespaces of the system cannot be deleted."""
    assert STRATEGY.check_delete(namespace(name)) == "this namespace may not be deleted"


@pytest.mark.parametrize("name", ["team", "kube-node-lease"])
def test_mortal(name):
    """All others can."""
    assert STRATEGY.check_delete(namespace(name)) == ""


def test_deletion_waits_for_the_content():
    """A deleted namespace terminates until spec.finalizers is empty."""
    obj = namespace(spec={"finalizers": ["kubernetes", "example.com/own"]}, status={"phase": "Active"})
    assert STRATEGY.prepare_for_delete(obj)
    assert obj["status"] == {"phase": "Terminating"}
    assert STRATEGY.has_pending_finalizers(obj)
    assert STRATEGY.has_pending_finalizers(namespace(spec={"finalizers": ["example.com/own"]}))
    assert not STRATEGY.has_pending_finalizers(namespace(spec={}))


def test_finalizer_names():
    """A finalizer is the server's own or has a domain."""
    obj = namespace(spec={"finalizers": ["kubernetes", "mine"]})
    assert [str(problem) for problem in STRATEGY.validate(obj)] == [
        'spec.finalizers: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified'
    ]


def test_names_are_labels():
    """A namespace's name has no dots."""
    assert STRATEGY.validate_name("a.b")
    assert STRATEGY.validate_name("a-b") == []
