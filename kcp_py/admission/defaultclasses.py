"""`DefaultStorageClass` and `DefaultIngressClass`: claims and ingresses that name no class get the default of their cluster.

Source: kubernetes `plugin/pkg/admission/storage/storageclass/setdefault`, `pkg/volume/util/storageclass.go` and
`plugin/pkg/admission/network/defaultingressclass`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.admission.clusterobjects import ClusterObjects
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation

STORAGE_CLASSES: Final = GroupResource("storage.k8s.io", "storageclasses")
INGRESS_CLASSES: Final = GroupResource("networking.k8s.io", "ingressclasses")
CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""The annotation with which claims named their class once, and still may."""
_STORAGE_DEFAULT: Final = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_INGRESS_DEFAULT: Final = ("ingressclass.kubernetes.io/is-default-class",)
_INGRESS_CLASS: Final = "kubernetes.io/ingress.class"

DefaultClass = float | None
"""The unix seconds at which a default class was created; None of other classes."""


def parse_storage_class(obj: Mapping[str, Any]) -> DefaultClass:
    """Of a stored StorageClass."""
    return _created_default(obj, _STORAGE_DEFAULT)


def parse_ingress_class(obj: Mapping[str, Any]) -> DefaultClass:
    """Of a stored IngressClass."""
    return _created_default(obj, _INGRESS_DEFAULT)


class _DefaultClass(AdmissionPlugin):
    conforming = True
    operations = frozenset[Operation]({"CREATE"})

    def __init__(self, classes: ClusterObjects[DefaultClass]) -> None:
        """Make the plugin from the classes of clusters."""
        self._classes = classes

    async def _default(self, attributes: Attributes) -> str:
        """The newest default class of the cluster, of equally old ones the first by name; empty where there is none."""
        found = [(-one.value, one.name) for one in await self._classes.get(attributes.cluster) if one.value is not None]
        return min(found)[1] if found else ""


class DefaultStorageClass(_DefaultClass):
    """Fills the class of new claims."""

    name = "DefaultStorageClass"
    resources = frozenset({CLAIMS})

    async def mutate(self, attributes: Attributes) -> None:
        """Fill a claim. One with an empty class asks for a volume without a class."""
        claim = attributes.obj
        if claim is None or attributes.subresource or not attributes.resource.typed:
            return
        named = claim["spec"].get("storageClassName") is not None or BETA_STORAGE_CLASS in (claim["metadata"].get("annotations") or {})
        if not named and (default := await self._default(attributes)):
            claim["spec"]["storageClassName"] = default


class DefaultIngressClass(_DefaultClass):
    """Fills the class of new ingresses."""

    name = "DefaultIngressClass"
    resources = frozenset({GroupResource("networking.k8s.io", "ingresses")})

    async def mutate(self, attributes: Attributes) -> None:
        """Fill an ingress."""
        ingress = attributes.obj
        if ingress is None or attributes.subresource or not attributes.resource.typed:
            return
        named = ingress["spec"].get("ingressClassName") is not None or _INGRESS_CLASS in (ingress["metadata"].get("annotations") or {})
        if not named and (default := await self._default(attributes)):
            ingress["spec"]["ingressClassName"] = default


def _created_default(obj: Mapping[str, Any], names: tuple[str, ...]) -> DefaultClass:
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    return parse_time(metadata["creationTimestamp"]) if any(annotations.get(name) == "true" for name in names) else None
