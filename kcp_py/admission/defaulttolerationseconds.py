"""`DefaultTolerationSeconds`: pods stay for five minutes on nodes that are not ready or not reachable.

Source: kubernetes `plugin/pkg/admission/defaulttolerationseconds`.
"""

from __future__ import annotations

from typing import Final

from kcp_py.admission.pods import PodPlugin, pod_of
from kcp_py.registry.admission import Attributes, Operation

_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS: Final = 300


class DefaultTolerationSeconds(PodPlugin):
    """Adds the two tolerations to pods that do not tolerate these taints already."""

    name = "DefaultTolerationSeconds"
    operations = frozenset[Operation]({"CREATE", "UPDATE"})

    def mutate(self, attributes: Attributes) -> None:
        """Add the missing ones."""
        if (pod := pod_of(attributes)) is None:
            return
        given = pod["spec"].get("tolerations") or []
        tolerated = {toleration.get("key", "") for toleration in given if toleration.get("effect", "") in {"", "NoExecute"}}
        if added := [
            {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
            for taint in _TAINTS
            if not tolerated & {taint, ""}
        ]:
            pod["spec"]["tolerations"] = [*given, *added]
