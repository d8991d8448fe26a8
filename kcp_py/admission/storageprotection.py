"""`StorageObjectInUseProtection`: the finalizers of volumes, claims and classes of attributes, which are not deleted while they are in use.

Controllers remove the finalizers (`controllers.protection`). Where they do not run, deletions would never end.

Source: kubernetes `plugin/pkg/admission/storage/storageobjectinuseprotection`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation

FINALIZERS: Final[Mapping[GroupResource, str]] = {
    GroupResource("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    GroupResource("", "persistentvolumes"): "kubernetes.io/pv-protection",
    GroupResource("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection(AdmissionPlugin):
    """Adds the finalizer to new objects."""

    name = "StorageObjectInUseProtection"
    conforming = True
    operations = frozenset[Operation]({"CREATE"})

    def __init__(self, resources: Collection[GroupResource] = FINALIZERS.keys()) -> None:
        """Make the plugin for these resources."""
        self.resources = frozenset(resources)

    def mutate(self, attributes: Attributes) -> None:
        """Append the finalizer unless the object has it."""
        resource = attributes.resource
        if attributes.obj is None or attributes.subresource or not resource.typed:
            return
        metadata, finalizer = attributes.obj["metadata"], FINALIZERS[resource.group_resource]
        given = metadata.get("finalizers") or []
        if finalizer not in given:
            metadata["finalizers"] = [*given, finalizer]
