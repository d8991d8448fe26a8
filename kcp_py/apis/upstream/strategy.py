"""The rules of the kinds that come to a cluster as CRDs and that clients have compiled in.

Source: kubernetes `pkg/registry/*/strategy.go` and `storage.go`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apis.typed.structs import StructCodec
from kcp_py.apis.upstream.creation import FILLS, PREPARATIONS, fill_profiles, quality_of_service
from kcp_py.apis.upstream.defaults import DEFAULTERS, Defaulter
from kcp_py.apis.upstream.names import NAME_RULES, name_problems
from kcp_py.apis.upstream.priorityclasses import PRIORITY_CLASSES, SYSTEM_CLASSES
from kcp_py.apis.upstream.schemas import decoding_schema
from kcp_py.apis.upstream.updates import CHANGES, changed_problems
from kcp_py.apis.upstream.validation.table import VALIDATIONS
from kcp_py.bootstrap.upstream_kinds import UpstreamKind
from kcp_py.registry.custom_resources import CustomResourceStrategy
from kcp_py.registry.strategy import SETTABLE_METADATA
from kcp_py.request.user import UserInfo
from kcp_py.schema.compilation import StructuralSchema, compile_schema
from kcp_py.schema.structural.default import MAX_FILLED

__all__ = ["DEFAULTERS", "FIELD_PATHS", "UpstreamSchema", "UpstreamStrategy"]

FIELD_PATHS: Final[Mapping[str, str]] = {"status.successful": "status.succeeded"}
"""Field labels that are not the path of their field."""

_CREATE_ON_UPDATE: Final = frozenset(
    {("", "endpoints"), ("", "services"), ("coordination.k8s.io", "leasecandidates"), ("node.k8s.io", "runtimeclasses")}
)
_CONDITIONAL_UPDATE: Final = frozenset({
    ("apiregistration.k8s.io", "apiservices"), ("certificates.k8s.io", "clustertrustbundles"),
    ("certificates.k8s.io", "podcertificaterequests"), ("coordination.k8s.io", "leasecandidates"),
    ("node.k8s.io", "runtimeclasses"), ("policy", "poddisruptionbudgets"), ("scheduling.k8s.io", "podgroups"),
    ("scheduling.k8s.io", "workloads"), ("storage.k8s.io", "csidrivers"), ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "csistoragecapacities"), ("storage.k8s.io", "volumeattachments"),
    ("storagemigration.k8s.io", "storageversionmigrations"),
})  # fmt: skip
"""The kinds of which a PUT has to carry a resourceVersion."""
_RETURN_DELETED: Final = frozenset({
    ("", "persistentvolumeclaims"), ("", "persistentvolumes"), ("", "pods"), ("", "podtemplates"), ("", "services"),
    ("resource.k8s.io", "deviceclasses"), ("resource.k8s.io", "resourceclaims"), ("resource.k8s.io", "resourceclaimtemplates"),
    ("resource.k8s.io", "resourceslices"), ("storage.k8s.io", "csidrivers"), ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"), ("storage.k8s.io", "volumeattachments"), ("storage.k8s.io", "volumeattributesclasses"),
})  # fmt: skip
_NO_GENERATION: Final = frozenset({
    ("", "endpoints"), ("", "nodes"), ("", "persistentvolumeclaims"), ("", "persistentvolumes"), ("", "services"),
    ("apiregistration.k8s.io", "apiservices"), ("apps", "controllerrevisions"),
    ("certificates.k8s.io", "clustertrustbundles"),
    ("certificates.k8s.io", "podcertificaterequests"), ("coordination.k8s.io", "leasecandidates"),
    ("networking.k8s.io", "ipaddresses"), ("networking.k8s.io", "servicecidrs"), ("node.k8s.io", "runtimeclasses"),
    ("resource.k8s.io", "resourceclaims"), ("resource.k8s.io", "resourceclaimtemplates"), ("scheduling.k8s.io", "podgroups"),
    ("scheduling.k8s.io", "workloads"), ("storage.k8s.io", "csidrivers"), ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "csistoragecapacities"), ("storage.k8s.io", "storageclasses"), ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"), ("storagemigration.k8s.io", "storageversionmigrations"),
})  # fmt: skip
_STATUS_RESETS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("", "pods"): frozenset({"ownerReferences"}),
    ("apps", "deployments"): frozenset({"labels"}),
    **dict.fromkeys(
        (
            ("apiregistration.k8s.io", "apiservices"),
            ("certificates.k8s.io", "podcertificaterequests"), ("flowcontrol.apiserver.k8s.io", "flowschemas"),
            ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"), ("networking.k8s.io", "servicecidrs"),
            ("resource.k8s.io", "devicetaintrules"), ("resource.k8s.io", "resourceclaims"), ("scheduling.k8s.io", "podgroups"),
            ("storage.k8s.io", "csinodes"), ("storage.k8s.io", "volumeattachments"),
            ("storagemigration.k8s.io", "storageversionmigrations"),
        ),
        SETTABLE_METADATA,
    ),
}  # fmt: skip
"""What updates through `/status` do not change of the metadata; of other kinds they change it all."""
_ORPHANED: Final = frozenset({("", "replicationcontrollers"), ("batch", "jobs")})
"""The kinds whose dependents are orphaned by a delete without a propagation policy."""
_JOB_DELETION: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


class UpstreamStrategy(CustomResourceStrategy):
    """What a kind does in another way than custom resources do."""

    def __init__(self, kind: UpstreamKind, version: Mapping[str, Any], *, clock: Callable[[], float] = time.time) -> None:
        """The rules of one kind, with those of its CRD's version. `clock` gives unix seconds."""
        super().__init__(version)
        name = (kind.group, kind.plural)
        self.allow_create_on_update = name in _CREATE_ON_UPDATE
        self.allow_unconditional_update = name not in _CONDITIONAL_UPDATE
        self.return_deleted_object = name in _RETURN_DELETED
        self.has_generation = name not in _NO_GENERATION
        self.counts_annotations = name == ("apps", "deployments")
        self.counts_labels = name == ("discovery.k8s.io", "endpointslices")
        self.status_resets = _STATUS_RESETS.get(name, frozenset())
        self.resets_status = name != ("", "nodes")
        self.default_propagation = "Orphan" if name in _ORPHANED else ""
        self.deletion_warning = _JOB_DELETION if name == ("batch", "jobs") else ""
        if name in NAME_RULES:
            self.validate_name = NAME_RULES[name]  # type: ignore[assignment]
        self._preparation = PREPARATIONS.get(name)
        self._fill = FILLS.get(name)
        self._change = CHANGES.get(name)
        self.qualifies_finalizers = kind.model in VALIDATIONS
        self._name = name
        self._clock = clock

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        """The first status and what else the kind sets on its own."""
        if self._preparation is not None:
            self._preparation(obj)

    def fill_new(self, obj: dict[str, Any], user: UserInfo) -> None:
        """What the kind fills in."""
        if self._fill is not None:
            self._fill(obj, user)

    def follow_admission(self, obj: dict[str, Any]) -> None:
        """Plugins fill in the resources from which the class of a pod follows, and may add annotations."""
        if self._name == ("", "pods"):
            fill_profiles(obj)
            obj["status"]["qosClass"] = quality_of_service(obj)

    def check_delete_of(self, name: str) -> str:
        """The classes of the system stay."""
        if self._name == PRIORITY_CLASSES and name in SYSTEM_CLASSES:
            return "this is a system priority class and cannot be deleted"
        return ""

    def prepare_for_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        """What an update makes the kind change on its own."""
        if self._change is not None:
            self._change(obj, old, self._clock())

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        """With what the name has to do with the rest."""
        return [*name_problems(self._name, obj), *self._scale_problems(obj)]

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        """With what must not change."""
        return [*self._scale_problems(obj), *changed_problems(self._name, obj, old)]

    def _scale_problems(self, obj: dict[str, Any]) -> list[FieldError]:
        """The problems of what `/scale` shows, where the kind has no rules of its own."""
        return [] if self.qualifies_finalizers else super().validate(obj)


