"""Resources whose consumption is limited by default: objects that use them need a quota that covers them.

Source: k8s.io/apiserver `pkg/admission/plugin/resourcequota/controller.go` (`CheckRequest`, `limitedByDefault`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.amounts import Amounts
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.quota.podresources import ZERO
from kcp_py.registry.quota.quotas import Change, Quota
from kcp_py.registry.quota.usage import CLAIMS, PODS, Evaluator, Scope, evaluator_of

SCOPED: Final = frozenset({PODS, CLAIMS})
"""The resources whose objects have scopes."""


class LimitedResource(NamedTuple):
    """An entry of the configuration."""

    resource: GroupResource
    contains: Sequence[str] = ()
    """Parts of names in quotas."""
    scopes: Sequence[Scope] = ()
    """Objects that have one of them need a quota with a scope of the same name, whatever `resource` says."""


def check_covered(limited: Iterable[LimitedResource], quotas: Iterable[Quota], change: Change) -> None:
    """Check that quotas cover what a write uses.

    Args:
        limited: the configuration.
        quotas: that concern the namespace of the object.
        change: the write; a deletion needs none.

    Raises:
        StatusError: 403 for an amount that no quota covers, 500 for a scope, as upstream.
    """
    if change.after is None:
        return
    evaluator = evaluator_of(change.resource)
    after = evaluator.usage(change.after)
    before = evaluator.usage(change.before) if change.before is not None else {}
    restricted: set[str] = set()
    scopes: set[str] = set()
    interesting, grows = False, False
    for quota in quotas:
        scopes.update(scope.name for scope in quota.scopes if evaluator.in_scope(scope, change.after))
        names = quota.counted.get(change.resource)
        if names is None or not quota.covers(evaluator, change.after):
            continue
        interesting = True
        restricted |= names
        counted = change.before is not None and quota.covers(evaluator, change.before)
        grows = grows or _grows(before if counted else {}, after)
    if not (grows if interesting else _grows(before, after)):
        return
    if missing := sorted(_needed(limited, change.resource, after) - restricted):
        raise errors.forbidden(change.resource, change.name, f"insufficient quota to consume: {','.join(missing)}")
    if uncovered := _uncovered(limited, scopes, evaluator, change.after):
        # Upstream raises no error of the API here.
        raise errors.StatusError(500, "", f"insufficient quota to match these scopes: [{' '.join(map(_shown, uncovered))}]")


def _needed(limited: Iterable[LimitedResource], resource: GroupResource, used: Amounts) -> set[str]:
    parts = [part for one in limited if one.resource == resource for part in one.contains]
    return {name for name, amount in used.items() if amount.nano > 0 and any(part in name for part in parts)}


def _uncovered(limited: Iterable[LimitedResource], covered: Collection[str], evaluator: Evaluator, obj: Mapping[str, Any]) -> list[Scope]:
    return [scope for one in limited for scope in one.scopes if scope.name not in covered and evaluator.in_scope(scope, obj)]


def _grows(before: Amounts, after: Amounts) -> bool:
    return any(amount.nano > before.get(name, ZERO).nano for name, amount in after.items())


def _shown(scope: Scope) -> str:
    return f"{{{scope.name} {scope.operator} [{' '.join(scope.values)}]}}"
