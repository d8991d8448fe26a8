"""`pods/ephemeralcontainers` and `pods/resize`: the parts of a pod that change through a subresource alone.

Source: kubernetes `pkg/registry/core/pod/strategy.go` (`podEphemeralContainersStrategy`, `podResizeStrategy`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apimachinery.managedfields.fieldsets import FieldSet, key_element
from kcp_py.apis.upstream.validation.fields import Object
from kcp_py.apis.upstream.validation.podparts import ephemeral_container_problems, resize_problems
from kcp_py.registry.views import Kind, PartView
from kcp_py.schema.contract import CompiledSchema

_RESIZED: Final = ("resizePolicy", "resources")
_LISTS: Final = ("containers", "initContainers")


class EphemeralContainersView(PartView):
    """`/ephemeralcontainers`: containers for debugging."""

    def spec(self, new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in old.items() if key != "ephemeralContainers"}
        return {**kept, "ephemeralContainers": new["ephemeralContainers"]} if new.get("ephemeralContainers") else kept

    def violations(self, schema: CompiledSchema, new: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        return schema.validate(new, old) if old is None else list(ephemeral_container_problems(new, old))

    def resets(self, resource: Kind, *objects: Mapping[str, Any] | None) -> FieldSet:
        del resource
        fields = {f"f:{name}": FieldSet() for obj in objects for name in _spec(obj) if name != "ephemeralContainers"}
        return {"f:metadata": {}, "f:spec": fields, "f:status": {}}


class ResizeView(PartView):
    """`/resize`: the resources of containers and of the pod, and the policies of their change."""

    def spec(self, new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
        if any(len(new.get(member) or ()) != len(old.get(member) or ()) for member in _LISTS):
            return new  # validation names the problem
        spec = dict(old)
        for member in _LISTS:
            if member in old:
                spec[member] = _resized(new.get(member) or [], old[member])
        resources = new.get("resources") or old.get("resources")
        return {**spec, "resources": resources} if resources else spec

    def violations(self, schema: CompiledSchema, new: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        return schema.validate(new, old) if old is None else list(resize_problems(new, old))

    def resets(self, resource: Kind, *objects: Mapping[str, Any] | None) -> FieldSet:
        del resource
        fields: FieldSet = {}
        for obj in objects:
            for name, value in _spec(obj).items():
                if name in _LISTS:
                    fields.setdefault(f"f:{name}", {}).update(_fixed(value))
                elif name != "resources":
                    fields[f"f:{name}"] = {}
        return {"f:metadata": {}, "f:spec": fields, "f:status": {}}


def _spec(obj: Mapping[str, Any] | None) -> Object:
    return (obj or {}).get("spec") or {}


def _resized(new: list[dict[str, Any]], old: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The stored containers with the resources of the new ones; the new ones where they are others."""
    if [one.get("name") for one in new] != [one.get("name") for one in old]:
        return new
    return [
        {**{key: value for key, value in before.items() if key not in _RESIZED}, **{key: after[key] for key in _RESIZED if key in after}}
        for after, before in zip(new, old, strict=True)
    ]


def _fixed(containers: list[dict[str, Any]] | None) -> dict[str, FieldSet]:
    return dict(_fixed_fields(containers))


def _fixed_fields(containers: list[dict[str, Any]] | None) -> Iterator[tuple[str, FieldSet]]:
    for container in containers or ():
        yield key_element({"name": container.get("name", "")}), {f"f:{name}": FieldSet() for name in container if name not in _RESIZED}
