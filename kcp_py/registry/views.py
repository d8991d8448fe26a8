"""Views: what an update of a stored object may change, through the object itself and through each of its subresources. Pure.

Source: the update strategies of k8s.io/apiserver (`rest.RESTUpdateStrategy`, `rest.ResetFieldsStrategy`), of which each endpoint of a kind
has one, and k8s.io/apiextensions-apiserver `pkg/registry/customresource/status_strategy.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from kcp_py.apimachinery.equality import identical
from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apimachinery.managedfields.entries import UPDATE
from kcp_py.apimachinery.managedfields.fieldsets import FieldSet
from kcp_py.apimachinery.managedfields.ownership import ConflictsError
from kcp_py.registry.rendering import strip_server_fields
from kcp_py.registry.strategy import SETTABLE_METADATA, Strategy
from kcp_py.schema.contract import CompiledSchema

_STATUS: Final[FieldSet] = {"f:status": {}}
_STATUS_AND_SPEC: Final[FieldSet] = {"f:spec": {}, "f:status": {}}
_NONE: Final[FieldSet] = {}
_REPLICAS: Final[FieldSet] = {"f:spec": {"f:replicas": {}}}


class Kind(Protocol):
    """The part of a `ServedResource` that views read."""

    @property
    def namespaced(self) -> bool:
        """Whether objects have a namespace."""
        ...

    @property
    def has_status(self) -> bool:
        """Whether `/status` is served."""
        ...

    @property
    def schema(self) -> CompiledSchema:
        """Of the served version."""
        ...

    @property
    def strategy(self) -> Strategy:
        """The rules of the kind."""
        ...


class View:
    """The object itself: an update sets everything but what only the server sets and, where the kind has `/status`, the status."""

    status_alone = False
    """Whether an update takes everything but status and metadata from the stored object."""
    keeps_metadata = False
    """Whether it takes the metadata, too: all but the owners of fields. What the request has there is then neither used nor checked."""

    def prepared(self, new: dict[str, Any], old: dict[str, Any], resource: Kind) -> dict[str, Any]:
        """What an update makes of the object that was sent, before admission.

        Args:
            new: as sent, in the served version. The result is this object, changed, or has parts of it.
            old: as stored, in the same version. The result may share parts of it.
            resource: of the objects.
        """
        strip_server_fields(new)
        _fill_from(new, old, resource)
        self._prepare(new, old, resource)
        resource.schema.complete(new)
        _raise_generation(new, old, resource)
        return new

    def _prepare(self, new: dict[str, Any], old: dict[str, Any], resource: Kind) -> None:
        """Let the kind have its say."""
        resource.strategy.prepare_for_update(new, old)

    def violations(self, schema: CompiledSchema, new: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        """Find the problems of an object by the schema and the rules of its kind. A create has no `old`."""
        return schema.validate(new, old)

    def resets(self, resource: Kind, *objects: Mapping[str, Any] | None) -> FieldSet:
        """The fields that an update takes from the stored object, whatever the request has: its client does not own them.

        Args:
            resource: of the objects.
            objects: the stored and the new one.
        """
        del objects
        if resource.strategy.keeps_spec:
            return _STATUS_AND_SPEC
        return _STATUS if resource.has_status else _NONE

    def shown_conflicts(self, error: ConflictsError) -> ConflictsError:
        """The conflicts of an apply in terms of the body that the client sent."""
        return error


class FinalizeView(View):
    """`/finalize`: an update of the object that may change the finalizers of its specification."""

    def _prepare(self, new: dict[str, Any], old: dict[str, Any], resource: Kind) -> None:
        resource.strategy.prepare_for_finalize(new, old)


class ScaleView(View):
    """`/scale`: an update of the object with the replicas of a Scale."""

    def shown_conflicts(self, error: ConflictsError) -> ConflictsError:
        """As they are in the Scale, whose fields and version its clients know (`managedfields.ScaleHandler`)."""
        return ConflictsError(
            {
                manager._replace(api_version="autoscaling/v1" if manager.operation == UPDATE else ""): owned._replace(fields=_REPLICAS)
                for manager, owned in error.conflicts.items()
            }
        )


class PartView(View):
    """A subresource through which a part of the specification changes, and nothing of metadata and status."""

    def prepared(self, new: dict[str, Any], old: dict[str, Any], resource: Kind) -> dict[str, Any]:
        strip_server_fields(new)
        metadata = new["metadata"]
        _fill_metadata(metadata, old["metadata"], resource)
        _take(metadata, old["metadata"], SETTABLE_METADATA)
        result = {**old, "metadata": metadata, "spec": self.spec(new.get("spec") or {}, old.get("spec") or {})}
        resource.schema.complete(result)
        _raise_generation(result, old, resource)
        return result

    def spec(self, new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
        """The specification that is stored. It may have parts of both arguments, which stay as they are."""
        del old
        return new


class StatusView(View):
    """`/status` of a typed kind: the status, and the metadata that the kind lets it change."""

    status_alone = True

    def prepared(self, new: dict[str, Any], old: dict[str, Any], resource: Kind) -> dict[str, Any]:
        strip_server_fields(new)
        result = {key: value for key, value in old.items() if key != "status"}
        result["metadata"] = self._metadata(new["metadata"], old["metadata"], resource)
        if "status" in new:
            result["status"] = new["status"]
        self._prepare(result, old, resource)
        resource.schema.complete(result)
        return result

    def _metadata(self, new: dict[str, Any], old: dict[str, Any], resource: Kind) -> dict[str, Any]:
        _fill_metadata(new, old, resource)
        _take(new, old, resource.strategy.status_resets)
        return new

    def _prepare(self, new: dict[str, Any], old: dict[str, Any], resource: Kind) -> None:
        resource.strategy.prepare_for_status_update(new, old)

    def violations(self, schema: CompiledSchema, new: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        return schema.validate_status(new, old or {})

    def resets(self, resource: Kind, *objects: Mapping[str, Any] | None) -> FieldSet:
        del objects
        resets = resource.strategy.status_resets
        metadata: FieldSet = {} if resets >= SETTABLE_METADATA else {f"f:{field}": {} for field in sorted(resets)}
        return {"f:metadata": metadata, "f:spec": {}} if resets else {"f:spec": {}}


class CustomStatusView(StatusView):
    """`/status` of a custom resource: the status, and nothing else."""

    keeps_metadata = True

    def _metadata(self, new: dict[str, Any], old: dict[str, Any], resource: Kind) -> dict[str, Any]:
        del resource
        # Steps to come may change the metadata; the stored object has to stay as it is.
        metadata = dict(old)
        if "managedFields" in new:
            metadata["managedFields"] = new["managedFields"]
        return metadata

    def resets(self, resource: Kind, *objects: Mapping[str, Any] | None) -> FieldSet:
        del resource
        return {f"f:{field}": {} for obj in objects for field in obj or () if field != "status"}


class ApprovalView(StatusView):
    """`/approval`: what the kind's own rules let it change of the status, and metadata as `/status` of a typed kind."""

    def _prepare(self, new: dict[str, Any], old: dict[str, Any], resource: Kind) -> None:
        resource.strategy.prepare_for_approval(new, old)


