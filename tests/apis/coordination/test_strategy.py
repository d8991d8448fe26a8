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
    ({"preferredHolder": "x"}, ["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"]),
    ({"strategy": "Odd"}, ['spec.strategy.strategy: Unsupported value: "Odd": supported values: "OldestEmulationVersion"']),
    ({"strategy": "example.com/own", "preferredHolder": "x"}, []),
], ids=["good", "duration", "transitions", "holder", "strategy", "own strategy"])  # fmt: skip
def test_rules(spec, wanted):
    """Each rule of leases answers in upstream's words."""
    assert [str(problem) for problem in LeaseStrategy().validate(lease(**spec))] == wanted


def test_writes_need_a_resource_version_and_may_create():
    """Two holders cannot overwrite each other unseen; a PUT makes a lease that is missing."""
    assert not LeaseStrategy.allow_unconditional_update
    assert LeaseStrategy.allow_create_on_update