class UpstreamSchema:
    """A `contract.CompiledSchema` as strict with types as the kind's decoder, and with those defaults that depend on other fields."""

    def __init__(self, model: str, defaulter: Defaulter | None) -> None:
        """Compile the schema.

        Args:
            model: the name of the kind's OpenAPI model.
            defaulter: fills what the document cannot.
        """
        self._compiled: StructuralSchema = compile_schema(decoding_schema(model), custom=False)
        self._codec = StructCodec(model)
        self._defaulter = defaulter
        self._validation = VALIDATIONS.get(model)
        self._has_spec = "object" in (spec.types if (spec := self._compiled.root.properties.get("spec")) else ())
        # Big schemas are compiled in a thread: so that it is all done there, not at the first request.
        for step in (self._compiled.is_valid, self._compiled.prune, self._compiled.default):
            step({})
        self.prune = self._compiled.prune
        self.strict_errors = self._compiled.strict_errors
        self.root = self._compiled.root
        self.settler = None
        self.pattern_weight = 0
        self.has_embedded = True
        self.rules = None

    def type_error(self, obj: dict[str, Any]) -> None:
        """Decode an object, in place: types are looked at, quantities and times are written as the decoder reads them, zero is missing.

        Raises:
            StatusError: 400, worded as the decoder of upstream words it.
        """
        self._codec.decode(obj)

    def default(self, obj: dict[str, Any], limit: int = MAX_FILLED) -> None:
        """See `contract.CompiledSchema.default`. A specification is there in any case, as a struct is."""
        if self._has_spec and obj.get("spec") is None:
            obj["spec"] = {}
        self._compiled.default(obj, limit)
        if self._defaulter is not None:
            self._defaulter(obj)

    def complete(self, obj: dict[str, Any]) -> None:
        """See `contract.CompiledSchema.complete`."""
        self._codec.complete(obj)

    def restore_defaults(self, obj: dict[str, Any]) -> None:
        """See `contract.CompiledSchema.restore_defaults`."""
        self._compiled.restore_defaults(obj)
        self._codec.complete(obj)

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldError]:
        """See `contract.CompiledSchema.validate`. Zero values count as missing.

        A kind with rules is held to nothing else: what its published schema requires is what clients should send.
        """
        if (rules := self._validation) is not None:
            if "metadata" not in obj or ("spec" not in obj and self._has_spec):
                return []
            return _distinct(rules.problems(obj, old))
        return self._compiled.validate(self._codec.without_zeros(obj), old)

    def validate_status(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        """See `contract.CompiledSchema.validate_status`."""
        if self._validation is not None:
            return _distinct(self._validation.status_problems(obj, old))
        return self._compiled.validate_status(self._codec.without_zeros(obj), old)


def _distinct(problems: Iterable[FieldError]) -> list[FieldError]:
    """Each problem once."""
    return list({(problem.field, problem.text): problem for problem in problems}.values())
