"""Controller `clusterrole-aggregation-controller`: composes ClusterRoles that have an aggregation rule from those that it selects.

Source: kubernetes `pkg/controller/clusterroleaggregation`. The roles that a cluster inherits are composed already: only clusters with roles
of their own have anything to do here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.aio.offload import OFFLOAD_OWNER, offload
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.selectors import label_selector_of
from kcp_py.apis.rbac.policy import GROUP
from kcp_py.client import Client, ObjectChange
from kcp_py.controllers.names import CLUSTER_ROLE_AGGREGATION
from kcp_py.controllers.runtime.controller import ControllerSource
from kcp_py.controllers.runtime.queue import Key

CLUSTER_ROLES: Final = GroupVersionResource(GROUP, "v1", "clusterroles")
_FIELD_MANAGER: Final = "clusterrole-aggregation-controller"
_CONCERNED: Final = (b'"labels":', b'"aggregationRule":')
"""In the bytes of every role that selects others or can be selected."""


class ClusterRoleController:
    """Composes all roles of a cluster whenever one of them changes."""

    name = CLUSTER_ROLE_AGGREGATION
    per_cluster = 1

    def __init__(self, client: Client) -> None:
        """Make the controller. `client` is that of all clusters."""
        self._client = client

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """The ClusterRoles that are stored."""
        return (ControllerSource(CLUSTER_ROLES, self.keys),)

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """The cluster of a role that selects others or can be selected, or could before. A tap may leave out the state before."""
        states = (change.value, change.previous)
        if None in states or any(text in state for state in states if state is not None for text in _CONCERNED):
            yield Key(change.cluster, "", "")

    async def reconcile(self, key: Key) -> int:
        listed = await self._client.list(key.cluster, CLUSTER_ROLES)
        OFFLOAD_OWNER.set(key.cluster)
        for name, rules in (await offload(composed, listed.items)).items():
            configuration = {
                "apiVersion": str(CLUSTER_ROLES.group_version),
                "kind": "ClusterRole",
                "metadata": {"name": name},
                "rules": rules,
            }
            await self._client.apply(key.cluster, CLUSTER_ROLES, configuration, field_manager=_FIELD_MANAGER, force=True)
        return 0


def composed(roles: Iterable[Mapping[str, Any]]) -> Mapping[str, list[Any]]:
    """The rules that roles with an aggregation rule should have, by name; those that have them already are left out.

    Roles are taken in the order of their names, each rule once. A role that is composed can be a part of another one. Roles that select
    each other, directly or through others, all have the rules of the roles that any of them selects: their present rules do not count,
    since rules would go round among them for ever.
    """
    ordered = sorted(roles, key=lambda role: str(role["metadata"]["name"]))
    parts = {role["metadata"]["name"]: _selected(role, ordered) for role in ordered if _is_composed(role)}
    before = {role["metadata"]["name"]: role.get("rules") or [] for role in ordered}
    rules = {name: _by_content(before[name]) for name in before if name not in parts}
    cycles = _cycles(parts)
    settled: dict[int, dict[bytes, Any]] = {}
    for name in sorted(parts, key=lambda one: (cycles.reached[one].bit_count(), one not in cycles.members)):
        members, reached = cycles.members.get(name), cycles.reached[name]
        if members is None:
            rules[name] = _union(rules[part] for part in parts[name])
        else:
            if reached not in settled:
                outside = (part for member in members for part in parts[member] if cycles.members.get(part) is not members)
                settled[reached] = _union(rules[part] for part in outside)
            rules[name] = settled[reached]
    return {name: found for name in parts if (found := list(rules[name].values())) != before[name]}


def _is_composed(role: Mapping[str, Any]) -> bool:
    return role.get("aggregationRule") is not None and not role["metadata"].get("deletionTimestamp")


def _selected(role: Mapping[str, Any], roles: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the roles that a role is composed of."""
    own = role["metadata"]["name"]
    found: dict[str, None] = {}
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        matches = label_selector_of(selector).matches
        found.update((other["metadata"]["name"], None) for other in roles if matches(other["metadata"].get("labels") or {}))
    found.pop(own, None)
    return list(found)


def _by_content(rules: Iterable[Any]) -> dict[bytes, Any]:
    return {orjson.dumps(rule, option=orjson.OPT_SORT_KEYS): rule for rule in rules}


def _union(rules: Iterable[Mapping[bytes, Any]]) -> dict[bytes, Any]:
    found: dict[bytes, Any] = {}
    for part in rules:
        found.update(part)
    return found


class _Cycles(NamedTuple):
    """Which composed roles reach which, through any number of others."""

    reached: Mapping[str, int]
    """A bit for each composed role."""
    members: Mapping[str, Sequence[str]]
    """The members of its cycle, for each role that reaches itself. They share one object."""


def _cycles(parts: Mapping[str, Sequence[str]]) -> _Cycles:
    """Warshall's algorithm: thousands of roles take seconds, whatever they select."""
    bits = {name: 1 << position for position, name in enumerate(parts)}
    reached = {name: sum(bits.get(part, 0) for part in found) for name, found in parts.items()}
    for through, bit in bits.items():
        more = reached[through]
        for name, mask in reached.items():
            if mask & bit:
                reached[name] = mask | more
    members: dict[int, list[str]] = {}
    for name, mask in reached.items():
        if mask & bits[name]:
            members.setdefault(mask, []).append(name)
    return _Cycles(reached, {name: found for found in members.values() for name in found})
