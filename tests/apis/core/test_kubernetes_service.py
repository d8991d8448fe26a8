"""The Service `default/kubernetes` and its endpoints, as every cluster that serves these kinds has them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.core.kubernetes_service import PLACE, kubernetes_service, service_network
from kcp_py.apis.upstream.resources import upstream_resources

CREATED = "2026-01-01T00:00:00Z"
SERVICES = GroupResource("", "services")
ENDPOINTS = GroupResource("", "endpoints")
SLICES = GroupResource("discovery.k8s.io", "endpointslices")


def made(resource: GroupResource, url: str = "https://192.0.2.2:6443", cluster: str = "team-a", uid: str = "1") -> Any:
    objects = kubernetes_service(url)[resource](cluster, uid, CREATED)
    assert list(objects) == [PLACE]
    return orjson.loads(objects[PLACE])


@pytest.mark.parametrize("resource", [SERVICES, ENDPOINTS, SLICES], ids=str)
def test_they_are_as_a_server_stores_them(resource: GroupResource) -> None:
    """Each is a valid object of its kind that lacks no default and has no unknown field."""
    served = next(one for one in upstream_resources("/registry", [str(resource)]) if one.group_resource == resource)
    obj = made(resource)
    assert obj["apiVersion"] == served.storage_group_version
    assert obj["kind"] == served.kind
    filled = orjson.loads(orjson.dumps(obj))
    assert served.schema.prune(filled) == []
    served.schema.default(filled)
    assert filled == obj
    assert served.strategy.validate(obj) == []


def test_the_service_leads_to_the_port_of_the_server() -> None:
    """The port is 443, and the target port is that of the server, as upstream has it."""
    assert made(SERVICES)["spec"]["ports"] == [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}]
    assert made(SERVICES, "https://192.0.2.2")["spec"]["ports"][0]["targetPort"] == 443


@pytest.mark.parametrize(
    ("url", "kind", "address"),
    [
        pytest.param("https://192.0.2.2:6443", "IPv4", "192.0.2.2", id="IPv4"),
        pytest.param("https://[2001:db8::1]:6443", "IPv6", "2001:db8::1", id="IPv6"),
        pytest.param("https://api.example.com:6443", "FQDN", "api.example.com", id="name"),
    ],
)
def test_the_slice_has_the_address_of_the_server(url: str, kind: str, address: str) -> None:
    """The type of the slice is that of the address."""
    found = made(SLICES, url)
    assert found["addressType"] == kind
    assert found["endpoints"] == [{"addresses": [address], "conditions": {"ready": True}}]
    assert found["ports"] == [{"name": "https", "protocol": "TCP", "port": 6443}]
    assert found["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}


def test_endpoints_hold_addresses_only() -> None:
    """Endpoints cannot hold a host name: they are empty where the server has one."""
    assert made(ENDPOINTS)["subsets"] == [
        {"addresses": [{"ip": "192.0.2.2"}], "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]}
    ]
    assert "subsets" not in made(ENDPOINTS, "https://api.example.com:6443")


def test_each_life_of_each_cluster_has_its_own() -> None:
    """The uid differs between kinds, clusters, and clusters that were deleted and created again; it stays the same otherwise."""
    places = [(resource, cluster, uid) for resource in (SERVICES, SLICES) for cluster in ("team-a", "team-b") for uid in ("1", "2")]
    uids = {made(resource, cluster=cluster, uid=uid)["metadata"]["uid"] for resource, cluster, uid in places}
    assert len(uids) == len(places)
    assert made(SERVICES) == made(SERVICES)


@pytest.mark.parametrize(
    ("ranges", "address", "family"), [(["10.1.0.0/16"], "10.1.0.1", "IPv4"), (["fd00:1::/112", "10.0.0.0/24"], "fd00:1::1", "IPv6")]
)
def test_the_range_of_services_and_their_first_address_are_objects(ranges: list[str], address: str, family: str) -> None:
    """As upstream makes them: each is valid, lacks no default and has no unknown field."""
    found = {resource: one("team-a", "1", CREATED) for resource, one in service_network(ranges).items()}
    (network,), (place,) = (list(objects) for objects in found.values())
    assert (network, place) == ("kubernetes", address)
    for resource, objects in found.items():
        served = next(one for one in upstream_resources("/registry", [str(resource)]) if one.group_resource == resource)
        obj = orjson.loads(next(iter(objects.values())))
        assert (obj["apiVersion"], obj["kind"]) == (served.storage_group_version, served.kind)
        filled = orjson.loads(orjson.dumps(obj))
        assert served.schema.prune(filled) == []
        served.schema.default(filled)
        assert filled == obj
        assert served.strategy.validate(obj) == []
        if resource.resource == "servicecidrs":
            assert obj["spec"] == {"cidrs": ranges}
            assert obj["status"]["conditions"][0]["status"] == "True"
        else:
            assert obj["spec"] == {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}}
            assert obj["metadata"]["labels"]["ipaddress.kubernetes.io/ip-family"] == family
