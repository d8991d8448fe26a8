"""The kinds that make pods from a template: deployments, replica sets, stateful sets, daemon sets, replication controllers.

Source: kubernetes `pkg/apis/apps/validation`, `pkg/apis/core/validation` (`ValidateReplicationControllerSpec`).
"""

from __future__ import annotations

from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, Printed, forbidden, invalid, not_supported, required
from kcp_py.apimachinery.meta.selectors import label_selector_of
from kcp_py.apis.upstream.validation.claims import claim_spec
from kcp_py.apis.upstream.validation.fields import (
    NOT_NEGATIVE,
    PERCENT_MISMATCH,
    Object,
    Problems,
    as_selector,
    as_struct,
    is_percent,
    label,
    not_negative,
    one_of,
    unchanged,
)
from kcp_py.apis.upstream.validation.podspec import template_problems, template_spec
from kcp_py.apis.upstream.validation.selectors import annotation_keys, labels, selector

_MISMATCH: Final = "`selector` does not match template `labels`"
_OPTIONAL_COUNTS: Final = ("revisionHistoryLimit", "progressDeadlineSeconds")


def deployment_problems(deployment: Object) -> Problems:
    """A deployment."""
    spec = deployment.get("spec") or {}
    yield from not_negative(spec.get("replicas"), "spec.replicas")
    yield from _selected_template(spec, "deployment", "ReplicaSet")
    yield from _deployment_strategy(spec.get("strategy") or {})
    yield from not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    for member in _OPTIONAL_COUNTS:
        yield from not_negative(spec.get(member), f"spec.{member}")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def replica_set_problems(replica_set: Object) -> Problems:
    """A replica set."""
    spec = replica_set.get("spec") or {}
    yield from not_negative(spec.get("replicas"), "spec.replicas")
    yield from not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from _selected_template(spec, "deployment", "ReplicaSet")


def replication_controller_problems(controller: Object) -> Problems:
    """A replication controller, whose selector is a set of labels."""
    spec = controller.get("spec") or {}
    chosen, template = spec.get("selector") or {}, spec.get("template")
    if not chosen:
        yield required("spec.selector")
    if template is None:
        yield required("spec.template")
    else:
        given = _labels(template)
        if any((given or {}).get(key) != value for key, value in chosen.items()):
            yield invalid("spec.template.metadata.labels", given, _MISMATCH)
        yield from template_problems(template, "spec.template")
        yield from _always_running(template, "ReplicationController")
    yield from not_negative(spec.get("replicas"), "spec.replicas")
    yield from not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")


def daemon_set_problems(daemon_set: Object) -> Problems:
    """A daemon set."""
    spec = daemon_set.get("spec") or {}
    chosen, template = spec.get("selector"), spec.get("template") or {}
    problems = list(selector(chosen, "spec.selector"))
    yield from problems
    if not problems and (chosen is None or not _matches(chosen, template)):
        yield invalid("spec.template.metadata.labels", _labels(template), _MISMATCH)
    if chosen is not None and _is_empty(chosen):
        yield invalid("spec.selector", as_selector(chosen), "empty selector is invalid for daemonset")
    yield from template_problems(template, "spec.template")
    yield from _always_running(template, "DaemonSet")
    yield from not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from _daemon_strategy(spec.get("updateStrategy") or {})
    yield from not_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")


def changed_daemon_set_problems(daemon_set: Object, old: Object) -> Problems:
    """A daemon set that an update changes. Its selector stays."""
    spec, before = daemon_set.get("spec") or {}, old.get("spec") or {}
    if spec == before:
        return
    chosen = spec.get("selector")
    yield from unchanged(chosen, before.get("selector"), "spec.selector", None if chosen is None else as_selector(chosen))
    yield from daemon_set_problems(daemon_set)


def stateful_set_problems(stateful_set: Object) -> Problems:
    """A new stateful set."""
    yield from _stateful_set(stateful_set.get("spec") or {}, claims=True)


