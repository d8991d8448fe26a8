"""The status of jobs. Rules about a field hold where an update changes it, so that a status from elsewhere can be corrected in steps.

Source: kubernetes `pkg/apis/batch/validation` (`validateJobStatus`, `ValidateJobStatusUpdate`), `pkg/registry/batch/job/strategy.go`.
"""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.fielderrors import NO_VALUE, FieldError, duplicate, invalid, required
from kcp_py.apis.upstream.validation.fields import IMMUTABLE, Object, Problems, as_struct, not_negative
from kcp_py.apis.upstream.validation.indexes import indexes_in

_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_TERMINAL: Final = ("Failed", "Complete", "FailureTarget")
_CONDITIONS: Final = "status.conditions"
_MET: Final = "SuccessCriteriaMet"


class _State:
    """The status of a job, with the conditions that are true."""

    def __init__(self, job: Object) -> None:
        self.status: Object = job.get("status") or {}
        self.true = {one.get("type", "") for one in self.status.get("conditions") or () if one.get("status") == "True"}
        self.finished = bool(self.true & {"Complete", "Failed"})

    def differs(self, other: _State, *members: str) -> bool:
        """Whether another status has other values."""
        return any((self.status.get(member) or None) != (other.status.get(member) or None) for member in members)

    def turned(self, other: _State, *kinds: str) -> bool:
        """Whether another status differs in whether a condition is true."""
        return any((kind in self.true) != (kind in other.true) for kind in kinds)


def job_status_problems(job: Object, old: Object) -> Problems:
    """What became of a job."""
    new, before, spec = _State(job), _State(old), job.get("spec") or {}
    for member in _COUNTS:
        yield from not_negative(new.status.get(member), f"status.{member}")
    yield from _uncounted(new.status.get("uncountedTerminatedPods") or {})
    yield from _conditions(new, before)
    yield from _finished(new, before, spec)
    yield from _indexes(new, before, spec)
    if new.status.get("terminating", 0) > 0 and new.finished and (new.finished != before.finished or new.differs(before, "terminating")):
        yield invalid("status.terminating", new.status["terminating"], "terminating>0 is invalid for finished job")
    if new.status.get("ready", 0) > new.status.get("active", 0) and new.differs(before, "ready", "active"):
        yield invalid("status.ready", new.status["ready"], "cannot set more ready pods than active")
    yield from _contradictions(new, spec)
    yield from _transitions(new, before, spec)


def _refused(detail: str) -> FieldError:
    return invalid(_CONDITIONS, NO_VALUE, detail)


