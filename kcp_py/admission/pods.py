"""`PodPlugin`: what plugins for pods have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation

PODS: Final = GroupResource("", "pods")
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


class PodPlugin(AdmissionPlugin):
    """A plugin for pods as clients have them compiled in."""

    conforming = True
    operations = frozenset[Operation]({"CREATE"})
    resources = frozenset({PODS})


def pod_of(attributes: Attributes) -> dict[str, Any] | None:
    """The pod that is written; None for a write through a subresource, and where a CRD defines other pods."""
    return attributes.obj if attributes.resource.typed and not attributes.subresource else None


def containers_of(pod: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """All containers of a pod, each with its path."""
    spec = pod.get("spec") or {}
    for member in _CONTAINERS:
        for at, container in enumerate(spec.get(member) or ()):
            yield f"spec.{member}[{at}]", container
