"""`TaintNodesByCondition`: a new node takes no pods until it is ready.

Source: kubernetes `plugin/pkg/admission/nodetaint`. A controller of nodes takes the taint away; this server has none.
"""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation

_TAINT: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNodesByCondition(AdmissionPlugin):
    """Adds the taint for nodes that are not ready to new nodes."""

    name = "TaintNodesByCondition"
    conforming = True
    operations = frozenset[Operation]({"CREATE"})
    resources = frozenset({GroupResource("", "nodes")})

    def mutate(self, attributes: Attributes) -> None:
        """Add the taint where it is missing."""
        node = attributes.obj
        if node is None or attributes.subresource or not attributes.resource.typed:
            return
        taints = node["spec"].get("taints") or []
        if not any((taint.get("key"), taint.get("effect")) == (_TAINT["key"], _TAINT["effect"]) for taint in taints):
            node["spec"]["taints"] = [*taints, dict(_TAINT)]
