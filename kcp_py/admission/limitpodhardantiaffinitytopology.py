"""`LimitPodHardAntiAffinityTopology`: pods keep others from single nodes, and not from whole zones.

Source: kubernetes `plugin/pkg/admission/antiaffinity`.
"""

from __future__ import annotations

from typing import Final

from kcp_py.admission.pods import PodPlugin, pod_of
from kcp_py.apimachinery import errors
from kcp_py.registry.admission import Attributes, Operation

_HOST: Final = "kubernetes.io/hostname"


class LimitPodHardAntiAffinityTopology(PodPlugin):
    """Refuses required anti-affinities with another topology key than that of nodes."""

    name = "LimitPodHardAntiAffinityTopology"
    operations = frozenset[Operation]({"CREATE", "UPDATE"})

    def validate(self, attributes: Attributes) -> None:
        """Look at each term.

        Raises:
            StatusError: 403.
        """
        if (pod := pod_of(attributes)) is None:
            return
        affinity = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
        for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            if (given := term.get("topologyKey") or "") != _HOST:
                text = f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {given} but only key {_HOST} is allowed"
                raise errors.forbidden(attributes.resource.group_resource, pod["metadata"].get("name") or "", text)
