"""Where pods may run: affinity, tolerations, spread constraints.

Source: kubernetes `pkg/apis/core/validation`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

from kcp_py.apimachinery.fielderrors import duplicate, forbidden, invalid, not_supported, required
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.fields import NOT_POSITIVE, Object, Problems, one_of, qualified
from kcp_py.apis.upstream.validation.selectors import match_label_keys, namespaces, node_selector, node_selector_term, selector

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_DECIMAL: Final = re.compile("-?[1-9][0-9]*|0")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_BAD_WEIGHT: Final = "must be in the range 1-100"


def affinity(value: Object | None, path: str) -> Problems:
    """The affinity of a pod to nodes and to other pods."""
    if not value:
        return
    if nodes := value.get("nodeAffinity"):
        here = f"{path}.nodeAffinity"
        if (chosen := nodes.get(_REQUIRED)) is not None:
            yield from node_selector(chosen, f"{here}.{_REQUIRED}")
        for index, term in enumerate(nodes.get(_PREFERRED) or ()):
            where = f"{here}.{_PREFERRED}[{index}]"
            if not 0 < term.get("weight", 0) <= 100:
                yield invalid(f"{where}.weight", term.get("weight", 0), _BAD_WEIGHT)
            yield from node_selector_term(term.get("preference") or {}, f"{where}.preference", checks_values=False)
    for member in ("podAffinity", "podAntiAffinity"):
        if pods := value.get(member):
            yield from _pod_affinity(pods, f"{path}.{member}")


def _pod_affinity(value: Object, path: str) -> Problems:
    for index, term in enumerate(value.get(_REQUIRED) or ()):
        yield from _pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(value.get(_PREFERRED) or ()):
        here = f"{path}.{_PREFERRED}[{index}]"
        if not 0 < weighted.get("weight", 0) <= 100:
            yield invalid(f"{here}.weight", weighted.get("weight", 0), _BAD_WEIGHT)
        yield from _pod_term(weighted.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")


def _pod_term(term: Object, path: str) -> Problems:
    yield from selector(term.get("labelSelector"), f"{path}.labelSelector")
    yield from selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    yield from namespaces(term.get("namespaces"), f"{path}.namespace")
    yield from match_label_keys(term, path)
    key = term.get("topologyKey", "")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from qualified(key, f"{path}.topologyKey")


def tolerations(values: Sequence[Object] | None, path: str) -> Problems:
    """The taints that a pod tolerates."""
    for index, toleration in enumerate(values or ()):
        here = f"{path}[{index}]"
        key, operator, effect = (toleration.get(member, "") for member in ("key", "operator", "effect"))
        if key:
            yield from qualified(key, f"{here}.key")
        if not key and operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield invalid(f"{here}.operator", operator, detail)
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            yield invalid(f"{here}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        yield from _toleration_value(operator, toleration.get("value", ""), here)
        if effect:
            yield from one_of(effect, f"{here}.effect", EFFECTS)


def _toleration_value(operator: str, value: str, path: str) -> Problems:
    match operator:
        case "Equal" | "":
            if problems := names.label_value_problems(value):
                yield invalid(f"{path}.operator", value, ";".join(problems))
        case "Exists":
            if value:
                yield invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
        case "Lt" | "Gt":
            if not _DECIMAL.fullmatch(value):
                yield invalid(f"{path}.value", value, "must be a valid decimal integer in canonical form" if value else "must be non-empty")
        case _:
            yield not_supported(f"{path}.operator", operator, ("Equal", "Exists"))


def spread_constraints(values: Sequence[Object] | None, path: str) -> Problems:
    """How pods are spread over a topology."""
    pairs = [(value.get("topologyKey", ""), value.get("whenUnsatisfiable", "")) for value in values or ()]
    later = Counter(pairs)
    for index, constraint in enumerate(values or ()):
        here = f"{path}[{index}]"
        key, action = pairs[index]
        later[key, action] -= 1
        if constraint.get("maxSkew", 0) <= 0:
            yield invalid(f"{here}.maxSkew", constraint.get("maxSkew", 0), NOT_POSITIVE)
        if not key:
            yield required(f"{here}.topologyKey", "can not be empty")
        yield from one_of(action, f"{here}.whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"), needed=False)
        if later[key, action]:
            yield duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        domains = constraint.get("minDomains")
        if domains is not None:
            if domains <= 0:
                yield invalid(f"{here}.minDomains", domains, NOT_POSITIVE)
            if action != "DoNotSchedule":
                detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                yield invalid(f"{here}.minDomains", domains, detail)
        for member in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if member in constraint:
                yield from one_of(constraint[member], f"{here}.{member}", ("Honor", "Ignore"), needed=False)
        yield from match_label_keys(constraint, here)
        yield from selector(constraint.get("labelSelector"), f"{here}.labelSelector")


def scheduling_gates(values: Sequence[Object] | None, path: str) -> Problems:
    """What has to be removed before a pod is scheduled."""
    seen: set[str] = set()
    for index, gate in enumerate(values or ()):
        here, gate_name = f"{path}[{index}]", gate.get("name", "")
        yield from qualified(gate_name, here)
        if gate_name in seen:
            yield duplicate(here, gate_name)
        seen.add(gate_name)


def only_added_tolerations(new: Sequence[Object], old: Sequence[Object], path: str) -> Problems:
    """An update may add tolerations and change the seconds of others."""
    kept = {_without_seconds(value) for value in new}
    if any(_without_seconds(value) not in kept for value in old):
        yield forbidden(path, "existing toleration can not be modified except its tolerationSeconds")
        return
    yield from tolerations(new, path)


def _without_seconds(toleration: Object) -> Hashable:
    return tuple(toleration.get(member, "") for member in ("key", "operator", "value", "effect"))


def only_removed_gates(new: Sequence[Object], old: Sequence[Object], path: str) -> Problems:
    """An update may remove scheduling gates."""
    before = {gate.get("name", "") for gate in old}
    for index, gate in enumerate(new):
        gate_name = gate.get("name", "")
        if gate_name not in before:
            yield forbidden(f"{path}[{index}].name", f"only deletion is allowed, but found new scheduling gate '{gate_name}'")