def _uncounted(pods: Object) -> Problems:
    seen: set[str] = set()
    for member in ("succeeded", "failed"):
        for index, uid in enumerate(pods.get(member) or ()):
            here = f"status.uncountedTerminatedPods.{member}[{index}]"
            if not uid:
                yield invalid(here, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(here, uid)
            seen.add(uid)


def _conditions(new: _State, before: _State) -> Problems:
    true = new.true
    start, end = new.status.get("startTime"), new.status.get("completionTime")
    if {"Complete", "Failed"} <= true and new.turned(before, "Complete", "Failed"):
        yield _refused("cannot set Complete=True and Failed=true conditions")
    if {"Complete", "FailureTarget"} <= true and new.turned(before, "Complete", "FailureTarget"):
        yield _refused("cannot set Complete=True and FailureTarget=true conditions")
    if new.turned(before, "Complete") or new.differs(before, "completionTime"):
        if end and "Complete" not in true:
            yield invalid("status.completionTime", end, "cannot set completionTime when there is no Complete=True condition")
        if not end and "Complete" in true:
            yield required("status.completionTime", "completionTime is required for Complete jobs")
    if start and end and end < start and new.differs(before, "startTime", "completionTime"):
        yield invalid("status.completionTime", end, "must be equal to or after `startTime`")
    if "Failed" in true and "FailureTarget" not in true and (new.turned(before, "Failed") or new.differs(before, "failedIndexes")):
        yield _refused("cannot set Failed=True condition without the FailureTarget=true condition")
    if "Complete" in true and _MET not in true and new.turned(before, "Complete", _MET):
        yield _refused("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")


def _finished(new: _State, before: _State, spec: Object) -> Problems:
    if not new.finished:
        return
    ended, status = not before.finished, new.status
    if status.get("active", 0) > 0 and (ended or new.differs(before, "active")):
        yield invalid("status.active", status["active"], "active>0 is invalid for finished job")
    empty = spec.get("suspend") is True and spec.get("completions") == 0
    if not status.get("startTime") and not empty and (ended or new.differs(before, "startTime")):
        yield required("status.startTime", "startTime is required for finished job")
    pods = status.get("uncountedTerminatedPods") or {}
    if (pods.get("succeeded") or pods.get("failed")) and (ended or new.differs(before, "uncountedTerminatedPods")):
        shown = {member[:1].upper() + member[1:]: pods.get(member) for member in ("succeeded", "failed")}
        yield invalid("status.uncountedTerminatedPods", as_struct(shown), "must be empty for finished job")


def _indexes(new: _State, before: _State, spec: Object) -> Problems:
    completions, per_index = spec.get("completions"), spec.get("backoffLimitPerIndex")
    done, failed = new.status.get("completedIndexes", ""), new.status.get("failedIndexes")
    done_changed, failed_changed = new.differs(before, "completedIndexes"), new.differs(before, "failedIndexes")
    found: dict[str, set[int]] = {}
    for member, text in (("completedIndexes", done), ("failedIndexes", failed or "")):
        try:
            found[member] = set() if completions is None else indexes_in(text, completions)
        except ValueError as error:
            found[member] = set()
            if done_changed if member == "completedIndexes" else failed_changed and per_index is not None:
                yield invalid(f"status.{member}", text, f"error parsing {member}: {error}")
    if done_changed and done and spec.get("completionMode") != "Indexed":
        yield invalid("status.completedIndexes", done, "cannot set non-empty completedIndexes when non-indexed completion mode")
    if failed_changed and failed is not None and per_index is None:
        yield invalid("status.failedIndexes", failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
    both = found["completedIndexes"] & found["failedIndexes"]
    if both and (done_changed or failed_changed):
        yield invalid("status.failedIndexes", failed, f"failedIndexes and completedIndexes overlap at index: {min(both)}")


def _contradictions(new: _State, spec: Object) -> Problems:
    for kind in ("Failed", "FailureTarget"):
        if {_MET, kind} <= new.true:
            yield _refused(f"cannot set SuccessCriteriaMet=True and {kind}=true conditions")
    if spec.get("successPolicy") is not None and "Complete" in new.true and _MET not in new.true:
        yield _refused("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")


def _transitions(new: _State, before: _State, spec: Object) -> Problems:
    for kind in _TERMINAL:
        if kind in before.true and kind not in new.true:
            yield _refused(f"cannot disable the terminal {kind}=True condition")
    if new.status.get("failed", 0) < before.status.get("failed", 0):
        yield invalid("status.failed", new.status.get("failed", 0), "cannot decrease the failed counter")
    scales = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if not scales and new.status.get("succeeded", 0) < before.status.get("succeeded", 0):
        yield invalid("status.succeeded", new.status.get("succeeded", 0), "cannot decrease the succeeded counter")
    end, start = (new.status.get(member) for member in ("completionTime", "startTime"))
    if end and before.status.get("completionTime") and new.differs(before, "completionTime"):
        yield invalid("status.completionTime", end, IMMUTABLE)
    suspended = {one.get("status") for one in new.status.get("conditions") or () if one.get("type") == "Suspended"}
    resuming = "Suspended" in before.true and "False" in suspended
    if before.status.get("startTime") and new.differs(before, "startTime") and not resuming and spec.get("suspend") is not True:
        yield invalid("status.startTime", start, "field is immutable for unsuspended job once set")
    if _MET in before.true and _MET not in new.true:
        yield _refused("cannot disable the SuccessCriteriaMet=True condition")
    if "Complete" in before.true and _MET not in before.true and _MET in new.true:
        yield _refused("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
