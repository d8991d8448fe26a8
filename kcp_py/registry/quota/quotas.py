"""ResourceQuotas as the ledger sees them, and the rule by which a write is charged or refused.

Source: k8s.io/apiserver `pkg/admission/plugin/resourcequota/controller.go` (`CheckRequest`). Here the limits of the specification count at
once, where upstream waits until its controller has copied them to the status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.amounts import Amounts
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.quantity import Quantity
from kcp_py.registry.quota.podresources import ZERO, amounts_of
from kcp_py.registry.quota.usage import Evaluator, Scope, evaluator_of, resource_of_name
from kcp_py.registry.rendering import encode_stored
from kcp_py.storage.contract import KeyValue

CLUSTER_WIDE_ANNOTATION: Final = "experimental.quota.kcp.io/cluster-scoped"
"""`true` on a ResourceQuota: it counts the whole cluster, whatever its namespace (kcp)."""

RESOURCE_QUOTAS: Final = GroupResource("", "resourcequotas")


class Change(NamedTuple):
    """What a write does to one object."""

    resource: GroupResource
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    before: Mapping[str, Any] | None
    """The object as it was stored; None where there was none. Empty where only its existence matters, see `Evaluator.constant`."""
    after: Mapping[str, Any] | None
    """The object as it will be stored; None for a deletion. Empty as `before`."""
    enforced: bool = True
    """Whether the write is refused where it exceeds a quota. Writes of the status are charged only."""


class Quota:
    """One ResourceQuota as it is stored."""

    def __init__(self, item: KeyValue, *, since: int = 0) -> None:
        """Read a stored object.

        Args:
            item: the object.
            since: the revision from which on only the ledger has written it; 0 for that of the item.
        """
        self.key: Final = item.key
        self.mod_revision: Final = item.mod_revision
        self.since: Final = since or item.mod_revision
        self.size: Final = len(item.value)
        self.obj: Final[dict[str, Any]] = orjson.loads(item.value)
        metadata, spec, status = self.obj["metadata"], self.obj.get("spec") or {}, self.obj.get("status") or {}
        self.name: Final[str] = metadata["name"]
        self.namespace: Final[str] = metadata["namespace"]
        self.cluster_wide: Final = (metadata.get("annotations") or {}).get(CLUSTER_WIDE_ANNOTATION) == "true"
        self.hard: Final = amounts_of(spec.get("hard"))
        self.used: Final = amounts_of(status.get("used"))
        self._stated = amounts_of(status.get("hard"))
        expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
        self.scopes: Final = (
            *(Scope(name) for name in spec.get("scopes") or ()),
            *(Scope(one.get("scopeName", ""), one.get("operator", ""), frozenset(one.get("values") or ())) for one in expressions),
        )

    @cached_property
    def counted(self) -> Mapping[GroupResource, frozenset[str]]:
        """The resources that the quota counts, and under which of its names."""
        found: dict[GroupResource, set[str]] = {}
        for name in self.hard:
            if (resource := resource_of_name(name)) is not None:
                found.setdefault(resource, set()).add(name)
        return {resource: frozenset(names) for resource, names in found.items()}

    @property
    def filled(self) -> bool:
        """Whether the status states the limits of the specification, and the usage of all that is counted."""
        return self._stated == self.hard and all(name in self.used for names in self.counted.values() for name in names)

    def concerns(self, namespace: str) -> bool:
        """Whether objects of a namespace are counted; the empty text stands for cluster-scoped objects."""
        return self.cluster_wide or self.namespace == namespace

    def covers(self, evaluator: Evaluator, obj: Mapping[str, Any]) -> bool:
        """Whether an object of a counted resource has the scopes of the quota."""
        return all(evaluator.in_scope(scope, obj) for scope in self.scopes)

    def charged(self, used: Amounts, revision: int) -> Quota:
        """The quota after the ledger has written a usage with a transaction."""
        return Quota(KeyValue(self.key, self.with_usage(used), revision, 0), since=self.since)

    def with_usage(self, used: Amounts) -> bytes:
        """The stored form with another usage, and with the limits of the specification in the status."""
        limits = (self.obj.get("spec") or {}).get("hard") or {}
        shown = {name: str(amount) for name, amount in sorted(used.items()) if name in limits}
        return encode_stored({**self.obj, "status": {**(self.obj.get("status") or {}), "hard": limits, "used": shown}})


def charged(quota: Quota, used: Amounts, change: Change) -> Amounts | None:
    """The usage of a quota after a write; None where the write makes no difference to it.

    Args:
        quota: concerns the namespace of the object.
        used: its usage before the write.
        change: the write.

    Raises:
        StatusError: 403, the write exceeds the quota.
    """
    names = quota.counted.get(change.resource)
    if names is None:
        return None
    evaluator = evaluator_of(change.resource)
    before = evaluator.usage(change.before) if change.before is not None and quota.covers(evaluator, change.before) else {}
    after: Amounts = {}
    if change.after is not None and quota.covers(evaluator, change.after):
        if change.before is None and (problem := evaluator.missing(quota.hard, change.after)):
            raise errors.forbidden(change.resource, change.name, f"failed quota: {quota.name}: {problem}")
        after = evaluator.usage(change.after)
        if negative := sorted(name for name, amount in after.items() if amount.nano < 0):
            raise errors.forbidden(change.resource, change.name, f"quota usage is negative for resource(s): {','.join(negative)}")
    deltas = {}
    for name in names:
        delta = after.get(name, ZERO).minus(before.get(name, ZERO))
        if delta.nano:
            deltas[name] = delta
    if not deltas:
        return None
    new = {**used, **{name: _not_negative(used.get(name, ZERO).plus(delta)) for name, delta in deltas.items()}}
    exceeded = [name for name, delta in deltas.items() if delta.nano > 0 and new[name].nano > quota.hard[name].nano]
    if exceeded and change.enforced:
        requested, before_it, limited = (_shown(amounts, exceeded) for amounts in (deltas, used, quota.hard))
        detail = f"exceeded quota: {quota.name}, requested: {requested}, used: {before_it}, limited: {limited}"
        raise errors.forbidden(change.resource, change.name, detail)
    return new


def _shown(amounts: Amounts, names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts.get(name, ZERO)}" for name in sorted(names))


def _not_negative(amount: Quantity) -> Quantity:
    return amount if amount.nano >= 0 else ZERO
