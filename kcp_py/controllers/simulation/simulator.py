"""`WorkloadSimulator`: writes the status of workloads after a delay."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import Client, ObjectChange
from kcp_py.controllers.names import WORKLOAD_SIMULATION
from kcp_py.controllers.objects import find
from kcp_py.controllers.runtime.controller import ControllerSource, Later
from kcp_py.controllers.runtime.deadlines import Deadlines
from kcp_py.controllers.runtime.queue import Key
from kcp_py.controllers.simulation import claims, pods, workloads
from kcp_py.controllers.simulation.replicasets import is_part_of_deployment, roll_out
from kcp_py.controllers.simulation.values import Object

_StatusRule = Callable[[Object, str], dict[str, Any]]


class _Kind(NamedTuple):
    """A resource whose objects become ready."""

    resource: GroupVersionResource
    status: _StatusRule
    """The status that an object should have: its own one if nothing is to be done."""
    spec: Callable[[Object], dict[str, Any]] | None = None
    """The specification that it should have, where a controller writes into it."""


class _Wanted(NamedTuple):
    spec: dict[str, Any]
    status: dict[str, Any]


_KINDS: Final[Mapping[str, _Kind]] = {
    kind.resource.resource: kind
    for kind in (
        _Kind(GroupVersionResource("apps", "v1", "daemonsets"), workloads.daemon_set_status),
        _Kind(GroupVersionResource("apps", "v1", "deployments"), workloads.deployment_status),
        _Kind(GroupVersionResource("apps", "v1", "replicasets"), workloads.replica_set_status),
        _Kind(GroupVersionResource("apps", "v1", "statefulsets"), workloads.stateful_set_status),
        _Kind(GroupVersionResource("batch", "v1", "jobs"), workloads.job_status),
        _Kind(GroupVersionResource("", "v1", "persistentvolumeclaims"), claims.claim_status, claims.claim_spec),
        _Kind(GroupVersionResource("", "v1", "pods"), pods.pod_status),
        _Kind(GroupVersionResource("", "v1", "replicationcontrollers"), workloads.replica_set_status),
        _Kind(GroupVersionResource("", "v1", "services"), claims.service_status, claims.service_spec),
    )
}


class WorkloadSimulator:
    """Makes workloads ready. A key has the resource before the name, so that clusters take turns whatever they contain."""

    name = WORKLOAD_SIMULATION
    per_cluster = 4

    def __init__(self, client: Client, *, delay: float, now: Callable[[], str], deadlines: Deadlines | None = None) -> None:
        """Make the controller.

        Args:
            client: of all clusters.
            delay: seconds between a change of a specification and the status that answers it.
            now: RFC 3339.
            deadlines: for tests.
        """
        self._client = client
        self._delay = delay
        self._now = now
        self._deadlines = deadlines if deadlines is not None else Deadlines()

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """All resources that it knows. Most clusters serve none of them."""
        return [ControllerSource(kind.resource, partial(_keys, name)) for name, kind in _KINDS.items()]

    async def reconcile(self, key: Key) -> int | Later:
        resource, _, name = key.name.partition("/")
        kind = _KINDS[resource]
        place = key._replace(name=name)
        obj = await find(self._client, kind.resource, place)
        wanted = None if obj is None or obj["metadata"].get("deletionTimestamp") else self._wanted(kind, obj)
        if obj is None or wanted is None:
            self._deadlines.forget(key)
            return 0
        if (remaining := self._remaining(key, obj)) > 0:
            return Later(remaining)
        now = obj
        if wanted.spec != obj["spec"]:
            now = await self._client.update(key.cluster, kind.resource, {**obj, "spec": wanted.spec})
        elif resource == "deployments" and not wanted.spec.get("paused"):
            now = await roll_out(self._client, place, obj)
            if now["metadata"].get("generation") != obj["metadata"].get("generation"):
                return 0  # this change of the specification has a delay of its own
        await self._write(key, kind.resource, {**now, "status": wanted.status})
        self._deadlines.forget(key)
        return 0

    def _wanted(self, kind: _Kind, obj: dict[str, Any]) -> _Wanted | None:
        """What an object should have; None where it has it, and where the kind comes from a CRD with another schema."""
        try:
            spec = kind.spec(obj) if kind.spec is not None else obj["spec"]
            status = kind.status(obj, self._now())
        except (AttributeError, KeyError, TypeError, ValueError):
            return None
        return None if spec == obj["spec"] and status == (obj.get("status") or {}) else _Wanted(spec, status)

    def _remaining(self, key: Key, obj: Object) -> float:
        """Seconds until the specification that the object has now may be answered."""
        if is_part_of_deployment(obj):
            return 0.0  # the deployment has waited
        spec = hashlib.sha256(orjson.dumps(obj["spec"])).hexdigest()
        deadline = f"{obj['metadata']['uid']} {(obj.get('status') or {}).get('phase')} {spec}"
        return self._deadlines.remaining(key, deadline, self._delay)

    async def _write(self, key: Key, resource: GroupVersionResource, obj: Object) -> None:
        try:
            await self._client.update(key.cluster, resource, obj, subresource="status")
        except StatusError as error:
            # A CRD of this name may have no status or another schema.
            if error.code not in {404, 422}:
                raise


def _keys(resource: str, change: ObjectChange) -> Iterable[Key]:
    if change.value is not None:
        yield Key(change.cluster, change.namespace, f"{resource}/{change.name}")
