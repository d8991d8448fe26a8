"""`ExtendedResourceToleration`: pods tolerate the taints of nodes with special resources that they ask for.

Source: kubernetes `plugin/pkg/admission/extendedresourcetoleration`.
"""

from __future__ import annotations

from typing import Any

from kcp_py.admission.pods import PodPlugin, pod_of
from kcp_py.apimachinery.meta.names import qualified_name_problems
from kcp_py.registry.admission import Attributes, Operation
from kcp_py.registry.quota.podresources import is_extended


class ExtendedResourceToleration(PodPlugin):
    """Adds a toleration for each extended resource, such as `example.com/gpu`."""

    name = "ExtendedResourceToleration"
    operations = frozenset[Operation]({"CREATE", "UPDATE"})

    def mutate(self, attributes: Attributes) -> None:
        """Add the missing ones. One of the same key and effect is replaced."""
        if (pod := pod_of(attributes)) is None:
            return
        spec = pod["spec"]
        names = {
            name
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
            for name in (container.get("resources") or {}).get("requests") or {}
            if is_extended(name) and not qualified_name_problems(f"requests.{name}")
        }
        for name in sorted(names):
            spec["tolerations"] = _with(spec.get("tolerations") or [], name)


def _with(given: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    added = {"key": name, "operator": "Exists", "effect": "NoSchedule"}
    replaced = [added if _matches(one, added) else one for one in given]
    return replaced if added in replaced else [*replaced, added]


def _matches(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all((one.get(member) or "") == (other.get(member) or "") for member in ("key", "effect", "operator", "value"))
