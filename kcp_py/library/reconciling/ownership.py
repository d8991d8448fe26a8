"""Owner references and finalizers of objects that controllers make.

Source: sigs.k8s.io/controller-runtime `pkg/controller/controllerutil`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcp_py.client.models import encode, is_model


def owned_by(owner: object, obj: Mapping[str, Any], *, controller: bool = True, block: bool = True) -> dict[str, Any]:
    """An object with a reference to its owner: it is deleted with its owner, and its changes look at the owner again (`owns=`).

    An object without a namespace gets that of its owner.

    Args:
        owner: as it was read: typed, or decoded JSON with apiVersion, kind and uid.
        obj: decoded JSON.
        controller: the owner manages the object; an object has one such owner.
        block: foreground deletion of the owner waits for the object.

    Raises:
        ValueError: the owner was not read from a server, it is in another namespace, or another owner manages the object.
    """
    document = encode(owner) if is_model(owner) else owner
    if not isinstance(document, Mapping) or not (document.get("metadata") or {}).get("uid"):
        raise ValueError("the owner has no uid: give an object as a server has answered it")
    place, metadata = document["metadata"], dict(obj.get("metadata") or {})
    if (space := place.get("namespace")) and metadata.setdefault("namespace", space) != space:
        raise ValueError(f"an owner in the namespace {space} cannot own an object in {metadata['namespace']}")
    others = [one for one in metadata.get("ownerReferences") or () if one["uid"] != place["uid"]]
    if controller and (managers := [one for one in others if one.get("controller")]):
        raise ValueError(f"the object is managed by {managers[0]['kind']} {managers[0]['name']}")
    reference = {"apiVersion": document["apiVersion"], "kind": document["kind"], "name": place["name"], "uid": place["uid"]}
    flags = {"controller": True} if controller else {}
    metadata["ownerReferences"] = [*others, {**reference, **flags, **({"blockOwnerDeletion": True} if block else {})}]
    return {**obj, "metadata": metadata}


def with_finalizer(obj: Mapping[str, Any], finalizer: str, *, present: bool) -> dict[str, Any] | None:
    """A merge patch that adds or removes a finalizer of exactly this state of an object; None where nothing has to change."""
    metadata = obj["metadata"]
    known = metadata.get("finalizers") or []
    if (finalizer in known) is present:
        return None
    wanted = [*known, finalizer] if present else [one for one in known if one != finalizer]
    return {"metadata": {"finalizers": wanted, "resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]}}
