"""`PodTopologyLabels`: pods have the zone and the region of their node as labels.

Source: kubernetes `plugin/pkg/admission/podtopologylabels`.
"""

from __future__ import annotations

from typing import Final

from kcp_py.admission.podnodes import Nodes
from kcp_py.admission.pods import PodPlugin
from kcp_py.apis.typed.cells import at
from kcp_py.registry.admission import Attributes

_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels(PodPlugin):
    """Copies the labels to pods that are created on a node, and to bindings, which give them to their pods."""

    name = "PodTopologyLabels"

    def __init__(self, nodes: Nodes) -> None:
        """Make the plugin from the nodes of clusters."""
        self._nodes = nodes

    async def mutate(self, attributes: Attributes) -> None:
        """Overwrite the labels with those of the node. A node that does not exist has none."""
        obj = attributes.obj
        if obj is None or not attributes.resource.typed:
            return
        match attributes.subresource:
            case "":
                name = obj["spec"].get("nodeName")
            case "binding" if at(obj, "target", "kind") == "Node":
                name = at(obj, "target", "name")
            case _:
                return
        if not name or not isinstance(name, str) or (node := await self._nodes.get(attributes.cluster, name)) is None:
            return
        labels = node["metadata"].get("labels") or {}
        if copied := {label: labels[label] for label in _LABELS if label in labels}:
            obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), **copied}
