"""`RuntimeClass`: a pod gets overhead, node selector and tolerations of its RuntimeClass.

Source: kubernetes `plugin/pkg/admission/runtimeclass`, `pkg/util/tolerations`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.admission.clusterobjects import ClusterObjects
from kcp_py.admission.pods import PodPlugin, pod_of
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.quantity import parse_quantity
from kcp_py.golang.quoting import go_quote
from kcp_py.registry.admission import Attributes

RUNTIME_CLASSES: Final = GroupResource("node.k8s.io", "runtimeclasses")
_MISMATCH: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_ALONE: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"

Toleration = Mapping[str, Any]


class PodSettings(NamedTuple):
    """What a RuntimeClass gives to pods."""

    overhead: Mapping[str, str] | None
    node_selector: Mapping[str, str]
    tolerations: Sequence[Toleration]
    scheduled: bool
    """Whether the class says anything about nodes."""


def parse_runtime_class(obj: Mapping[str, Any]) -> PodSettings:
    """A stored RuntimeClass."""
    overhead, scheduling = obj.get("overhead"), obj.get("scheduling")
    nodes = scheduling or {}
    return PodSettings(
        None if overhead is None else overhead.get("podFixed") or {},
        nodes.get("nodeSelector") or {},
        nodes.get("tolerations") or (),
        scheduling is not None,
    )


class RuntimeClass(PodPlugin):
    """Fills new pods that name a RuntimeClass, and refuses an overhead that is not that of the class."""

    name = "RuntimeClass"

    def __init__(self, classes: ClusterObjects[PodSettings]) -> None:
        """Make the plugin from the RuntimeClasses of clusters."""
        self._classes = classes

    async def mutate(self, attributes: Attributes) -> None:
        """Fill a pod.

        Raises:
            StatusError: 403 for a class that does not exist, another overhead, or another value for a label of the node selector.
        """
        pod = pod_of(attributes)
        if pod is None or (found := await self._of(attributes, pod)) is None:
            return
        spec = pod["spec"]
        if found.overhead is not None:
            if spec.get("overhead") and not _equal(spec["overhead"], found.overhead):
                raise _refused(attributes, _MISMATCH)
            if found.overhead:
                spec["overhead"] = dict(found.overhead)
        if found.scheduled:
            selector = spec.get("nodeSelector") or {}
            for key, value in found.node_selector.items():
                if selector.get(key, value) != value:
                    text = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {selector[key]}"
                    raise _refused(attributes, f"conflict: {text}")
            if selector or found.node_selector:
                spec["nodeSelector"] = {**selector, **found.node_selector}
            if merged := merge_tolerations([*(spec.get("tolerations") or ()), *found.tolerations]):
                spec["tolerations"] = [dict(toleration) for toleration in merged]

    async def validate(self, attributes: Attributes) -> None:
        """Compare the overhead.

        Raises:
            StatusError: 403.
        """
        if (pod := pod_of(attributes)) is None:
            return
        found = await self._of(attributes, pod)
        overhead = pod["spec"].get("overhead")
        if found is not None and found.overhead is not None:
            if not _equal(overhead or {}, found.overhead):
                raise _refused(attributes, _MISMATCH)
        elif overhead is not None:
            raise _refused(attributes, _ALONE)

    async def _of(self, attributes: Attributes, pod: Mapping[str, Any]) -> PodSettings | None:
        """The class that a pod names.

        Raises:
            StatusError: 403 where it does not exist.
        """
        if (name := pod["spec"].get("runtimeClassName")) is None:
            return None
        for one in await self._classes.get(attributes.cluster):
            if one.name == name:
                return one.value
        raise _refused(attributes, f"pod rejected: RuntimeClass {go_quote(name)} not found")


def merge_tolerations(tolerations: Sequence[Toleration]) -> list[Toleration]:
    """Leave out tolerations that others include. Of equal ones the first remains."""
    merged: list[Toleration] = []
    for at, one in enumerate(tolerations):
        if any(includes(other, one) for other in merged):
            continue
        if any(other != one and includes(other, one) for other in tolerations[at + 1 :]):
            continue
        merged.append(one)
    return merged


def includes(wide: Toleration, one: Toleration) -> bool:
    """Whether a toleration tolerates everything that another one does."""
    if wide == one:
        return True
    key, effect, operator = wide.get("key", ""), wide.get("effect", ""), wide.get("operator") or "Equal"
    if one.get("key", "") != key and (key or operator != "Exists"):
        return False
    if effect and one.get("effect", "") != effect:
        return False
    seconds, most = one.get("tolerationSeconds"), wide.get("tolerationSeconds")
    if effect == "NoExecute" and most is not None and (seconds is None or seconds > most):
        return False
    if operator == "Equal":
        return one.get("operator") == "Equal" and one.get("value", "") == wide.get("value", "")
    return operator == "Exists"


def _equal(overhead: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return {name: parse_quantity(value).nano for name, value in overhead.items()} == {
        name: parse_quantity(value).nano for name, value in other.items()
    }


def _refused(attributes: Attributes, text: str) -> errors.StatusError:
    return errors.forbidden(attributes.resource.group_resource, attributes.name, text)