def changed_stateful_set_problems(stateful_set: Object, old: Object) -> Problems:
    """A stateful set that an update changes. Its claims, which cannot change, are not looked at."""
    spec = stateful_set.get("spec") or {}
    if spec != (old.get("spec") or {}):
        yield from _stateful_set(spec, claims=False)


def _stateful_set(spec: Object, *, claims: bool) -> Problems:
    policy = spec.get("podManagementPolicy", "")
    if not policy:
        yield required("spec.podManagementPolicy")
    elif policy not in {"OrderedReady", "Parallel"}:
        yield invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _stateful_strategy(spec.get("updateStrategy") or {})
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for member in ("whenDeleted", "whenScaled") if retention else ():
        path = f"spec.persistentVolumeClaimRetentionPolicy.{member}"
        yield from one_of(retention.get(member), path, ("Retain", "Delete"), needed=False)
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or () if claims else ()):
        yield from claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
    yield from not_negative(spec.get("replicas"), "spec.replicas")
    yield from not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from not_negative((spec.get("ordinals") or {}).get("start"), "spec.ordinals.start")
    if spec.get("serviceName"):
        yield from label(spec["serviceName"], "spec.serviceName")
    if spec.get("selector") is None:
        yield required("spec.selector")
    yield from _stateful_template(spec)
    yield from _always_running(spec.get("template") or {}, "StatefulSet")


def _stateful_template(spec: Object) -> Problems:
    chosen, template = spec.get("selector"), _with_claims(spec)
    if chosen is not None:
        problems = list(selector(chosen, "spec.selector"))
        yield from problems
        if _is_empty(chosen):
            yield invalid("spec.selector", as_selector(chosen), "empty selector is invalid for statefulset")
        if problems:
            yield invalid("spec.selector", as_selector(chosen), "")
            return
        if not _is_empty(chosen) and not _matches(chosen, template):
            yield invalid("spec.template.metadata.labels", _labels(template), _MISMATCH)
    else:
        yield invalid("spec.template.metadata.labels", _labels(template), _MISMATCH)
    yield from template_problems(template, "spec.template")
    metadata = template.get("metadata") or {}
    yield from labels(metadata.get("labels"), "spec.template.labels")
    yield from annotation_keys(metadata.get("annotations"), "spec.template.annotations")


