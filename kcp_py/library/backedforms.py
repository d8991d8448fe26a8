"""Metadata and errors of backed objects: those of the backing resource as clients of the facing one see them, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.rest.storage import Object

STATE: Final = "facing.kcp.io/state"
"""An annotation of backing objects. JSON: facing resource -> what only its clients see of an object, see `_OWN`."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_HIDDEN: Final = (STATE, _LAST_APPLIED, "kcp.io/cluster")
"""Annotations of backing objects that facing ones do not have, or have with other values."""
_LISTS: Final = ("finalizers", "ownerReferences")
"""Entries that were not written through the facing resource are neither seen nor removed by its clients."""
_OWN: Final = ("managedFields", *_LISTS, _LAST_APPLIED)
_NAMES: Final = ("name", "generateName")


def facing_metadata(backing: Object, shown: Object, resource: str) -> Object:
    """The metadata of a facing object.

    Args:
        backing: those of the backing object.
        shown: with the labels and the annotations that clients see.
        resource: the facing one, with its group.
    """
    metadata = {key: value for key, value in backing.items() if key not in _OWN}
    own = _states(backing).get(resource) or {}
    for key in _LISTS:
        present, mine = backing.get(key) or (), own.get(key)
        if entries := [entry for entry in mine if entry in present] if isinstance(mine, list) else []:
            metadata[key] = entries
    metadata["labels"] = dict(shown.get("labels") or {})
    metadata["annotations"] = {name: text for name, text in (shown.get("annotations") or {}).items() if name not in _HIDDEN}
    if isinstance(applied := own.get(_LAST_APPLIED), str):
        metadata["annotations"][_LAST_APPLIED] = applied
    if isinstance(managed := own.get("managedFields"), list):
        metadata["managedFields"] = managed
    return {key: value for key, value in metadata.items() if value or key not in {"labels", "annotations"}}


def backing_metadata(given: Object, before: Object, resource: str, *, shown: Object, added: Object) -> Object:
    """The metadata of a backing object, without a namespace.

    Args:
        given: those of the facing object as the client wants them.
        before: those of the backing object; empty for a create. The write has their uid and their resourceVersion.
        resource: the facing one, with its group.
        shown: those of the facing object before. What they do not have is kept.
        added: with labels and annotations that the backing object gets.
    """
    metadata = {key: given[key] for key in _NAMES if given.get(key)} | {
        key: before[key] for key in ("uid", "resourceVersion") if key in before
    }
    states = _states(before)
    for key in _LISTS:
        mine = (states.get(resource) or {}).get(key) or ()
        entries = [entry for entry in before.get(key) or () if entry not in mine]
        entries += [entry for entry in given.get(key) or () if entry not in entries]
        if entries:
            metadata[key] = entries
    for key in ("labels", "annotations"):
        present = before.get(key) or {}
        kept = {name: text for name, text in present.items() if name not in (shown.get(key) or {})}
        wanted = {name: text for name, text in (given.get(key) or {}).items() if key == "labels" or name not in _HIDDEN}
        more = {name: text for name, text in (added.get(key) or {}).items() if present.get(name) != text}
        metadata[key] = {**wanted, **kept, **more}
    present = before.get("annotations") or {}
    metadata["annotations"] |= {name: present[name] for name in _HIDDEN if name in present} | _state(given, states, resource, present)
    return {key: value for key, value in metadata.items() if value}


def _state(given: Object, states: Mapping[str, Any], resource: str, present: Mapping[str, str]) -> dict[str, str]:
    """The annotation with what belongs to facing objects alone; empty where there is nothing to keep and there was no annotation."""
    own = {**given, _LAST_APPLIED: (given.get("annotations") or {}).get(_LAST_APPLIED)}
    made = {key: own[key] for key in _OWN if own.get(key)}
    changed = {key: state for key, state in {**states, resource: made}.items() if state}
    return {STATE: orjson.dumps(changed, option=orjson.OPT_SORT_KEYS).decode()} if changed or STATE in present else {}


def _states(metadata: Object) -> dict[str, Any]:
    """The annotation `STATE`; empty where there is none, or an administrator has damaged it."""
    try:
        found = orjson.loads((metadata.get("annotations") or {}).get(STATE, "{}"))
    except orjson.JSONDecodeError:
        return {}
    return {key: value for key, value in found.items() if isinstance(value, dict)} if isinstance(found, dict) else {}


def facing_error(error: StatusError, backing: GroupVersionResource, facing: ServedResource, fields: Mapping[str, str]) -> StatusError:
    """An error of a backing resource as one of the facing resource.

    Args:
        error: of a request for the backing resource.
        backing: the resource.
        facing: the resource that clients use.
        fields: of the backing resource -> of the facing one.
    """
    details = dict(error.details or {})
    if error.code == 404 and not errors.is_absent(error):
        return errors.service_unavailable(f"{facing.group_resource} are not available in this logical cluster")
    group, kind = details.get("group", ""), details.get("kind", "")
    if group != backing.group or (kind != backing.resource and error.code != 422):
        return error
    name = facing.resource if kind == backing.resource else facing.kind
    message = error.message.replace(_qualified(kind, group) + ' "', _qualified(name, facing.group) + ' "')
    details |= {"group": facing.group, "kind": name}
    causes = []
    for cause in details.get("causes") or ():
        field = cause.get("field", "")
        shown = _field(field, fields)
        text = cause.get("message", "")
        if shown != field:
            # Messages of schemas name the field once more.
            message, text = message.replace(field, shown), text.replace(field, shown)
        causes.append({**cause, "message": text, "field": shown} if field else cause)
    if causes:
        details["causes"] = causes
    return StatusError(error.code, error.reason, message, details=details, metadata=error.metadata)


def _field(field: str, fields: Mapping[str, str]) -> str:
    for backing, facing in fields.items():
        if field == backing or field.startswith((f"{backing}.", f"{backing}[")):
            return facing + field[len(backing) :]
    return field


def _qualified(name: str, group: str) -> str:
    return f"{name}.{group}" if group else name
