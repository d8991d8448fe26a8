"""Limits of a whole logical cluster: the annotations of its LogicalCluster that set them, and the texts of refusals.

Source: kcp `docs/content/concepts/quota` (`core.kcp.io/max-total-objects`). kcp limits objects alone, by a scan every minute. The other
annotations are this server's own and follow the same rules: an annotation has precedence over the default of the server, and 0 means no
limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kcp_py.logicalcluster import ROOT, Name, is_system

OBJECTS_ANNOTATION: Final = "core.kcp.io/max-total-objects"
BYTES_ANNOTATION: Final = "kcp-py.io/max-total-bytes"
DEFINITIONS_ANNOTATION: Final = "kcp-py.io/max-custom-resource-definitions"
WATCHES_ANNOTATION: Final = "kcp-py.io/max-watches"
REQUESTS_ANNOTATION: Final = "kcp-py.io/max-requests-per-second"
BURST_ANNOTATION: Final = "kcp-py.io/max-request-burst"

LIMIT_ANNOTATIONS: Final[Mapping[str, str]] = {
    OBJECTS_ANNOTATION: "objects",
    BYTES_ANNOTATION: "size",
    DEFINITIONS_ANNOTATION: "definitions",
    WATCHES_ANNOTATION: "watches",
    REQUESTS_ANNOTATION: "requests",
    BURST_ANNOTATION: "burst",
}
"""Annotation of a LogicalCluster -> the member of `Limits` that it sets."""

_NAMES: Final = {member: annotation for annotation, member in LIMIT_ANNOTATIONS.items()}
_FLAGS: Final[Mapping[str, str]] = {
    "objects": "--logical-cluster-total-object-limit",
    "size": "--logical-cluster-total-byte-limit",
    "definitions": "--logical-cluster-definition-limit",
    "watches": "--logical-cluster-watch-limit",
    "requests": "--logical-cluster-request-limit",
}
_NOUNS: Final[Mapping[str, str]] = {
    "objects": "objects",
    "size": "bytes",
    "definitions": "CustomResourceDefinitions",
    "watches": "watches",
    "requests": "requests per second",
}
_STATUS_NAMES: Final[Mapping[str, str]] = {
    "objects": "objects",
    "size": "bytes",
    "definitions": "customResourceDefinitions",
    "watches": "watches",
    "requests": "requestsPerSecond",
    "burst": "requestBurst",
}
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}").fullmatch
_SIZE: Final = re.compile(r"([0-9]{1,15})(|k|M|G|T|Ki|Mi|Gi|Ti)").fullmatch
_UNITS: Final[Mapping[str, int]] = {
    unit: base**power for base, units in ((1000, "k M G T"), (1024, "Ki Mi Gi Ti")) for power, unit in enumerate(units.split(), 1)
}
_LARGEST: Final = 2**63 - 1
_LARGEST_RATE: Final = 1_000_000
_BURST_SECONDS: Final = 2


class Limits(NamedTuple):
    """The limits of one cluster. 0 stands for none."""

    objects: int = 0
    """Stored objects, except events and the LogicalCluster."""
    size: int = 0
    """Bytes of stored objects in their stored form, except the LogicalCluster."""
    definitions: int = 0
    """CustomResourceDefinitions."""
    watches: int = 0
    """Running watches on one server."""
    requests: int = 0
    """Requests per second on one server."""
    burst: int = 0
    """Requests that may come at once; twice the rate where it is not stated."""
    stated: frozenset[str] = frozenset()
    """The members that annotations of the cluster state; the others are defaults of the server."""

    @property
    def counted(self) -> bool:
        """Whether objects are counted."""
        return bool(self.objects or self.size or self.definitions)

    @property
    def largest_burst(self) -> int:
        """Requests that may come at once."""
        return self.burst or self.requests * _BURST_SECONDS

    @property
    def shown(self) -> dict[str, int]:
        """`status.limits` of the LogicalCluster."""
        found = {shown: getattr(self, member) for member, shown in _STATUS_NAMES.items() if getattr(self, member)}
        if self.requests:
            found["requestBurst"] = self.largest_burst
        return found

    def reached(self, cluster: Name, member: str) -> str:
        """The text of a refusal: which limit was reached, and what sets it."""
        source = _NAMES[member] if member in self.stated else _FLAGS[member]
        return f'logical cluster "{cluster}" has reached its limit of {getattr(self, member)} {_NOUNS[member]} ({source})'


NO_LIMITS: Final = Limits()


class Used(NamedTuple):
    """What the objects of a cluster use; also a difference of two such values."""

    objects: int = 0
    size: int = 0
    definitions: int = 0

    def plus(self, other: Used) -> Used:
        """The sum; nothing gets negative."""
        return Used(*(max(mine + others, 0) for mine, others in zip(self, other, strict=True)))

    @property
    def shown(self) -> dict[str, int]:
        """`status.used` of the LogicalCluster."""
        return {_STATUS_NAMES[member]: amount for member, amount in self._asdict().items()}


NOTHING: Final = Used()


def parse_limit(annotation: str, text: str) -> int:
    """The limit that an annotation states; 0 for none.

    Raises:
        ValueError: the text is not a limit. The message begins with "must be".
    """
    if annotation == BYTES_ANNOTATION:
        size = _SIZE(text)
        amount = _LARGEST + 1 if size is None else int(size[1]) * _UNITS.get(size[2], 1)
        if amount > _LARGEST:
            raise ValueError("must be a number of bytes such as 67108864 or 64Mi; 0 means no limit")
        return amount
    if _NUMBER(text) is None:
        raise ValueError("must be a whole number; 0 means no limit")
    number = max(int(text), 0)
    if annotation in {REQUESTS_ANNOTATION, BURST_ANNOTATION} and number > _LARGEST_RATE:
        raise ValueError(f"must be at most {_LARGEST_RATE}")
    return number


def limits_of(cluster: Name, annotations: Mapping[str, Any] | None, defaults: Limits) -> Limits:
    """The limits of a cluster.

    Args:
        cluster: its name. Defaults do not apply to `root` and to clusters of the system (as in kcp).
        annotations: of its LogicalCluster. Others than numbers have no effect: earlier releases did not check them.
        defaults: of the server.
    """
    base = NO_LIMITS if cluster == ROOT or is_system(cluster) else defaults
    stated: dict[str, int] = {}
    if not annotations:
        return base
    for annotation, member in LIMIT_ANNOTATIONS.items():
        if (text := annotations.get(annotation)) is not None:
            try:
                stated[member] = parse_limit(annotation, text)
            except ValueError:
                continue
    if not stated:
        return base
    if "requests" in stated and "burst" not in stated:
        stated["burst"] = 0
    return base._replace(**stated, stated=frozenset(stated))


def exceeded(limits: Limits, used: Used, growth: Used) -> str:
    """The member of the first limit that a growth exceeds; empty where there is none. What does not grow is not looked at."""
    for member, before, more in zip(Used._fields, used, growth, strict=True):
        limit = getattr(limits, member)
        if limit and more > 0 and before + more > limit:
            return member
    return ""
