"""The answered form of computed objects."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from kcp_py.apimachinery.kinds import GroupVersionKind
from kcp_py.registry.rest.storage import Object
from kcp_py.registry.writerequest import Resolved

HIDDEN: Final = "the server could not complete the request; the audit id of the response finds the cause in its log"
"""The message of an error in the code of a resource."""


def answered(obj: Object, target: Resolved, *, wildcard: bool = False) -> Object:
    """A computed object as clients get it: with apiVersion and kind, and with the annotation that names its cluster.

    The document of a subresource that has a kind of its own gets nothing but that.
    """
    document = with_kind(obj, target)
    if _kind_of_its_own(target) is not None:
        return document
    return target.resource.renderer.add_server_fields(document, 0, target.cluster_state.name, wildcard=wildcard)


def with_kind(obj: Object, target: Resolved) -> Object:
    """A computed object with apiVersion and kind.

    Raises:
        TypeError: it has a number that JSON does not have, which would become null.
    """
    _require_finite(obj)
    kind = _kind_of_its_own(target) or target.resource.group_version_kind
    return {"apiVersion": str(kind.group_version), "kind": kind.kind, **obj}


def _require_finite(value: Any) -> None:
    for one in value.values() if isinstance(value, dict) else value:
        if isinstance(one, float):
            if not isfinite(one):
                raise TypeError(f"a computed object has the number {one}, which JSON does not have")
        elif isinstance(one, dict | list):
            _require_finite(one)


def _kind_of_its_own(target: Resolved) -> GroupVersionKind | None:
    """The kind of a subresource that has one of its own."""
    return target.resource.subresources[target.subresource].kind if target.subresource else None
