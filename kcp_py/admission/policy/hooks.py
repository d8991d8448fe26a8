"""`ClusterHooks`: the effective policies of each cluster, right from the answer to each write on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kcp_py.admission.clusterobjects import ClusterObjects, Found
from kcp_py.admission.policy.definitions import NO_HOOKS, Binding, Definition, Hooks, hooks_of
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterbudget import ClusterBudget

_HOOK_BYTES: Final = 600
"""What a policy or a binding takes among the hooks of a cluster, without its definition."""


class _Built(NamedTuple):
    policies: Sequence[Found[Definition]]
    bindings: Sequence[Found[Binding]]
    hooks: Hooks


class ClusterHooks:
    """The hooks of all clusters for one kind of policies."""

    def __init__(self, policies: ClusterObjects[Definition], bindings: ClusterObjects[Binding], budget: ClusterBudget) -> None:
        self._policies = policies
        self._bindings = bindings
        self._built: dict[Name, _Built] = {}
        # The objects of which hooks are built are evicted at the same time.
        self._kept = budget.part("admission", self._built.pop)

    def known(self, cluster: Name) -> Hooks | None:
        """The hooks of a cluster; None where objects have to be read for them."""
        bindings = self._bindings.cached(cluster)
        if bindings is None:
            return None
        if not bindings:
            return NO_HOOKS
        policies = self._policies.cached(cluster)
        return None if policies is None else self._of(cluster, policies, bindings)

    def follow(self, changed: Callable[[], None]) -> None:
        """Have a function called when an answer of `known` may have become another one."""
        self._policies.follow(changed)
        self._bindings.follow(changed)

    async def get(self, cluster: Name) -> Hooks:
        """The hooks of a cluster.

        Raises:
            StorageError: the store cannot be read.
        """
        bindings = await self._bindings.get(cluster)
        return self._of(cluster, await self._policies.get(cluster), bindings) if bindings else NO_HOOKS

    def _of(self, cluster: Name, policies: Sequence[Found[Definition]], bindings: Sequence[Found[Binding]]) -> Hooks:
        built = self._built.get(cluster)
        if built is None or built.policies is not policies or built.bindings is not bindings:
            hooks = hooks_of([one.value for one in policies], [one.value for one in bindings])
            built = self._built[cluster] = _Built(policies, bindings, hooks)
            self._kept.hold(cluster, _HOOK_BYTES * (1 + len(policies) + len(bindings)))
        return built.hooks
