"""Autoscalers and disruption budgets.

Source: kubernetes `pkg/apis/autoscaling/validation`, `pkg/apis/policy/validation`.
"""

from __future__ import annotations

from typing import Any, Final

from kcp_py.apimachinery.fielderrors import forbidden, invalid, not_supported, required
from kcp_py.apimachinery.meta import names
from kcp_py.apis.core.limits import container_resource_problems
from kcp_py.apis.upstream.autoscaler_conversion import V2, convert_autoscaler
from kcp_py.apis.upstream.validation.fields import (
    NOT_NEGATIVE,
    NOT_POSITIVE,
    Object,
    Problems,
    amount,
    as_struct,
    label,
    name,
    not_negative,
    one_of,
    path_segment,
)
from kcp_py.apis.upstream.validation.selectors import selector
from kcp_py.apis.upstream.validation.workloads import at_most_all, count_or_percent

_MOST_SECONDS: Final = {"periodSeconds": 1800, "stabilizationWindowSeconds": 3600}
_CHOICES: Final = ("Disabled", "Max", "Min")
_METRICS: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")
_SOURCES: Final = ("object", "external", "pods", "resource", "containerResource")
"""In the order in which they are looked at."""
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_EVICTION_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")


def autoscaler_problems(autoscaler: Object, old: Object | None = None) -> Problems:
    """An autoscaler of version v2. A reference without a group may stay where the stored one has none."""
    spec, before = autoscaler.get("spec") or {}, (old or {}).get("spec") or {}
    least, most, here = spec.get("minReplicas"), spec.get("maxReplicas", 0), "spec.maxReplicas"
    if least is not None and least < 0:
        yield invalid("spec.minReplicas", least, NOT_NEGATIVE)
    if least is not None and most < least:
        yield invalid(here, most, "must be greater than or equal to `minReplicas`")
    kept = bool(before) and any(_version_problems(before.get("scaleTargetRef") or {}, "", group=True))
    yield from _target(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef", version=not kept, group=True)
    described = [(metric.get("object") or {}).get("describedObject") or {} for metric in before.get("metrics") or () if "object" in metric]
    any_version = any(any(_version_problems(reference, "", group=False)) for reference in described)
    yield from _metrics(spec, version=not any_version)
    for direction in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(direction)
        if rules is not None:
            yield from _scaling_rules(rules, f"spec.behavior.{direction}")
    if most == 0:
        yield required(here)
    elif most < 0:
        yield invalid(here, most, "must be greater than or equal to 1")


def _target(reference: Object, path: str, *, version: bool, group: bool) -> Problems:
    yield from path_segment(reference.get("kind"), f"{path}.kind")
    yield from path_segment(reference.get("name"), f"{path}.name")
    if version:
        yield from _version_problems(reference, path, group=group)


def _version_problems(reference: Object, path: str, *, group: bool) -> Problems:
    value = reference.get("apiVersion", "")
    if value.count("/") > 1:
        yield invalid(f"{path}.apiVersion", value, f"unexpected GroupVersion string: {value}")
    elif group and ("/" not in value or value.startswith("/")):
        yield invalid(f"{path}.apiVersion", value, "apiVersion must specify API group")


def _metrics(spec: Object, *, version: bool) -> Problems:
    metrics = spec.get("metrics") or ()
    for index, metric in enumerate(metrics):
        yield from _metric(metric, f"spec.metrics[{index}]", version=version)
    if spec.get("minReplicas") == 0 and not any(metric.get("type") in {"Object", "External"} for metric in metrics):
        yield forbidden("spec.metrics", "must specify at least one Object or External metric to support scaling to zero replicas")


def _metric(metric: Object, path: str, *, version: bool) -> Problems:
    kind = metric.get("type", "")
    if not kind:
        yield required(f"{path}.type", "must specify a metric source type")
    if kind not in _METRICS:
        yield not_supported(f"{path}.type", kind, _METRICS)
    given = [source for source in _SOURCES if metric.get(source) is not None]
    if given:
        yield from _source(given[0], metric[given[0]], f"{path}.{given[0]}", version=version)
    wanted = kind[:1].lower() + kind[1:]
    if kind in _METRICS and metric.get(wanted) is None:
        yield required(f"{path}.{wanted}", "must populate information for the given metric source")
    if len(given) != 1:
        for source in given:
            if source != wanted:
                yield forbidden(f"{path}.{source}", "must populate the given metric source only")


def _source(kind: str, source: Object, path: str, *, version: bool) -> Problems:
    target, here = source.get("target") or {}, f"{path}.target"
    match kind:
        case "object":
            yield from _target(source.get("describedObject") or {}, f"{path}.describedObject", version=version, group=False)
            yield from _identifier(source, path)
        case "external" | "pods":
            yield from _identifier(source, path)
        case _:
            if not source.get("name"):
                yield required(f"{path}.name", "must specify a resource name")
            elif kind == "containerResource":
                yield from container_resource_problems(source["name"], f"{path}.name")
            if kind == "containerResource":
                if not source.get("container"):
                    yield required(f"{path}.container", "must specify a container")
                else:
                    yield from label(source["container"], f"{path}.container")
    yield from _metric_target(target, here)
    value, average = ("value" in target), ("averageValue" in target)
    match kind:
        case "object" if not value and not average:
            yield required(f"{here}.averageValue", "must set either a target value or averageValue")
        case "external" if not value and not average:
            yield required(f"{here}.averageValue", "must set either a target value for metric or a per-pod target")
        case "external" if value and average:
            yield forbidden(f"{here}.value", "may not set both a target value for metric and a per-pod target")
        case "pods" if not average:
            yield required(f"{here}.averageValue", "must specify a positive target averageValue")
        case "resource" | "containerResource":
            utilization = "averageUtilization" in target
            if not utilization and not average:
                yield required(f"{here}.averageUtilization", "must set either a target raw value or a target utilization")
            elif utilization and average:
                yield forbidden(f"{here}.averageValue", "may not set both a target raw value and a target utilization")


def _identifier(source: Object, path: str) -> Problems:
    metric = (source.get("metric") or {}).get("name")
    if not metric:
        yield required(f"{path}.metric.name", "must specify a metric name")
    else:
        yield from name(metric, f"{path}.metric.name", names.path_segment_problems)


def _metric_target(target: Object, path: str) -> Problems:
    kind = target.get("type", "")
    if not kind:
        yield required(f"{path}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        yield invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for member in ("value", "averageValue"):
        if member in target and amount(target[member]).nano <= 0:
            yield invalid(f"{path}.{member}", str(amount(target[member])), "must be positive")
    if target.get("averageUtilization", 1) < 1:
        yield invalid(f"{path}.averageUtilization", target["averageUtilization"], "must be greater than 0")


def _scaling_rules(rules: Object, path: str) -> Problems:
    window, here = rules.get("stabilizationWindowSeconds"), f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        yield invalid(here, window, "must be greater than or equal to zero")
    yield from _at_most(window, here, "stabilizationWindowSeconds")
    if "selectPolicy" in rules:
        yield from one_of(rules["selectPolicy"], f"{path}.selectPolicy", _CHOICES, needed=False)
    policies = rules.get("policies") or ()
    if not policies:
        yield required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(policies):
        here = f"{path}.policies[{index}]"
        yield from one_of(policy.get("type"), f"{here}.type", ("Percent", "Pods"), needed=False)
        for member in ("value", "periodSeconds"):
            if policy.get(member, 0) <= 0:
                yield invalid(f"{here}.{member}", policy.get(member, 0), NOT_POSITIVE)
        yield from _at_most(policy.get("periodSeconds"), f"{here}.periodSeconds", "periodSeconds")
    if "tolerance" in rules:
        yield from _not_negative_amount(rules["tolerance"], f"{path}.tolerance")


def _at_most(value: int | None, path: str, member: str) -> Problems:
    if value is not None and value > _MOST_SECONDS[member]:
        yield invalid(path, value, f"must be less than or equal to {_MOST_SECONDS[member]}")


def _not_negative_amount(value: Any, path: str) -> Problems:
    if amount(value).nano < 0:
        yield invalid(path, str(amount(value)), NOT_NEGATIVE)


def old_autoscaler_problems(autoscaler: Object, old: Object | None = None) -> Problems:
    """An autoscaler of version v1, which is validated as one of v2."""
    forms = [convert_autoscaler(dict(one), V2, lambda _: None) for one in (autoscaler, old) if one is not None]
    return autoscaler_problems(*forms)


def autoscaler_status_problems(autoscaler: Object, old: Object) -> Problems:
    """What an autoscaler has measured."""
    del old
    status = autoscaler.get("status") or {}
    for index, condition in enumerate(status.get("conditions") or ()):
        yield from not_negative(condition.get("observedGeneration"), f"status.conditions[{index}].observedGeneration")
    for member in ("currentReplicas", "desiredReplicas"):
        yield from not_negative(status.get(member), f"status.{member}")


def budget_problems(budget: Object) -> Problems:
    """A disruption budget."""
    spec = budget.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        policy = spec.get("unhealthyPodEvictionPolicy")
        shown = {"MinAvailable": least, "Selector": spec.get("selector"), "MaxUnavailable": most, "UnhealthyPodEvictionPolicy": policy}
        yield invalid("spec", as_struct(shown), "minAvailable and maxUnavailable cannot be both set")
    for member in ("minAvailable", "maxUnavailable"):
        if spec.get(member) is not None:
            yield from count_or_percent(spec[member], f"spec.{member}")
            yield from at_most_all(spec[member], f"spec.{member}")
    yield from selector(spec.get("selector"), "spec.selector")
    if "unhealthyPodEvictionPolicy" in spec:
        yield from one_of(spec["unhealthyPodEvictionPolicy"], "spec.unhealthyPodEvictionPolicy", _EVICTION_POLICIES, needed=False)
