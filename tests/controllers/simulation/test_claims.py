"""Claims that are bound and services that have addresses."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.controllers.simulation.claims import claim_spec, claim_status, service_spec, service_status

NOW = "2026-01-01T00:00:00Z"


def claim(status: Any, storage: str = "1Gi", **spec: Any) -> dict[str, Any]:
    requests = {"resources": {"requests": {"storage": storage}}}
    return {"metadata": {"uid": "u"}, "spec": {"accessModes": ["ReadWriteOnce"], **requests, **spec}, "status": status}


def service(status: Any, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "u"}, "spec": spec, "status": status}


def test_a_claim_is_bound() -> None:
    """With the capacity that it asks for, also once it asks for more, and with the name of a volume."""
    status = claim_status(claim({"phase": "Pending"}), NOW)
    assert status == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    assert claim_status(claim(status), NOW) == status
    assert claim_status(claim(status, "2Gi"), NOW)["capacity"] == {"storage": "2Gi"}
    assert claim_status(claim({"phase": "Lost"}), NOW) == {"phase": "Lost"}
    assert claim_spec(claim(None))["volumeName"] == "pvc-u"
    assert claim_spec(claim(None, volumeName="mine"))["volumeName"] == "mine"


def test_a_load_balancer_has_an_address() -> None:
    """The one that it asks for, or one of its own that stays. Of another type it loses the address."""
    status = service_status(service({"loadBalancer": {}}, type="LoadBalancer"), NOW)
    (ingress,) = status["loadBalancer"]["ingress"]
    assert ingress["ip"].startswith(("198.18.", "198.19."))
    assert service_status(service(status, type="LoadBalancer"), NOW) == status
    assert service_status(service(status, type="ClusterIP"), NOW) == {"loadBalancer": {}}
    asked = service_status(service(None, type="LoadBalancer", loadBalancerIP="10.1.1.1"), NOW)
    assert asked["loadBalancer"]["ingress"] == [{"ip": "10.1.1.1", "ipMode": "VIP"}]


@pytest.mark.parametrize("spec", [{"clusterIP": "None"}, {"clusterIP": "10.0.0.7"}, {"type": "ExternalName"}])
def test_services_that_need_no_cluster_address_get_none(spec: dict[str, Any]) -> None:
    """Headless ones, external names, and those that have one."""
    assert service_spec(service(None, **spec)) == spec


def test_a_service_gets_a_cluster_address() -> None:
    """Clients such as helm wait for it."""
    found = service_spec(service(None, type="ClusterIP"))
    assert found["clusterIPs"] == [found["clusterIP"]]
    assert found["clusterIP"].startswith("10.")
