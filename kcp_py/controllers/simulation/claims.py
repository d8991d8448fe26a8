"""Claims that are bound and services that have addresses.

Source: kubernetes `pkg/controller/volume/persistentvolume` and `k8s.io/cloud-provider/controllers/service`; cluster IPs are given out by
kube-apiserver there.
"""

from __future__ import annotations

from typing import Any, Final

from kcp_py.controllers.simulation.values import Object, address

_SERVICES: Final = "10.96.0.0/12"
_BALANCERS: Final = "198.18.0.0/15"
"""Of benchmarks of networks (RFC 2544), which no one can reach."""


def claim_spec(obj: Object) -> dict[str, Any]:
    """A claim with the name of a volume. No object has this name."""
    spec = obj["spec"]
    return {**spec, "volumeName": spec.get("volumeName") or f"pvc-{obj['metadata']['uid']}"}


def claim_status(obj: Object, now: str) -> dict[str, Any]:
    """A claim that is bound and has the capacity that it asks for, at any time."""
    del now
    spec, status = obj["spec"], obj.get("status") or {}
    if (status.get("phase") or "Pending") not in {"Pending", "Bound"}:
        return dict(status)
    capacity = {**(status.get("capacity") or {}), **((spec.get("resources") or {}).get("requests") or {})}
    return {**status, "phase": "Bound", "accessModes": spec.get("accessModes") or [], "capacity": capacity}


def service_spec(obj: Object) -> dict[str, Any]:
    """A service with a cluster IP, which clients such as helm wait for. Headless services and external names have none."""
    spec = obj["spec"]
    if spec.get("clusterIP") or spec.get("type") == "ExternalName":
        return dict(spec)
    ip = address(obj["metadata"]["uid"], _SERVICES)
    return {**spec, "clusterIP": ip, "clusterIPs": [ip]}


def service_status(obj: Object, now: str) -> dict[str, Any]:
    """A service of type LoadBalancer with an address, and any other without."""
    del now
    spec, status = obj["spec"], dict(obj.get("status") or {})
    if spec.get("type") == "LoadBalancer":
        if not (status.get("loadBalancer") or {}).get("ingress"):
            ip = spec.get("loadBalancerIP") or address(obj["metadata"]["uid"], _BALANCERS)
            status["loadBalancer"] = {"ingress": [{"ip": ip, "ipMode": "VIP"}]}
    elif status.get("loadBalancer"):
        status["loadBalancer"] = {}
    return status
