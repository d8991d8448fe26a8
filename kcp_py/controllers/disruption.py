"""Controller `disruption-controller`: how many pods a PodDisruptionBudget allows to be evicted.

Unlike upstream, it writes no events, and it does not take back the condition `DisruptionTarget` of pods whose deletion was refused.

Source: kubernetes `pkg/controller/disruption`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.selectors import LabelSelector, label_selector_of
from kcp_py.apimachinery.meta.timestamps import format_time, parse_time
from kcp_py.apis.upstream import disruption
from kcp_py.client import Client, ObjectChange, ObjectFilter
from kcp_py.controllers.names import DISRUPTION
from kcp_py.controllers.objects import find
from kcp_py.controllers.runtime.controller import ControllerSource, Later
from kcp_py.controllers.runtime.queue import Key
from kcp_py.controllers.runtime.sweeps import pages
from kcp_py.logicalcluster import Name

Object = Mapping[str, Any]

BUDGETS: Final = GroupVersionResource("policy", "v1", "poddisruptionbudgets")
PODS: Final = GroupVersionResource("", "v1", "pods")
DELETION_TIMEOUT: Final = 120.0
"""Seconds after which an evicted pod that still exists counts again."""
_NONE: Final = ObjectFilter(contains=((b"\x00",),))
"""Pods that exist when the controller starts need no look: each budget gets one."""


class NoControllerError(Exception):
    """It is not known how many pods of a budget there should be; the text is upstream's."""


class Expected(NamedTuple):
    """What a budget compares the healthy pods with."""

    pods: int
    healthy: int


class DisruptionController:
    """Writes the status of budgets. It remembers the selectors of all budgets, and reads pods when one of them may have changed it."""

    name = DISRUPTION
    per_cluster = 2

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.time) -> None:
        """Make the controller.

        Args:
            client: of all clusters.
            clock: Unix seconds.
        """
        self._client = client
        self._clock = clock
        self._selectors: dict[tuple[Name, str], dict[str, LabelSelector]] = {}

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """Budgets and pods."""
        return (ControllerSource(BUDGETS, self.keys), ControllerSource(PODS, self.keys_of_pod, _NONE))

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """The budget."""
        place = (change.cluster, change.namespace)
        if change.value is not None:
            self._selectors.setdefault(place, {})[change.name] = _selector(change.value)
            return (Key(change.cluster, change.namespace, change.name),)
        if budgets := self._selectors.get(place):
            budgets.pop(change.name, None)
            if not budgets:
                del self._selectors[place]
        return ()

    def keys_of_pod(self, change: ObjectChange) -> Iterable[Key]:
        """The budgets of the namespace that select a pod, or did before."""
        budgets = self._selectors.get((change.cluster, change.namespace))
        if not budgets:
            return ()
        labels = [_labels(value) for value in (change.value, change.previous) if value is not None]
        return [
            Key(change.cluster, change.namespace, name)
            for name, selector in budgets.items()
            if change.value is None or any(selector.matches(one) for one in labels)
        ]

    async def reconcile(self, key: Key) -> int | Later:
        budget = await find(self._client, BUDGETS, key)
        if budget is None:
            return 0
        now = self._clock()
        try:
            pods = await self._pods(key, budget)
            expected = await self._expected(key, budget, pods)
        except NoControllerError as error:
            await self._write(key, budget, _failed(budget.get("status") or {}, str(error), format_time(now)))
            return 0
        disrupted = _disrupted(pods, budget.get("status") or {}, now)
        await self._write(key, budget, _status(budget, pods, expected, disrupted=disrupted, now=now))
        if disrupted:
            return Later(max(1.0, min(disrupted.values()) + DELETION_TIMEOUT - now))
        return 0

    async def _pods(self, key: Key, budget: Object) -> list[Object]:
        """The pods of a budget, without all that does not count."""
        found: list[Object] = []
        async for items in pages(self._client, key.cluster, PODS, key.namespace):
            for pod in items:
                if disruption.selects(budget, pod):
                    metadata = {name: pod["metadata"].get(name) for name in ("name", "deletionTimestamp", "ownerReferences")}
                    found.append({"metadata": metadata, "ready": disruption.is_ready(pod)})
        return found

    async def _expected(self, key: Key, budget: Object, pods: Sequence[Object]) -> Expected:
        spec = budget.get("spec") or {}
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most is not None:
            scale = await self._scale(key, pods)
            return Expected(scale, max(0, scale - _scaled(most, scale)))
        if isinstance(least, int):
            return Expected(len(pods), least)
        if least is not None:
            scale = await self._scale(key, pods)
            return Expected(scale, _scaled(least, scale))
        return Expected(0, 0)

    async def _scale(self, key: Key, pods: Iterable[Object]) -> int:
        """How many pods their controllers want altogether. Pods without one do not count.

        Raises:
            NoControllerError: a controller does not exist or has no scale.
        """
        scales: dict[str, int] = {}
        for pod in pods:
            owner = _controller(pod)
            if owner is None or owner["uid"] in scales:
                continue
            found = await self._controller_scale(key, owner)
            if found is None:
                raise NoControllerError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
            scales.update((found,))
        return sum(scales.values())

    async def _controller_scale(self, key: Key, owner: Object) -> tuple[str, int] | None:
        """Uid and replicas of what controls a pod: of the deployment, where that is a replica set."""
        kind = await self._client.find_kind(key.cluster, owner.get("apiVersion", ""), owner.get("kind", ""))
        if kind is None:
            return None
        place = key._replace(name=owner.get("name", ""))
        if kind.kind == "ReplicaSet" and kind.resource.group == "apps":
            replica_set = await find(self._client, kind.resource, place)
            if replica_set is None or replica_set["metadata"]["uid"] != owner["uid"]:
                return None
            above = _controller(replica_set)
            if above is not None and above.get("kind") == "Deployment":
                return await self._controller_scale(key, above)
        try:
            scale = await self._client.get(key.cluster, kind.resource, key.namespace, place.name, subresource="scale")
        except StatusError as error:
            if error.code not in {404, 405}:
                raise
            if await find(self._client, kind.resource, place) is None:
                return None
            raise NoControllerError(f"{kind.resource.group_resource} does not implement the scale subresource") from error
        uid = scale["metadata"].get("uid", "")
        return (uid, (scale.get("spec") or {}).get("replicas") or 0) if uid == owner["uid"] else None

    async def _write(self, key: Key, budget: Object, status: dict[str, Any]) -> None:
        if status != (budget.get("status") or {}):
            await self._client.update(key.cluster, BUDGETS, {**budget, "status": status}, subresource="status")


