"""`Priority`: the priority of a pod is that of its PriorityClass, and one class at most is the default.

Source: kubernetes `plugin/pkg/admission/priority`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kcp_py.admission.clusterobjects import ClusterObjects
from kcp_py.admission.pods import PODS, PodPlugin, pod_of
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.upstream.priorityclasses import PRIORITY_CLASSES, SYSTEM_CLASSES
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import Attributes, Operation

_LOWER: Final = "PreemptLowerPriority"


class PriorityClass(NamedTuple):
    """What a PriorityClass gives to pods."""

    value: int
    default: bool
    preemption: str


def parse_priority_class(obj: Mapping[str, Any]) -> PriorityClass:
    """A stored PriorityClass."""
    return PriorityClass(obj.get("value", 0), obj.get("globalDefault") is True, obj.get("preemptionPolicy") or _LOWER)


class Priority(PodPlugin):
    """Fills class, priority and preemption policy of new pods."""

    name = "Priority"
    operations = frozenset[Operation]({"CREATE", "UPDATE"})
    resources = frozenset[GroupResource]({PODS, PRIORITY_CLASSES})

    def __init__(self, classes: ClusterObjects[PriorityClass]) -> None:
        """Make the plugin from the PriorityClasses of clusters."""
        self._classes = classes

    async def mutate(self, attributes: Attributes) -> None:
        """Fill a pod.

        Raises:
            StatusError: 403 for a class that does not exist, and for values that are not those of the class.
        """
        pod = pod_of(attributes)
        if pod is None or attributes.resource.resource != "pods":
            return
        spec = pod["spec"]
        if attributes.operation == "UPDATE":
            before = (attributes.old or {}).get("spec") or {}
            for field in ("priority", "preemptionPolicy"):
                if spec.get(field) is None and before.get(field) is not None:
                    spec[field] = before[field]
            return
        name, found = await self._class_of(attributes.cluster, spec.get("priorityClassName") or "")
        if found is None:
            raise _refused(attributes, f"no PriorityClass with name {name} was found")
        priority, preemption = spec.get("priority"), spec.get("preemptionPolicy")
        if priority is not None and priority != found.value:
            raise _refused(
                attributes,
                f"the integer value of priority ({priority}) must not be provided in pod spec; "
                f"priority admission controller computed {found.value} from the given PriorityClass name",
            )
        if preemption and preemption != found.preemption:
            raise _refused(
                attributes,
                f"the string value of PreemptionPolicy ({preemption}) must not be provided in pod spec; "
                f"priority admission controller computed {found.preemption} from the given PriorityClass name",
            )
        if name:
            spec["priorityClassName"] = name
        spec["priority"], spec["preemptionPolicy"] = found.value, found.preemption

    async def validate(self, attributes: Attributes) -> None:
        """Keep the default of a cluster the only one.

        Raises:
            StatusError: 403.
        """
        obj = pod_of(attributes)
        if obj is None or attributes.resource.resource == "pods" or obj.get("globalDefault") is not True:
            return
        name, _ = await self._default(attributes.cluster)
        if name and not (attributes.operation == "UPDATE" and name == attributes.name):
            raise _refused(attributes, f"PriorityClass {name} is already marked as default. Only one default can exist")

    async def _class_of(self, cluster: Name, name: str) -> tuple[str, PriorityClass | None]:
        """The class of a name, which is that of the default for a pod that names none."""
        if not name:
            return await self._default(cluster)
        found = next((one.value for one in await self._classes.get(cluster) if one.name == name), None)
        if found is None and (system := SYSTEM_CLASSES.get(name)) is not None:
            found = PriorityClass(system.value, default=False, preemption=_LOWER)
        return name, found

    async def _default(self, cluster: Name) -> tuple[str, PriorityClass]:
        """The default of a cluster: of several, which a race can make, the lowest one."""
        found = min((one for one in await self._classes.get(cluster) if one.value.default), key=lambda one: one.value.value, default=None)
        return ("", PriorityClass(0, default=False, preemption=_LOWER)) if found is None else (found.name, found.value)


def _refused(attributes: Attributes, text: str) -> errors.StatusError:
    return errors.forbidden(attributes.resource.group_resource, attributes.name, text)
