"""Controllers that protect volumes, claims and classes of attributes in use: a deletion ends when nothing uses the object any more.

They are `persistentvolumeclaim-protection-controller`, `persistentvolume-protection-controller` and
`volumeattributesclass-protection-controller`. Each gives its finalizer to objects that lack it, and takes it from objects that are being
deleted and not in use. The condition `Unused` of claims is not written.

Source: kubernetes `pkg/controller/volume/{pvcprotection,pvprotection,vacprotection}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.client import Client, ObjectChange, ObjectFilter
from kcp_py.controllers.names import CLAIM_PROTECTION, CLASS_PROTECTION, VOLUME_PROTECTION
from kcp_py.controllers.objects import find
from kcp_py.controllers.runtime.controller import ControllerSource
from kcp_py.controllers.runtime.queue import Key
from kcp_py.controllers.runtime.sweeps import pages
from kcp_py.logicalcluster import Name

CLAIMS: Final = GroupVersionResource("", "v1", "persistentvolumeclaims")
VOLUMES: Final = GroupVersionResource("", "v1", "persistentvolumes")
CLASSES: Final = GroupVersionResource("storage.k8s.io", "v1", "volumeattributesclasses")
PODS: Final = GroupVersionResource("", "v1", "pods")

_DELETED: Final = b'"deletionTimestamp"'
_CLASS: Final = b"olumeAttributesClass"


class _User(NamedTuple):
    """An object that uses another one of its cluster."""

    resource: GroupResource
    namespace: str
    name: str


class ProtectionController:
    """Adds and removes one finalizer.

    Attributes:
        resource: whose objects are protected.
        finalizer: of these objects.
        users: the resources whose objects may use them, and those whose changes can end a use.
    """

    name: str
    per_cluster = 4
    resource: ClassVar[GroupVersionResource]
    finalizer: ClassVar[str]
    users: ClassVar[Mapping[GroupVersionResource, ObjectFilter]] = {}

    def __init__(self, client: Client) -> None:
        """Make the controller. `client` is of all clusters."""
        self._client = client
        self._waiting: dict[tuple[Name, str], dict[str, _User | None]] = {}
        """The names of objects that are being deleted and in use, by cluster and namespace, and what uses each; None for anything."""

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """Objects without the finalizer, objects that are being deleted, and changes of their users."""
        wanted = ObjectFilter(contains=((_DELETED,),), lacks=(self.finalizer.encode(),))
        return (
            ControllerSource(self.resource, self.keys, wanted),
            *(ControllerSource(resource, self.keys_of_user, ends) for resource, ends in self.users.items()),
        )

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """The object, if it lacks the finalizer or is being deleted."""
        value = change.value
        if value is None:
            self._forget(Key(change.cluster, change.namespace, change.name))
        elif _DELETED in value or self.finalizer.encode() not in value:
            yield Key(change.cluster, change.namespace, change.name)

    def keys_of_user(self, change: ObjectChange) -> Iterable[Key]:
        """The objects that wait for the end of their use by an object. Thousands of objects may wait in one namespace."""
        namespace = change.namespace if self.resource == CLAIMS else ""
        waiting = self._waiting.get((change.cluster, namespace))
        if not waiting:
            return []
        user = _User(change.resource, change.namespace, change.name)
        return [Key(change.cluster, namespace, name) for name, by in waiting.items() if by is None or by == user]

    async def reconcile(self, key: Key) -> int:
        obj = await find(self._client, self.resource, key)
        if obj is None:
            self._forget(key)
            return 0
        metadata = obj["metadata"]
        finalizers = metadata.get("finalizers") or []
        if not metadata.get("deletionTimestamp"):
            if self.finalizer not in finalizers:
                await self._write(key, obj, [*finalizers, self.finalizer])
        elif self.finalizer in finalizers:
            # Before users are read: a use that ends afterwards is noticed.
            waiting = self._waiting.setdefault((key.cluster, key.namespace), {})
            waiting[key.name] = None
            if (user := await self._user(key, obj)) is not None:
                waiting[key.name] = user
                return 0
            await self._write(key, obj, [one for one in finalizers if one != self.finalizer])
        self._forget(key)
        return 0

    async def _write(self, key: Key, obj: dict[str, Any], finalizers: list[str]) -> None:
        try:
            await self._client.update(key.cluster, self.resource, {**obj, "metadata": {**obj["metadata"], "finalizers": finalizers}})
        except StatusError as error:
            # It is gone; or it is not valid any more, and nothing else could be written either.
            if error.code not in {404, 422}:
                raise

    def _forget(self, key: Key) -> None:
        place = (key.cluster, key.namespace)
        if (names := self._waiting.get(place)) is not None:
            names.pop(key.name, None)
            if not names:
                del self._waiting[place]

    async def _user(self, key: Key, obj: Mapping[str, Any]) -> _User | None:
        """An object of the cluster that uses an object."""
        for resource in self.users:
            async for items in pages(self._client, key.cluster, resource, key.namespace):
                for user in items:
                    try:
                        if self.uses(user, obj):
                            metadata = user["metadata"]
                            return _User(resource.group_resource, metadata.get("namespace", ""), metadata["name"])
                    except (AttributeError, KeyError, TypeError):
                        # A CRD of this name has another schema.
                        continue
        return None

    @staticmethod
    def uses(user: Mapping[str, Any], obj: Mapping[str, Any]) -> bool:  # noqa: ARG004 - for overriding
        """Whether an object of `users` uses the one that is protected. Both are in one namespace if the latter has one."""
        return False


class ClaimProtectionController(ProtectionController):
    """Protects claims that pods on nodes use."""

    name = CLAIM_PROTECTION
    resource = CLAIMS
    finalizer = "kubernetes.io/pvc-protection"
    users: ClassVar[Mapping[GroupVersionResource, ObjectFilter]] = {PODS: ObjectFilter(contains=((_DELETED,),))}

    @staticmethod
    def uses(user: Mapping[str, Any], obj: Mapping[str, Any]) -> bool:
        """A pod without a node does not count: a kubelet would not start it with a claim that is being deleted."""
        spec, metadata, claim = user["spec"], user["metadata"], obj["metadata"]
        if not spec.get("nodeName"):
            return False
        over = metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds") == 0
        own = any(one.get("controller") and one.get("uid") == metadata.get("uid") for one in claim.get("ownerReferences") or ())
        for volume in spec.get("volumes") or ():
            if (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim["name"]:
                return True
            if not over and own and volume.get("ephemeral") is not None and f"{metadata['name']}-{volume['name']}" == claim["name"]:
                return True
        return False


class VolumeProtectionController(ProtectionController):
    """Protects volumes that are bound to a claim."""

    name = VOLUME_PROTECTION
    resource = VOLUMES
    finalizer = "kubernetes.io/pv-protection"

    async def _user(self, key: Key, obj: Mapping[str, Any]) -> _User | None:
        """The volume itself, whose status tells that it is bound."""
        status = obj.get("status")
        bound = isinstance(status, Mapping) and status.get("phase") == "Bound"
        return _User(VOLUMES.group_resource, "", key.name) if bound else None


class ClassProtectionController(ProtectionController):
    """Protects VolumeAttributesClasses that claims and volumes name."""

    name = CLASS_PROTECTION
    resource = CLASSES
    finalizer = "kubernetes.io/vac-protection"
    users: ClassVar[Mapping[GroupVersionResource, ObjectFilter]] = {
        VOLUMES: ObjectFilter(contains=((_CLASS,),)),
        CLAIMS: ObjectFilter(contains=((_CLASS,),)),
    }

    @staticmethod
    def uses(user: Mapping[str, Any], obj: Mapping[str, Any]) -> bool:
        """Also the class that a claim has, and the one that it is going to have."""
        status = user.get("status") or {}
        names = (
            user["spec"].get("volumeAttributesClassName"),
            status.get("currentVolumeAttributesClassName"),
            (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
        )
        return obj["metadata"]["name"] in names