WHOLE: Final = View()
"""The object itself."""


def _fill_from(new: dict[str, Any], old: dict[str, Any], resource: Kind) -> None:
    """Take from the stored object, in place, what an update of the main resource does not set."""
    _fill_metadata(new["metadata"], old["metadata"], resource)
    if resource.strategy.keeps_spec:
        _take(new, old, ("spec",))
    if resource.has_status:
        _take(new, old, ("status",))


def _fill_metadata(metadata: dict[str, Any], before: dict[str, Any], resource: Kind) -> None:
    """Take from the stored metadata, in place, what only the server sets."""
    # What differs from here on is refused by validation (apiserver `rest.BeforeUpdate`).
    metadata["uid"] = metadata.get("uid") or before["uid"]
    metadata["creationTimestamp"] = before["creationTimestamp"]
    if "deletionTimestamp" in before:
        metadata["deletionTimestamp"] = before["deletionTimestamp"]
    if metadata.get("deletionGracePeriodSeconds") is None and "deletionGracePeriodSeconds" in before:
        metadata["deletionGracePeriodSeconds"] = before["deletionGracePeriodSeconds"]
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if key in metadata and metadata[key] is None:
            del metadata[key]
    metadata["name"] = before["name"]
    if resource.namespaced:
        metadata["namespace"] = before["namespace"]
    _take(metadata, before, ("generation",))


def _take(obj: dict[str, Any], before: dict[str, Any], fields: Iterable[str]) -> None:
    """Take fields, in place, from another object."""
    for field in fields:
        if field in before:
            obj[field] = before[field]
        else:
            obj.pop(field, None)


def _raise_generation(new: dict[str, Any], old: dict[str, Any], resource: Kind) -> None:
    """Count, in place, a change of what the kind counts as its specification."""
    strategy = resource.strategy
    if not strategy.has_generation:
        return
    metadata, before = new["metadata"], old["metadata"]
    if (
        _differs(new, old, _METADATA_AND_STATUS if resource.has_status else _METADATA)
        or (strategy.counts_annotations and (metadata.get("annotations") or {}) != (before.get("annotations") or {}))
        or (strategy.counts_labels and (metadata.get("labels") or {}) != (before.get("labels") or {}))
    ):
        metadata["generation"] = before.get("generation", 0) + 1


_METADATA: Final = frozenset({"metadata"})
_METADATA_AND_STATUS: Final = frozenset({"metadata", "status"})


def _differs(new: dict[str, Any], old: dict[str, Any], outside: frozenset[str]) -> bool:
    """Whether objects differ outside of some fields."""
    for field, value in new.items():
        if field not in outside and (field not in old or (value is not old[field] and not identical(value, old[field]))):
            return True
    return not outside.issuperset(old.keys() - new.keys())
