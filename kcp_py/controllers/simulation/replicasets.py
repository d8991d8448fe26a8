"""The replica sets of deployments, which `helm --wait` and `kubectl rollout history` read. They have no pods.

Source: kubernetes `pkg/controller/deployment`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.client import Client
from kcp_py.controllers.objects import find
from kcp_py.controllers.runtime.queue import Key
from kcp_py.controllers.runtime.sweeps import pages
from kcp_py.controllers.simulation.values import Object, replicas_of, revision_of

REPLICA_SETS: Final = GroupVersionResource("apps", "v1", "replicasets")
REVISION: Final = "deployment.kubernetes.io/revision"
_DEPLOYMENTS: Final = GroupVersionResource("apps", "v1", "deployments")
_HASH: Final = "pod-template-hash"
_HISTORY: Final = 10
"""Old replica sets that are kept, unless the deployment says otherwise."""


async def roll_out(client: Client, key: Key, deployment: dict[str, Any]) -> dict[str, Any]:
    """Give a deployment the replica set of its template with all replicas, and take the replicas from the others.

    Args:
        client: of all clusters.
        key: of the deployment.
        deployment: neither paused nor deleted.

    Returns:
        The deployment as it is then.

    Raises:
        StatusError: a conflict where something has changed meanwhile.
    """
    if await client.find_resource(key.cluster, GroupResource("apps", "replicasets")) is None:
        return deployment
    uid = deployment["metadata"]["uid"]
    name = f"{key.name}-{revision_of(deployment['spec']['template'])}"
    current = await find(client, REPLICA_SETS, key._replace(name=name))
    if current is not None and _is_current(current, deployment):
        return deployment
    owned = [one async for page in pages(client, key.cluster, REPLICA_SETS, key.namespace) for one in page if _owner_of(one) == uid]
    old = [one for one in owned if one["metadata"]["name"] != name]
    revision = max((_revision(one) for one in old), default=0) + 1
    if current is None:
        await client.create(key.cluster, REPLICA_SETS, _replica_set(deployment, name, revision))
    elif _owner_of(current) == uid:
        revision = max(revision, _revision(current))
        annotations = {**(current["metadata"].get("annotations") or {}), REVISION: str(revision)}
        spec = {**current["spec"], "replicas": replicas_of(deployment)}
        await client.update(
            key.cluster, REPLICA_SETS, {**current, "metadata": {**current["metadata"], "annotations": annotations}, "spec": spec}
        )
    for one in old:
        if replicas_of(one):
            await client.update(key.cluster, REPLICA_SETS, {**one, "spec": {**one["spec"], "replicas": 0}})
    await _forget(client, key, deployment, sorted(old, key=_revision))
    document = {"metadata": {"uid": uid, "annotations": {REVISION: str(revision)}}}
    return await client.patch(key.cluster, _DEPLOYMENTS, key.namespace, key.name, document=document)


def _is_current(replica_set: Object, deployment: Object) -> bool:
    """Whether a replica set has the replicas of the deployment, and the revision that the deployment names."""
    revision = (deployment["metadata"].get("annotations") or {}).get(REVISION)
    return (
        _owner_of(replica_set) == deployment["metadata"]["uid"]
        and replicas_of(replica_set) == replicas_of(deployment)
        and revision == str(_revision(replica_set))
    )


async def _forget(client: Client, key: Key, deployment: Object, old: list[dict[str, Any]]) -> None:
    """Delete the oldest replica sets beyond those that the deployment keeps."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    kept = _HISTORY if limit is None else int(limit)
    for one in old[: max(0, len(old) - kept)]:
        try:
            await client.delete(key.cluster, REPLICA_SETS, key.namespace, one["metadata"]["name"], uid=one["metadata"]["uid"])
        except StatusError as error:
            if error.code not in {404, 409}:
                raise


def _replica_set(deployment: Object, name: str, revision: int) -> dict[str, Any]:
    metadata, spec = deployment["metadata"], deployment["spec"]
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), _HASH: name.rpartition("-")[2]}
    selector = spec.get("selector") or {}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {REVISION: str(revision), "deployment.kubernetes.io/desired-replicas": str(replicas_of(deployment))},
            "ownerReferences": [owner],
        },
        "spec": {
            "replicas": replicas_of(deployment),
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), _HASH: labels[_HASH]}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }


def is_part_of_deployment(replica_set: Object) -> bool:
    """Whether a deployment controls a replica set."""
    return any(one.get("controller") and one.get("kind") == "Deployment" for one in replica_set["metadata"].get("ownerReferences") or ())


def _owner_of(replica_set: Object) -> str:
    owners: list[Mapping[str, Any]] = replica_set["metadata"].get("ownerReferences") or []
    return next((str(one["uid"]) for one in owners if one.get("controller")), "")


def _revision(replica_set: Object) -> int:
    text = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isdecimal() else 0
