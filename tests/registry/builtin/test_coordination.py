"""Leases."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.registry.builtin.coordination import LeaseStrategy


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


@pytest.mark.parametrize(("given", "stored"), [
    ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z"),
    ("2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:00.123456Z"),
    ("2026-01-01T02:00:00.5+02:00", "2026-01-01T00:00:00.500000Z"),
    ("yesterday", "yesterday"),
])  # fmt: skip
def test_times_have_six_digits(given, stored):
    """Times are stored as MicroTime writes them; what is none is left for the schema to report."""
    obj = lease(renewTime=given)
    LeaseStrategy().prepare_for_create(obj)
    assert obj["spec"]["renewTime"] == stored


def test_writes_need_a_resource_version_and_may_create():
    """Two holders cannot overwrite each other unseen; a PUT makes a lease that is missing."""
    assert not LeaseStrategy.allow_unconditional_update
    assert LeaseStrategy.allow_create_on_update
