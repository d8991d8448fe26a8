"""Which stored events change the objects that clusters have without storing them. What watches get is tested with the kinds."""

from __future__ import annotations

import orjson

from kcp_py.apimachinery.kinds import CRDS, GroupResource
from kcp_py.apis.core.kubernetes_service import kubernetes_service
from kcp_py.logicalcluster import Name
from kcp_py.registry.default_events import DefaultEvents
from kcp_py.registry.namespaces import default_namespaces, namespace_keys
from kcp_py.storage.contract import Event, KeyValue
from kcp_py.storage.keys import CUSTOM_RESOURCES, ResourceKeys, resource_keys, route_of
from kcp_py.storage.memory import MemoryStorage
from kcp_py.tenancy.logicalcluster import logical_cluster_keys
from kcp_py.watchcache import ObjectEvent

ROOT = "/registry"
CLUSTERS = logical_cluster_keys(ROOT)
CRD_KEYS = resource_keys(ROOT, *CRDS.group_resource, namespaced=False)
SERVICES = GroupResource("", "services")
NAMESPACES = DefaultEvents(MemoryStorage(), namespace_keys(ROOT), default_namespaces, cluster_keys=CLUSTERS)
KUBERNETES = DefaultEvents(
    MemoryStorage(),
    resource_keys(ROOT, *SERVICES, namespaced=True, identity=CUSTOM_RESOURCES),
    kubernetes_service("https://kcp.example.com:6443")[SERVICES],
    cluster_keys=CLUSTERS,
    crd_keys=CRD_KEYS,
    resource=SERVICES,
)


def event(keys: ResourceKeys, name: str, value: bytes | None, previous: bytes | None) -> ObjectEvent:
    """A change of an object of the cluster `team-a` at revision 5."""
    key = keys.object_key(Name("team-a"), "", name)
    route = route_of(key, ROOT)
    assert route is not None
    before = None if previous is None else KeyValue(key, previous, 4, 4)
    return ObjectEvent(route, Event(key, value, 5, 5, before))


def test_the_creation_of_a_cluster_brings_its_namespaces_alone() -> None:
    """No CRD is read for a new cluster, which has only those that are created with it: mass creations must not delay other events."""
    creation = event(CLUSTERS, "cluster", b"{}", None)
    assert NAMESPACES.concerns(creation)
    assert not KUBERNETES.concerns(creation)
    assert KUBERNETES.concerns(event(CRD_KEYS, "services.core", b"{}", None))


def test_the_end_of_a_cluster_ends_what_it_had() -> None:
    """Namespaces end with it; objects that come with a CRD end where the deletion of the cluster begins."""
    terminating = orjson.dumps({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}})
    begins = event(CLUSTERS, "cluster", terminating, b"{}")
    ends = event(CLUSTERS, "cluster", None, terminating)
    assert (NAMESPACES.concerns(begins), NAMESPACES.concerns(ends)) == (False, True)
    assert (KUBERNETES.concerns(begins), KUBERNETES.concerns(ends)) == (True, True)
    assert not KUBERNETES.concerns(event(CLUSTERS, "cluster", b'{"a":1}', b"{}"))
