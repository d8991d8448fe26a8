"""`evaluate_pod`: a pod against several standards, in a thread where it is large."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kcp_py.admission.podsecurity.checks import Violation, containers
from kcp_py.admission.podsecurity.levels import Standard
from kcp_py.admission.podsecurity.standards import evaluate
from kcp_py.aio.offload import offload

_INLINE: Final = 300
"""So many parts of a pod are checked against three standards in a few milliseconds."""

Violations = Mapping[Standard, Sequence[Violation]]


async def evaluate_pod(standards: Iterable[Standard], metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Violations:
    """What each standard forbids about a pod. A large one does not block the event loop."""
    if _parts(spec) <= _INLINE:
        return _evaluate(standards, metadata, spec)
    return await offload(_evaluate, standards, metadata, spec)


def _evaluate(standards: Iterable[Standard], metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Violations:
    return {standard: evaluate(standard, metadata, spec) for standard in dict.fromkeys(standards)}


def _parts(spec: Mapping[str, Any]) -> int:
    """The number of parts that the checks look at."""
    security = spec.get("securityContext") or {}
    parts = len(spec.get("volumes") or ()) + len(security.get("sysctls") or ())
    for container in containers(spec):
        capabilities = (container.get("securityContext") or {}).get("capabilities") or {}
        parts += 3 + len(container.get("ports") or ()) + len(capabilities.get("add") or ()) + len(capabilities.get("drop") or ())
    return parts
