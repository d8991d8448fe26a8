"""Controller `customresourcedefinition-controller`: gives CustomResourceDefinitions their names, and deletes their objects when they go.

Source: k8s.io/apiextensions-apiserver `pkg/controller/status` (names), `establish`, `finalizer`, `apiapproval` and
`nonstructuralschema` of the same folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kcp_py.aio.offload import OFFLOAD_OWNER, offload
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import CRDS, GroupResource
from kcp_py.apis.apiextensions.strategy import CLEANUP_FINALIZER
from kcp_py.client import Client, ObjectChange, ObjectFilter, Tap
from kcp_py.controllers import objects
from kcp_py.controllers.content import delete_instances
from kcp_py.controllers.deletion import DELETION_TIMESTAMP
from kcp_py.controllers.names import CUSTOM_RESOURCE_DEFINITION
from kcp_py.controllers.runtime.controller import ControllerSource
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name
from kcp_py.schema.crd.conditions import may_lack_structure, set_approval, set_structure
from kcp_py.schema.crd.names_conditions import accepted_names, holds_its_names, is_condition_true

_ESTABLISHED: Final = b'"InitialNamesAccepted"'
_CONFLICT: Final = b'Conflict"'
_OBSERVED: Final = b'"observedGeneration":'


class CRDController:
    """Handles the CRDs of a cluster one by one: two CRDs that request the same name never both get it."""

    name = CUSTOM_RESOURCE_DEFINITION
    resource = CRDS
    per_cluster = 1

    def __init__(self, client: Client, tap: Tap, *, now: Callable[[], str]) -> None:
        """Make the controller.

        Args:
            client: of all clusters.
            tap: has the names of other CRDs, and deletes the objects.
            now: the time as RFC 3339.
        """
        self._client = client
        self._tap = tap
        self._now = now
        self._conflicting: dict[tuple[Name, str], dict[str, None]] = {}
        """The CRDs of a group that lack a name. The one that has waited longest comes first."""

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """CRDs that other servers have created, and those that were not established or were being deleted when the server stopped."""
        wanted = ObjectFilter(contains=((DELETION_TIMESTAMP,), (_CONFLICT,)), lacks=(_ESTABLISHED, _OBSERVED))
        return (ControllerSource(CRDS, self.keys, wanted),)

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """The CRD that changed, and those of its group that lack a name, which may be free now."""
        key = Key(change.cluster, change.namespace, change.name)
        for name in self._conflicting.get((change.cluster, _group(change.name)), ()):
            if name != change.name:
                yield Key(change.cluster, "", name)
        if change.value is not None:
            yield key
        else:
            self._note_conflict(key, conflicting=False)

    async def reconcile(self, key: Key) -> int:
        crd = await objects.find(self._client, CRDS, key)
        if crd is None:
            return 0
        OFFLOAD_OWNER.set(key.cluster)
        if crd["metadata"].get("deletionTimestamp"):
            return await self._clean_up(key, crd)
        if "spec" in crd:  # or else it was damaged in the store, and serves nothing
            await self._name(key, crd)
        return 0

    async def _name(self, key: Key, crd: dict[str, Any]) -> None:
        """Decide on the names and establish the CRD once it has them."""
        others = () if holds_its_names(crd) else await self._others(key, crd["spec"]["group"])
        builtins = (await self._tap.builtin_names()).get(crd["spec"]["group"], ())
        now = self._now()
        decided = accepted_names(crd, others, builtins, now=now)
        conditions = decided.conditions
        set_approval(crd, conditions, now=now)
        if may_lack_structure(crd):
            await offload(set_structure, crd, conditions, now=now)
        status = {**(crd.get("status") or {}), "acceptedNames": decided.accepted_names, "conditions": conditions}
        if generation := crd["metadata"].get("generation"):
            status["observedGeneration"] = generation
        self._note_conflict(key, conflicting=not is_condition_true({"status": status}, "NamesAccepted"))
        if status != crd.get("status"):
            await self._client.update(key.cluster, CRDS, {**crd, "status": status}, subresource="status")

    async def _others(self, key: Key, group: str) -> Sequence[Mapping[str, Any]]:
        """The names that the other CRDs of the group hold, as CRDs with nothing else in them."""
        return [
            {"metadata": {"name": held.name}, "spec": {"group": held.group}, "status": {"acceptedNames": held.accepted}}
            for held in await self._tap.held_names(key.cluster, group)
        ]

    async def _clean_up(self, key: Key, crd: dict[str, Any]) -> int:
        metadata = crd["metadata"]
        finalizers = metadata.get("finalizers") or ()
        if CLEANUP_FINALIZER not in finalizers:
            return 0
        # The name has the same information as the specification, which a damaged CRD lacks.
        plural, _, group = key.name.partition(".")
        defined = GroupResource("" if group == "core" else group, plural)
        builtins = (await self._tap.builtin_names()).get(defined.group, ())
        if any(names.plural == defined.resource for names in builtins):
            await self._report(key, crd, "False", "OverlappingBuiltInResource", "instances overlap with built-in resources in storage")
        else:
            # Even CRDs that were never established: every client that may write the status may write its conditions.
            remaining = await self._delete_instances(key, crd, defined)
            if remaining:
                await self._report(key, crd, "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
                return remaining
            if is_condition_true(crd, "Established"):
                await self._report(key, crd, "False", "InstanceDeletionCompleted", "removed all instances")
            else:
                await self._report(key, crd, "False", "NeverEstablished", "resource was never established")
        await self._tap.remove_finalizer(key.cluster, CRDS, "", key.name, finalizer=CLEANUP_FINALIZER, uid=metadata["uid"])
        return 0

    async def _delete_instances(self, key: Key, crd: dict[str, Any], resource: GroupResource) -> int:
        """Delete the objects. Returns how many of them wait for their finalizers."""
        try:
            return (await delete_instances(self._tap, key.cluster, resource, crd=key.name, uid=crd["metadata"]["uid"])).objects
        except StatusError as error:
            with suppress(StatusError):  # the store may be what failed
                await self._report(key, crd, "True", "InstanceDeletionFailed", f"could not issue all deletes: {error.message}")
            raise

    async def _report(self, key: Key, crd: dict[str, Any], status: str, reason: str, message: str) -> None:
        condition = {"type": "Terminating", "status": status, "reason": reason, "message": message}
        if generation := crd["metadata"].get("generation"):
            condition["observedGeneration"] = generation
        await objects.report(self._client, CRDS, key, obj=crd, conditions=[condition], now=self._now())

    def _note_conflict(self, key: Key, *, conflicting: bool) -> None:
        group = (key.cluster, _group(key.name))
        if conflicting:
            self._conflicting.setdefault(group, {})[key.name] = None
        elif (names := self._conflicting.get(group)) is not None:
            names.pop(key.name, None)
            if not names:
                del self._conflicting[group]


def _group(name: str) -> str:
    """The group in the name of a CRD, which is `<plural>.<group>`."""
    return name.partition(".")[2]
