"""Parts of a status."""

from __future__ import annotations

import ipaddress

import pytest

from kcp_py.controllers.simulation.values import address, condition, merged_conditions, replicas_of, revision_of, without_zeros

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def test_a_condition_that_is_there_stays() -> None:
    """With its times, whatever the time is; so do conditions of other types."""
    other = {"type": "Other", "status": "True"}
    before = {"conditions": [other, *merged_conditions({}, [condition("Ready")], EARLY, "lastUpdateTime")]}
    assert merged_conditions(before, [condition("Ready")], LATE, "lastUpdateTime") == before["conditions"]


@pytest.mark.parametrize(("status", "since"), [("True", EARLY), ("False", LATE)])
def test_the_time_of_transition_is_that_of_the_status(status: str, since: str) -> None:
    """Another reason alone is an update and no transition."""
    before = {"conditions": merged_conditions({}, [condition("Ready")], EARLY, "lastUpdateTime")}
    (found,) = merged_conditions(before, [condition("Ready", status, "Because")], LATE, "lastUpdateTime")
    expected = {"type": "Ready", "status": status, "reason": "Because", "lastUpdateTime": LATE, "lastTransitionTime": since}
    assert found == expected


@pytest.mark.parametrize("network", ["10.244.0.0/16", "198.18.0.0/15"])
def test_an_address_belongs_to_its_object(network: str) -> None:
    """It stays the same, and is neither that of the network nor that of its broadcasts."""
    found = {address(f"uid-{number}", network) for number in range(500)}
    assert address("uid-1", network) == address("uid-1", network)
    assert len(found) > 450
    hosts = ipaddress.ip_network(network)
    assert all(ipaddress.ip_address(one) in hosts for one in found)
    assert not found & {str(hosts.network_address), str(hosts.broadcast_address)}


def test_revisions_differ_between_templates() -> None:
    """And not by the order of fields."""
    assert revision_of({"a": 1, "b": 2}) == revision_of({"b": 2, "a": 1}) != revision_of({"a": 1})
    assert len(revision_of({})) == 10


def test_empty_fields_are_left_out() -> None:
    """As Go does; one replica is the default."""
    assert without_zeros({"a": 0, "b": [], "c": "x", "d": None}) == {"c": "x"}
    assert [replicas_of({"spec": spec}) for spec in ({}, {"replicas": None}, {"replicas": 0})] == [1, 1, 0]