def _with_claims(spec: Object) -> Object:
    """The template with the volumes that the claims of the set become, and without names that the controller sets."""
    template = spec.get("template") or {}
    pod = {key: value for key, value in template_spec(template).items() if key not in {"hostname", "subdomain"}}
    claims = dict.fromkeys((claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ())
    if claims:
        made = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        pod["volumes"] = made + [volume for volume in pod.get("volumes") or () if volume.get("name") not in claims]
    return {**template, "spec": pod}


def _selected_template(spec: Object, kind: str, pods_of: str) -> Problems:
    chosen, template = spec.get("selector"), spec.get("template") or {}
    if chosen is None:
        yield required("spec.selector")
        matches = False
    else:
        problems = list(selector(chosen, "spec.selector"))
        yield from problems
        if _is_empty(chosen):
            yield invalid("spec.selector", as_selector(chosen), f"empty selector is invalid for {kind}")
        if problems:
            yield invalid("spec.selector", as_selector(chosen), "invalid label selector")
            return
        matches = _is_empty(chosen) or _matches(chosen, template)
    if not matches:
        yield invalid("spec.template.metadata.labels", _labels(template), _MISMATCH)
    yield from template_problems(template, "spec.template")
    yield from _always_running(template, pods_of)


def _always_running(template: Object, kind: str) -> Problems:
    spec = template_spec(template)
    if spec.get("restartPolicy", "") != "Always":
        yield not_supported("spec.template.spec.restartPolicy", spec.get("restartPolicy", ""), ("Always",))
    if "activeDeadlineSeconds" in spec:
        yield forbidden("spec.template.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {kind} is not Supported")


def _labels(template: Object) -> Any:
    return (template.get("metadata") or {}).get("labels")


def _is_empty(chosen: Object) -> bool:
    return not chosen.get("matchLabels") and not chosen.get("matchExpressions")


def _matches(chosen: Object, template: Object) -> bool:
    return label_selector_of(dict(chosen)).matches(_labels(template) or {})


def _deployment_strategy(strategy: Object) -> Problems:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.strategy.rollingUpdate"
    match kind:
        case "Recreate":
            if rolling is not None:
                yield forbidden(path, "may not be specified when strategy `type` is 'Recreate'")
        case "RollingUpdate":
            if rolling is None:
                yield required(path, "this should be defaulted and never be nil")
                return
            unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
            yield from count_or_percent(unavailable, f"{path}.maxUnavailable")
            yield from count_or_percent(surge, f"{path}.maxSurge")
            if not _number(unavailable) and not _number(surge):
                yield invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
            yield from at_most_all(unavailable, f"{path}.maxUnavailable")
        case _:
            yield not_supported("spec.strategy", _rollout(kind, rolling), ("Recreate", "RollingUpdate"))


def _rollout(kind: str, rolling: Object | None) -> Printed:
    """A strategy as messages print it."""
    bounds = None
    if rolling is not None:
        bounds = {"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)}
    return as_struct({"Type": kind, "RollingUpdate": bounds})


def _daemon_strategy(strategy: Object) -> Problems:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy.rollingUpdate"
    match kind:
        case "OnDelete":
            return
        case "RollingUpdate":
            if rolling is None:
                yield required(path)
                return
            unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
            for rule in (count_or_percent, at_most_all):
                yield from rule(unavailable, f"{path}.maxUnavailable")
                yield from rule(surge, f"{path}.maxSurge")
            if _number(unavailable) and _number(surge):
                yield invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
            elif not _number(unavailable) and not _number(surge):
                yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
        case _:
            yield not_supported("spec.updateStrategy", _rollout(kind, rolling), ("RollingUpdate", "OnDelete"))


def _stateful_strategy(strategy: Object) -> Problems:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    match kind:
        case "":
            yield required(path)
        case "OnDelete":
            if rolling is not None:
                shown = as_struct({"Partition": rolling.get("partition", 0), "MaxUnavailable": None})
                yield invalid(f"{path}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'")
        case "RollingUpdate":
            if rolling is None:
                return
            yield from not_negative(rolling.get("partition"), f"{path}.rollingUpdate.partition")
            unavailable, here = rolling.get("maxUnavailable"), f"{path}.rollingUpdate.maxUnavailable"
            if unavailable is not None:
                yield from count_or_percent(unavailable, here)
                if not _number(unavailable):
                    yield invalid(here, unavailable, "cannot be 0")
                yield from at_most_all(unavailable, here)
        case _:
            parts = None if rolling is None else {"Partition": rolling.get("partition", 0), "MaxUnavailable": None}
            yield invalid(path, as_struct({"Type": kind, "RollingUpdate": parts}), "must be 'RollingUpdate' or 'OnDelete'")


def count_or_percent(value: int | str, path: str) -> Problems:
    """A number from zero on, or a percentage."""
    if isinstance(value, str):
        if not is_percent(value):
            yield invalid(path, value, PERCENT_MISMATCH)
    elif value < 0:
        yield FieldError(reason="FieldValueInvalid", field=path, value=value, detail=NOT_NEGATIVE)


def at_most_all(value: int | str, path: str) -> Problems:
    """At most 100 %."""
    if isinstance(value, str) and is_percent(value) and int(value[:-1]) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def _number(value: int | str) -> int:
    """The count or the percentage; zero for other texts."""
    if isinstance(value, str):
        return int(value[:-1]) if is_percent(value) else int(value) if value.isascii() and value.isdigit() else 0
    return value
