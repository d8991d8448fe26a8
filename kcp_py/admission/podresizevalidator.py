"""`PodResizeValidator`: pods on a node are resized to no more than the node has.

Source: kubernetes `plugin/pkg/admission/podresize`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.admission.podnodes import Nodes
from kcp_py.admission.pods import PodPlugin
from kcp_py.apimachinery import errors
from kcp_py.golang.quoting import go_quote
from kcp_py.registry.admission import Attributes, Operation
from kcp_py.registry.quota.podresources import ZERO, amounts_of, pod_requests

_SYSTEM: Final = "kubernetes.io/os"
_UNITS: Final = {"cpu": 10**6, "memory": 10**9}
"""Resource -> nanos in the unit that the text has."""


class PodResizeValidator(PodPlugin):
    """Refuses what a node cannot give, nodes that are not there, and other systems than Linux."""

    name = "PodResizeValidator"
    operations = frozenset[Operation]({"UPDATE"})

    def __init__(self, nodes: Nodes) -> None:
        """Make the plugin from the nodes of clusters."""
        self._nodes = nodes

    async def validate(self, attributes: Attributes) -> None:
        """Compare the requests of the pod with the node. Clusters that do not serve nodes have none to compare with.

        Raises:
            StatusError: 403.
        """
        pod, old = attributes.obj, attributes.old
        if attributes.subresource != "resize" or pod is None or old is None or not attributes.resource.typed:
            return
        name = pod["spec"].get("nodeName")
        if not name or pod["spec"] == old["spec"] or not await self._nodes.are_served(attributes.cluster):
            return
        node = await self._nodes.get(attributes.cluster, name)
        if node is None:
            raise _refused(attributes, f"node {go_quote(name)} not found", "")
        system = (node["metadata"].get("labels") or {}).get(_SYSTEM, "linux")
        if system != "linux":
            text = f"pod resize is only supported on linux nodes, node {go_quote(name)} is {go_quote(system)}"
            raise _refused(attributes, text, "UnsupportedPlatform")
        if missing := _missing(pod, (node.get("status") or {}).get("allocatable")):
            raise _refused(attributes, f"node didn't have enough allocatable resources: {missing}", "NodeCapacity")


def _missing(pod: Mapping[str, Any], allocatable: Any) -> str:
    """The requests that are larger than what a node has, in upstream's words; empty where all fit."""
    requests, most = pod_requests(pod), amounts_of(allocatable)
    found = []
    for name, unit in _UNITS.items():
        wanted, given = (amounts.get(name, ZERO).nano for amounts in (requests, most))
        if wanted > given:
            found.append(f"{name}, requested: {-(-wanted // unit)}, allocatable: {-(-given // unit)}")
    return "; ".join(found)


def _refused(attributes: Attributes, text: str, cause: str) -> errors.StatusError:
    refusal = errors.forbidden(attributes.resource.group_resource, attributes.name, text)
    if cause:
        refusal.details = {**(refusal.details or {}), "causes": [{"reason": cause}]}
    return refusal
