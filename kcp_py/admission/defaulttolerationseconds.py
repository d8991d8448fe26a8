"""`DefaultTolerationSeconds`: pods stay for a time, five minutes by default, on nodes that are not ready or not reachable.

Source: kubernetes `plugin/pkg/admission/defaulttolerationseconds`.
"""

from __future__ import annotations

from typing import Final

from kcp_py.admission.pods import PodPlugin, pod_of
from kcp_py.registry.admission import Attributes, Operation

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_SECONDS: Final = 300


class DefaultTolerationSeconds(PodPlugin):
    """Adds the two tolerations to pods that do not tolerate these taints already."""

    name = "DefaultTolerationSeconds"
    operations = frozenset[Operation]({"CREATE", "UPDATE"})

    def __init__(self, *, not_ready: int = _SECONDS, unreachable: int = _SECONDS) -> None:
        """Make the plugin. The arguments are the seconds of the two tolerations."""
        self._seconds: Final = {_NOT_READY: not_ready, _UNREACHABLE: unreachable}

    def mutate(self, attributes: Attributes) -> None:
        """Add the missing ones."""
        if (pod := pod_of(attributes)) is None:
            return
        given = pod["spec"].get("tolerations") or []
        tolerated = {toleration.get("key", "") for toleration in given if toleration.get("effect", "") in {"", "NoExecute"}}
        if added := [
            {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            for taint, seconds in self._seconds.items()
            if not tolerated & {taint, ""}
        ]:
            pod["spec"]["tolerations"] = [*given, *added]
