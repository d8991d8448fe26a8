"""The kinds of the bodies of requests: those of resources, of Scales, and of subresources that are served by code."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.kinds import GroupVersionKind
from kcp_py.registry.rest.conform import BodyKind
from kcp_py.registry.rest.scale import SCALE
from kcp_py.registry.subresources import SCALE_KIND
from kcp_py.registry.writerequest import Resolved
from kcp_py.schema.compilation import compile_schema
from kcp_py.schema.contract import CompiledSchema

ANY_OBJECT: Final[Mapping[str, Any]] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""The schema of an object of which nothing is known."""


class _ForeignKind(NamedTuple):
    """A `BodyKind` that is not the kind of a resource."""

    group: str
    version: str
    kind: str
    group_version: str
    accepts: tuple[str, ...]
    typed: bool
    schema: CompiledSchema


def body_kind(target: Resolved) -> BodyKind:
    """The kind of the bodies of requests for a target, and of patched documents."""
    if not target.subresource:
        return target.served.resource
    subresource = target.served.resource.subresources[target.subresource]
    if subresource.kind is None:
        return target.served.resource
    return SCALE if subresource.kind == SCALE_KIND else _foreign(subresource.kind, subresource.schema, subresource.accepts)


async def body_of(obj: Mapping[str, Any], target: Resolved) -> dict[str, Any]:
    """An object of this process as the decoded body of a create or an update: a copy, with apiVersion and kind.

    Raises:
        TypeError: the object has values that JSON does not have.
    """
    kind = body_kind(target)
    if target.rest is None and target.view.status_alone:
        # The stored object keeps everything else. Some objects are large.
        obj = {key: obj[key] for key in ("metadata", "status") if key in obj}
    copied: dict[str, Any] = orjson.loads(orjson.dumps({"apiVersion": kind.group_version, "kind": kind.kind, **obj}))
    return copied


def _foreign(kind: GroupVersionKind, schema: CompiledSchema | None, accepts: tuple[str, ...]) -> BodyKind:
    return _ForeignKind(kind.group, kind.version, kind.kind, str(kind.group_version), accepts, True, schema or _any_object())


@cache
def _any_object() -> CompiledSchema:
    return compile_schema(ANY_OBJECT)
