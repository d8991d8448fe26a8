"""Leases."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apis.coordination.strategy import LeaseStrategy


def lease(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(("spec", "wanted"), [
    ({"leaseDurationSeconds": 15, "leaseTransitions": 0, "holderIdentity": "me"}, []),
    ({"leaseDurationSeconds": 0}, ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"]),
    ({"leaseTransitions": -1}, ["spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"]),
], ids=["good", "duration", "transitions"])  # fmt: skip
def test_rules(spec, wanted):
    """Each rule of leases answers in upstream's words."""
    assert [str(problem) for problem in LeaseStrategy().validate(lease(**spec))] == wanted


def test_fields_of_coordinated_leader_election_are_dropped():
    """As by a kube-apiserver with default features; a stored lease keeps them."""
    coordinated = {"strategy": "OldestEmulationVersion", "preferredHolder": "x"}
    new = lease(holderIdentity="me", **coordinated)
    LeaseStrategy().prepare_for_create(new)
    assert new["spec"] == {"holderIdentity": "me"}
    changed = lease(**coordinated)
    LeaseStrategy().prepare_for_update(changed, lease(**coordinated))
    assert changed["spec"] == coordinated


def test_writes_need_a_resource_version_and_may_create():
    """Two holders cannot overwrite each other unseen; a PUT makes a lease that is missing."""
    assert not LeaseStrategy.allow_unconditional_update
    assert LeaseStrategy.allow_create_on_update
