"""`PodTolerationRestriction`: the namespace of a pod decides which taints of nodes it tolerates.

Source: kubernetes `plugin/pkg/admission/podtolerationrestriction`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.admission.configuration import FLAG, Document, read_fields
from kcp_py.admission.podnamespaces import namespace_annotations
from kcp_py.admission.pods import PodPlugin, pod_of
from kcp_py.admission.runtimeclass import Toleration, includes, merge_tolerations
from kcp_py.apimachinery import errors, fielderrors
from kcp_py.apimachinery.serializer.decoding import DecodeError
from kcp_py.apimachinery.serializer.json.codec import decode_json
from kcp_py.apis.upstream.validation.scheduling import tolerations
from kcp_py.golang.types import json_type
from kcp_py.options import OptionsError
from kcp_py.registry.admission import Attributes, Operation
from kcp_py.registry.quota.podresources import is_best_effort
from kcp_py.storage.contract import Storage

_DEFAULTS: Final = "scheduler.alpha.kubernetes.io/defaultTolerations"
_ALLOWED: Final = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
_PRESSURE: Final[Toleration] = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}
_TEXTS: Final = ("key", "operator", "value", "effect")
_TOLERATION: Final[Any] = {**dict.fromkeys(_TEXTS, str), "tolerationSeconds": int}
_SHAPE: Final[Any] = {"default": [_TOLERATION], "whitelist": [_TOLERATION]}
_GROUP: Final = "podtolerationrestriction.admission.k8s.io"


class TolerationLists(NamedTuple):
    """The lists of the operator, for namespaces that have none of their own."""

    default: Sequence[Toleration] = ()
    allowed: Sequence[Toleration] = ()


def parse_tolerations(document: Document | None) -> TolerationLists:
    """The lists of a configuration.

    Raises:
        OptionsError: it is invalid.
    """
    if document is None:
        return TolerationLists()
    fields = read_fields(document, (f"{_GROUP}/v1alpha1",), "Configuration", _SHAPE, strict=False)
    lists = TolerationLists(fields.get("default") or (), fields.get("whitelist") or ())
    problems = [
        problem
        for name, given in zip(("default", "whitelist"), lists, strict=True)
        for problem in tolerations([one or {} for one in given], f"podtolerationrestriction.{name}")
    ]
    if problems:
        raise OptionsError(f"{FLAG}: {document.origin}: {fielderrors.aggregate(problems)}")
    return lists


class PodTolerationRestriction(PodPlugin):
    """Adds the tolerations of the namespace to new pods, and refuses those that it does not list."""

    name = "PodTolerationRestriction"
    operations = frozenset[Operation]({"CREATE", "UPDATE"})

    def __init__(self, lists: TolerationLists, storage: Storage) -> None:
        """Make the plugin."""
        self._lists = lists
        self._storage = storage

    async def mutate(self, attributes: Attributes) -> None:
        """Merge the tolerations, and check the result. Pods that ask for memory or processor time tolerate nodes with little memory.

        Raises:
            StatusError: 500, as upstream, for a toleration that is not listed, and for an annotation that cannot be parsed.
        """
        if (pod := pod_of(attributes)) is None:
            return
        annotations = await namespace_annotations(self._storage, attributes)
        further: list[Toleration] = []
        if attributes.operation == "CREATE":
            own = _list_of(annotations, _DEFAULTS)
            further += self._lists.default if own is None else own
        quality = (pod.get("status") or {}).get("qosClass")
        if not (quality == "BestEffort" if quality else is_best_effort(pod)):
            further.append(_PRESSURE)
        if further:
            merged = merge_tolerations([*(pod["spec"].get("tolerations") or ()), *further])
            pod["spec"]["tolerations"] = [dict(one) for one in merged]
        self._check(pod, annotations)

    async def validate(self, attributes: Attributes) -> None:
        """Check what others made of the pod.

        Raises:
            StatusError: as `mutate`.
        """
        if (pod := pod_of(attributes)) is not None:
            self._check(pod, await namespace_annotations(self._storage, attributes))

    def _check(self, pod: Mapping[str, Any], annotations: Mapping[str, str]) -> None:
        given = pod["spec"].get("tolerations") or ()
        if not given:
            return
        allowed, scope = _list_of(annotations, _ALLOWED), "namespace"
        if allowed is None:
            allowed, scope = self._lists.allowed, "cluster"
        if allowed and not all(any(includes(wide, one) for wide in allowed) for one in given):
            text = f"pod tolerations (possibly merged with namespace default tolerations) conflict with its {scope} whitelist"
            raise errors.StatusError(500, "", text)


def _list_of(annotations: Mapping[str, str], name: str) -> Sequence[Toleration] | None:
    """The tolerations of an annotation; None where it is not there.

    Raises:
        StatusError: 500, it is not a list of tolerations.
    """
    if (text := annotations.get(name)) is None:
        return None
    try:
        found = decode_json(text.encode()) if text else []
    except DecodeError as error:
        raise errors.StatusError(500, "", str(error)) from None
    if problem := _problem(found):
        raise errors.StatusError(500, "", f"json: cannot unmarshal {problem}")
    return [{member: one[member] for member in _TOLERATION if one and one.get(member) is not None} for one in found or ()]


def _problem(found: Any) -> str:
    """What Go's decoder says about a value that cannot be parsed of tolerations; empty for a list."""
    if found is not None and not isinstance(found, list):
        return f"{json_type(found)} into Go value of type []v1.Toleration"
    for one in found or ():
        if one is not None and not isinstance(one, dict):
            return f"{json_type(one)} into Go value of type v1.Toleration"
        for member, value in (one or {}).items():
            wanted = "string" if member in _TEXTS else "int64" if member == "tolerationSeconds" else ""
            if wanted and value is not None and (isinstance(value, bool) or not isinstance(value, str if wanted == "string" else int)):
                shown = f"number {value}" if isinstance(value, float) and wanted == "int64" else json_type(value)
                return f"{shown} into Go struct field Toleration.{member} of type {wanted}"
    return ""
