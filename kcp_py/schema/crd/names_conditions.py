"""Which of its requested names a CRD gets, and the conditions about them.

Names belong to the first CRD of a group that asked; plural, singular and short names share one pool, kind and list kind another. Source:
k8s.io/apiextensions-apiserver `pkg/controller/status/naming_controller.go` and `pkg/controller/establish`. Where upstream's establishing
controller waits, ours does not: a CRD whose names are accepted is established at once, unless its webhook could never be reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kcp_py.golang.quoting import go_quote
from kcp_py.schema.crd.conversion import bundle_errors

_CLAIMED: Final = ("plural", "singular", "shortNames", "kind", "listKind")
"""The fields of `names` that only one CRD of a group can hold."""


class BuiltinNames(NamedTuple):
    """The names that a built-in resource holds in its group."""

    plural: str
    singular: str
    kind: str
    list_kind: str
    short_names: tuple[str, ...] = ()


class NamesStatus(NamedTuple):
    """What belongs into a CRD's status."""

    accepted_names: dict[str, Any]
    conditions: list[dict[str, Any]]
    """All conditions: the two that are computed here, and what else the CRD had."""


def accepted_names(
    crd: Mapping[str, Any],
    others: Iterable[Mapping[str, Any]],
    builtins: Iterable[BuiltinNames] = (),
    *,
    now: str,
) -> NamesStatus:
    """Decide on the names of one CRD.

    Args:
        crd: the CRD; its status, if it has one, is what it holds already.
        others: the other CRDs of the cluster; those of other groups, and the CRD itself, are passed over.
        builtins: the names of the built-in resources of the same group.
        now: the time, as conditions print it (RFC 3339).
    """
    spec, status = crd["spec"], crd.get("status") or {}
    group, name = spec["group"], crd["metadata"]["name"]
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] == group and other["metadata"]["name"] != name:
            held = (other.get("status") or {}).get("acceptedNames") or {}
            resources.update((held.get("plural") or "", held.get("singular") or "", *(held.get("shortNames") or ())))
            kinds.update((held.get("kind") or "", held.get("listKind") or ""))
    for builtin in builtins:
        resources.update((builtin.plural, builtin.singular, *builtin.short_names))
        kinds.update((builtin.kind, builtin.list_kind))
    accepted, conflict = _decide(spec["names"], status.get("acceptedNames") or {}, resources, kinds)
    conditions = [dict(condition) for condition in status.get("conditions") or ()]
    generation = crd["metadata"].get("generation")
    if conflict is None:
        named = _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
        established = _condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
        if _has_invalid_bundle(spec):
            established = _condition("Established", "False", "InvalidCABundle", "The conversion webhook CABundle is invalid")
    else:
        named = _condition("NamesAccepted", "False", *conflict)
        established = _condition("Established", "False", "NotAccepted", "not all names are accepted")
    set_condition(conditions, named, now=now, generation=generation)
    # An established CRD stays established. Its condition is told for the present generation, or `kubectl wait` would wait for ever.
    kept = next((one for one in conditions if one.get("type") == "Established" and one.get("status") == "True"), established)
    set_condition(conditions, kept, now=now, generation=generation)
    return NamesStatus(accepted, conditions)


def holds_its_names(crd: Mapping[str, Any]) -> bool:
    """Whether a CRD holds every name that it asks for: `accepted_names` then decides in the same way whatever others hold."""
    asked, held = crd["spec"]["names"], (crd.get("status") or {}).get("acceptedNames") or {}
    return all((asked.get(field) or None) == (held.get(field) or None) for field in _CLAIMED)


def is_condition_true(crd: Mapping[str, Any], name: str) -> bool:
    """Whether a CRD's status has the condition, with status True."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == name and condition.get("status") == "True" for condition in conditions)


def set_condition(conditions: list[dict[str, Any]], condition: dict[str, Any], *, now: str, generation: int | None = None) -> None:
    """Put a condition into a list, in place. The time of transition only changes with the status, as `SetCRDCondition` has it."""
    condition = dict(condition)
    if generation is not None:
        condition["observedGeneration"] = generation
    for index, present in enumerate(conditions):
        if present.get("type") == condition["type"]:
            same = present.get("status") == condition["status"]
            condition["lastTransitionTime"] = present.get("lastTransitionTime", now) if same else now
            conditions[index] = condition
            return
    condition["lastTransitionTime"] = now
    conditions.append(condition)


def _has_invalid_bundle(spec: Mapping[str, Any]) -> bool:
    webhook = (spec.get("conversion") or {}).get("webhook") or {}
    bundle = (webhook.get("clientConfig") or {}).get("caBundle")
    return bool(bundle and bundle_errors(bundle, "caBundle"))


def _condition(name: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {"lastTransitionTime": None, "message": message, "reason": reason, "status": status, "type": name}


def _decide(
    requested: Mapping[str, Any], held: Mapping[str, Any], resources: set[str], kinds: set[str]
) -> tuple[dict[str, Any], tuple[str, str] | None]:
    """The names to hold from now on, and the reason and message of the last conflict."""
    names = dict(held)
    conflict: tuple[str, str] | None = None
    for field, pool, reason in (("plural", resources, "PluralConflict"), ("singular", resources, "SingularConflict")):
        conflict = _claim(names, requested, field, pool, reason) or conflict
    short_names = list(requested.get("shortNames") or ())
    mine = {*(held.get("shortNames") or ()), held.get("plural"), held.get("singular")}
    taken = list(dict.fromkeys(_in_use(short) for short in short_names if short not in mine and short in resources))
    if taken:
        conflict = ("ShortNamesConflict", taken[0] if len(taken) == 1 else f"[{', '.join(taken)}]")
    else:
        _set(names, "shortNames", short_names)
    for field, pool, reason in (("kind", kinds, "KindConflict"), ("listKind", kinds, "ListKindConflict")):
        conflict = _claim(names, requested, field, pool, reason) or conflict
    _set(names, "categories", list(requested.get("categories") or ()))
    # The order of the type's fields, so that equal statuses are equal bytes.
    order = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
    return {field: names.get(field, "") for field in order if field in names or field in {"plural", "kind"}}, conflict


def _claim(names: dict[str, Any], requested: Mapping[str, Any], field: str, pool: set[str], reason: str) -> tuple[str, str] | None:
    wanted = requested.get(field) or ""
    if wanted != (names.get(field) or "") and wanted in pool:
        return (reason, _in_use(wanted))
    _set(names, field, wanted)
    return None


def _set(names: dict[str, Any], field: str, value: Any) -> None:
    if value:
        names[field] = value
    else:
        names.pop(field, None)


def _in_use(name: str) -> str:
    return f"{go_quote(name)} is already in use"
