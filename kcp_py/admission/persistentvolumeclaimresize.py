"""`PersistentVolumeClaimResize`: a claim grows only where its StorageClass lets volumes expand.

Source: kubernetes `plugin/pkg/admission/storage/persistentvolume/resize`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcp_py.admission.clusterobjects import ClusterObjects
from kcp_py.admission.defaultclasses import BETA_STORAGE_CLASS, CLAIMS
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.quantity import parse_quantity
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation


def parse_expansion(obj: Mapping[str, Any]) -> bool:
    """Whether a stored StorageClass lets volumes expand."""
    return obj.get("allowVolumeExpansion") is True


class PersistentVolumeClaimResize(AdmissionPlugin):
    """Refuses larger claims that are not bound, and those of classes that do not allow it."""

    name = "PersistentVolumeClaimResize"
    conforming = True
    operations = frozenset[Operation]({"UPDATE"})
    resources = frozenset({CLAIMS})

    def __init__(self, expanding: ClusterObjects[bool]) -> None:
        """Make the plugin from the StorageClasses of clusters."""
        self._expanding = expanding

    async def validate(self, attributes: Attributes) -> None:
        """Compare the sizes.

        Raises:
            StatusError: 403.
        """
        claim, old = attributes.obj, attributes.old
        if claim is None or old is None or attributes.subresource or not attributes.resource.typed or _size(claim) <= _size(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise errors.forbidden(
                attributes.resource.group_resource, attributes.name, "Only bound persistent volume claims can be expanded"
            )
        name = _class_of(claim)
        classes = await self._expanding.get(attributes.cluster)
        if not name or name != _class_of(old) or not any(one.value for one in classes if one.name == name):
            message = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, message)


def _size(claim: Mapping[str, Any]) -> int:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return parse_quantity(requests.get("storage", "0")).nano


def _class_of(claim: Mapping[str, Any]) -> str:
    annotations = claim["metadata"].get("annotations") or {}
    return str(annotations.get(BETA_STORAGE_CLASS, "") or (claim.get("spec") or {}).get("storageClassName") or "")
