"""`pods/eviction`: the deletion of a pod, as far as a PodDisruptionBudget allows it.

Source: kubernetes `pkg/registry/core/pod/storage/eviction.go`. The status of the budget is checked and counted down in one transaction, so
that of two evictions for the last allowed disruption exactly one succeeds.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import DecodingError, StatusError
from kcp_py.apimachinery.fielderrors import invalid
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.options import DeleteOptions, Preconditions, UpdateOptions, decode_delete_options
from kcp_py.apis.upstream import disruption
from kcp_py.apis.upstream.subresources.bodies import SUCCESS, struct_at
from kcp_py.apis.upstream.subresources.objects import ClusterObjects, Found
from kcp_py.registry.resource import Served
from kcp_py.registry.rest.storage import Object, RestStorage
from kcp_py.registry.store.delete import delete
from kcp_py.registry.store.read import Current
from kcp_py.registry.store.update import update
from kcp_py.registry.writerequest import Resolved, WriteRequest

_BUDGETS: Final = ("policy", "v1", "poddisruptionbudgets")
_ATTEMPTS: Final = 20
_VIOLATION: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_CAUSE: Final = "DisruptionBudget"
_SEVERAL: Final = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_STRUCT_FIELD: Final = re.compile(r"Go struct field \w+\.")
_UNSAFE: Final = "ignoreStoreReadErrorWithClusterBreakingPotential"
_TARGETED: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


class Evictions(RestStorage):
    """Serves `pods/eviction`."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects: Final = objects

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        """Evict the pod.

        Raises:
            StatusError: 400 for another name, 404, 409 for a precondition, 422 for the options of the deletion, 429 where a budget does not
                allow the eviction, 500 for a pod with several budgets.
        """
        target = request.target
        if obj["metadata"].get("name", "") != target.name:
            raise errors.bad_request("name in URL does not match name in Eviction object")
        request = request._replace(options=_deletion(obj, request), manager=None)
        for attempt in range(1, _ATTEMPTS + 1):
            pod = await self._objects.get(target.cluster_state, target.served, target.namespace, target.name)
            if not disruption.ignores_budgets(pod.obj):
                break
            wanted = _at_revision(request, pod) if disruption.is_pending(pod.obj) else request
            try:
                await self._evict(wanted)
            except StatusError as error:
                if error.reason != "Conflict" or _names_version(request) or attempt == _ATTEMPTS:
                    raise
            else:
                return dict(SUCCESS)
        await self._evict_within_budget(request, pod)
        return dict(SUCCESS)

    async def _evict_within_budget(self, request: WriteRequest, pod: Found) -> None:
        target = request.target
        served = await self._objects.served(target.cluster_state, *_BUDGETS)
        budgets = [] if served is None else [one async for one in self._objects.each(target.cluster_state, served, target.namespace)]
        names = [one.obj["metadata"]["name"] for one in budgets if disruption.selects(one.obj, pod.obj)]
        if len(names) > 1:
            raise StatusError(500, "", _SEVERAL)
        if not names:
            await self._evict(request)
            return
        assert served is not None, "it has objects"
        budget = await self._objects.get(target.cluster_state, served, target.namespace, names[0])
        if disruption.is_ready(pod.obj) or not disruption.allows_unhealthy(budget.obj):
            await self._count(request, served, names[0])
            await self._evict(request)
            return
        try:
            # It was not ready when the budget was asked: another revision may be.
            await self._evict(_at_revision(request, pod))
        except StatusError as error:
            if error.reason == "Conflict" and not _names_version(request):
                raise _still_processed(names[0]) from error
            raise

    async def _count(self, request: WriteRequest, served: Served, name: str) -> None:
        """Take one from the disruptions that a budget allows, and note the pod in it.

        Raises:
            StatusError: 429 where it allows none.
        """
        target, pod = request.target, request.target.name

        async def counted(current: Current | None) -> dict[str, Any]:
            if current is None:
                raise errors.not_found(GroupResource(*_BUDGETS[::2]), name)
            budget = await current.load()
            _check(budget)
            now = self._objects.access.now()
            status = dict(budget["status"])
            status["disruptionsAllowed"] -= 1
            if not status["disruptionsAllowed"]:
                status = disruption.with_condition(status, now)
            status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: now}
            metadata = {**budget["metadata"], "resourceVersion": str(current.item.mod_revision)}
            return {**budget, "metadata": metadata, "status": status}

        budgets = Resolved(target.only, served, target.namespace, name, "status")
        options = UpdateOptions(dry_run=request.dry_run)
        await update(self._objects.unadmitted, request._replace(target=budgets, options=options), counted)

    async def _evict(self, request: WriteRequest) -> None:
        """Delete the pod, with a condition that says why."""
        options = request.options
        assert isinstance(options, DeleteOptions), "an eviction deletes"
        access = self._objects.unadmitted
        if not options.dry_run:
            revision = await self._mark(request, options.preconditions)
            if _names_version(request):
                assert options.preconditions is not None, "it names the version"
                options = replace(options, preconditions=replace(options.preconditions, resource_version=str(revision)))
        await delete(access, request._replace(target=request.target._replace(subresource=""), options=options))

    async def _mark(self, request: WriteRequest, preconditions: Preconditions | None) -> int:
        """Put the condition into the status of the pod; the revision of the pod then."""
        name = request.target.name

        async def marked(current: Current | None) -> dict[str, Any]:
            if current is None:
                raise errors.not_found(request.target.resource.group_resource, name)
            pod = await current.load()
            _check_preconditions(pod, current.item.mod_revision, preconditions)
            status = disruption.with_pod_condition(pod.get("status") or {}, _TARGETED, self._objects.access.now())
            return {**pod, "status": status}

        target = request.target._replace(subresource="status")
        written = await update(self._objects.unadmitted, request._replace(target=target, options=UpdateOptions()), marked)
        return written.mod_revision


