"""The status of deployments, replica sets, stateful sets, daemon sets and jobs whose pods are all ready.

Source: kubernetes `pkg/controller/{deployment,replicaset,statefulset,daemon,job}`. Each function gets an object and the time, and returns
the status that the object should have.
"""

from __future__ import annotations

from typing import Any

from kcp_py.controllers.simulation.values import Object, condition, merged_conditions, replicas_of, revision_of, without_zeros


def deployment_status(obj: Object, now: str) -> dict[str, Any]:
    """A deployment whose new replica set has all replicas. A paused one observes its specification and changes nothing else."""
    status = obj.get("status") or {}
    generation = {"observedGeneration": obj["metadata"].get("generation", 1)}
    if obj["spec"].get("paused"):
        paused = condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
        return {**status, **generation, "conditions": merged_conditions(status, [paused], now, "lastUpdateTime")}
    replicas = replicas_of(obj)
    name = f"{obj['metadata']['name']}-{revision_of(obj['spec']['template'])}"
    wanted = (
        condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        condition("Progressing", "True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.'),
    )
    numbers = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), replicas)
    conditions = merged_conditions(status, wanted, now, "lastUpdateTime")
    return without_zeros({**status, **generation, **numbers, "unavailableReplicas": 0, "conditions": conditions})


def replica_set_status(obj: Object, now: str) -> dict[str, Any]:
    """A replica set or a replication controller. `replicas` is written even if it is 0."""
    del now
    numbers = dict.fromkeys(("fullyLabeledReplicas", "readyReplicas", "availableReplicas"), replicas_of(obj))
    status = {**(obj.get("status") or {}), **numbers, "observedGeneration": obj["metadata"].get("generation", 1)}
    return {**without_zeros(status), "replicas": replicas_of(obj)}


def stateful_set_status(obj: Object, now: str) -> dict[str, Any]:
    """A stateful set. With a partition, replicas below it keep the revision that they have."""
    del now
    before = obj.get("status") or {}
    replicas = replicas_of(obj)
    update = f"{obj['metadata']['name']}-{revision_of(obj['spec']['template'])}"
    strategy = obj["spec"].get("updateStrategy") or {}
    partition = min(replicas, (strategy.get("rollingUpdate") or {}).get("partition") or 0)
    current = before.get("currentRevision") or update
    if not partition or current == update:
        current, updated, old = update, replicas, replicas
    else:
        updated, old = replicas - partition, partition
    numbers = {"readyReplicas": replicas, "currentReplicas": old, "updatedReplicas": updated}
    status = {**before, **numbers, "observedGeneration": obj["metadata"].get("generation", 1)}
    revisions = {"currentRevision": current, "updateRevision": update}
    always = {"replicas": replicas, "availableReplicas": replicas, "collisionCount": before.get("collisionCount", 0)}
    return {**without_zeros(status), **revisions, **always}


def daemon_set_status(obj: Object, now: str) -> dict[str, Any]:
    """A daemon set in a cluster with one node."""
    del now
    scheduled = dict.fromkeys(("currentNumberScheduled", "desiredNumberScheduled", "numberReady"), 1)
    numbers = {**scheduled, "updatedNumberScheduled": 1, "numberAvailable": 1, "numberMisscheduled": 0}
    status = {name: value for name, value in (obj.get("status") or {}).items() if name != "numberUnavailable"}
    return {**status, **numbers, "observedGeneration": obj["metadata"].get("generation", 1)}


def job_status(obj: Object, now: str) -> dict[str, Any]:
    """A job whose pods have succeeded. A suspended one waits, one that has ended or has another controller stays as it is."""
    spec, status = obj["spec"], obj.get("status") or {}
    ended = any(one.get("type") in {"Complete", "Failed"} and one.get("status") == "True" for one in status.get("conditions") or ())
    if ended or (spec.get("managedBy") or "kubernetes.io/job-controller") != "kubernetes.io/job-controller":
        return dict(status)
    if spec.get("suspend"):
        suspended = condition("Suspended", "True", "JobSuspended", "Job suspended")
        return {**status, "conditions": merged_conditions(status, [suspended], now, "lastProbeTime")}
    wanted = [
        condition(kind, "True", "CompletionsReached", "Reached expected number of succeeded pods")
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    if any(one.get("type") == "Suspended" for one in status.get("conditions") or ()):
        wanted.insert(0, condition("Suspended", "False", "JobResumed", "Job resumed"))
    completions = spec.get("completions")
    if completions is None:
        completions = spec.get("parallelism", 1)
    numbers = {"succeeded": completions} if completions else {}
    if spec.get("completionMode") == "Indexed" and completions:
        numbers["completedIndexes"] = "0" if completions == 1 else f"0-{completions - 1}" if completions > 2 else "0,1"
    conditions = merged_conditions(status, wanted, now, "lastProbeTime")
    times = {"startTime": status.get("startTime") or now, "completionTime": now}
    return {**status, **times, **numbers, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}, "conditions": conditions}
