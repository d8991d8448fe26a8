"""Jobs and cron jobs.

Source: kubernetes `pkg/apis/batch/validation`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kcp_py.apimachinery.fielderrors import NO_VALUE, duplicate, invalid, not_supported, required, too_long, too_many
from kcp_py.apimachinery.meta import names
from kcp_py.apimachinery.meta.selectors import label_selector_of
from kcp_py.apis.upstream.validation.cron import schedule_problem
from kcp_py.apis.upstream.validation.fields import IMMUTABLE, Object, Problems, not_negative, one_of, qualified
from kcp_py.apis.upstream.validation.indexes import success_policy
from kcp_py.apis.upstream.validation.podspec import template_problems
from kcp_py.apis.upstream.validation.selectors import selector
from kcp_py.golang.quoting import go_quote

_COUNTS: Final = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished", "backoffLimitPerIndex",
    "maxFailedIndexes",
)  # fmt: skip
_ANY_ZONE: Final = "Europe/Berlin"
_LONGEST_ZONE: Final = 100
_MAX_INDEXED: Final = 100_000
_MANY: Final = 100_000
_MAX_OF_MANY: Final = 10_000
_UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
_CONDITION_STATES: Final = ("False", "True", "Unknown")
_POLICY_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")


def job_problems(job: Object) -> Problems:
    """A new job."""
    spec = job.get("spec") or {}
    if spec.get("manualSelector") is not True:
        yield from _generated_labels(job)
    yield from _selected_job(spec)
    yield from _indexed_name(job)


def changed_job_problems(job: Object, old: Object) -> Problems:
    """A job that an update changes."""
    spec, before = job.get("spec") or {}, old.get("spec") or {}
    if spec == before:
        return
    yield from _selected_job(spec)
    if spec.get("completions") != before.get("completions"):
        value = spec.get("completions")
        if spec.get("completionMode") != "Indexed":
            yield invalid("spec.completions", value, IMMUTABLE)
        elif value is not None and value != spec.get("parallelism"):
            yield invalid("spec.completions", value, "can only be modified in tandem with spec.parallelism")


def _generated_labels(job: Object) -> Problems:
    spec, metadata = job.get("spec") or {}, job["metadata"]
    given = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    path = "spec.template.metadata.labels"
    for keys in zip(_UID_LABELS, _NAME_LABELS, strict=True):
        for key, wanted in zip(keys, (metadata.get("uid", ""), metadata.get("name", "")), strict=True):
            value = given.get(key)
            if value is None:
                yield required(f"{path}[{key}]", f"must be '{wanted}'")
            elif value != wanted:
                yield invalid(f"{path}[{key}]", given, f"must be '{wanted}'")
    chosen = spec.get("selector")
    if chosen is not None and not list(selector(chosen, "")):
        expected = dict.fromkeys(_UID_LABELS, metadata.get("uid", "")) | dict.fromkeys(_NAME_LABELS, metadata.get("name", ""))
        if not label_selector_of(dict(chosen)).matches(expected):
            yield invalid("spec.selector", chosen, "`selector` not auto-generated")


def _selected_job(spec: Object) -> Problems:
    yield from job_spec_problems(spec, "spec")
    chosen = spec.get("selector")
    if chosen is None:
        yield required("spec.selector")
    problems = list(selector(chosen, "spec.selector"))
    yield from problems
    given = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if not problems and not label_selector_of(chosen).matches(given):
        yield invalid("spec.template.metadata.labels", given, "`selector` does not match template `labels`")


def _indexed_name(job: Object) -> Problems:
    spec, name = job.get("spec") or {}, job["metadata"].get("name", "")
    if spec.get("completionMode") == "Indexed" and spec.get("completions", 0) > 0:
        host = f"{name}-{spec['completions'] - 1}"
        if names.dns_label_problems(host):
            yield invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {host}")


def job_spec_problems(spec: Object, path: str) -> Problems:
    """The specification of a job, but for its selector."""
    for member in _COUNTS:
        yield from not_negative(spec.get(member), f"{path}.{member}")
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if (manager := spec.get("managedBy")) is not None:
        yield from _domain_prefixed(manager, f"{path}.managedBy")
        if len(manager) > 63:
            yield too_long(f"{path}.managedBy", 63)
    yield from _completion_mode(spec, path)
    yield from _failure_policy(spec, f"{path}.podFailurePolicy")
    yield from success_policy(spec, f"{path}.successPolicy")
    if "podReplacementPolicy" in spec:
        policy, here = spec["podReplacementPolicy"], f"{path}.podReplacementPolicy"
        if "podFailurePolicy" in spec:
            yield from one_of(policy, here, ("Failed",), needed=False)
        else:
            yield from one_of(policy, here, ("Failed", "TerminatingOrFailed"), needed=False)
    template = spec.get("template") or {}
    yield from template_problems(template, f"{path}.template")
    yield from _restart_policy(spec, template, f"{path}.template.spec.restartPolicy")


def _restart_policy(spec: Object, template: Object, path: str) -> Problems:
    policy = (template.get("spec") or {}).get("restartPolicy", "")
    if policy in {"", "Always"}:
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in {"OnFailure", "Never"}:
        yield not_supported(path, policy, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        yield invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _completion_mode(spec: Object, path: str) -> Problems:
    mode, completions, parallelism = (spec.get(member) for member in ("completionMode", "completions", "parallelism"))
    failed, per_index = spec.get("maxFailedIndexes"), spec.get("backoffLimitPerIndex")
    if mode is not None:
        yield from one_of(mode, f"{path}.completionMode", ("NonIndexed", "Indexed"), needed=False)
    if mode == "Indexed":
        if completions is None:
            yield required(f"{path}.completions", "when completion mode is Indexed")
        if parallelism is not None and parallelism > _MAX_INDEXED:
            detail = f"must be less than or equal to {_MAX_INDEXED} when completion mode is Indexed"
            yield invalid(f"{path}.parallelism", parallelism, detail)
        if completions is not None and failed is not None and failed > completions:
            yield invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
        if failed is not None and failed > _MAX_INDEXED:
            yield invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MAX_INDEXED}")
        if completions is not None and completions > _MANY and per_index is not None:
            if failed is None:
                yield required(f"{path}.maxFailedIndexes", f"must be specified when completions is above {_MANY}")
            for member, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
                if value is not None and value > _MAX_OF_MANY:
                    when = f"when completions are above {_MANY} and used with backoff limit per index"
                    yield invalid(f"{path}.{member}", value, f"must be less than or equal to {_MAX_OF_MANY} {when}")
    elif mode in {None, "NonIndexed"}:
        for member in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if member in spec:
                yield invalid(f"{path}.{member}", spec[member], "requires indexed completion mode")


def _failure_policy(spec: Object, path: str) -> Problems:
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    rules = policy.get("rules") or ()
    if len(rules) > 20:
        yield too_many(f"{path}.rules", len(rules), 20)
    pod = (spec.get("template") or {}).get("spec") or {}
    known = {container.get("name", "") for member in ("containers", "initContainers") for container in pod.get(member) or ()}
    for index, rule in enumerate(rules):
        here, action = f"{path}.rules[{index}]", rule.get("action", "")
        if not action:
            yield required(f"{here}.action", f"valid values: {_quoted(_POLICY_ACTIONS)}")
        elif action == "FailIndex" and "backoffLimitPerIndex" not in spec:
            yield invalid(f"{here}.action", action, "requires the backoffLimitPerIndex to be set")
        else:
            yield from one_of(action, f"{here}.action", _POLICY_ACTIONS, needed=False)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
        if codes is not None:
            yield from _exit_codes(codes, f"{here}.onExitCodes", known)
        if len(conditions) > 20:
            yield too_many(f"{here}.onPodConditions", len(conditions), 20)
        for position, condition in enumerate(conditions):
            yield from _condition_pattern(condition, f"{here}.onPodConditions[{position}]")
        if codes is not None and conditions:
            yield invalid(here, NO_VALUE, "specifying both OnExitCodes and OnPodConditions is not supported")
        elif codes is None and not conditions:
            yield invalid(here, NO_VALUE, "specifying one of OnExitCodes and OnPodConditions is required")


def _condition_pattern(condition: Object, path: str) -> Problems:
    yield from qualified(condition.get("type", ""), f"{path}.type")
    if not condition.get("status"):
        yield required(f"{path}.status", f"valid values: {_quoted(_CONDITION_STATES)}")
    else:
        yield from one_of(condition["status"], f"{path}.status", _CONDITION_STATES, needed=False)


def _exit_codes(codes: Object, path: str, known: set[str]) -> Problems:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if not operator:
        yield required(f"{path}.operator", f"valid values: {_quoted(('In', 'NotIn'))}")
    else:
        yield from one_of(operator, f"{path}.operator", ("In", "NotIn"), needed=False)
    container = codes.get("containerName")
    if container is not None and container not in known:
        detail = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", container, detail)
    if not values:
        yield invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > 255:
        yield too_many(f"{path}.values", len(values), 255)
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in seen:
            yield duplicate(f"{path}.values[{index}]", value)
        seen.add(value)
    if values != sorted(values):
        yield invalid(f"{path}.values", values, "must be ordered")


def _quoted(values: tuple[str, ...]) -> str:
    return "[" + " ".join(map(go_quote, values)) + "]"


def _domain_prefixed(value: str, path: str) -> Problems:
    domain, slash, rest = value.partition("/")
    if not value:
        yield required(path)
    elif not slash or not domain or not rest:
        yield invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        for text in names.dns_subdomain_problems(domain):
            yield invalid(path, domain, text)


def cron_job_problems(cron_job: Object) -> Problems:
    """A new cron job."""
    yield from changed_cron_job_problems(cron_job, {})


def changed_cron_job_problems(cron_job: Object, old: Object) -> Problems:
    """A cron job that an update changes."""
    spec, before = cron_job.get("spec") or {}, old.get("spec") or {}
    if old and spec == before:
        return
    schedule = spec.get("schedule", "")
    if schedule:
        yield from _schedule(spec, schedule, before.get("schedule", ""))
    yield from not_negative(spec.get("startingDeadlineSeconds"), "spec.startingDeadlineSeconds")
    yield from _time_zone(spec.get("timeZone"), before.get("timeZone"))
    yield from one_of(spec.get("concurrencyPolicy"), "spec.concurrencyPolicy", ("Allow", "Forbid", "Replace"))
    template = spec.get("jobTemplate") or {}
    inner = template.get("spec") or {}
    yield from job_spec_problems(inner, "spec.jobTemplate.spec")
    if inner.get("manualSelector") is True:
        yield not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    for member in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from not_negative(spec.get(member), f"spec.{member}")
    if not schedule:
        yield required("spec.schedule")


def _schedule(spec: Object, schedule: str, before: str) -> Problems:
    if problem := schedule_problem(schedule):
        yield invalid("spec.schedule", schedule, problem)
    if "TZ" not in schedule:
        return
    if "TZ" not in before:
        yield invalid("spec.schedule", schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    elif "timeZone" in spec:
        yield invalid("spec.schedule", schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")


def _time_zone(zone: str | None, before: str | None) -> Problems:
    if zone is None or zone == before:
        return
    if not zone:
        yield invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
    elif zone.lower() == "local":
        yield invalid("spec.timeZone", zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
    elif len(zone) > _LONGEST_ZONE or not _is_known(zone):
        yield invalid("spec.timeZone", zone, f"unknown time zone {zone}")


@lru_cache(maxsize=1024)
def _is_known(zone: str) -> bool:
    """Whether a time zone exists. On a machine without a database of time zones, all do."""
    for tried in (zone, _ANY_ZONE):
        try:
            ZoneInfo(tried)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            continue
        return tried == zone
    return True
