"""What every namespace has: the stored form, and uids that follow from the namespace."""

from __future__ import annotations

from typing import Any

import orjson

from kcp_py.apis.core.namespaceobjects import DESCRIPTION, default_service_account, root_ca_config_map
from kcp_py.registry.resource import NamespaceObject

CREATED = "2026-01-01T00:00:00Z"


def made(one: NamespaceObject, cluster: str = "a", namespace: str = "x", uid: str = "1") -> dict[str, Any]:
    obj: dict[str, Any] = orjson.loads(one.make(cluster, namespace, uid, CREATED))
    return obj


def test_the_service_account_has_metadata_alone() -> None:
    """As upstream's controller creates it."""
    obj = made(default_service_account())
    uid = obj["metadata"].pop("uid")
    assert obj == {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "x", "creationTimestamp": CREATED},
    }
    assert uid == made(default_service_account())["metadata"]["uid"]


def test_the_config_map_has_the_certificates_and_a_description() -> None:
    """Annotations come first, as in every stored object."""
    one = root_ca_config_map("PEM\n")
    assert one.make("a", "x", "1", CREATED).startswith(b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{')
    obj = made(one)
    assert (obj["metadata"]["name"], obj["data"]) == ("kube-root-ca.crt", {"ca.crt": "PEM\n"})
    assert obj["metadata"]["annotations"] == {"kubernetes.io/description": DESCRIPTION}


def test_uids_differ_by_cluster_namespace_and_kind() -> None:
    """A namespace of another uid has other objects. Its name need not count."""
    places = [("a", "x", "1"), ("b", "x", "1"), ("a", "x", "2")]
    uids = [made(one, *place)["metadata"]["uid"] for one in (default_service_account(), root_ca_config_map("")) for place in places]
    assert len(set(uids)) == len(uids)
