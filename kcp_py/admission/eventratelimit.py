"""`EventRateLimit`: no client floods a logical cluster with events.

Buckets are those of one logical cluster each, also that of the type `Server`: a cluster is a server to its tenants, and none of them uses
up the allowance of another.

Source: kubernetes `plugin/pkg/admission/eventratelimit`.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from kcp_py.admission.configuration import FLAG, Document, read_fields
from kcp_py.aio.lru import LRU
from kcp_py.apimachinery import fielderrors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.options import OptionsError
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation

_GROUP: Final = "eventratelimit.admission.k8s.io"
_KIND: Final = "Configuration"
_TYPES: Final = ("Namespace", "Server", "SourceAndObject", "User")
_CACHE_SIZE: Final = 4096
_MOST_BUCKETS: Final = 16 * _CACHE_SIZE
"""Of a limit in all clusters together, unless one cluster may have more."""
_LONGEST_KEY: Final = 64
"""Keys with more characters are kept as digests: a client may write long ones."""
_SHAPE: Final[Any] = {"limits": [{"type": str, "qps": int, "burst": int, "cacheSize": int}]}


class Limit(NamedTuple):
    """A limit of the configuration."""

    type: str
    qps: int
    burst: int
    cache_size: int = _CACHE_SIZE
    """The number of buckets that are kept for a cluster."""


def parse_limits(document: Document | None) -> Sequence[Limit]:
    """The limits of the configuration.

    Raises:
        OptionsError: there are none, or they are invalid, with upstream's texts.
    """
    fields = {} if document is None else read_fields(document, (f"{_GROUP}/v1alpha1",), _KIND, _SHAPE, strict=False)
    given = fields.get("limits") or []
    problems = [] if given else [fielderrors.invalid("limits", None, "must not be empty")]
    limits = []
    for index, one in enumerate(given):
        path, fields = f"limits[{index}]", one or {}
        limit = Limit(fields.get("type") or "", fields.get("qps") or 0, fields.get("burst") or 0, fields.get("cacheSize") or 0)
        if limit.type not in _TYPES:
            problems.append(fielderrors.not_supported(f"{path}.type", limit.type, _TYPES))
        problems += [
            fielderrors.invalid(f"{path}.{name}", value, "must be positive")
            for name, value in (("burst", limit.burst), ("qps", limit.qps))
            if value <= 0
        ]
        if limit.type != "Server" and limit.cache_size < 0:
            problems.append(fielderrors.invalid(f"{path}.cacheSize", limit.cache_size, "must not be negative"))
        limits.append(limit._replace(cache_size=limit.cache_size or _CACHE_SIZE))
    if problems:
        origin = f"{FLAG}: EventRateLimit" if document is None else f"{FLAG}: {document.origin}"
        raise OptionsError(f"{origin}: {fielderrors.aggregate(problems)}")
    return limits


class EventRateLimit(AdmissionPlugin):
    """Refuses events that exceed a limit of the configuration."""

    name = "EventRateLimit"
    conforming = True
    operations = frozenset[Operation]({"CREATE", "UPDATE"})
    resources = frozenset({GroupResource("", "events")})

    def __init__(self, limits: Sequence[Limit], *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with full buckets. `clock` returns seconds."""
        self._buckets: Final = [Buckets(limit, clock) for limit in limits]

    def validate(self, attributes: Attributes) -> None:
        """Take one token of each limit.

        Raises:
            StatusError: 429, with all limits that are reached.
        """
        if attributes.dry_run:
            return
        problems = []
        for buckets in self._buckets:
            key = _key(buckets.limit.type, attributes)
            if not buckets.take(attributes.cluster, key):
                problems.append(f"limit reached on type {buckets.limit.type} for key {key}")
        if problems:
            text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise StatusError(429, "TooManyRequests", f"Too many requests: {text}")


class Buckets:
    """The token buckets of a limit. A cluster keeps those that were used last; all clusters together keep a bounded number."""

    def __init__(self, limit: Limit, clock: Callable[[], float], *, most: int = _MOST_BUCKETS) -> None:
        """Begin without any: a new bucket is full."""
        self.limit: Final = limit
        self._clock = clock
        self._most = max(most, limit.cache_size)
        self._clusters: OrderedDict[Name, LRU[str | bytes, list[float]]] = OrderedDict()
        self._number = 0

    def __len__(self) -> int:
        """The number of buckets in memory."""
        return self._number

    def take(self, cluster: Name, key: str) -> bool:
        """Take a token of the bucket of a key, if it has one."""
        now = self._clock()
        bucket = self._bucket(cluster, key, now)
        tokens, since = bucket
        tokens = min(float(self.limit.burst), tokens + (now - since) * self.limit.qps)
        allowed = tokens >= 1
        bucket[:] = tokens - allowed, now
        return allowed

    def _bucket(self, cluster: Name, key: str, now: float) -> list[float]:
        """A bucket: its tokens, and the time at which it had them."""
        short = key if len(key) <= _LONGEST_KEY else blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        buckets = self._clusters.get(cluster)
        if buckets is None:
            buckets = self._clusters[cluster] = LRU(self.limit.cache_size)
        self._clusters.move_to_end(cluster)
        bucket = buckets.get(short)
        if bucket is None:
            before = len(buckets)
            bucket = [float(self.limit.burst), now]
            buckets.set(short, bucket)
            self._number += len(buckets) - before
            while self._number > self._most:
                _, gone = self._clusters.popitem(last=False)
                self._number -= len(gone)
        return bucket


def _key(limit: str, attributes: Attributes) -> str:
    if limit == "Namespace":
        return attributes.namespace
    if limit == "User":
        return attributes.user.name
    if limit == "Server":
        return ""
    event = attributes.obj or {}
    source, involved = event.get("source") or {}, event.get("involvedObject") or {}
    parts = (
        source.get("component"),
        source.get("host"),
        *(involved.get(one) for one in ("kind", "namespace", "name", "uid", "apiVersion")),
    )
    return "".join(part or "" for part in parts)