def _deletion(eviction: Object, request: WriteRequest) -> DeleteOptions:
    """The options of the deletion: those of the eviction, as a dry run if the request is one."""
    given = struct_at(eviction, "deleteOptions", "v1.DeleteOptions")
    if given.get(_UNSAFE):
        problem = invalid(f"deleteOptions.{_UNSAFE}", True, "can not be set for pod eviction, try after removing the option")
        raise errors.invalid("Eviction.policy", request.target.name, [problem])
    dry_run = given.get("dryRun")
    if dry_run and request.dry_run and dry_run != ["All"]:
        content = " ".join(map(str, dry_run))
        raise StatusError(500, "", f"Non-matching dry-run options in request and content: [All] and [{content}]")
    try:
        options = decode_delete_options({}, given)
    except StatusError as error:
        if error.code != 400:
            raise
        version = eviction["apiVersion"].rpartition("/")[2]
        raise DecodingError("Eviction", version, _STRUCT_FIELD.sub(r"\g<0>deleteOptions.", error.message)) from None
    return replace(options, dry_run=True) if request.dry_run else options


def _names_version(request: WriteRequest) -> bool:
    options = request.options
    assert isinstance(options, DeleteOptions), "an eviction deletes"
    return options.preconditions is not None and options.preconditions.resource_version is not None


def _at_revision(request: WriteRequest, pod: Found) -> WriteRequest:
    """A deletion of the pod as it was read, unless the client named a version."""
    options = request.options
    assert isinstance(options, DeleteOptions), "an eviction deletes"
    if _names_version(request):
        return request
    preconditions = replace(options.preconditions or Preconditions(), resource_version=str(pod.item.mod_revision))
    return request._replace(options=replace(options, preconditions=preconditions))


def _check_preconditions(pod: Object, revision: int, preconditions: Preconditions | None) -> None:
    if preconditions is None:
        return
    metadata, kind = pod["metadata"], GroupResource("", "Pod")
    if (uid := preconditions.uid) and uid != metadata["uid"]:
        detail = f"the UID in the precondition ({uid}) does not match the UID in record ({metadata['uid']}). "
        raise errors.conflict(kind, metadata["name"], f"{detail}The object might have been deleted and then recreated")
    if (version := preconditions.resource_version) and version != str(revision):
        detail = f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({revision}). "
        raise errors.conflict(kind, metadata["name"], f"{detail}The object might have been modified")


def _check(budget: Object) -> None:
    """Refuse an eviction that a budget does not allow.

    Raises:
        StatusError: 403, 429.
    """
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if (status.get("observedGeneration") or 0) < (budget["metadata"].get("generation") or 0):
        raise _still_processed(name)
    allowed = status.get("disruptionsAllowed") or 0
    if allowed < 0:
        raise _broken(name, "pdb disruptions allowed is negative", "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > disruption.MOST_DISRUPTED:
        detail = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise _broken(name, detail, "too many pending evictions not confirmed by PDB controller")
    if not allowed:
        raise _violated(_reason(name, status))


def _reason(name: str, status: Object) -> str:
    desired, current = status.get("desiredHealthy") or 0, status.get("currentHealthy") or 0
    found = disruption.condition_of(status)
    reason, message = found.get("reason", ""), found.get("message", "") if found.get("status") == "False" else ""
    if message and reason == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    text = f"The disruption budget {name} does not allow evicting pods currently"
    return f"{text} ({reason}): {message}" if message else text


def _still_processed(name: str) -> StatusError:
    return _violated(f"The disruption budget {name} is still being processed by the server.", retry_after_seconds=10)


def _violated(reason: str, retry_after_seconds: int = 0) -> StatusError:
    details: dict[str, Any] = {"causes": [{"reason": _CAUSE, "message": reason}]}
    if retry_after_seconds:
        details["retryAfterSeconds"] = retry_after_seconds
    return StatusError(429, "TooManyRequests", _VIOLATION, details=details)


def _broken(name: str, detail: str, reason: str) -> StatusError:
    error = errors.forbidden(GroupResource("policy", "poddisruptionbudget"), name, detail)
    message = f"The disruption budget {name} does not allow evicting pods currently: {reason}"
    error.details = {**(error.details or {}), "causes": [{"reason": _CAUSE, "message": message}]}
    return error
