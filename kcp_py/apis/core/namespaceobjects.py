"""What every namespace has without storing it: the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`.

Source: kubernetes `pkg/controller/serviceaccount` (`serviceaccounts_controller.go`) and `pkg/controller/certificates/rootcacertpublisher`,
whose controllers create both in each namespace.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import NamespaceObject
from kcp_py.registry.uid import derived_uid

DEFAULT_SERVICE_ACCOUNT: Final = "default"
ROOT_CA: Final = "kube-root-ca.crt"
ROOT_CA_KEY: Final = "ca.crt"
"""In the data of `kube-root-ca.crt`, and of secrets with tokens."""
DESCRIPTION_ANNOTATION: Final = "kubernetes.io/description"
DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or "
    "kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)

_UID_SPACE: Final = uuid.UUID("6b637020-7079-5e61-8d65-6f626a656374")


def default_service_account() -> NamespaceObject:
    """The ServiceAccount of programs that name no other one."""
    resource = GroupResource("", "serviceaccounts")

    def make(cluster: str, namespace: str, uid: str, created_at: str) -> bytes:
        metadata = _metadata(resource, DEFAULT_SERVICE_ACCOUNT, cluster, namespace, uid=uid, created_at=created_at)
        return encode_stored({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})

    return NamespaceObject(DEFAULT_SERVICE_ACCOUNT, make)


def root_ca_config_map(bundle: str) -> NamespaceObject:
    """The ConfigMap with the certificates (PEM) that clients verify the server by."""
    resource = GroupResource("", "configmaps")

    def make(cluster: str, namespace: str, uid: str, created_at: str) -> bytes:
        metadata = _metadata(resource, ROOT_CA, cluster, namespace, uid=uid, created_at=created_at)
        metadata["annotations"] = {DESCRIPTION_ANNOTATION: DESCRIPTION}
        return encode_stored({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": root_ca_data(bundle)})

    return NamespaceObject(ROOT_CA, make, listed=False)


def root_ca_data(bundle: str) -> Mapping[str, str]:
    """The data of `kube-root-ca.crt`."""
    return {ROOT_CA_KEY: bundle}


def _metadata(resource: GroupResource, name: str, cluster: str, namespace: str, *, uid: str, created_at: str) -> dict[str, Any]:
    """Metadata that follow from the namespace, so that they are the same on all servers and end with it."""
    return {
        "name": name,
        "namespace": namespace,
        "uid": derived_uid(_UID_SPACE, f"{cluster}/{uid}/{resource}"),
        "creationTimestamp": created_at,
    }