def _selector(value: bytes) -> LabelSelector:
    try:
        return label_selector_of((orjson.loads(value).get("spec") or {}).get("selector"))
    except (AttributeError, StatusError, TypeError, ValueError):
        # Other software has written it, or the kind comes from a CRD with another schema.
        return label_selector_of(None)


def _labels(value: bytes) -> Mapping[str, str]:
    labels: Mapping[str, str] = orjson.loads(value)["metadata"].get("labels") or {}
    return labels


def _controller(obj: Object) -> Object | None:
    owners: Iterable[Object] = obj["metadata"].get("ownerReferences") or ()
    return next((one for one in owners if one.get("controller")), None)


def _scaled(value: int | str, total: int) -> int:
    """A number of pods, or a percentage of them rounded up.

    Raises:
        NoControllerError: it is neither.
    """
    if isinstance(value, int):
        return value
    if not value.removesuffix("%").isdecimal():
        raise NoControllerError("invalid value for IntOrString: invalid type: string is not a percentage")
    return -(-total * int(value.removesuffix("%")) // 100)


def _disrupted(pods: Iterable[Object], status: Object, now: float) -> dict[str, float]:
    """The pods that are about to be deleted, since their evictions."""
    known, found = status.get("disruptedPods") or {}, {}
    for pod in pods:
        name = pod["metadata"]["name"]
        if name in known and not pod["metadata"]["deletionTimestamp"] and (since := parse_time(known[name])) + DELETION_TIMEOUT >= now:
            found[name] = since
    return found


def _status(budget: Object, pods: Iterable[Object], expected: Expected, *, disrupted: Mapping[str, float], now: float) -> dict[str, Any]:
    before = budget.get("status") or {}
    healthy = sum(one["ready"] and not one["metadata"]["deletionTimestamp"] and one["metadata"]["name"] not in disrupted for one in pods)
    status: dict[str, Any] = {
        "currentHealthy": healthy,
        "desiredHealthy": expected.healthy,
        "expectedPods": expected.pods,
        "disruptionsAllowed": max(0, healthy - expected.healthy) if expected.pods > 0 else 0,
        "observedGeneration": budget["metadata"].get("generation") or 0,
    }
    if disrupted:
        status["disruptedPods"] = {name: before["disruptedPods"][name] for name in disrupted}
    return disruption.with_condition({**status, "conditions": before.get("conditions") or []}, format_time(now))


def _failed(status: Object, message: str, now: str) -> dict[str, Any]:
    """The status of a budget whose pods cannot be counted: nothing is allowed."""
    wanted = {
        "type": disruption.ALLOWED,
        "status": "False",
        "reason": "SyncFailed",
        "message": message,
        "observedGeneration": status.get("observedGeneration") or 0,
    }
    fields = {"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0, **status, "disruptionsAllowed": 0}
    return disruption.with_condition(fields, now, wanted)
